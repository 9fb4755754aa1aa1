"""The data of one decoding round: what was drafted, what was planned, what the target said, what was committed.

Axes: R requests, gamma draft positions, V vocabulary, d hidden, r head rank, B = sum(1 + verify_len) target rows.
`Rounds` holds one step of the whole batch as tensors (what schedulers and calibrators learn from); `Round` is one
request's part of it in plain Python values (what streams, traces, metrics and screens read).

Nothing here computes beyond a row number.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor

Origin = Literal["draft", "correction", "bonus", "plain"]


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposed block and the exact laws it was drawn from."""

    tokens: Int[Tensor, "R gamma"]
    p_draft: Float[Tensor, "R gamma V"]  # the law each token was REALLY drawn from, computed once
    hidden: Float[Tensor, "R gamma d"] | None = None  # backbone state h_k, for the confidence head
    previous_embedding: Float[Tensor, "R gamma r"] | None = None  # W1[x_{k-1}], for the confidence head
    lengths: Int[Tensor, " R"] | None = None  # tokens really proposed (prompt lookup may have none); None: gamma


@dataclass(frozen=True, slots=True)
class Limits:
    """What a plan must respect, known before any draft token is drawn."""

    base_tokens: int  # tokens in the step whatever the plan: anchors and prefill chunks
    floor: Int[Tensor, " R"]  # drafts that must be verified (probes)
    ceiling: Int[Tensor, " R"]  # drafts that may be: min(remaining - 1, context room, drafted)
    token_budget: int | None = None  # most tokens of a step, base_tokens included; anchors always go
    num_resting: int = 0  # requests that decode plainly in this step: one token each, counted in base_tokens
    block_len: int | None = None  # tokens this step drafts for a request; None: gamma, since nobody was asked


@dataclass(frozen=True)  # without slots, for the kept property
class Plan:
    """How many drafts of each request go to the target."""

    verify_len: Int[Tensor, " R"]

    @cached_property
    def first_row(self) -> Int[Tensor, " R"]:
        """Where each request's 1 + verify_len rows begin in p_target."""
        return (1 + self.verify_len).cumsum(0) - self.verify_len - 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier decided."""

    accepted: Int[Tensor, " R"]  # 0..verify_len, bonus excluded
    next_token: Int[Tensor, " R"]  # the next anchor
    is_bonus: Bool[Tensor, " R"]  # drawn from p_target after full acceptance (else a correction)


@dataclass(frozen=True, slots=True)
class Rounds:
    """One step of the batch, for parts that learn while serving."""

    step: int
    requests: tuple[int, ...]  # request ids, row by row
    anchors: Int[Tensor, " R"]  # anchor positions
    draft: Draft
    logits: Float[Tensor, "R gamma"]  # raw confidence logits
    confidence: Float[Tensor, "R gamma"]  # calibrated, in [0, 1]
    survival: Float[Tensor, "R gamma"]
    limits: Limits
    plan: Plan
    verdict: Verdict
    accept_rate: Float[Tensor, "R gamma"]  # soft label 1 - TV for proposed k <= verify_len + 1, else nan [eq. 8]
    seconds: float  # wall time of the step
    resting: tuple[int, ...] = ()  # ids of the requests that decoded plainly beside these


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The largest entries of three laws at one block position."""

    draft: tuple[tuple[int, float], ...]
    target: tuple[tuple[int, float], ...] | None  # None beyond verify_len + 1
    residual: tuple[tuple[int, float], ...] | None


@dataclass(frozen=True, slots=True)
class Seconds:
    """Wall time of one engine step by phase."""

    draft: float = 0.0
    schedule: float = 0.0
    verify: float = 0.0
    overhead: float = 0.0

    @property
    def total(self) -> float:
        """The whole step."""
        return self.draft + self.schedule + self.verify + self.overhead


@dataclass(frozen=True, slots=True)
class Token:
    """One committed token."""

    id: int
    origin: Origin


@dataclass(
    slots=True, unsafe_hash=True
)  # never changed; a frozen one takes twice as long to make, one a request and step
class Round:
    """One request's part of one engine step."""

    request: int
    step: int
    kind: Literal["prefill", "drafted", "undrafted"]
    anchor: int  # token id
    anchor_position: int
    drafted: tuple[int, ...]  # proposed token ids, gamma or fewer; () when nothing was drafted
    p_draft: tuple[float, ...]  # at the proposed tokens
    p_target: tuple[float, ...]  # at the proposed tokens, first min(verify_len, gamma) of them
    logits: tuple[float, ...]  # raw confidence logits
    confidence: tuple[float, ...]
    survival: tuple[float, ...]
    accept_rate: tuple[float, ...]  # soft labels, first min(verify_len + 1, proposed)
    verify_len: int
    floor: int
    ceiling: int
    is_probe: bool
    accepted: int  # drafts the verifier kept, before any stop
    next_token: int
    origin: Origin  # of next_token
    tokens: tuple[Token, ...]  # emitted: cut by stops and limits
    stop_reason: str | None  # "stop", "length", "cancelled" when this round ended the request
    audit_chosen: tuple[bool, ...]  # s(y) at each audited committed token
    audit_mass: tuple[float, ...]  # m = target mass of the audited set
    num_requests: int
    batch_tokens: int
    base_tokens: int
    seconds: Seconds  # of the whole step, shared by its requests
    top: tuple[TopTokens, ...] = ()

    @property
    def tau(self) -> int:
        """Tokens this round emitted."""
        return len(self.tokens)
