"""THE extension page: the kinds of part sparkit is made of, what each must keep, and the registries that name them.

A part is an object with these methods; nothing is inherited. Parts that decide anything from data carry their memory
as a value that is passed in and returned, so the prover can branch on it and a run can be snapshotted. Targets and
drafters hold caches, in slots that the engine hands out.

A scheduler in full:

>>> @SCHEDULERS.register("first-two", summary="two drafts for everybody")
... class FirstTwo:
...     lossless, batch_independent = True, True
...     def start(self): return None
...     def drafts(self, memory, limits, capacity): return True
...     def plan(self, survival, capacity, limits, memory):
...         return Plan(limits.ceiling.clamp(max=2)), memory
...     def observe(self, memory, rounds): return memory
...     def observe_undrafted(self, memory, num_tokens, num_requests, seconds): return memory
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.decisions import Decisions, DecisionSource
from sparkit.registry import Registry
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict
from sparkit.sampling import History, SamplingParams, probs

Kind = Literal["parallel", "autoregressive", "semi-autoregressive", "lookup"]


class Span(NamedTuple):
    """`count` tokens of one request, from absolute position `start` on."""

    slot: int
    start: int
    count: int  # type: ignore[assignment]  # a field may be called what a tuple method is


class TargetOutput(NamedTuple):
    """What one target forward returns."""

    logits: Float[Tensor, "N V"]  # at the asked rows, in their order
    features: Float[Tensor, "B taps_d"]  # the tapped layers' outputs side by side, in `feature_layers` order


@runtime_checkable
class Target(Protocol):
    """The model whose distribution must be kept."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    max_positions: int  # context limit in tokens
    feature_layers: tuple[int, ...]  # k: output of decoder layer k; -1: embedding; set by compose for the drafter
    eos_ids: tuple[int, ...]
    device: torch.device
    dtype: torch.dtype

    def embed(self, tokens: Int[Tensor, "*N"]) -> Float[Tensor, "*N d"]:
        """Token embeddings (drafters share them, frozen)."""
        ...

    def lm_head(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """The output matrix alone, without the final norm (drafters share it, frozen)."""
        ...

    def new_cache(self, num_slots: int, max_len: int) -> Any:
        """A cache with `lengths: list[int]`, `truncate(slot, length)` and `clone()`."""
        ...

    def forward(
        self, tokens: Int[Tensor, " B"], spans: Sequence[Span], cache: Any, rows: Int[Tensor, " N"] | None = None
    ) -> TargetOutput:
        """Processes a flat row laid out as `spans` and sets cache lengths to each span's end.

        Args:
            tokens: the spans' tokens one after the other.
            spans: every count >= 1, distinct slots; start equals the slot's cache length.
            cache: made by `new_cache`.
            rows: flat rows whose logits are wanted; None means all.
        """
        ...


@dataclass(frozen=True, slots=True)
class Anchors:
    """The last committed token of every request that drafts, and how its laws are shaped."""

    tokens: Int[Tensor, " R"]
    positions: Int[Tensor, " R"]
    spans: tuple[Span, ...]  # (slot, anchor position, gamma): where the block will lie
    params: tuple[SamplingParams, ...]
    contexts: tuple[Sequence[int], ...] = ()  # every committed token, anchor included (lookup drafters)
    history: History | None = None  # at the anchor; only when some request penalises

    def law(self, logits: Float[Tensor, "R V"], drafted: Sequence[Int[Tensor, " R"]] = ()) -> Float[Tensor, "R V"]:
        """The law of the next draft token, shaped as the target's will be, after the tokens drafted so far."""
        history = self.history
        if history is not None and drafted:
            counts, seen = history.counts.clone(), history.seen.clone()
            for tokens in drafted:
                counts.scatter_add_(1, tokens[:, None], torch.ones_like(counts[:, :1]))
                seen.scatter_(1, tokens[:, None], True)
            history = History(seen, counts)
        return probs(logits, self.params, history)


@runtime_checkable
class Drafter(Protocol):
    """The cheap model that proposes a block."""

    kind: Kind
    lossless: bool
    gamma: int  # the longest block it was made for
    feature_layers: tuple[int, ...]  # the target taps it reads; () when none

    def prepare(self, num_slots: int, max_len: int) -> None:
        """Allocates empty slots."""
        ...

    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Takes in committed tokens that the target has processed (prompt, anchors, accepted drafts), in order."""
        ...

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """Draws a block of gamma tokens a request; token k (1-based) by `decisions.draw(p, Purpose.DRAFT, k)`."""
        ...

    def forget(self, slot: int) -> None:
        """Empties a slot."""
        ...

    def save(self) -> Any:
        """A copy of all slots."""
        ...

    def load(self, state: Any) -> None:
        """Puts a saved copy back (the copy stays untouched)."""
        ...


@runtime_checkable
class SerialHead(Protocol):
    """Adds a transition bias to a parallel backbone's logits [DSpark eq. 4]; gives an exact softmax at every step."""

    rank: int  # width of `previous_embedding`; 0 when there is none

    def start(self, anchor: Int[Tensor, " R"]) -> Any:
        """The state before the first position."""
        ...

    def step(
        self, state: Any, previous_token: Int[Tensor, " R"], hidden: Float[Tensor, "R d"]
    ) -> tuple[Float[Tensor, "R V"] | None, Any]:
        """The bias of one position (None: no bias) and the next state."""
        ...

    def block(
        self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]
    ) -> Float[Tensor, "N gamma V"] | None:
        """The same biases for known previous tokens (training); equal to `step` exactly."""
        ...

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"] | None:
        """W1[x_{k-1}], the confidence head's view of the previous token; None without a Markov table."""
        ...


@runtime_checkable
class Confidence(Protocol):
    """P(x_k accepted given its prefix was), from what is known before x_k is drawn."""

    lossless: bool
    batch_independent: bool

    def start(self) -> Any:
        """The first memory."""
        ...

    def logits(self, draft: Draft, memory: Any) -> Float[Tensor, "R gamma"]:
        """Raw logits; position k must not depend on x_k or anything after it."""
        ...

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """The memory after one more step."""
        ...


@runtime_checkable
class Calibrator(Protocol):
    """Corrects raw confidences; non-decreasing at each position."""

    lossless: bool
    batch_independent: bool

    def start(self) -> Any:
        """The first memory."""
        ...

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: Any) -> Float[Tensor, "R gamma"]:
        """Confidences in [0, 1]; logit +inf gives exactly 1, -inf exactly 0, nan gives 0."""
        ...

    def floor(self, memory: Any, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """Drafts that must be verified: gamma for a probe, else 0; decided before drafting."""
        ...

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """The memory after one more step; only verified positions count."""
        ...


@runtime_checkable
class Scheduler(Protocol):
    """Picks verify_len of every request without looking past the cut (design section 2)."""

    lossless: bool
    batch_independent: bool

    def start(self) -> Any:
        """The first memory."""
        ...

    def drafts(self, memory: Any, limits: Limits, capacity: Capacity) -> bool:
        """Whether this step drafts at all; asked before `propose`, answered from lagged estimates."""
        ...

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Any
    ) -> tuple[Plan, Any]:
        """The plan and the memory to pass on."""
        ...

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """The memory after one more drafted step."""
        ...

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> Any:
        """The memory after a step that `drafts` refused; a scheduler that always drafts is never asked."""
        ...


@runtime_checkable
class Selecting(Protocol):
    """A scheduler that also says who drafts; one without this method drafts for everybody or for nobody."""

    def participants(
        self, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity
    ) -> tuple[bool, ...]:
        """One answer a request, from rounds that are over; asked before `propose`, after `drafts` said yes.

        The others rest: they decode one token plainly in the same step, `Limits.num_resting` of them beside the plan's
        rows, and `Rounds.resting` names them to `observe`. When nobody drafts the step is an undrafted one.
        """
        ...


@runtime_checkable
class Sizing(Protocol):
    """A scheduler that also says how long the blocks are; without this method they have gamma tokens."""

    def block_lens(
        self, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...] | None:
        """Tokens to draft for each request that drafts, 1..gamma, from rounds that are over; None: gamma.

        Asked before `propose`, which drafts the longest for all; nothing past a request's own length is verified.
        """
        ...


@runtime_checkable
class Verifier(Protocol):
    """Accepts a prefix of the drafts and draws the next token."""

    lossless: bool
    schedule_invariant: bool  # exact under any scheduler
    source: DecisionSource  # the noise this verifier needs: addressed, or coupled to absolute positions

    def verify(self, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], decisions: Decisions) -> Verdict:
        """Rows of request r in p_target: plan.first_row[r] .. plan.first_row[r] + verify_len[r]."""
        ...


TARGETS: Registry[Any] = Registry("target", "sparkit.targets")
DRAFTERS: Registry[Any] = Registry("drafter", "sparkit.drafters")
HEADS: Registry[Any] = Registry("head", "sparkit.heads")
CONFIDENCES: Registry[Any] = Registry("confidence", "sparkit.confidences")
CALIBRATORS: Registry[Any] = Registry("calibrator", "sparkit.calibrators")
SCHEDULERS: Registry[Any] = Registry("scheduler", "sparkit.schedulers")
VERIFIERS: Registry[Any] = Registry("verifier", "sparkit.verifiers")
