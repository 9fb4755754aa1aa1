"""Names become parts, and wrong names, values and clashes are told apart in one line each."""

import importlib.metadata
import sys
from pathlib import Path
from typing import Literal

import pytest

from sparkit.registry import Part, Registry, parse_spec


class Threshold:
    def __init__(self, value: float = 0.5, strict: bool = False, mode: Literal["soft", "hard"] = "soft") -> None:
        self.value, self.strict, self.mode = value, strict, mode


class FromFile:
    def __init__(self, path: Path, limit: int | None = None) -> None:
        self.path, self.limit = path, limit


@pytest.fixture
def registry() -> Registry[object]:
    made: Registry[object] = Registry("gadget")
    made.register("threshold", summary="cuts at a value")(Threshold)
    made.register("file", lossless=False, summary="reads a file")(FromFile)
    return made


def test_create_passes_typed_parameters(registry: Registry[object]) -> None:
    """Kills: an int handed on where a float is declared; parameters dropped."""
    part = registry.create("threshold", value=1, strict=True)
    assert isinstance(part, Threshold)
    assert (part.value, part.strict) == (1.0, True)
    assert type(part.value) is float
    made = registry.create("file", path="a/b.json")
    assert isinstance(made, FromFile)
    assert made.path == Path("a/b.json")


def test_part_carries_what_list_shows(registry: Registry[object]) -> None:
    """Kills: the lossless flag or the source lost on the way."""
    part = registry.part("file")
    assert isinstance(part, Part)
    assert (part.kind, part.lossless, part.summary) == ("gadget", False, "reads a file")
    assert part.source.endswith("test_registry:FromFile")
    assert registry.part("threshold").lossless
    assert registry.names() == ("file", "threshold")
    assert [entry.name for entry in registry.parts()] == ["file", "threshold"]


def test_unknown_name_shows_close_matches_and_all(registry: Registry[object]) -> None:
    """Kills: a bare KeyError; a message without the list."""
    with pytest.raises(LookupError, match=r"gadget 'treshold'; did you mean threshold\? known: file, threshold"):
        registry.create("treshold")
    with pytest.raises(LookupError, match=r"unknown gadget 'zzz'; known: file, threshold"):
        registry.part("zzz")


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("threshold", {"valu": 0.5}, r"gadget 'threshold' takes no 'valu'; it takes value: float = 0.5, strict: bool"),
        ("threshold", {"value": "high"}, r"gadget 'threshold' wants value as float, not 'high'"),
        ("threshold", {"value": True}, r"wants value as float, not True"),
        ("threshold", {"strict": 1}, r"wants strict as bool, not 1"),
        ("threshold", {"mode": "medium"}, r"wants mode as 'soft' or 'hard', not 'medium'"),
        ("file", {}, r"gadget 'file' needs 'path'; it takes path"),
        ("file", {"path": "x", "limit": 1.5}, r"wants limit as int or none, not 1.5"),
        ("file", {"path": "x", "limit": True}, r"wants limit as int or none, not True"),
        ("file", {"path": 7}, r"wants path as path, not 7"),
    ],
)
def test_wrong_parameters_are_named(registry: Registry[object], name: str, params: dict, message: str) -> None:
    """Kills: TypeErrors from inside a factory; a value of the wrong type let through."""
    with pytest.raises(ValueError, match=message):
        registry.create(name, **params)


def test_objects_are_no_literals(registry: Registry[object]) -> None:
    """Kills: type checks that refuse the target, a dataclass or a tensor handed over by compose."""
    marker = object()
    registry.register("wrap", summary="wraps")(lambda inner: [inner])
    assert registry.create("wrap", inner=marker) == [marker]


def test_clash_names_both_sources(registry: Registry[object]) -> None:
    """Kills: the last registration silently winning."""
    with pytest.raises(ValueError, match=r"'threshold' is taken twice: by .*:Threshold and by .*:FromFile"):
        registry.register("threshold", summary="another")(FromFile)
    registry.register("threshold", summary="reloaded")(Threshold)  # the same source again is a reload
    assert registry.part("threshold").summary == "reloaded"


def test_lossless_is_said_once(registry: Registry[object]) -> None:
    """Kills: a lossy part that `sparkit list` shows as lossless."""

    class Lossy:
        lossless = False

    with pytest.raises(
        ValueError, match=r"'lossy' is registered with lossless=True but its class says lossless = False"
    ):
        registry.register("lossy", summary="cheats")(Lossy)
    registry.register("lossy", lossless=False, summary="cheats")(Lossy)
    assert not registry.part("lossy").lossless


def write_module(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


def write_plugin(folder: Path, lines: str, dist: str = "third_party") -> None:
    info = folder / f"{dist}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sparkit.gadgets]\n{lines}\n")


PLUGIN = """
from tests.exact import test_registry
@test_registry.OUTSIDE.register("{name}", summary="from outside")
def make(size: int = 3):
    return size
"""
OUTSIDE: Registry[object] = Registry("gadget")


def test_builtin_package_is_imported_at_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: built-in parts imported with the registry (torch at `--help`)."""
    write_module(tmp_path, "builtin_gadgets", "raise ImportError('was imported')", monkeypatch)
    registry: Registry[object] = Registry("gadget", package="builtin_gadgets")
    with pytest.raises(ImportError, match="was imported"):
        registry.names()


def test_entry_points_are_listed_unread_and_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a broken plug-in that takes every other part down; plug-ins imported at start."""
    registry: Registry[object] = Registry("gadget")
    monkeypatch.setattr(sys.modules[__name__], "OUTSIDE", registry)
    monkeypatch.setitem(sys.modules, "tests.exact.test_registry", sys.modules[__name__])
    write_module(tmp_path, "good_gadget", PLUGIN.format(name="good"), monkeypatch)
    write_plugin(tmp_path, "good = good_gadget:make\nbroken = no_such_module:make\nlazy = good_gadget")
    assert registry.names() == ("broken", "good", "lazy")
    assert "good_gadget" not in sys.modules
    assert registry.create("good", size=5) == 5
    with pytest.raises(LookupError, match=r"'broken' cannot be loaded: .*no_such_module:make.*third_party"):
        registry.create("broken")
    with pytest.raises(LookupError, match=r"registered no gadget called 'lazy'; decorate"):
        registry.create("lazy")


def test_entry_point_clash_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry[object]
) -> None:
    """Kills: an installed package that silently shadows a built-in part, or another package's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin(tmp_path, "threshold = other_package:make")
    with pytest.raises(ValueError, match=r"taken twice: by .*:Threshold and by .*other_package:make of third"):
        registry.names()
    write_plugin(tmp_path, "threshold = third_package:make", dist="fourth_party")
    with pytest.raises(ValueError, match=r"taken twice: by .*_package:make .*_package:make of "):
        Registry("gadget").names()


def test_groups_follow_the_kind() -> None:
    """Kills: a group name that the design's entry points do not use."""
    assert Registry("scheduler").group == "sparkit.schedulers"
    assert Registry("confidence").group == "sparkit.confidences"
    assert not importlib.metadata.entry_points(group="sparkit.gadgets")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("greedy", ("greedy", {})),
        ("threshold:value=0.6,flag=true", ("threshold", {"value": 0.6, "flag": True})),
        ("fixed: verify_len = 3 , name = a b", ("fixed", {"verify_len": 3, "name": "a b"})),
        ("sts:path=/tmp/x.json", ("sts", {"path": "/tmp/x.json"})),
        ("sts:path='a,b=c.json',n=1e3", ("sts", {"path": "a,b=c.json", "n": 1000.0})),
        ('x:text="7",off=False,limit=none', ("x", {"text": "7", "off": False, "limit": None})),
        ("table:appendix-a", ("table", {"source": "appendix-a"})),
        ("hf:org/model", ("hf", {"source": "org/model"})),
    ],
)
def test_parse_spec_reads_typed_values(spec: str, expected: tuple[str, dict[str, object]]) -> None:
    """Kills: numbers kept as text, text read as numbers, 1 read as true."""
    name, params = parse_spec(spec)
    assert (name, params) == expected
    assert [type(value) for value in params.values()] == [type(value) for value in expected[1].values()]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no part name in ''"),
        (":value=1", "no part name"),
        ("threshold:", "nothing after the colon in 'threshold:'"),
        ("threshold:value=1,value=2", "'value' is given twice"),
        ("threshold:value=1,0.5", "cannot read '0.5'"),
        ("threshold:2x=1", "cannot read '2x=1'"),
        ("threshold:path='open", "cannot read"),
    ],
)
def test_parse_spec_says_what_it_cannot_read(spec: str, message: str) -> None:
    """Kills: a typo that is silently dropped."""
    with pytest.raises(ValueError, match=message):
        parse_spec(spec)
