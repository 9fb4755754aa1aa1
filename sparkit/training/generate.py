"""The target answers train-split prompts itself, at temperature 1, many at once, and its features are kept.

Slots are refilled as answers end, so the batch stays full; a prompt is processed in the same kind of ragged step as
decoding. Every domain gets the same number of tokens.

Not done here: the prompts (`sparkit.training.corpus`), the files (`sparkit.training.responses`).

>>> Sampling(num_tokens=1000).slots
96
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.protocols import Span
from sparkit.targets.model import TransformerTarget
from sparkit.training.responses import FEATURES, Responses


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much to generate, and how."""

    num_tokens: int  # in all, prompts included
    taps: tuple[int, ...] = (1, 4, 7, 10, 11)  # the last one must be the last layer
    slots: int = 96
    max_len: int = 320  # prompt and answer
    refill: int = 8  # free slots before new prompts are processed
    seed: int = 0


@dataclass(slots=True)
class Answer:
    """One request in its slot."""

    domain: int
    tokens: list[int]
    prompt_len: int


@dataclass(slots=True)
class Sink:
    """Finished documents, and their features on disk."""

    rows: np.ndarray  # memory-mapped [capacity, width]
    tokens: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    prompt_lengths: list[int] = field(default_factory=list)
    domains: list[int] = field(default_factory=list)

    def add(self, answer: Answer, features: Float[Tensor, "L width"]) -> bool:
        """Appends a document; False when it does not fit any more."""
        start, length = len(self.tokens), len(answer.tokens)
        if start + length > len(self.rows):
            return False
        self.rows[start : start + length] = features[:length].numpy()
        self.tokens += answer.tokens
        self.lengths.append(length)
        self.prompt_lengths.append(answer.prompt_len)
        self.domains.append(answer.domain)
        return True

    def responses(self) -> Responses:
        """Everything so far."""
        lists = (self.tokens, self.lengths, self.prompt_lengths, self.domains)
        return Responses(*(torch.tensor(values) for values in lists))


def draw_tokens(logits: Float[Tensor, "R V"], generator: torch.Generator) -> Int[Tensor, " R"]:
    """One token a row at temperature 1, by an exponential race."""
    race = torch.empty_like(logits).exponential_(generator=generator)
    return (logits.softmax(dim=-1) / race).argmax(dim=-1)


class Generator:
    """Slots, cache and feature buffers of a run."""

    def __init__(self, target: TransformerTarget, sampling: Sampling) -> None:
        self.target, self.sampling = target.with_taps(sampling.taps), sampling
        self.cache = self.target.new_cache(sampling.slots, sampling.max_len)
        width = len(sampling.taps) * target.hidden_size
        self.buffer = torch.zeros(sampling.slots, sampling.max_len, width, dtype=torch.float16)
        self.noise = torch.Generator().manual_seed(sampling.seed)

    def step(self, spans: Sequence[Span], tokens: Int[Tensor, " B"]) -> list[int]:
        """Processes a ragged row and draws one token after each span."""
        counts = torch.tensor([span.count for span in spans])
        out = self.target.forward(tokens, spans, self.cache, counts.cumsum(0) - 1)
        slots = torch.tensor([span.slot for span in spans]).repeat_interleave(counts)
        positions = torch.cat([torch.arange(start, start + count) for _, start, count in spans])
        self.buffer[slots, positions] = out.features.half()
        return draw_tokens(out.logits, self.noise).tolist()


def generate(
    target: TransformerTarget,
    prompts: Sequence[Iterator[Sequence[int]]],
    sampling: Sampling,
    folder: Path,
    report: Callable[[int], None] = lambda _done: None,
) -> Responses:
    """Writes `folder` with about `sampling.num_tokens` tokens.

    Args:
        target: the frozen model that answers.
        prompts: for each domain endless token sequences of prompts; the domains share the tokens equally.
        sampling: amounts.
        folder: where responses and features go.
        report: told the tokens done so far.
    """
    folder.mkdir(parents=True, exist_ok=True)
    width = len(sampling.taps) * target.hidden_size
    rows = np.lib.format.open_memmap(folder / FEATURES, mode="w+", dtype=np.float16, shape=(sampling.num_tokens, width))
    sink = Sink(rows)
    with torch.inference_mode():
        _fill(Generator(target, sampling), list(prompts), sink, report)
    rows.flush()
    responses = sink.responses()
    responses.save(folder)
    return responses


def _fill(run: Generator, prompts: list[Iterator[Sequence[int]]], sink: Sink, report: Callable[[int], None]) -> None:
    active: dict[int, Answer] = {}
    spent = [0] * len(prompts)
    open_for_more = True
    while open_for_more:
        free = [slot for slot in range(run.sampling.slots) if slot not in active]
        if len(free) >= run.sampling.refill:
            _admit(run, free, active, prompts, spent)
        _decode(run, active)
        open_for_more = _collect(run, active, sink, spent)
        report(len(sink.tokens))


def _admit(
    run: Generator, free: list[int], active: dict[int, Answer], prompts: list[Iterator[Sequence[int]]], spent: list[int]
) -> None:
    spans, row = [], []
    for slot in free:
        running = [sum(len(a.tokens) for a in active.values() if a.domain == d) for d in range(len(spent))]
        domain = min(range(len(spent)), key=lambda d: spent[d] + running[d])
        tokens = list(next(prompts[domain]))
        run.cache.truncate(slot, 0)
        active[slot] = Answer(domain, tokens, len(tokens))
        spans.append(Span(slot, 0, len(tokens)))
        row += tokens
    for slot, token in zip(free, run.step(spans, torch.tensor(row)), strict=True):
        active[slot].tokens.append(token)


def _decode(run: Generator, active: dict[int, Answer]) -> None:
    going = [s for s in sorted(active) if not _is_over(run, active[s])]
    if not going:
        return
    spans = [Span(s, len(active[s].tokens) - 1, 1) for s in going]
    row = torch.tensor([active[s].tokens[-1] for s in going])
    for slot, token in zip(going, run.step(spans, row), strict=True):
        active[slot].tokens.append(token)


def _is_over(run: Generator, answer: Answer) -> bool:
    return answer.tokens[-1] in run.target.eos_ids or len(answer.tokens) >= run.sampling.max_len


def _collect(run: Generator, active: dict[int, Answer], sink: Sink, spent: list[int]) -> bool:
    for slot in [s for s in active if _is_over(run, active[s])]:
        answer = active.pop(slot)
        spent[answer.domain] += len(answer.tokens)
        if not sink.add(answer, run.buffer[slot]):
            return False
    return True
