"""A recipe from someone else is data: every item is typed, names lead only to registered parts, and nothing is run."""

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sparkit.cli.app import load
from sparkit.recipe import Recipe


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("stop = [1]", r"stop\[0\]: expected str, found 1"),
        ('stop_tokens = ["a"]', r"stop_tokens\[0\]: expected int, found 'a'"),
        ("stop_tokens = [true]", r"stop_tokens\[0\]: expected int, found True"),
        ("logit_bias = [1]", r"logit_bias\[0\]: expected a list of at most 10000, found 1"),
        ("logit_bias = [[1, 2.0, 3.0]]", r"logit_bias\[0\]: expected 2 items"),
        ('logit_bias = [["1", 2.0]]', r"logit_bias\[0\]\[0\]: expected int, found '1'"),
        ("logit_bias = [[-1, 2.0]]", "logit_bias=.*expected pairs of a token id and a number"),
        ("ignore_eos = 1", "ignore_eos: expected bool, found 1"),
        ("temperature = true", "temperature: expected float, found True"),
        ("top_k = 1.5", "top_k: expected int, found 1.5"),
        ("gamma = 0", "gamma=0: expected 1 or more"),
        ("trace = '/tmp/x'", "unknown field 'trace'"),
        ("a" + ".a" * 50_000 + " = 1", "more than 40000 dots and brackets"),
    ],
)
def test_items_are_typed(tmp_path: Path, line: str, message: str) -> None:
    """Kills: a list whose items are taken as they come and fail in the middle of a run."""
    path = tmp_path / "r.toml"
    path.write_text(line)
    with pytest.raises(ValueError, match=message) as caught:
        Recipe.load(path)
    assert str(caught.value).startswith(str(path))


def test_good_items_come_back(tmp_path: Path) -> None:
    """Kills: a check that refuses what `save` wrote; whole numbers where a bias is wanted."""
    recipe = Recipe(stop=("a", "\n"), stop_tokens=(0, 5), logit_bias=((3, -1.5), (4, float("-inf"))), token_budget=9)
    recipe.save(tmp_path / "r.toml")
    assert Recipe.load(tmp_path / "r.toml") == recipe
    (tmp_path / "r.toml").write_text("logit_bias = [[3, 2]]")
    assert Recipe.load(tmp_path / "r.toml").logit_bias == ((3, 2.0),)


@pytest.mark.parametrize(
    "line",
    [
        'scheduler = "os:system=id"',
        'scheduler = "../../evil"',
        'scheduler = "sparkit.cli.app:main"',
        'calibrator = "sts:path=/nowhere/x.json"',
        'drafter = "__import__"',
        'target = "/nowhere/model"',
        'capacity = "/nowhere/x.json"',
        'device = "cuda:77"',
        'device = "nonsense"',
    ],
)
def test_names_lead_only_to_parts(tmp_path: Path, line: str) -> None:
    """`sparkit compose --recipe` ends with exit code 2 and one line; no program, no module, no file outside.

    Kills: a name that is imported, a path that is written, a traceback for a device that is not there.
    """
    path, events = tmp_path / "r.toml", list[str]()
    path.write_text(line)
    is_watching = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        is_write = event == "open" and isinstance(args[1], str) and bool(set(args[1]) & set("wax+"))
        if is_watching and (event in ("os.system", "subprocess.Popen", "os.exec") or is_write):
            events.append(f"{event} {args[0]}")

    sys.addaudithook(hook)
    try:
        done = CliRunner().invoke(load("compose", "sparkit.cli.compose:command"), ["--recipe", str(path)])
    finally:
        is_watching = False
    assert isinstance(done.exception, ValueError | LookupError | OSError), done.exception
    assert not isinstance(done.exception, KeyError)
    assert "\n" not in str(done.exception)
    assert [e for e in events if str(tmp_path) not in e and "__pycache__" not in e] == []
