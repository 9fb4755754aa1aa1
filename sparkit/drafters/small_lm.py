"""Any smaller target as drafter, with its own cache [Leviathan 2023]: it reads tokens and needs no features.

The chain feeds the anchor and all drafts but the last, so after a round with `accepted` kept drafts its cache holds
the right keys up to there; one token more is owed when every draft was accepted. `absorb` therefore compares what was
fed with what was committed, keeps the common part, and leaves the rest owed; the next proposal feeds what is owed
together with the anchor, in one forward.

    drafter = DRAFTERS.create("small_lm", target=target, model="smollm2")
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.drafters.vocabulary import fitted
from sparkit.protocols import DRAFTERS, Anchors, Kind, Span, Target
from sparkit.rounds import Draft
from sparkit.targets.loaders import load_target
from sparkit.targets.tokenizer import Tokenizer, require_same_vocabulary


@dataclass(slots=True)
class LmState:
    """Slots of a small model."""

    cache: Any
    fed: list[list[int]]  # tokens in the cache, drafts among them
    owed: list[list[int]]  # committed tokens that the cache lacks

    def copy(self) -> "LmState":
        """An independent copy."""
        return LmState(self.cache.clone(), [list(x) for x in self.fed], [list(x) for x in self.owed])


class SmallLmDrafter:
    """See `sparkit.protocols.Drafter`.

    Args:
        model: the small model; its token ids must be the target's.
        target: whose laws are drafted. Padded ids of the model are cut off, ids it lacks are never proposed.
        gamma: longest block.
    """

    lossless = True
    kind: Kind = "autoregressive"
    feature_layers: tuple[int, ...] = ()

    def __init__(self, model: Target, target: Target, gamma: int | None = None) -> None:
        self.model, self.gamma = model, 64 if gamma is None else gamma
        if self.gamma < 1:
            raise ValueError(f"gamma={gamma}: expected at least 1")
        self._vocab_size = target.vocab_size
        self.state = LmState(None, [], [])

    def prepare(self, num_slots: int, max_len: int) -> None:
        """See `Drafter`; positions past the model's context are never fed, so the cache need not hold them."""
        length = min(max_len, self.model.max_positions)
        cache = self.model.new_cache(num_slots, length)
        self.state = LmState(cache, [[] for _ in range(num_slots)], [[] for _ in range(num_slots)])

    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Keeps the part of the cache that was committed; the rest of the new tokens is owed."""
        ids, first = tokens.tolist(), 0
        for slot, start, count in spans:
            self._reconcile(slot, start, ids[first : first + count])
            first += count

    def _reconcile(self, slot: int, start: int, new: list[int]) -> None:
        fed, owed = self.state.fed[slot], self.state.owed[slot]
        if owed:  # the cache ends before `start`: everything new is owed too
            owed.extend(new)
            return
        shared = 0
        while start + shared < len(fed) and shared < len(new) and fed[start + shared] == new[shared]:
            shared += 1
        del fed[start + shared :]
        owed.extend(new[shared:])
        self.state.cache.truncate(slot, len(fed))

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`; a request whose context outgrows the model's proposes as many tokens as fit.

        Drafts go from step to step as tensors and are read back once a block: `fed` is kept on the host.
        """
        gamma, slots = anchors.spans[0].count, [span.slot for span in anchors.spans]
        room = [max(0, self.model.max_positions - span.start) for span in anchors.spans]
        drawn: list[Tensor] = []
        laws: list[Tensor] = []
        logits = anchors.tokens.new_zeros(len(slots), self._vocab_size).to(self.model.dtype)
        spans, fresh = self._due(slots, anchors.tokens, room)
        for k in range(gamma):
            rows = [r for r, left in enumerate(room) if k < left]
            if k:
                spans = [Span(slot, start + count, 1) for slot, start, count in spans if start + count < self._reach]
                fresh = _at(drawn[-1], rows)
            logits = self._forward(logits, rows, spans, fresh)
            laws.append(anchors.law(logits, drawn))
            drawn.append(decisions.draw(laws[-1], Purpose.DRAFT, k + 1))
        tokens = torch.stack(drawn, dim=1)
        lengths = [min(gamma, left) for left in room]
        for slot, ids, num in zip(slots, tokens.tolist(), lengths, strict=True):
            self.state.fed[slot].extend(ids[: max(0, num - 1)])
        return Draft(tokens, torch.stack(laws, dim=1), lengths=torch.tensor(lengths, device=tokens.device))

    @property
    def _reach(self) -> int:
        return self.model.max_positions

    def _due(self, slots: list[int], anchors: Int[Tensor, " R"], room: list[int]) -> tuple[list[Span], Tensor]:
        """What is owed, and the anchor, of every request with room; they count as fed."""
        spans, due = [], list[int]()
        for slot, anchor, left in zip(slots, anchors.tolist(), room, strict=True):
            new, fed = [*self.state.owed[slot], anchor], self.state.fed[slot]
            self.state.owed[slot].clear()
            if left:
                spans.append(Span(slot, len(fed), len(new)))
                fed.extend(new)
                due += new
        return spans, torch.tensor(due, dtype=torch.int64, device=anchors.device)

    def _forward(
        self, before: Float[Tensor, "R V"], rows: list[int], spans: list[Span], tokens: Int[Tensor, " B"]
    ) -> Float[Tensor, "R V"]:
        """Logits after each row's fresh tokens; rows without room keep the logits they had."""
        if not rows:
            return before
        last = torch.tensor([span.count for span in spans], device=before.device).cumsum(0) - 1
        out = fitted(self.model.forward(tokens, spans, self.state.cache, last).logits, self._vocab_size)
        return out if len(rows) == len(before) else before.index_copy(0, torch.tensor(rows, device=before.device), out)

    def forget(self, slot: int) -> None:
        """See `Drafter`."""
        self.state.fed[slot], self.state.owed[slot] = [], []
        self.state.cache.truncate(slot, 0)

    def save(self) -> LmState:
        """See `Drafter`."""
        return self.state.copy()

    def load(self, state: LmState) -> None:
        """See `Drafter`."""
        self.state = state.copy()


def _at(tokens: Int[Tensor, " R"], rows: list[int]) -> Int[Tensor, " n"]:
    return tokens if len(rows) == len(tokens) else tokens[torch.tensor(rows, dtype=torch.int64, device=tokens.device)]


@DRAFTERS.register("small_lm", summary="any smaller target with the same tokens, and its own cache")
def small_lm(
    target: Target, model: str = "smollm2", gamma: int | None = None, tokenizer: Tokenizer | None = None
) -> SmallLmDrafter:
    """A target by name or path as drafter, in the target's precision and on its device.

    Args:
        target: whose laws are drafted.
        model: what `load_target` takes.
        gamma: longest block; None: 64.
        tokenizer: the target's own; None leaves the two vocabularies unchecked.

    Raises:
        ValueError: if the two tokenizers disagree about any token: the drafts would be random text.
    """
    loaded = load_target(model, device=target.device, dtype=target.dtype)
    if tokenizer is not None and loaded.tokenizer is not None:
        require_same_vocabulary(tokenizer, loaded.tokenizer, f"small_lm {model!r}")
    return SmallLmDrafter(loaded.target, target, gamma)
