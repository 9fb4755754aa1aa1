"""Survival: the probability that a whole prefix of the draft is accepted, and what a plan is worth because of it.

a_k = prod_{i<=k} c_i [DSpark section 3.3]; expected tau = 1 + sum of the admitted survivals; Theta = tau * SPS(B)
[Algorithm 1]. Pure functions; the whole Theta curve is for readers (screens, traces), never for a scheduler. Schedulers
admit from a `Queue`: tensors in, tensors out, without the host waiting for the device.

>>> survival_of(torch.tensor([[0.5, 0.5]]))
tensor([[0.5000, 0.2500]])
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.rounds import Limits, Plan


def survival_of(confidence: Float[Tensor, "R gamma"]) -> Float[Tensor, "R gamma"]:
    """Running product of the confidences, in [0, 1] and never increasing; nan counts as 0, a range error is clamped."""
    return confidence.nan_to_num(nan=0.0).clamp(0, 1).cumprod(-1)


def expected_tau(survival: Float[Tensor, "R gamma"], verify_len: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
    """Expected tokens committed by each request's round, bonus included."""
    positions = torch.arange(survival.shape[1], device=survival.device)
    return 1 + torch.where(positions < verify_len[:, None], survival, 0.0).sum(-1)


class ThroughputCurve(NamedTuple):
    """Theta along the global admission order, point 0 being the plan without any draft."""

    throughput: Float[Tensor, " points"]
    survival: Float[Tensor, " points_minus_one"]  # of the candidate admitted at each point
    request: Int[Tensor, " points_minus_one"]
    position: Int[Tensor, " points_minus_one"]  # 0-based


def admission_order(survival: Float[Tensor, "R gamma"]) -> Int[Tensor, " n"]:
    """Flat candidates by survival descending; ties by position, then request, so every prefix stays closed.

    The tie rule looks at nothing but indices: a rule that looked at later confidences would be anticipating.
    """
    by_position = survival.T.flatten()
    order = by_position.sort(descending=True, stable=True).indices
    num = survival.shape[0]
    return (order % num) * survival.shape[1] + torch.div(order, num, rounding_mode="floor")


def throughput_curve(
    survival: Float[Tensor, "R gamma"],
    rounds_per_second: Callable[[int, int], float],
    base_tokens: int | None = None,
) -> ThroughputCurve:
    """Theta after each admission of a > 0, in admission order (readers only: it looks at everything)."""
    num, gamma = survival.shape
    base = num if base_tokens is None else base_tokens
    order = admission_order(survival)
    values = survival.flatten()[order]
    order, values = order[values > 0], values[values > 0]
    tau = num + torch.cat((values.new_zeros(1), values.cumsum(0)))
    speed = [rounds_per_second(num, base + j) for j in range(len(values) + 1)]
    throughput = tau * torch.tensor(speed, dtype=tau.dtype, device=tau.device)
    return ThroughputCurve(throughput, values, torch.div(order, gamma, rounding_mode="floor"), order % gamma)


def admissible(survival: Float[Tensor, "R gamma"], ceiling: Int[Tensor, " R"]) -> Float[Tensor, "R gamma"]:
    """Survivals that admission may trust: nan is 0, within [0, 1], non-increasing, 0 from the ceiling on."""
    clean = exact(survival).nan_to_num(nan=0.0).clamp(0, 1)
    positions = torch.arange(survival.shape[1], device=survival.device)
    return clean.cummin(-1).values * (positions < ceiling[:, None])


def exact(values: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """float64 where the device has it: a thousand survivals are summed before two throughputs are compared."""
    return values if values.device.type == "mps" else values.double()


def spend_by_position(wanted: Bool[Tensor, "R gamma"], room: int | Int[Tensor, ""] | None) -> Int[Tensor, " R"]:
    """Lengths of the wanted prefixes that fit in `room` drafts: all first drafts by request, then all second.

    Spending by wished lengths would let a request's later confidences decide about another's earlier draft.
    """
    if room is None:
        return wanted.sum(-1)
    rank = wanted.T.flatten().cumsum(0).view(wanted.shape[1], -1).T
    return (wanted & (rank <= room)).sum(-1)


def room_for_drafts(limits: Limits) -> int | None:
    """Drafts that the token budget leaves; None without one. Anchors and prefill go whatever it says."""
    return None if limits.token_budget is None else max(0, limits.token_budget - limits.base_tokens)


def granted_floor(limits: Limits, gamma: int) -> Int[Tensor, " R"]:
    """Ceiling, then budget, then floors in what is left."""
    asked = torch.minimum(limits.floor, limits.ceiling)
    positions = torch.arange(gamma, device=asked.device)
    return spend_by_position(positions < asked[:, None], room_for_drafts(limits))


def spend_wishes(wanted: Bool[Tensor, "R gamma"], limits: Limits) -> Plan:
    """The plan of schedulers that wish without counting cost: floors, then wishes, position by position.

    `wanted` marks prefixes; a wish below its floor or past its ceiling changes nothing.
    """
    gamma, room = wanted.shape[1], room_for_drafts(limits)
    positions = torch.arange(gamma, device=wanted.device)
    floor = granted_floor(limits, gamma)
    wanted = wanted & (positions >= floor[:, None]) & (positions < limits.ceiling[:, None])
    return Plan(floor + spend_by_position(wanted, None if room is None else room - floor.sum()))


class Queue(NamedTuple):
    """One step's candidates in admission order, behind the floors that are granted already."""

    survival: Float[Tensor, " n"]  # descending; 0 for what cannot be admitted
    request: Int[Tensor, " n"]
    is_open: Bool[Tensor, " n"]  # a > 0, and inside the token budget
    floor: Int[Tensor, " R"]  # drafts granted before any candidate
    num_floor: Int[Tensor, ""]
    base_tau: Float[Tensor, ""]  # expected tokens with the floors alone

    def throughput(self, rates: Float[Tensor, " points"]) -> Float[Tensor, " n_plus_one"]:
        """Theta after 0, 1, ... n admissions; `rates` start at base_tokens."""
        tau = torch.cat((self.base_tau[None], self.survival)).cumsum(0)
        drafts = self.num_floor + torch.arange(len(tau), device=tau.device)
        return tau * rates[drafts.clamp(max=len(rates) - 1)]

    def admit(self, kept: Bool[Tensor, " n"]) -> Plan:
        """The plan of the floors and the kept candidates."""
        return Plan(self.floor.scatter_add(0, self.request, (kept & self.is_open).to(self.floor)))

    def admit_first(self, count: Int[Tensor, ""]) -> Plan:
        """The plan of the floors and the first `count` candidates."""
        return self.admit(torch.arange(len(self.request), device=self.request.device) < count)


def queue_of(survival: Float[Tensor, "R gamma"], limits: Limits) -> Queue:
    """Floors as granted, then everything else in admission order."""
    num, gamma = survival.shape
    trusted, floor = admissible(survival, limits.ceiling), granted_floor(limits, gamma)
    num_floor = floor.sum()
    is_floor = torch.arange(gamma, device=survival.device) < floor[:, None]
    base_tau = num + limits.num_resting + (trusted * is_floor).sum()
    values, order = trusted.masked_fill(is_floor, 0.0).T.flatten().sort(descending=True, stable=True)
    is_open = _open(values, room_for_drafts(limits), num_floor)
    return Queue(values, order.remainder(max(1, num)), is_open, floor, num_floor, base_tau)


def _open(values: Float[Tensor, " n"], room: int | None, num_floor: Int[Tensor, ""] | int) -> Bool[Tensor, " n"]:
    if room is None:
        return values > 0
    return (values > 0) & (torch.arange(len(values), device=values.device) < room - num_floor)


def search_limit(trusted: Float[Tensor, "R gamma"], limits: Limits, rates: Float[Tensor, " points"]) -> Int[Tensor, ""]:
    """The unrestricted global search: how many drafts give the largest Theta, the fewest on a tie.

    Floors play no part: they are a matter of one step, the limit K one of the load. Lossless only on survivals that no
    draft token of this round has touched (old ones, predicted ones).
    """
    values = trusted.flatten().sort(descending=True).values
    is_open = _open(values, room_for_drafts(limits), 0)
    tau = torch.cat((values.new_full((1,), len(trusted) + limits.num_resting), values)).cumsum(0)
    throughput = tau * rates
    throughput[1:].masked_fill_(~is_open, -1.0)
    return throughput.argmax()
