"""`sparkit train confidence`: a finished drafter gets a recurrent confidence, and decodes with it."""

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from sparkit.cli.app import app
from sparkit.compose import ASSETS

runner = CliRunner()


def test_a_drafter_gets_a_recurrent_confidence(tmp_path: Path):
    """Catches temperatures that overwrite those of the paper's head, or that `compose` does not find."""
    name, drafters = "dspark-markov", tmp_path / "drafters"
    shutil.copytree(ASSETS / "bundled" / "drafters" / name, drafters / name)
    before = (drafters / name / "sts.json").read_bytes()
    given = ["train", "confidence", name, "--preset", "smoke", "--rounds", "512", "--out", str(tmp_path)]
    done = runner.invoke(app, [*given, "--json", str(tmp_path / "train.json")])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "train.json").read_text())["path"].endswith("recurrent.safetensors")
    assert (drafters / name / "sts.json").read_bytes() == before

    out = tmp_path / "out.json"
    asked = ["compose", "--drafter", f"dspark:path={drafters / name}", "--confidence", "recurrent"]
    asked += ["--prompt", "2 + 3 = ", "--max-new-tokens", "8", "--capacity", "roofline", "--json", str(out)]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0, done.output
    names = json.loads(out.read_text())["runs"][0]["recipe"]
    assert names["confidence"] == "recurrent"
    assert names["calibrator"].endswith("sts-recurrent.json")


def test_a_drafter_that_is_not_there(tmp_path: Path):
    done = runner.invoke(app, ["train", "confidence", "dspark-markov", "--out", str(tmp_path)])
    assert done.exit_code != 0
    assert "sparkit train drafter dspark-markov" in str(done.exception) + done.output
