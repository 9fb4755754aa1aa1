"""Every registered drafter, untrained and shaken, with a target that fits it; a pausing scheduler, recorded noise.

Laws are leaned on four tokens by a logit bias (`LEANING`), so that untrained drafts are accepted often.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparkit.decisions import Decisions, DecisionSource, Purpose
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.engine import Engine, Parts, Request
from sparkit.protocols import DRAFTERS, HEADS, Drafter, Target
from sparkit.rounds import Round
from sparkit.sampling import SamplingParams
from sparkit.targets.table import Tables, TableTarget
from tests.parts import shake, tiny_target

GAMMA, VOCAB_SIZE = 3, 16
LEANING = tuple((token, 4.0) for token in (2, 3, 5, 7))
GREEDY, WARM = SamplingParams(0.0, logit_bias=LEANING), SamplingParams(1.0, logit_bias=LEANING)
DRAFTING = [
    *((part.name, None) for part in DRAFTERS.parts() if "head" not in part.parameters),
    *((part.name, head) for part in DRAFTERS.parts() if "head" in part.parameters for head in HEADS.names()),
]
ONE_OF_A_KIND = [("dflash", None), ("dspark", "rnn"), ("eagle3", None), ("small_lm", None), ("ngram", None)]


def made(
    name: str, head: str | None = None, dtype: torch.dtype = torch.float64, gamma: int = GAMMA
) -> tuple[Target, Drafter]:
    """A drafter with shaken weights, and its target with the right taps."""
    if name == "table":
        target = table_target()
        return target, DRAFTERS.create("table", target=target, gamma=GAMMA)
    target = tiny_target(vocab_size=VOCAB_SIZE, num_layers=2, dtype=dtype)
    if name == "small_lm":
        model = tiny_target(vocab_size=VOCAB_SIZE, num_layers=1, seed=5, dtype=dtype)
        return target, SmallLmDrafter(model, target, gamma)
    options: dict[str, Any] = {} if head is None else {"head": head, "rank": 4}
    if name == "ngram":
        options = {"shortest": 1}
    drafter = DRAFTERS.create(name, target=target, gamma=gamma, **options)
    if name != "ngram":
        shake(drafter.net, 1, 0.3)
    return target.with_taps(drafter.feature_layers), drafter


def table_target() -> TableTarget:
    """Random laws after each of four tokens; draft laws are four fifths the target's."""
    noise = torch.randn(GAMMA + 1, 4, VOCAB_SIZE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    target, *drafts = noise.softmax(-1)
    laws = [
        [tuple(law.tolist()) for law in table] for table in (target, *((4 * target + draft) / 5 for draft in drafts))
    ]
    tables = [{(): table[0]} | {(t,): table[t] for t in (1, 2, 3)} for table in laws]
    vocab = tuple(map(str, range(VOCAB_SIZE)))
    return TableTarget(Tables(vocab, tables[0], tuple(tables[1:]), ({(): 0.8},) * GAMMA, {1: 1.0}))


def decode_all(
    parts: Parts, asked: Sequence[Request], num_slots: int, **options: Any
) -> tuple[list[tuple[int, ...]], list[Round]]:
    """Texts in the order of the requests, and all rounds."""
    engine = Engine(parts, **{"gamma": GAMMA, "num_slots": num_slots, **options})
    for one in asked:
        engine.add(one)
    rounds = list(engine.stream())
    return [tuple(done.token_ids) for done in engine.results()], rounds


class Pausing:
    """Wraps a scheduler; drafts while `is_on`, or as the given pattern of steps says; for one row in `share`."""

    def __init__(self, inner: Any, pattern: Sequence[bool] = (), share: int = 1) -> None:
        self.inner, self.pattern, self.num, self.is_on, self.share = inner, pattern, 0, True, share

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def drafts(self, memory: Any, limits: Any, capacity: Any) -> bool:
        self.num += 1
        return self.pattern[self.num % len(self.pattern)] if self.pattern else self.is_on

    def participants(self, memory: Any, requests: Any, limits: Any, capacity: Any) -> tuple[bool, ...]:
        return tuple((self.num + row) % self.share == 0 for row in range(len(requests)))


class Recording:
    """A source that notes the address of every decision that is asked for."""

    def __init__(self, source: DecisionSource) -> None:
        self.source, self.asked = source, Counter[tuple[int, int, int, int]]()

    def at(self, seeds: Tensor, anchors: Tensor) -> "RecordingStep":
        return RecordingStep(self, seeds.tolist(), anchors.tolist(), self.source.at(seeds, anchors))


class RecordingStep:
    """The decisions of one step."""

    def __init__(self, log: Recording, seeds: list[int], anchors: list[int], decisions: Decisions) -> None:
        self.log, self.rows, self.decisions = log, list(zip(seeds, anchors, strict=True)), decisions

    def draw(self, p: Tensor, purpose: Purpose, offset: int | Tensor) -> Tensor:
        offsets = [offset] * len(self.rows) if isinstance(offset, int) else offset.tolist()
        self.log.asked.update((*row, purpose, each) for row, each in zip(self.rows, offsets, strict=True))
        return self.decisions.draw(p, purpose, offset)

    def coins(self, prob: Tensor, purpose: Purpose, until: Any = "all") -> Tensor:
        self.log.asked.update((*row, purpose, k + 1) for row in self.rows for k in range(prob.shape[1]))
        return self.decisions.coins(prob, purpose, until)
