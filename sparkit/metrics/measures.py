"""Everything that a run's rounds say, as `compose --json` writes it."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch

from sparkit.metrics.honesty import auc, ece, perfect_ece
from sparkit.metrics.intervals import bootstrap_interval
from sparkit.metrics.outcomes import Outcomes, conditional_acceptance, prefix_acceptance
from sparkit.rounds import Round


@dataclass(frozen=True, slots=True)
class Measures:
    """What a run's rounds say; the fields are those of `compose --json`. None: no data."""

    num_rounds: int  # request-rounds, prefill excluded
    num_new_tokens: int  # emitted, the prefill's own token included
    undrafted_share: float | None  # of rounds with verify_len 0
    tau: float | None
    tau_interval: tuple[float, float] | None  # 95%, bootstrap by prompt
    accepted: float | None  # mean drafts kept per request-round
    num_at_position: tuple[int, ...]
    conditional_acceptance: tuple[float | None, ...]
    prefix_acceptance: tuple[float | None, ...]
    verified_acceptance: float | None  # (accepted + bonus) / (verified + bonus)
    mean_verify_len: float | None
    ece: float | None
    ece_floor: float | None  # of a perfect predictor on as many rounds
    auc: float | None
    draft_seconds: float | None  # means per engine step
    schedule_seconds: float | None
    verify_seconds: float | None
    overhead_seconds: float | None


def measure(rounds: Sequence[Round], gamma: int, prompt_of: Callable[[Round], Hashable] | None = None) -> Measures:
    """All of it; `prompt_of` says which prompt a round belongs to (None: every request is one)."""
    decoded = [one for one in rounds if one.kind != "prefill"]
    outcomes = Outcomes.of(decoded, gamma)
    num, group = len(decoded), prompt_of or (lambda one: one.request)
    emitted, verified = sum(one.tau for one in decoded), sum(one.verify_len for one in decoded)
    steps = list({one.step: one.seconds for one in rounds}.values())
    return Measures(
        num_rounds=num,
        num_new_tokens=sum(one.tau for one in rounds),
        undrafted_share=_mean([one.verify_len == 0 for one in decoded]),
        tau=emitted / num if num else None,
        tau_interval=_tau_interval(decoded, group),
        accepted=_mean([_kept(one) for one in decoded]),
        num_at_position=tuple(outcomes.num_at(k) for k in range(1, gamma + 1)),
        conditional_acceptance=conditional_acceptance(outcomes),
        prefix_acceptance=prefix_acceptance(outcomes),
        verified_acceptance=(sum(one.accepted for one in decoded) + num) / (verified + num) if num else None,
        mean_verify_len=verified / num if num else None,
        ece=outcomes.over_positions(ece),
        ece_floor=outcomes.over_positions(lambda survival, _: perfect_ece(survival)),
        auc=outcomes.over_positions(auc),
        draft_seconds=_mean([s.draft for s in steps]),
        schedule_seconds=_mean([s.schedule for s in steps]),
        verify_seconds=_mean([s.verify for s in steps]),
        overhead_seconds=_mean([s.overhead for s in steps]),
    )


def _kept(one: Round) -> int:
    """Drafts that reached the text: a stop inside the block drops the rest."""
    return sum(token.origin == "draft" for token in one.tokens)


def _mean(values: Sequence[float | int]) -> float | None:
    return sum(values) / len(values) if values else None


def tau_groups(rounds: Sequence[Round], group: Callable[[Round], Hashable]) -> list[tuple[float, float]]:
    """(tokens emitted, rounds) of every group, prefill excluded."""
    totals: dict[Hashable, list[int]] = {}
    for one in rounds:
        if one.kind != "prefill":
            entry = totals.setdefault(group(one), [0, 0])
            entry[0], entry[1] = entry[0] + one.tau, entry[1] + 1
    return [(float(total), float(count)) for total, count in totals.values()]


def _tau_interval(rounds: Sequence[Round], group: Callable[[Round], Hashable]) -> tuple[float, float] | None:
    table = torch.tensor(tau_groups(rounds, group), dtype=torch.float64).view(-1, 2)
    return bootstrap_interval(table[:, 0], table[:, 1])
