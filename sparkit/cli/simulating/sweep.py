"""Loads over a capacity curve: the frontier of every scheduler beside MTP-1's, and regret."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from sparkit.cli.simulating.options import BASELINE, SCHEDULERS, USERS, Options, bar, blocks_of, head
from sparkit.reports import serving as report
from sparkit.serving.frontier import gains, is_outside, line_of
from sparkit.serving.load import Load
from sparkit.serving.outcome import Outcome
from sparkit.serving.policy import Policy, curve_of, policy_of
from sparkit.serving.reference import Regret, regret
from sparkit.serving.simulate import simulate as simulate_one
from sparkit.serving.sources import Blocks


def simulate(options: Options, out: Console, plot: Path | None, csv: Path | None) -> dict[str, Any]:
    """The frontier of every scheduler, MTP-1's beside it, and regret where asked."""
    blocks, curve = blocks_of(options.sources, options.seed), curve_of(options.capacity)
    policies = [policy_of(s, options.calibrator, curve, blocks.gamma) for s in options.schedulers or SCHEDULERS]
    first = (blocks_of(options.baseline, options.seed) if options.baseline else blocks).cut(1)
    mtp = policy_of("fixed", "identity", curve_of(options.baseline_capacity), 1, BASELINE)
    pairs = [*((policy, blocks) for policy in policies), (mtp, first)]
    judged = [(p, num) for num in options.regret for p in policies]
    with bar(out, "serving", len(pairs) * len(_loads(options)) + len(judged)) as advance:
        sweeps = {policy.name: _sweep(policy, found, options, advance) for policy, found in pairs}
        regrets = [_regret(p, blocks, num, options, advance) for p, num in judged]
    every = [one for outcomes in sweeps.values() for one in outcomes]
    if csv is not None:
        report.write_csv(every, csv)
    if plot is not None:
        report.plot_frontier(sweeps, plot, f"{blocks.name}; {curve.source}")
    return {
        **head(options, "closed" if not options.rates else "open"),
        "source": blocks.name,
        "capacity": curve.to_json(),
        "runs": [report.row_of(one) for one in every],
        "frontiers": [] if options.rates else _frontiers(sweeps),
        "regrets": [{**asdict(one), "attained": one.attained} for one in regrets],
    }


def _loads(options: Options) -> list[Load]:
    names = ("slots", "mix", "prompt_tokens", "new_tokens", "prefill_chunk", "seed")
    shared = {name: getattr(options, name) for name in names}
    if options.rates:
        return [Load(rate=rate, **shared) for rate in options.rates]
    return [Load(users=num, **shared) for num in options.users or USERS]


def _sweep(policy: Policy, blocks: Blocks, options: Options, advance: Any) -> list[Outcome]:
    outcomes = []
    for load in _loads(options):
        outcomes.append(simulate_one(policy, blocks, load, options.steps))
        advance()
    return outcomes


def _regret(policy: Policy, blocks: Blocks, num: int, options: Options, advance: Any) -> Regret:
    found = regret(policy, blocks, num, options.steps, options.seed)
    advance()
    return found


def _frontiers(sweeps: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    baseline = line_of(sweeps[BASELINE])
    rows = []
    for name, outcomes in sweeps.items():
        if name != BASELINE:
            line = line_of(outcomes)
            found = [gain._asdict() for gain in gains(line, baseline)]
            rows.append({"policy": name, "is_outside": is_outside(line, baseline), "gains": found})
    return rows
