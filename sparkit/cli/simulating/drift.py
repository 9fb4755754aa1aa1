"""Traffic that changes: static temperatures of code against online ones."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sparkit.calibrators.online import Online
from sparkit.calibrators.sts import Sts
from sparkit.cli.simulating.options import Options, blocks_of, head
from sparkit.reports import serving as report
from sparkit.serving import drift as drifting
from sparkit.serving.policy import curve_of, policy_of

PHASES = ("code", "chat", drifting.MIXED)


def drift(options: Options, out: Console, plot: Path | None) -> dict[str, Any]:
    """Static temperatures of code against online ones, over code, chat and both."""
    blocks, curve = blocks_of(options.sources, options.seed), curve_of(options.capacity)
    static = drifting.fitted(blocks.of_domain("code").half(False))
    judged = blocks.half(True)
    scheduler = (options.schedulers or ("greedy",))[0]
    base = policy_of(scheduler, "identity", curve, blocks.gamma)
    online = Online()
    online.initial = Sts(calibration_temperatures=static).calibration_temperatures
    policies = [
        replace(base, name="sts fitted on code", calibrator=Sts(calibration_temperatures=static)),
        replace(base, name="online from the same", calibrator=online),
    ]
    num = max(options.users or (16,))
    with out.status("serving code, then chat, then both"):
        windows = drifting.drift(policies, judged, PHASES, num, max(8, options.steps // 3), seed=options.seed)
        chat = blocks.of_domain("chat")
        full = policy_of("fixed", "identity", curve, blocks.gamma)
        fed = {
            name: drifting.fed_and_frozen(replace(policy, calibrator=online), chat, batch=size)
            for name, policy, size in (
                ("full verification", full, 10),
                (f"{scheduler}'s cuts with probes", base, drifting.BUSY),
            )
        }
    if plot is not None:
        report.plot_drift(windows, plot, f"{blocks.name}; {scheduler}; {curve.source}")
    frozen = [{"learned_from": name, "ece": e, "ece_floor": floor} for name, (e, floor) in fed.items()]
    found = {"source": blocks.name, "capacity": curve.to_json(), "windows": [asdict(one) for one in windows]}
    return {**head(options, "drift"), **found, "fed_300_rounds": frozen}
