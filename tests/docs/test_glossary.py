"""The glossary's names are the code's names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def names(row: str) -> list[str]:
    """The identifiers of a row's second cell: `capacity.rounds_per_second(...)` gives both words."""
    cell = row.split("|")[2]
    code = [re.sub(r"\(.*|\[.*|:.*", "", text) for text in re.findall(r"`([^`]+)`", cell)]
    return [name for text in code for name in text.split(".")]


def rows() -> list[str]:
    page = (ROOT / "tutorials" / "glossary.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("|")]
    return [row for row in table[2:] if row.count("|") >= 4]


SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "sparkit").rglob("*.py"))


@pytest.mark.docs
@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[2].strip()[:40])
def test_every_name_exists_in_the_code(row: str) -> None:
    """Kills: a renamed idea whose old name lives on in the page, or the other way round."""
    missing = [name for name in names(row) if re.search(rf"\b{name}\b", SOURCE) is None]
    assert names(row)
    assert not missing, f"the glossary names {missing}, which no file of sparkit/ has"


@pytest.mark.docs
@pytest.mark.parametrize("name", ["block_size", "draft_len", "acceptance_rate"])
def test_names_that_the_glossary_forbids_are_absent(name: str) -> None:
    """Kills: the other projects' names creeping in (foreign checkpoint keys are spelled in quotes)."""
    bare = re.findall(rf"(?<![\"'\w]){name}(?![\"'\w])", SOURCE)
    assert not bare, f"{name} stands in sparkit/ outside quotes"
