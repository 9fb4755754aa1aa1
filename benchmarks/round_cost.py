"""What a drafted round costs in plain steps, for targets and drafters of other sizes: no training needed.

Speed at batch 1 is tau over the cost of a round in plain steps, and the cost depends on sizes alone. Targets and
drafters here have random weights; everything is verified, so every round has gamma + 1 rows. Plain steps and rounds
are interleaved, medians are printed, and beside them the tau that a speed-up of 2 would need.

    python benchmarks/round_cost.py --out benchmarks/results/round-cost-cpu.json
"""

import argparse
import json
import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sparkit.calibrators.identity import Identity
from sparkit.capacity import flat
from sparkit.cli.environment import environment
from sparkit.confidences.max_prob import MaxProb
from sparkit.drafters.dspark import dspark
from sparkit.engine import Engine, Parts, Request
from sparkit.rounds import Round
from sparkit.schedulers.fixed import Fixed
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer
from sparkit.training.target import BUNDLED
from sparkit.verifiers.rejection import Rejection

SPEED_UP = 2.0  # wanted


@dataclass(frozen=True, slots=True)
class Size:
    """A target and a dspark drafter for it."""

    hidden_size: int = 160
    num_layers: int = 12
    num_kv_heads: int = 1
    draft_layers: int = 2
    head: str = "rnn"
    gamma: int = 7


SIZES = (
    Size(),
    Size(head="markov"),
    Size(gamma=4),
    Size(draft_layers=1),
    Size(draft_layers=1, head="markov"),
    Size(num_layers=8),
    Size(num_layers=16),
    Size(num_layers=20),
    Size(hidden_size=192, num_kv_heads=2),
    Size(hidden_size=256, num_layers=8, num_kv_heads=2),
    Size(hidden_size=256, num_kv_heads=2),
)


def parts_of(size: Size) -> Parts:
    """Random weights of a size."""
    torch.manual_seed(0)
    heads = size.hidden_size // 32 - (size.hidden_size // 32) % size.num_kv_heads
    config = replace(
        BUNDLED, hidden_size=size.hidden_size, intermediate_size=size.hidden_size * 14 // 5, num_layers=size.num_layers,
        num_heads=heads, num_kv_heads=size.num_kv_heads, head_dim=32,
    )  # fmt: skip
    target = TransformerTarget(Transformer(config).eval().requires_grad_(False), name="random")
    drafter = dspark(target, gamma=size.gamma, head=size.head, num_layers=size.draft_layers, num_kv_heads=heads)
    drafter.net.eval().requires_grad_(False)
    taken = target.with_taps(drafter.feature_layers)
    return Parts(taken, drafter, MaxProb(), Identity(), Fixed(), Rejection(), flat())


def rounds(parts: Parts, gamma: int, num_tokens: int) -> list[Round]:
    """One text at batch 1; its prefill and first rounds are left out."""
    engine = Engine(parts, gamma=gamma, num_slots=1, max_len=256)
    engine.add(Request(tuple(range(8, 40)), seed=1, max_new_tokens=num_tokens))
    return [one for one in engine.stream() if one.kind != "prefill"][4:]


def measure(size: Size, repeats: int) -> dict[str, Any]:
    """Medians in milliseconds, of interleaved texts."""
    parts = parts_of(size)
    plain = replace(parts, drafter=None)
    found: dict[str, list[float]] = {"plain": [], "draft": [], "verify": [], "rest": []}
    for _ in range(repeats):
        found["plain"] += [one.seconds.total for one in rounds(plain, size.gamma, 24)]
        for one in rounds(parts, size.gamma, 24):
            if one.verify_len == size.gamma:  # the last rounds of a text are shorter
                seconds = one.seconds
                found["draft"].append(seconds.draft)
                found["verify"].append(seconds.verify)
                found["rest"].append(seconds.schedule + seconds.overhead)
    middle = {name: 1000 * statistics.median(values) for name, values in found.items()}
    cost = (middle["draft"] + middle["verify"] + middle["rest"]) / middle["plain"]
    millions = sum(p.numel() for p in parts.target.model.parameters()) / 1e6
    return {**asdict(size), "millions": millions, **middle, "cost": cost, "tau_needed": SPEED_UP * cost}


def main() -> None:
    """Prints a line a size and writes the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for size in SIZES:
        rows.append(measure(size, given.repeats))
        row = rows[-1]
        shown = " ".join(f"{name} {row[name]:5.1f}" for name in ("plain", "draft", "verify", "rest"))
        print(f"{asdict(size)}: {row['millions']:.1f} M, {shown} ms; a round costs {row['cost']:.2f} plain steps")
    if given.out is not None:
        given.out.write_text(json.dumps({"environment": environment("cpu"), "sizes": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
