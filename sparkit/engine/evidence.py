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


class Judged(NamedTuple):
    """Every row of p_target beside the draft law of its position; nothing is spent on positions that were cut."""

    request: Int[Tensor, " B"]
    position: Int[Tensor, " B"]  # 0..gamma; at gamma, behind a whole block, there is no draft
    proposed: Int[Tensor, " B"]  # the token proposed there; at gamma the last one again
    excess: Float[Tensor, "B V"]  # p_target - p_draft

    @classmethod
    def of(cls, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"]) -> "Judged":
        """Row by row; the number of rows is p_target's, so the host need not wait to learn it."""
        num, gamma = draft.tokens.shape
        device = p_target.device
        numbers = torch.arange(num, device=device)
        request = torch.repeat_interleave(numbers, 1 + plan.verify_len, output_size=len(p_target))
        position = torch.arange(len(p_target), device=device) - plan.first_row[request]
        rows = request * gamma + position.clamp(max=gamma - 1)
        p_draft = draft.p_draft.flatten(0, 1).index_select(0, rows)
        return cls(request, position, draft.tokens.flatten()[rows], p_target - p_draft)

    def committed(self, verdict: Verdict) -> Int[Tensor, " B"]:
        """The token that came to stand there; meaningless past accepted + 1."""
        is_kept = self.position < verdict.accepted[self.request]
        return torch.where(is_kept, self.proposed, verdict.next_token[self.request])

    def spread(self, values: Float[Tensor, "B kinds"], like: Int[Tensor, "R gamma"]) -> Float[Tensor, "R gamma kinds"]:
        """Every row's values at its request and position; nan past verify_len + 1."""
        out = values.new_full((len(like), like.shape[1] + 1, values.shape[1]), torch.nan)
        return out.index_put_((self.request, self.position), values)[:, :-1]


def evidence(draft: Draft, plan: Plan, verdict: Verdict, p_target: Float[Tensor, "B V"]) -> Evidence:
    """Labels and audit bits of one step, in five passes over [B, V]."""
    tokens = draft.tokens
    judged = Judged.of(draft, plan, p_target)
    over = judged.excess.clone().lt_(0)  # s as 0.0 and 1.0: a product with it is four times as fast as a choice by it
    rate = 1 - judged.excess.clamp(min=0).sum(-1)
    mass = (p_target * over).sum(-1)
    rows = torch.stack((rate, _at(p_target, judged.proposed), _at(over, judged.committed(verdict)), mass), dim=1)
    accept_rate, p_judged, chosen, mass = judged.spread(rows, tokens).unbind(2)
    if draft.lengths is not None:  # the row after a short block judges a column that nobody proposed
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        accept_rate = accept_rate.masked_fill(positions >= draft.lengths[:, None], torch.nan)
    return Evidence(_at(draft.p_draft, tokens), p_judged, accept_rate, chosen > 0, mass)


def _at(values: Tensor, tokens: Int[Tensor, "*N"]) -> Tensor:
    return values.gather(-1, tokens[..., None])[..., 0]


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
