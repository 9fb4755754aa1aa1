"""Logits become the law a token is drawn from; laws are compared, subtracted and drawn from here and nowhere else.

The same `SamplingParams` shape every verified row, every draft row and plain decoding. Order: logit bias and bans,
repetition / presence / frequency penalties, temperature, min-p, top-k, top-p; each filter renormalises what is left.
Precision is promoted (bf16 -> float32), never demoted: float64 stays float64. Randomness is not here: `draw` takes
its uniform from the caller (`sparkit.decisions`).

>>> probs(torch.tensor([[0.0, 1.0]]), SamplingParams(temperature=0.0))
tensor([[0., 1.]])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request's logits are shaped; the defaults leave the model's own law."""

    temperature: float = 1.0
    top_k: int = 0  # 0: off
    top_p: float = 1.0
    min_p: float = 0.0  # keep tokens with at least min_p times the largest probability
    repetition_penalty: float = 1.0  # over prompt and text, divides positive logits and multiplies negative ones
    presence_penalty: float = 0.0  # over the generated text
    frequency_penalty: float = 0.0  # over the generated text, times the count
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checks = (
            ("temperature", 0 <= self.temperature < float("inf"), "a finite number >= 0 (0 is greedy)"),
            ("top_k", self.top_k >= 0, "an integer >= 0 (0 is off)"),
            ("top_p", 0 < self.top_p <= 1, "a number in (0, 1]"),
            ("min_p", 0 <= self.min_p <= 1, "a number in [0, 1]"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "a finite number > 0 (1 is off)"),
            ("presence_penalty", abs(self.presence_penalty) < float("inf"), "a finite number (0 is off)"),
            ("frequency_penalty", abs(self.frequency_penalty) < float("inf"), "a finite number (0 is off)"),
            ("logit_bias", all(map(_is_bias, self.logit_bias)), "pairs of a token id and a number (-inf bans it)"),
            ("banned", all(map(_is_token, self.banned)), "token ids >= 0"),
        )
        for name, is_valid, expected in checks:
            if not is_valid:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected {expected}")

    @property
    def tokens(self) -> tuple[int, ...]:
        """The token ids it names."""
        return (*(token for token, _ in self.logit_bias), *self.banned)

    @property
    def penalises(self) -> bool:
        """Whether the law depends on the tokens before it."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def edits(self) -> bool:
        """Whether single logits are changed."""
        return bool(self.logit_bias or self.banned)


def _is_token(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_bias(value: object) -> bool:
    if not (isinstance(value, tuple) and len(value) == 2 and _is_token(value[0])):
        return False
    return type(value[1]) in (int, float) and bool(value[1] < float("inf"))


class History(NamedTuple):
    """What the penalties look at, one row for every row of logits."""

    seen: Bool[Tensor, "N V"]  # token occurs in prompt or text
    counts: Float[Tensor, "N V"]  # occurrences in the generated text


def history_of(prompt: Sequence[int], text: Sequence[int], vocab_size: int) -> History:
    """The history of one row."""
    counts = torch.bincount(torch.tensor(text, dtype=torch.int64), minlength=vocab_size)[None].double()
    seen = torch.zeros(1, vocab_size, dtype=torch.bool)
    seen[0, torch.tensor([*prompt, *text], dtype=torch.int64)] = True
    return History(seen, counts)


def probs(
    logits: Float[Tensor, "N V"],
    params: SamplingParams | Sequence[SamplingParams],
    history: History | None = None,
) -> Float[Tensor, "N V"]:
    """The laws of N tokens: rows sum to one; temperature 0 is one-hot on the largest logit, lowest id first.

    Args:
        logits: any float dtype; half precision is promoted to float32 before anything is computed.
        params: one for all rows, or one a row.
        history: needed when a row penalises.

    Raises:
        ValueError: if the number of params is not the number of rows, or a penalty has no history.
    """
    logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
    if isinstance(params, SamplingParams):
        return _law(logits, params, history)
    if len(params) != logits.shape[0]:
        raise ValueError(f"probs: {logits.shape[0]} rows of logits and {len(params)} SamplingParams")
    distinct = set(params)
    if len(distinct) == 1:
        return _law(logits, params[0], history)
    out = torch.empty_like(logits)
    for one in distinct:
        rows = torch.tensor([i for i, p in enumerate(params) if p == one], device=logits.device)
        part = None if history is None else History(history.seen[rows], history.counts[rows])
        out[rows] = _law(logits[rows], one, part)
    return out


def _law(logits: Tensor, params: SamplingParams, history: History | None) -> Tensor:
    if params.edits:
        logits = _edit(logits, params)
    if params.penalises:
        if history is None:
            raise ValueError("probs: repetition, presence and frequency penalties need the history of every row")
        logits = _penalise(logits, params, history)
    if params.temperature == 0:
        top = logits.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(1, top, 1.0).masked_fill_(logits.isnan().any(-1, True), torch.nan)
    law = torch.softmax(logits if params.temperature == 1 else logits / params.temperature, dim=-1)
    if params.min_p > 0:
        law = _keep(law, law >= params.min_p * law.amax(-1, keepdim=True))
    if 0 < params.top_k < law.shape[-1]:
        law = _keep(law, law >= law.topk(params.top_k, dim=-1).values[:, -1:])
    return _nucleus(law, params.top_p) if params.top_p < 1 else law


def _edit(logits: Tensor, params: SamplingParams) -> Tensor:
    logits = logits.clone()
    for token, bias in params.logit_bias:
        logits[:, token] += bias
    if params.banned:
        logits[:, list(params.banned)] = -torch.inf
    return logits


def _penalise(logits: Tensor, params: SamplingParams, history: History) -> Tensor:
    seen, counts = history.seen.to(logits.device), history.counts.to(logits)
    worn = torch.where(logits > 0, logits / params.repetition_penalty, logits * params.repetition_penalty)
    logits = torch.where(seen, worn, logits)
    return logits - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)


def _keep(law: Tensor, kept: Tensor) -> Tensor:
    law = torch.where(kept, law, 0.0)
    return law / law.sum(-1, keepdim=True)


def _nucleus(law: Tensor, top_p: float) -> Tensor:
    ordered, order = law.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = torch.zeros_like(law, dtype=torch.bool).scatter_(1, order, before < top_p)
    return _keep(law, kept)


def total_variation(p: Float[Tensor, "*N V"], q: Float[Tensor, "*N V"]) -> Float[Tensor, "*N"]:
    """Half the L1 distance, in [0, 1]; the accept rate of a draft is one minus it [DSpark eq. 8]."""
    return (p - q).abs().sum(-1) / 2


def residual(p_target: Float[Tensor, "N V"], p_draft: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """norm(max(p_target - p_draft, 0)), the law of a correction [Leviathan 2023, section 2.3].

    Where the two laws agree to rounding there is no residual to normalise; a rejection there has probability about
    zero, and p_target itself is returned.
    """
    excess = (p_target - p_draft).clamp(min=0)
    mass = excess.sum(-1, keepdim=True)
    return torch.where(mass > 4 * torch.finfo(mass.dtype).eps, excess / mass, p_target)


def draw(p: Float[Tensor, "N V"], uniform: Float[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Inverts the cumulative distribution: the first token whose cumulated mass exceeds `uniform` (in [0, 1)).

    Sums are float64. The largest uniform is 1 - 2^-53, and (1 - 2^-53) * total, rounded, is below the total for every
    total (2^-53 * total is more than half its last digit, or total is a power of two), so a token without mass is
    never returned.
    """
    if p.is_mps:  # no float64 there; the law is unchanged by where it is summed
        return draw(p.cpu(), uniform.cpu()).to(p.device)
    cumulative = p.cumsum(-1, dtype=torch.float64)
    last = p.shape[1] - 1
    point = cumulative.narrow(1, last, 1) * uniform.double().unsqueeze(1)  # a block draws in turn: no indexing here
    return torch.searchsorted(cumulative, point, right=True).squeeze(1).clamp_(max=last)  # clamped: nan only
