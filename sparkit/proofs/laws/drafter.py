"""A drafter's p_draft is the law its tokens are really drawn from; rows do not see each other; saving is complete.

Every question it puts to its decisions is recorded: the law asked for offset k must be p_draft^k to the last bit, the
answer must be token k, and only purpose DRAFT is used.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.decisions import AddressedSource, Decisions, Purpose, Until
from sparkit.proofs.laws.keeping import Report, hold
from sparkit.protocols import Anchors, Drafter
from sparkit.rounds import Draft


@dataclass(frozen=True, slots=True)
class Bench:
    """A drafter that has absorbed some contexts."""

    drafter: Drafter
    anchors: Anchors  # to propose for
    follow: Callable[[], Anchors]  # commits one token a request, lets the drafter absorb; the next anchors


Prepared = Callable[[], Bench]
"""Makes the drafter anew, with the same weights and the same contexts."""


@dataclass(slots=True)
class Recorder:
    """Decisions that write down what they were asked."""

    inner: Decisions
    asked: list[tuple[Purpose, int, Tensor, Tensor]] = field(default_factory=list)  # purpose, offset, law, answer

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """See `Decisions`."""
        tokens = self.inner.draw(p, purpose, offset)
        self.asked.append((purpose, int(offset) if isinstance(offset, int) else int(offset[0]), p.clone(), tokens))
        return tokens

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """See `Decisions`."""
        coins = self.inner.coins(prob, purpose, until)
        self.asked.append((purpose, 0, prob.clone(), coins))
        return coins


def check_drafter(prepared: Prepared, part: Drafter) -> Report:
    """Holds a drafter to its laws.

    Args:
        prepared: see `Prepared`; at least two requests make the laws about rows say something.
        part: for its name and flags.
    """
    return hold(
        "drafter",
        part,
        {
            "p_draft is the law each token was drawn from": lambda: _law(prepared),
            "p_draft is a law in float64": lambda: _normal(prepared),
            "the same decisions give the same draft": lambda: _repeats(prepared),
            "save and load bring the same draft back": lambda: _saved(prepared),
            "a rejected block leaves no trace": lambda: _traceless(prepared),
        },
    )


def propose(drafter: Drafter, anchors: Anchors) -> tuple[Draft, Recorder]:
    """A draft and what was asked for it."""
    seeds = torch.arange(len(anchors.spans)) + 11
    recorder = Recorder(AddressedSource().at(seeds, anchors.positions))
    with torch.inference_mode():
        return drafter.propose(anchors, recorder), recorder


def _first(prepared: Prepared) -> tuple[Draft, Recorder]:
    bench = prepared()
    return propose(bench.drafter, bench.anchors)


def _law(prepared: Prepared) -> Iterator[str]:
    draft, recorder = _first(prepared)
    drawn: dict[int, tuple[Tensor, Tensor]] = {}
    for purpose, offset, law, tokens in recorder.asked:
        if purpose != Purpose.DRAFT:
            yield f"it asked for purpose {purpose.name.lower()}, which is not a drafter's"
        if offset in drawn:
            yield f"it asked twice for the address of offset {offset}"
        drawn[offset] = (law, tokens)
    for k in range(draft.tokens.shape[1]):
        if k + 1 not in drawn:
            if not bool((draft.p_draft[:, k].amax(-1) == 1).all()):
                yield f"position {k + 1} was not drawn by an addressed decision, and its law is not one-hot"
            continue
        law, tokens = drawn[k + 1]
        if not torch.equal(law.to(draft.p_draft), draft.p_draft[:, k]):
            yield f"position {k + 1}: drawn from {law[0].tolist()}, reported p_draft {draft.p_draft[0, k].tolist()}"
        if not torch.equal(tokens, draft.tokens[:, k]):
            yield f"position {k + 1}: drew {tokens.tolist()}, reported {draft.tokens[:, k].tolist()}"


def _normal(prepared: Prepared) -> Iterator[str]:
    draft, _ = _first(prepared)
    if draft.p_draft.dtype != torch.float64:
        yield f"p_draft came out as {draft.p_draft.dtype}"
    off = (draft.p_draft.sum(-1) - 1).abs().max()
    if float(off) > 1e-12 or bool((draft.p_draft < 0).any()):
        yield f"a row of p_draft sums to 1 +- {float(off):.3g} or has negative mass"


def _repeats(prepared: Prepared) -> Iterator[str]:
    first, second = _first(prepared)[0], _first(prepared)[0]
    if not torch.equal(first.tokens, second.tokens) or not torch.equal(first.p_draft, second.p_draft):
        yield "two runs with the same decisions differ: it draws from somewhere else"


def _saved(prepared: Prepared) -> Iterator[str]:
    bench = prepared()
    drafter, anchors = bench.drafter, bench.anchors
    state = drafter.save()
    first, _ = propose(drafter, anchors)
    for span in anchors.spans:
        drafter.forget(span.slot)
    drafter.load(state)
    second, _ = propose(drafter, anchors)
    if not torch.equal(first.p_draft, second.p_draft):
        yield "after load the same anchors get another p_draft"


def _traceless(prepared: Prepared) -> Iterator[str]:
    fresh, worn = prepared(), prepared()
    propose(worn.drafter, worn.anchors)
    first, _ = propose(fresh.drafter, fresh.follow())
    second, _ = propose(worn.drafter, worn.follow())
    if (off := float((first.p_draft - second.p_draft).abs().max())) > 1e-12:
        yield f"after a block of which nothing was kept, p_draft is {off:.3g} off a fresh drafter's"
