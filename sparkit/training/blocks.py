"""Rounds of the real engine as a confidence sees them: what a recurrent confidence is trained on.

    collect(composition, prompts, num_rounds)   full-verification rounds, so that c* = 1 - TV [DSpark eq. 8] is known

The blocks are the drafter's own, behind its own tokens, which is where a confidence is asked; teacher forcing never
shows it a token that the target would not have written. The drafter stays as it is.

Not done here: the fit (`sparkit.training.confidence`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.compose import Composition
from sparkit.confidences.recurrent import LawView, view_of
from sparkit.rounds import Draft, Rounds

Report = Callable[[int], None]
"""Told how many blocks are kept."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Fully verified blocks, as the confidence sees them, and how likely each draft was to be accepted."""

    hidden: Float[Tensor, "N gamma d"]
    embedded: Float[Tensor, "N gamma r"] | None
    law: LawView
    accept_rate: Float[Tensor, "N gamma"]

    def __len__(self) -> int:
        return len(self.hidden)

    def __getitem__(self, rows: Tensor) -> "Blocks":
        embedded = None if self.embedded is None else self.embedded[rows]
        law = LawView(*(part[rows] for part in self.law))
        return Blocks(self.hidden[rows], embedded, law, self.accept_rate[rows])


class _Recorder:
    """A confidence that answers as the drafter's own and keeps what another could have read."""

    lossless, batch_independent = True, True

    def __init__(self, inner: Any) -> None:
        self.inner, self.kept, self.num = inner, list[Blocks](), 0

    def start(self) -> Any:
        """The inner one's."""
        return self.inner.start()

    def logits(self, draft: Draft, memory: Any) -> Tensor:
        """The inner one's."""
        logits: Tensor = self.inner.logits(draft, memory)
        return logits

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """Keeps the blocks that were verified to their end."""
        draft = rounds.draft
        assert draft.hidden is not None
        blocks = Blocks(
            draft.hidden, draft.previous_embedding, view_of(draft.p_draft, draft.tokens), rounds.accept_rate
        )
        whole = (rounds.plan.verify_len == draft.tokens.shape[1]).nonzero()[:, 0]
        self.kept.append(blocks[whole])
        self.num += len(whole)
        return self.inner.observe(memory, rounds)


@torch.inference_mode()
def collect(
    composition: Composition, prompts: Iterator[list[int]], num_rounds: int, tell: Report | None = None
) -> Blocks:
    """Decodes prompts until enough blocks are verified.

    Args:
        composition: the drafter under scheduler `fixed`; `recipe.batch` requests at once.
        prompts: token ids, endless.
        num_rounds: blocks to keep at least.
        tell: called with the number kept so far.
    """
    recorder = _Recorder(composition.parts.confidence)
    running = replace(composition, parts=replace(composition.parts, confidence=recorder))
    engine, number = running.engine(), 0
    while recorder.num < num_rounds:
        while len(engine.waiting) < 8:
            engine.add(running.request(next(prompts), seed=number))
            number += 1
        engine.step()
        if tell is not None and engine.num_steps % 32 == 0:
            tell(recorder.num)
    return joined(recorder.kept)


def joined(parts: list[Blocks]) -> Blocks:
    """Blocks one after the other."""

    def one(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], LawView):
            return LawView(*(torch.cat(columns) for columns in zip(*values, strict=True)))
        return None if values[0] is None else torch.cat(values)

    return Blocks(**{field.name: one(field.name) for field in fields(Blocks)})
