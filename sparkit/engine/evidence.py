"""What a verified round tells: soft labels for confidences, and the bits of the sequential audit.

accept_rate c*_k = 1 - TV(p_draft^k, p_target^k) [DSpark eq. 8], known for k <= verify_len + 1, because the row after
the cut judges one more position. Audit: s(v) = 1[p_draft(v) > p_target(v)], m = sum_v p_target(v) s(v); when the token
y at a position follows p_target, s(y) has mean m (`sparkit.audit`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.acceptance import rows_of
from sparkit.rounds import Draft, Plan, TopTokens, Verdict
from sparkit.sampling import residual


class Evidence(NamedTuple):
    """One row a request, one column a block position."""

    p_draft: Float[Tensor, "R gamma"]  # at the proposed tokens
    p_target: Float[Tensor, "R gamma"]  # at the proposed tokens; meaningless past verify_len
    accept_rate: Float[Tensor, "R gamma"]  # nan past verify_len + 1
    chosen: Bool[Tensor, "R gamma"]  # s(y) of the token committed there; meaningless past accepted + 1
    mass: Float[Tensor, "R gamma"]  # m


def evidence(draft: Draft, plan: Plan, verdict: Verdict, p_target: Float[Tensor, "B V"]) -> Evidence:
    """Labels and audit bits of one step, in five passes over [R, gamma, V]."""
    gamma = draft.tokens.shape[1]
    rows = rows_of(plan, gamma)
    judged = p_target[rows]
    excess = judged - draft.p_draft
    accept_rate = 1 - excess.clamp(min=0).sum(-1)
    steps = torch.arange(gamma, device=rows.device)
    accept_rate = torch.where(steps <= plan.verify_len[:, None], accept_rate, torch.nan)
    p_draft, p_judged = _at(draft.p_draft, draft.tokens), _at(judged, draft.tokens)
    return Evidence(p_draft, p_judged, accept_rate, *audit_bits(draft, verdict, judged, excess))


def audit_bits(
    draft: Draft, verdict: Verdict, judged: Float[Tensor, "R gamma V"], excess: Float[Tensor, "R gamma V"]
) -> tuple[Bool[Tensor, "R gamma"], Float[Tensor, "R gamma"]]:
    """s(y) and m of every position; `excess` is p_target - p_draft."""
    over = excess < 0
    steps = torch.arange(draft.tokens.shape[1], device=over.device)
    committed = torch.where(steps < verdict.accepted[:, None], draft.tokens, verdict.next_token[:, None])
    return _at(over, committed), torch.where(over, judged, 0.0).sum(-1)


def _at(values: Tensor, tokens: Int[Tensor, "R gamma"]) -> Tensor:
    return values.gather(2, tokens[..., None])[..., 0]


def top_columns(draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], num: int) -> Float[Tensor, "R columns"]:
    """The `num` largest entries of p_draft, p_target and the residual at every position, for `top_tokens` to unpack.

    A request's row: law by law, all ids, then all values (in float64, which holds any id exactly).
    """
    judged = p_target[rows_of(plan, draft.tokens.shape[1])]
    corrected = residual(judged.flatten(0, 1), draft.p_draft.flatten(0, 1)).view_as(judged)
    found = [law.topk(num, dim=-1) for law in (draft.p_draft, judged, corrected)]
    return torch.cat([x.double().flatten(1) for top in found for x in (top.indices, top.values)], dim=1)


def top_tokens(columns: Sequence[float], num: int, verify_len: int) -> tuple[TopTokens, ...]:
    """A request's row of `top_columns`, read back; p_target and residual are None beyond verify_len + 1."""
    size = len(columns) // 6  # gamma * num
    laws = [_entries(columns[2 * i * size :], size, num) for i in range(3)]
    return tuple(
        TopTokens(laws[0][k], *((laws[1][k], laws[2][k]) if k <= verify_len else (None, None)))
        for k in range(size // num)
    )


def _entries(columns: Sequence[float], size: int, num: int) -> list[tuple[tuple[int, float], ...]]:
    pairs = [(int(i), p) for i, p in zip(columns[:size], columns[size : 2 * size], strict=True)]
    return [tuple(pairs[first : first + num]) for first in range(0, size, num)]
