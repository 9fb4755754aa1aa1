"""Prompt lookup: propose what followed the longest suffix of the context the last time it occurred.

Its p_draft is one-hot on the copied token, so a draft is accepted with probability p_target(x) and a correction is
drawn from p_target without it: the rule needs no special case. A request without a match proposes nothing
(`Draft.lengths` 0); the columns past a request's length are filled with token 0 and never verified.

>>> continuation([1, 2, 3, 1, 2], gamma=2, longest=3, shortest=1)
[3, 1]
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.decisions import Decisions
from sparkit.protocols import DRAFTERS, Anchors, Kind, Span, Target
from sparkit.rounds import Draft


def continuation(context: Sequence[int], gamma: int, longest: int, shortest: int) -> list[int]:
    """At most gamma tokens after the most recent earlier occurrence of the longest matching suffix."""
    last = len(context) - 1
    best_size, best_end = shortest - 1, -1
    for end in range(last - 1, -1, -1):  # where an earlier copy of the suffix would end
        if context[end] != context[last]:
            continue
        size = _shared(context, end, last, longest)
        if size > best_size:
            best_size, best_end = size, end
            if size == longest:
                break
    return list(context[best_end + 1 : best_end + 1 + gamma]) if best_end >= 0 else []


def _shared(context: Sequence[int], end: int, last: int, longest: int) -> int:
    """How many tokens up to `end` equal those up to `last`."""
    size = 1
    while size < longest and size <= end and context[end - size] == context[last - size]:
        size += 1
    return size


@DRAFTERS.register("ngram", summary="prompt lookup: copies what followed the longest matching suffix")
class NgramDrafter:
    """See `sparkit.protocols.Drafter`.

    Args:
        target: whose vocabulary is drafted.
        gamma: longest block.
        longest: tokens of a suffix that are compared at most.
        shortest: tokens that must match at least.
    """

    lossless = True
    kind: Kind = "lookup"
    feature_layers: tuple[int, ...] = ()

    def __init__(self, target: Target, gamma: int | None = None, longest: int = 4, shortest: int = 2) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"ngram longest={longest}, shortest={shortest}: expected 1 <= shortest <= longest")
        self.gamma = 64 if gamma is None else gamma
        if self.gamma < 1:
            raise ValueError(f"gamma={gamma}: expected at least 1")
        self.longest, self.shortest, self._vocab_size, self._dtype = longest, shortest, target.vocab_size, target.dtype

    def prepare(self, num_slots: int, max_len: int) -> None:
        """Nothing to allocate."""

    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Nothing to take in: the anchors bring their contexts."""

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`; certain draws ask for no decision."""
        gamma, device = anchors.spans[0].count, anchors.tokens.device
        found = [continuation(context, gamma, self.longest, self.shortest) for context in anchors.contexts]
        padded = [tokens + [0] * (gamma - len(tokens)) for tokens in found]
        tokens = torch.tensor(padded, dtype=torch.int64, device=device)
        dtype = torch.float64 if self._dtype == torch.float64 else torch.float32
        lengths = torch.tensor([len(tokens) for tokens in found], device=device)
        return Draft(tokens, F.one_hot(tokens, self._vocab_size).to(dtype), lengths=lengths)

    def forget(self, slot: int) -> None:
        """Nothing is kept."""

    def save(self) -> None:
        """Nothing is kept."""

    def load(self, state: None) -> None:
        """Nothing is kept."""
