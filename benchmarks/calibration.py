"""How honest confidences are: ECE and AUC of survival on full-verification traces, raw, after STS, and kept online.

Beside the error stands the one a perfect predictor would show on as many rounds; beside the AUC that of the analytic
product c*_1 .. c*_k, which nobody has before verifying. Online: from the temperatures of the other domains, fed 300
rounds of a new one, then frozen and judged on requests it never saw.

    python benchmarks/calibration.py full.jsonl --sts sparkit/assets/bundled/drafters/dspark-markov/sts.json \
        --out benchmarks/results/calibration.json --plot reliability.png
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from sparkit.calibration import to_confidence
from sparkit.calibrators.online import Online
from sparkit.calibrators.sts import Sts
from sparkit.cli.environment import environment
from sparkit.labels import Records
from sparkit.metrics import auc, ece, perfect_ece
from sparkit.reports.reliability import plot_reliability
from sparkit.serving.drift import BUSY, fed_and_frozen, fitted, records_of
from sparkit.serving.policy import curve_of, policy_of
from sparkit.serving.sources import Blocks, from_traces
from sparkit.survival import survival_of


def judge(records: Records, sts: Sts) -> dict[str, Any]:
    """Errors and areas by position and in the mean."""
    survivals = {
        "raw": survival_of(to_confidence(records.logits, records.logits)),
        "sts": survival_of(sts.calibrate(records.logits, None)),
        "analytic": survival_of(records.accept_rate.clamp(0, 1)),
    }
    rows = [_position(records, survivals, k) for k in range(records.gamma)]
    means = {key: sum(row[key] for row in rows) / len(rows) for key in rows[0]}
    return {"num_rounds": len(records), "mean": means, "positions": rows}


def _position(records: Records, survivals: dict[str, Tensor], k: int) -> dict[str, float]:
    outcome = records.accepted > k
    found = {"ece_floor": perfect_ece(survivals["sts"][:, k])}
    for name, survival in survivals.items():
        found[f"ece_{name}"] = ece(survival[:, k], outcome)
        found[f"auc_{name}"] = auc(survival[:, k], outcome)
    return {key: float("nan") if value is None else value for key, value in found.items()}


def online(blocks: Blocks, capacity: str) -> list[dict[str, Any]]:
    """Every domain as the new one: temperatures fitted to the others, kept as they are or online."""
    curve, found = curve_of(capacity), []
    for domain in blocks.domains:
        others = blocks.keep(blocks.request_domain() != blocks.domains.index(domain))
        part = Online()
        part.initial = Sts(calibration_temperatures=fitted(others)).calibration_temperatures
        new, row = blocks.of_domain(domain), {"domain": domain}
        row["num_judged"] = len(new) * 7 // 8
        for name, scheduler, fed in (("static", "fixed", 0), ("full", "fixed", 300), ("greedy", "greedy", 300)):
            policy = replace(policy_of(scheduler, "identity", curve, blocks.gamma), calibrator=part)
            error, floor = fed_and_frozen(policy, new, fed, BUSY if name == "greedy" else 10)
            row |= {f"ece_{name}": error, "ece_floor": floor}
        found.append(row)
    return found


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--capacity", default="roofline", help="of the greedy cuts that online learns from")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    blocks, sts = from_traces(given.traces), Sts(path=given.sts)
    domains = {d: judge(records_of(blocks.of_domain(d)), sts) for d in blocks.domains}
    every = records_of(blocks)
    document = {
        "environment": environment("cpu"),
        "traces": blocks.name,
        "all": judge(every, sts),
        "domains": domains,
        "online": online(blocks, given.capacity),
    }
    means = {"all": document["all"]["mean"], **{d: one["mean"] for d, one in domains.items()}}
    print(json.dumps({**means, "rounds": len(every), "online": document["online"]}, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(document, indent=1) + "\n")
    if given.plot is not None:
        fitted_confidence = sts.calibrate(every.logits, None)
        plot_reliability(
            every, {"raw": to_confidence(every.logits, every.logits), "sts": fitted_confidence}, given.plot
        )


if __name__ == "__main__":
    main()
