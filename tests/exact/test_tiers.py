"""Every composition of the tiers: declared lossless implies measured exact."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkit.proofs.search import EXACT
from sparkit.protocols import CALIBRATORS, CONFIDENCES, SCHEDULERS, VERIFIERS

ROOT = Path(__file__).parents[2]


def run(tier: str, timeout: float = 590) -> list[dict[str, object]]:
    """In a process without type checks: the tiers are a hundred thousand engine steps."""
    command = [sys.executable, "-m", "tests.exact.tiers", tier]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_exact(lines: list[dict[str, object]]) -> None:
    wrong = [line for line in lines if line["declared_lossless"] and not line["total_variation"] < EXACT]  # type: ignore[operator]
    assert not wrong, wrong[:3]
    assert not [line for line in lines if line["faults"]]


def lossy(lines: list[dict[str, object]], *words: str) -> list[dict[str, object]]:
    named = [line for line in lines if all(word in str(line["name"]) for word in words)]
    return [line for line in named if line["total_variation"] > 1e-6]  # type: ignore[operator]


def test_tier_a_real_modules() -> None:
    """Kills: a drafter, head, scheduler or verifier that is exact alone and not together."""
    lines = run("a")
    assert_exact(lines)
    assert lossy(lines, "lenient", "scheduler=fixed")
    assert lossy(lines, "lookahead", "rejection")
    assert not lossy(lines, "lookahead", "coupled")


def test_tier_b_tables() -> None:
    """Kills: a confidence or calibrator that turns a non-anticipating scheduler into an anticipating one."""
    lines = run("b")
    assert_exact(lines)
    assert lossy(lines, "token_prob")


@pytest.mark.parametrize("world", ["wide", "pair"])
def test_tier_b_every_combination(world: str) -> None:
    """Kills: four parts of which every three are exact together, and the four are not."""
    lines = run(f"{world}_product")
    assert_exact(lines)
    assert len(lines) == product_size(world)
    assert lossy(lines, "confidence=token_prob")
    assert lossy(lines, "verifier=lenient")
    assert world == "pair" or lossy(lines, "scheduler=lookahead", "verifier=rejection")
    assert not lossy(lines, "scheduler=lookahead", "verifier=coupled")


def product_size(world: str) -> int:
    """Every combination; coupled noise is walked at two tokens only."""
    confidences = len(CONFIDENCES.names()) - 2  # one table stands in for the three trained ones
    combined = len(SCHEDULERS.names()) * confidences * len(CALIBRATORS.names())
    return combined * (len(VERIFIERS.names()) - (world == "wide"))


def test_tier_c_memories() -> None:
    """Kills: a memory that carries what a redrafted token would be; an undrafted step at another law."""
    lines = run("c")
    assert_exact(lines)
    remembering = [line for line in lines if not str(line["name"]).startswith("warm")]
    for part in ("delayed", "foresight", "online"):
        assert any(line["memory_changed_a_plan"] for line in remembering if part in str(line["name"])), part
    assert all(line["saw_undrafted"] for line in lines if str(line["name"]).startswith("warm"))
    probing = [line for line in lines if "probing one of two" in str(line["name"])]
    assert len(probing) == 12
    assert all(line["saw_mixed"] for line in probing)


@pytest.mark.deep
@pytest.mark.parametrize("tier", ["full_a", "full_b"])
def test_the_full_products(tier: str) -> None:
    """Kills: a pair of parts that only a third makes lossy, on real modules and on tables."""
    assert_exact(run(tier, timeout=3500))


@pytest.mark.deep
def test_larger_worlds() -> None:
    """Kills: a bias that needs one more round, or one more token, than the tiers have."""
    lines = run("larger", timeout=3500)
    assert_exact(lines)
    assert any(line["memory_changed_a_plan"] for line in lines if "online" in str(line["name"]))
