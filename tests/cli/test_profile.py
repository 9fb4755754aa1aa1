"""`sparkit profile` and `sparkit calibrate` on a tiny target of their own: measured, recorded, written, listed."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sparkit.capacity import Capacity

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "tutorials" / "architecture.md").read_text(encoding="utf-8")
Cli = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    from sparkit.targets.loaders.folder import save_model
    from sparkit.targets.transformer import Transformer, TransformerConfig

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    save_model(folder, Transformer(TransformerConfig(2048, 16, 32, 2, 2, 1, max_positions=256)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "sparkit" / "assets" / "bundled" / name, folder / name)
    return folder


def fields(command: str) -> set[str]:
    section = re.search(rf"^### `sparkit {command}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    return set(re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE))


def test_profile_measures_and_writes(sparkit_cli: Cli, target: Path, tmp_path: Path) -> None:
    """Kills: a curve that cannot be read back; a context left out; a document the page does not explain."""
    out, plot = tmp_path / "curve.json", tmp_path / "curve.png"
    done = sparkit_cli(
        "profile", "--target", str(target), "--drafter", "dspark:seed=1", "--gamma", "2", "--batch", "2",
        "--context", "16", "--context", "32", "--repeats", "1", "--kind", "step",
        "--out", str(out), "--plot", str(plot), "--json", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == fields("profile")
    assert [one["context_len"] for one in document["contexts"]] == [16, 32]
    assert len(document["samples"]) == 2 * 8
    curve = Capacity.load(out)
    assert [size for size, _ in curve.verify.points] == [2, 4, 6]
    assert (curve.kind, curve.is_measured, curve.gamma) == ("step", True, 2)
    assert [size for size, _ in curve.draft_token.points] == [2]
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert "no profile" not in done.stderr


def test_profile_measures_the_head_and_the_confidence_that_were_asked_for(sparkit_cli: Cli) -> None:
    """Kills: another head's curve under this one's name."""
    done = sparkit_cli(
        "profile", "--head", "rnn", "--confidence", "max_prob", "--gamma", "2", "--batch", "1", "--context", "16",
        "--repeats", "1", "--json", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    recipe = json.loads(done.stdout)["recipe"]
    assert (recipe["head"], recipe["confidence"]) == ("rnn", "max_prob")
    refused = sparkit_cli("profile", "--head", "rnd", "--batch", "1", "--repeats", "1")
    assert refused.returncode == 2
    assert "'rnd'" in refused.stderr
    assert "rnn" in refused.stderr


def test_profile_refuses_a_context_without_room(sparkit_cli: Cli, target: Path) -> None:
    """Kills: a traceback from the cache."""
    done = sparkit_cli("profile", "--target", str(target), "--drafter", "dspark:seed=1", "--context", "250")
    assert done.returncode == 2
    assert "context_len=250: expected 1 to 149" in done.stderr


def test_calibrate_records_its_own_rounds(sparkit_cli: Cli, target: Path, tmp_path: Path) -> None:
    """Kills: a scheduler that cuts what is recorded; provenance that names nothing; undocumented fields."""
    out = tmp_path / "sts.json"
    done = sparkit_cli(
        "calibrate", "--target", str(target), "--drafter", "dspark:seed=1", "--confidence", "max_prob", "--gamma", "2",
        "--num-prompts", "1", "--max-new-tokens", "12", "--out", str(out), "--json", "-",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == fields("calibrate")
    assert document["recipe"]["scheduler"] == "fixed"
    assert document["num_fitted"] > 0
    assert json.loads(out.read_text())["provenance"]["target"] == str(target)
