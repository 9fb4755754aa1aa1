"""Ctrl-C in the middle of `sparkit compose` keeps what was decoded: printed, written, marked; exit code 130."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sparkit.cli.app import load
from sparkit.engine import Engine
from sparkit.traces import read_trace


@pytest.mark.parametrize("after", [2, 40])
def test_partial_results_are_kept_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Interrupted while warming up and in the middle. Kills: nothing written; a document that looks whole; no trace."""
    steps, step = 0, Engine.step

    def interrupted(self: Engine) -> Any:
        nonlocal steps
        steps += 1
        if steps == after:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Engine, "step", interrupted)
    out, trace = tmp_path / "out.json", tmp_path / "x.jsonl"
    options = ["--domain", "math", "--num-prompts", "2", "--max-new-tokens", "24", "--capacity", "flat"]
    done = CliRunner().invoke(
        load("compose", "sparkit.cli.compose:command"), [*options, "--json", str(out), "--trace", str(trace)]
    )
    assert done.exit_code == 130, done.output
    assert "interrupted" in done.output
    document = json.loads(out.read_text())
    assert document["is_complete"] is False
    assert all(text["stop_reason"] in ("cancelled", "length", "stop") for text in document["texts"])
    assert bool(document["runs"]) == (after == 40)
    assert not read_trace(trace).is_cut
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "x.jsonl"]
