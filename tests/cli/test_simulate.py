"""`sparkit simulate` and `sparkit replay` as a person runs them: every kind of load, documents as the page explains."""

import csv
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sparkit.cli.app import app

PAGE = (Path(__file__).parents[2] / "tutorials" / "architecture.md").read_text(encoding="utf-8")
SMALL = ("--steps", "40", "--prompt-tokens", "16", "--new-tokens", "24")


def explained(command: str) -> set[str]:
    section = re.search(rf"^### `sparkit {command}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    return set(re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE))


def sparkit(*args: str) -> Result:
    return CliRunner().invoke(app, args)


def document(*args: str) -> dict[str, Any]:
    done = sparkit(*args, "--json", "-")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Full-verification rounds of the bundled lane, two prompts a domain."""
    path = tmp_path_factory.mktemp("trace") / "full.jsonl"
    done = sparkit(
        "compose", "--drafter", "dspark", "--scheduler", "fixed", "--calibrator", "identity", "--capacity", "roofline",
        "--num-prompts", "2", "--max-new-tokens", "32", "--batch", "6", "--show", "0", "--top-tokens", "0",
        "--trace", str(path),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


def test_a_closed_loop_with_regret_plot_and_csv(trace: Path, tmp_path: Path) -> None:
    """Kills: a field the page does not explain; MTP-1 left out; a load missing from the CSV; an empty plot."""
    plot, out = tmp_path / "f.png", tmp_path / "f.csv"
    found = document(
        "simulate", "--source", str(trace), "--scheduler", "greedy", "--scheduler", "foresight", "--users", "2",
        "--users", "16", "--regret", "2", "--plot", str(plot), "--csv", str(out), *SMALL,
    )  # fmt: skip
    assert set(found) == explained("simulate")
    assert found["kind"] == "closed"
    assert {(row["policy"], row["users"]) for row in found["runs"]} == {
        (policy, users) for policy in ("greedy", "foresight", "mtp-1") for users in (2, 16)
    }
    assert all(row["tokens_per_second"] > 0 for row in found["runs"])
    assert {row["policy"] for row in found["frontiers"]} == {"greedy", "foresight"}
    assert [(row["policy"], row["num_requests"]) for row in found["regrets"]] == [("greedy", 2), ("foresight", 2)]
    assert all(0.5 < row["attained"] < 1.5 for row in found["regrets"]), found["regrets"]
    with out.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 6
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_an_open_loop_on_published_rates() -> None:
    """Kills: arrivals that never come; a frontier made of rates."""
    found = document("simulate", "--rate", "50", "--slots", "8", "--scheduler", "delayed", *SMALL)
    assert found["kind"] == "open"
    assert found["frontiers"] == []
    assert {row["rate"] for row in found["runs"]} == {50.0}
    assert all(row["users"] is None and row["tokens"] > 0 for row in found["runs"])


def test_drift_of_traffic(trace: Path, tmp_path: Path) -> None:
    """Kills: a phase left out; an online calibrator that is never compared with the static one."""
    plot = tmp_path / "d.png"
    found = document(
        "simulate", "--drift", "--source", str(trace), "--steps", "60", "--users", "4", "--plot", str(plot)
    )
    assert found["kind"] == "drift"
    windows = found["windows"]
    assert {(row["policy"].split()[0], row["phase"]) for row in windows} == {
        (policy, phase) for policy in ("sts", "online") for phase in ("code", "chat", "mixed")
    }
    assert all(0 <= row["ece"] <= 1 and row["num_rounds"] > 0 for row in windows)
    assert len({row["ece"] for row in windows if row["phase"] == "chat"}) > 1
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_the_real_engine_and_its_trace(tmp_path: Path) -> None:
    """The trace replays to the run's own numbers. Kills: rounds lost from a trace; prefill seconds counted twice."""
    path = tmp_path / "real.jsonl"
    found = document(
        "simulate", "--real", "--scheduler", "fixed", "--users", "2", "--turns", "1", "--max-new-tokens", "8",
        "--capacity", "staircase", "--gamma", "3", "--trace", str(path),
    )  # fmt: skip
    assert {row["policy"] for row in found["runs"]} == {"fixed", "plain"}
    assert 3 < max(row["budget"] for row in found["runs"]) <= 4
    run = next(row for row in found["runs"] if row["policy"] == "fixed")
    again = document("replay", str(path))
    recorded = again["runs"][0]
    assert (recorded["num_rounds"], recorded["tokens"]) == (run["num_rounds"], run["decoded_tokens"])
    assert recorded["seconds"] == pytest.approx(run["step_seconds"])
    assert recorded["tau"] == pytest.approx(run["tau"])


def test_replay_under_other_policies(trace: Path) -> None:
    """Kills: a policy that decides nothing; more accepted than was recorded; an estimate that is not called one."""
    found = document(
        "replay",
        str(trace),
        "--scheduler",
        "fixed",
        "--scheduler",
        "greedy",
        "--capacity",
        "staircase:tile=8,per_tile=0.6",
    )
    assert set(found) == explained("replay")
    recorded, fixed, greedy = found["runs"]
    assert (recorded["is_estimate"], fixed["is_estimate"], greedy["is_estimate"]) == (False, True, True)
    assert fixed["accepted"] == recorded["accepted"]
    assert greedy["verified"] < fixed["verified"]
    assert greedy["accepted"] + greedy["missed"] == fixed["accepted"]
    bound = found["bound"]
    assert (bound["scheduler"], bound["calibrator"], bound["wasted"]) == ("clairvoyant", None, 0)
    assert max(fixed["tokens_per_second"], greedy["tokens_per_second"]) < bound["tokens_per_second"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--users", "4", "--rate", "9"), "give one of them"),
        (("--trace", "x.jsonl"), "--trace needs --real"),
        (("--users", "0"), "users"),
        (("--steps", "0"), "1 or more"),
        (("--regret", "0"), "--regret"),
        (("--mix", "math"), "DOMAIN=WEIGHT"),
        (("--mix", "cooking=1"), "cooking"),
        (("--scheduler", "gredy"), "greedy"),
        (("--calibrator", "sts:path=/nowhere.json"), "/nowhere.json"),
        (("--capacity", "/nowhere.json"), "/nowhere.json"),
        (("--source", "/nowhere.jsonl"), "/nowhere.jsonl"),
        (("--plot", "/nowhere/f.png"), "does not exist"),
        (("--csv", "/nowhere/f.csv"), "does not exist"),
        (("--json", "/nowhere/f.json"), "does not exist"),
    ],
)
def test_bad_input_is_one_clear_line(options: tuple[str, ...], said: str) -> None:
    """Kills: a traceback, an exit code other than 2, a message without a way out, a sweep run before it fails."""
    begun = time.monotonic()
    done = sparkit("simulate", *options)
    assert time.monotonic() - begun < 20
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert isinstance(done.exception, SystemExit), done.exception
