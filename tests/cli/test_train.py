"""`sparkit train`: every stage from the corpus to fitted temperatures, and its refusals."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkit.cli.app import app
from sparkit.compose import assemble
from sparkit.recipe import Recipe
from sparkit.training.presets import DRAFTERS

runner = CliRunner()


@pytest.mark.slow
def test_the_lane_is_rebuilt_by_one_command(tmp_path: Path) -> None:
    """Kills: a stage that does not find the one before it; a drafter without head or temperatures; a folder that
    cannot be composed."""
    out, work, document = tmp_path / "out", tmp_path / "work", tmp_path / "doc.json"
    asked = ["train", "all", "--preset", "smoke", "--out", str(out), "--work", str(work), "--json", str(document)]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0, done.output
    rows = json.loads(document.read_text())["drafters"]
    assert set(rows) == set(DRAFTERS)
    assert all(1 <= row["tau"] <= 8 for each in rows.values() for row in each)
    for name in DRAFTERS:
        part, _, head = name.partition("-")
        folder = out / "drafters" / name
        recipe = Recipe(
            target=str(out / "target"), drafter=f"{part}:path={folder}", head=head or None, capacity="flat",
            calibrator=f"sts:path={folder / 'sts.json'}", max_new_tokens=8,
        )  # fmt: skip
        composition = assemble(recipe)
        engine = composition.engine()
        engine.add(composition.request(composition.encode("What is 2 + 3?"), seed=1))
        assert sum(one.tau for one in engine.stream()) >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "target", "--preset", "huge"], "bundled"),
        (["train", "drafter", "dspark-lstm"], "dspark-rnn"),
        (["train", "target", "--minutes", "1", "--steps", "1"], "one of the two"),
        (["train", "drafter", "mtp", "--target", "/nowhere"], "sparkit train target"),
    ],
)
def test_what_cannot_be_trained_is_named(arguments: list[str], message: str) -> None:
    """Kills: a traceback, or a training that begins with something else than asked for."""
    done = runner.invoke(app, arguments)
    assert done.exit_code != 0
    assert message in str(done.exception) + done.output
