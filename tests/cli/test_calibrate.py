"""`sparkit calibrate`: from traces to a file, a picture and one document; and what it refuses."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from sparkit.rounds import Round, Seconds, Token
from sparkit.traces import TraceHeader, write_trace

Cli = Callable[..., CompletedProcess[str]]
RECIPE = {"drafter": "dspark", "target": "bundled", "verifier": "rejection", "temperature": 1.0, "scheduler": "fixed"}


def trace(path: Path, *, verify_len: int = 3, num: int = 600, recipe: dict[str, Any] = RECIPE) -> Path:
    """Rounds whose logits are twice the true ones."""
    rng, gamma = random.Random(0), 3
    rounds = []
    for step in range(num):
        true = [rng.gauss(1.0, 1.2) for _ in range(gamma)]
        rates = [1 / (1 + math.exp(-x)) for x in true]
        accepted = next((k for k in range(verify_len) if rng.random() >= rates[k]), verify_len)
        tokens = (Token(1, "draft"),) * accepted + (Token(2, "bonus"),)
        rounds.append(
            Round(
                request=step // 20,
                step=step,
                kind="drafted",
                anchor=0,
                anchor_position=step,
                drafted=(1, 1, 1),
                p_draft=(0.5,) * 3,
                p_target=(0.5,) * verify_len,
                logits=tuple(2 * x for x in true),
                confidence=tuple(rates),
                survival=tuple(rates),
                accept_rate=tuple(rates),
                verify_len=verify_len,
                floor=0,
                ceiling=3,
                is_probe=False,
                accepted=accepted,
                next_token=2,
                origin="bonus",
                tokens=tokens,
                stop_reason=None,
                audit_chosen=(),
                audit_mass=(),
                num_requests=1,
                batch_tokens=4,
                base_tokens=1,
                seconds=Seconds(),
            )
        )
    write_trace(path, TraceHeader(recipe, gamma, {}, {}), rounds)
    return path


def test_fits_judges_and_saves(sparkit_cli: Cli, tmp_path: Path) -> None:
    """Kills: judging on the fit's own rounds; a picture not written; provenance lost on the way."""
    run, out, plot = trace(tmp_path / "run.jsonl"), tmp_path / "sts.json", tmp_path / "sts.png"
    done = sparkit_cli("calibrate", str(run), "--out", str(out), "--plot", str(plot), "--json", "-")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "sparkit.calibrate/1"
    assert (document["num_fitted"], document["num_judged"]) == (300, 300)
    assert document["ece_after"] < document["ece_before"]
    assert document["ece_floor"] > 0
    saved = json.loads(out.read_text())
    assert len(saved["calibration_temperatures"]) == 3
    assert saved["provenance"]["drafter"] == "dspark"
    assert saved["provenance"]["gamma"] == 3
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_table_for_people(sparkit_cli: Cli, tmp_path: Path) -> None:
    """Kills: a floor that is not printed beside the error."""
    done = sparkit_cli("calibrate", str(trace(tmp_path / "run.jsonl", num=200)), "--calibrator", "platt")
    assert done.returncode == 0, done.stderr
    for word in ("platt", "perfect predictor", "AUC", "mean"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("cut", "full verification"),
        ("mixed", "not the composition of"),
        ("share", "--held-out 1.5"),
        ("gone", "No such"),
    ],
)
def test_what_cannot_be_fitted_is_refused(case: str, message: str, sparkit_cli: Cli, tmp_path: Path) -> None:
    """Kills: a fit on rounds that a scheduler cut; two drafters in one fit."""
    run = str(trace(tmp_path / "run.jsonl", num=40))
    arguments = {
        "cut": lambda: [str(trace(tmp_path / "cut.jsonl", verify_len=2, num=40))],
        "mixed": lambda: [run, str(trace(tmp_path / "b.jsonl", num=40, recipe={**RECIPE, "drafter": "dflash"}))],
        "share": lambda: [run, "--held-out", "1.5"],
        "gone": lambda: [str(tmp_path / "gone.jsonl")],
    }[case]()
    done = sparkit_cli("calibrate", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
