"""The architecture page lists every command's JSON document field by field."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "tutorials" / "architecture.md").read_text(encoding="utf-8")
ONE_GROUP = ["--drafter", "ngram", "--confidence", "position", "--calibrator", "identity", "--examples", "1"]
COMMANDS = {  # heading -> how a document is had quickly
    "doctor": ["doctor"],
    "list": ["list", "verifier"],
    "prove": ["prove", "--drafter", "ngram", "--examples", "1"],
    "prove --all": ["prove", "--all", *ONE_GROUP, "--verifier", "rejection", "--scheduler", "greedy"],
    "prove --appendix-a": ["prove", "--appendix-a"],
    "check": ["check", "verifier", "rejection"],
}


def listed(command: str) -> dict[str, str]:
    """Field -> meaning of the table under "### `sparkit COMMAND`"."""
    section = re.search(rf"^### `sparkit {command}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"the architecture page has no section on sparkit {command}"
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section[1], re.MULTILINE))


Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def answered() -> dict[tuple[str, ...], Any]:
    """Documents by command line: the pages and the entries of lists ask for the same ones."""
    return {}


@pytest.fixture
def document(sparkit_cli: Callable[..., CompletedProcess[str]], answered: dict[tuple[str, ...], Any]) -> Ask:
    def ask(*args: str) -> Any:
        if args not in answered:
            answered[args] = json.loads(sparkit_cli(*args, "--json", "-").stdout)
        return answered[args]

    return ask


@pytest.mark.docs
@pytest.mark.parametrize("command", COMMANDS)
def test_page_and_document_have_the_same_fields(command: str, document: Ask) -> None:
    """Kills: a field that the page does not explain, or explains and the document lacks."""
    found = document(*COMMANDS[command])
    assert set(listed(command)) == set(found)
    assert f"`{found['schema']}`" in listed(command)["schema"]


@pytest.mark.docs
def test_entries_of_lists_are_explained(document: Ask) -> None:
    """Kills: a new field inside a list that the page does not name."""
    part = document(*COMMANDS["list"])["parts"][0]
    assert set(part) <= set(re.findall(r"`(\w+)`", listed("list")["parts"]))
    finding = document(*COMMANDS["doctor"])["findings"][0]
    assert set(finding) <= set(re.findall(r"`(\w+)`", listed("doctor")["findings"]))


@pytest.mark.docs
def test_entries_of_proofs_are_explained(document: Ask) -> None:
    """Kills: a field of a counterexample, a run or a broken law that the page does not name."""
    lossy = document("prove", "--target", "table:appendix-a", "--scheduler", "lookahead")
    asked = {
        ("prove", "counterexample"): lossy["counterexample"],
        ("prove --all", "runs"): document(*COMMANDS["prove --all"])["runs"][0],
        ("prove --appendix-a", "runs"): document(*COMMANDS["prove --appendix-a"])["runs"][0],
        ("check", "broken"): document("check", "confidence", "token_prob")["broken"][0],
    }
    for (command, field), entry in asked.items():
        assert set(entry) <= set(re.findall(r"`(\w+)`", listed(command)[field])), command
