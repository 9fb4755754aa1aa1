"""A trace comes back as it was written, and a file from a stranger is data or is refused in one line."""

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkit.engine import Engine, Request
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Round
from sparkit.traces import SCHEMA, Trace, TraceHeader, read_trace, to_line, write_trace
from tests.drafting import GAMMA, WARM, Pausing, made
from tests.parts import parts_of

HEADER = TraceHeader(
    {"drafter": "dspark", "temperature": 1.0}, 3, {0: {"prompt": "a\n\u20ac", "seed": 1}}, {0: "\x00", 7: "\u00e9"}
)


@cache
def run_of(name: str = "dspark") -> tuple[Round, ...]:
    """Prefill, drafted and undrafted rounds, cuts, a stop, top tokens."""
    target, drafter = made(name)
    pausing = Pausing(SCHEDULERS.create("greedy"), (True, True, False))
    parts = parts_of(target, drafter, scheduler=pausing, confidence="max_prob", rates=(1.0, 0.9, 0.5))
    engine = Engine(parts, gamma=GAMMA, num_slots=3, top_tokens=4)
    for n in range(4):
        engine.add(Request((1 + n, 2), n, 9, WARM, frozenset({n})))
    return tuple(engine.stream())


def same(one: object, other: object) -> bool:
    """Equal to the last bit, nan being itself."""
    return repr(one) == repr(other)


def written(path: Path, rounds: Sequence[Round], header: TraceHeader = HEADER) -> Path:
    write_trace(path, header, rounds)
    return path


# ------------------------------------------------------------------------------------------- there and back
@pytest.mark.parametrize("name", ["dspark", "ngram"])
def test_a_run_comes_back(name: str, tmp_path: Path) -> None:
    """Every field of every kind of round, infinite logits (ngram's certainty) too.

    Kills: an infinity that JSON lacks, floats cut to some digits, a tuple or an integer key that stays text.
    """
    rounds = run_of(name)
    assert {one.kind for one in rounds} == {"prefill", "drafted", "undrafted"}
    assert any(one.top for one in rounds)
    if name == "ngram":
        assert any(math.isinf(value) for one in rounds for value in one.logits)
    read = read_trace(written(tmp_path / "t.jsonl", rounds))
    assert same(read, Trace(HEADER, rounds))


floats = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=3).map(tuple)
changes = st.fixed_dictionaries(
    {"p_draft": floats, "logits": floats, "audit_mass": floats, "step": st.integers(), "is_probe": st.booleans()}
)


@given(
    fields=st.lists(changes, max_size=3),
    pieces=st.dictionaries(st.integers(0, 2**40), st.text(max_size=3), max_size=2),
)
def test_any_values_come_back(
    fields: list[dict[str, Any]], pieces: dict[int, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kills: a value of the right type that cannot be written or read."""
    rounds = tuple(dataclasses.replace(run_of()[2], **one) for one in fields)
    path = written(tmp_path_factory.mktemp("trace") / "t.jsonl", rounds, TraceHeader({}, 3, {}, pieces))
    assert same(read_trace(path), Trace(TraceHeader({}, 3, {}, pieces), rounds))


def test_a_failed_write_leaves_the_old_trace(tmp_path: Path) -> None:
    """Kills: a half-written trace under the final name; a temporary file left behind."""
    rounds = run_of()
    path = written(tmp_path / "t.jsonl", rounds[:2])
    before = path.read_bytes()

    def failing() -> Any:
        yield rounds[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_trace(path, HEADER, failing())
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        write_trace(tmp_path / "no" / "t.jsonl", HEADER, rounds)


# ------------------------------------------------------------------------------------------- cut off
def test_a_cut_anywhere_gives_the_whole_lines_before_it(tmp_path: Path) -> None:
    """A full disk or a killed run. Kills: a half line read, a whole one dropped, a cut that is not told."""
    rounds = run_of()[:4]
    path = written(tmp_path / "t.jsonl", rounds)
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for size in {*range(ends[2] - 3, ends[2] + 4), *range(ends[0], len(data), 97)}:
        path.write_bytes(data[:size])
        read = read_trace(path)
        whole = sum(end <= size for end in ends) - 1
        assert same(read.rounds, tuple(rounds[:whole])), size
        assert read.is_cut == (size not in ends)


def test_a_cut_in_the_first_line_is_no_trace(tmp_path: Path) -> None:
    """Kills: an empty trace made of half a header."""
    path = written(tmp_path / "t.jsonl", [])
    data = path.read_bytes()
    for size in range(0, len(data) - 1, 7):
        path.write_bytes(data[:size])
        assert refused(path).startswith(f"{path}, line 1: ")


# ------------------------------------------------------------------------------------------- foreign
def refused(path: Path) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        read_trace(path)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 300 + len(str(path))
    return line


def header(**fields: Any) -> bytes:
    """A header's line with some fields replaced."""
    return to_line({"schema": SCHEMA, "recipe": {}, "gamma": 3, "requests": {}, "pieces": {}, **fields})


def changed(**fields: Any) -> bytes:
    """A good round's line with some fields replaced (Ellipsis: left out)."""
    round_ = json.loads(to_line(run_of()[2]))
    return to_line({key: value for key, value in {**round_, **fields}.items() if value is not ...})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "not JSON"),
        (b"\x00\xff\xfe", "not JSON"),
        (b"PK\x03\x04", "not JSON"),
        (b"[" * 100_000, "nested"),
        (b"[1, 2]", f"expected a trace of schema {SCHEMA!r}"),
        (b'{"schema": "sparkit.recipe/1"}', "expected a trace of schema"),
        (b'{"schema": "sparkit.trace/2"}', "found 'sparkit.trace/2'"),
        (to_line({"schema": SCHEMA}), "the field 'recipe' is missing"),
        (header(recipe=[]), "recipe: expected an object"),
        (header(gamma="3"), "gamma: expected a int"),
        (header(requests={"x": {}}), "an integer key"),
        (header(requests={"\u00b2": {}}), "an integer key"),
        (header(x=1), "unknown field 'x'"),
    ],
    ids=range(13),
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, line: bytes, message: str) -> None:
    """Kills: a KeyError, a recursion, a huge read, an error without file and line."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(line)
    found = refused(path)
    assert found.startswith(f"{path}, line 1")
    assert message in found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "magic"}, "kind: expected one of 'prefill', 'drafted', 'undrafted'"),
        ({"step": 1.5}, "step: expected a int, found '1.5'"),
        ({"step": True}, "step: expected a int"),
        ({"is_probe": 0}, "is_probe: expected a bool"),
        ({"p_draft": "0.5"}, "p_draft: expected a list"),
        ({"p_draft": [10**400]}, "a whole number of 401 digits, beyond float64"),
        ({"confidence": [[]]}, "confidence: expected a number"),
        ({"tokens": [{"id": 1, "origin": "guess"}]}, "origin: expected one of"),
        ({"tokens": [{"id": 1}]}, "the field 'origin' is missing"),
        ({"seconds": 3}, "seconds: expected an object (Seconds)"),
        ({"top": [{"draft": [[1]], "target": None, "residual": None}]}, "expected 2 items"),
        ({"verify_len": ...}, "the field 'verify_len' is missing"),
        ({"__class__": "os.system"}, "unknown field '__class__'"),
        ({"x" * 10_000: 1}, "unknown field 'xxx"),
        ({"stop_reason": ["a"] * 10_000}, "stop_reason: expected a str"),
    ],
    ids=range(15),
)
def test_other_rounds_are_refused(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    """Kills: a field taken as it comes, an OverflowError, a stranger's megabyte in an error message."""
    path = written(tmp_path / "t.jsonl", run_of()[:2])
    path.write_bytes(path.read_bytes() + changed(**fields))
    found = refused(path)
    assert found.startswith(f"{path}, line 4")
    assert message in found


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    """Kills: a gigabyte read because no newline came."""
    path = written(tmp_path / "t.jsonl", [])
    with path.open("ab") as out:
        out.write(b" " * (5 * 1024 * 1024))
    assert "line 2: longer than" in refused(path)


def test_a_trace_executes_nothing(tmp_path: Path, plain_python: Callable[..., CompletedProcess[str]]) -> None:
    """Names of modules, functions and files in every text of a trace: reading it compiles, imports and runs nothing.

    Kills: eval, pickle, importlib or a part looked up while reading. The control: `json.loads` replaced by `eval`.
    """
    evil = "__import__('os').system('touch evil')"
    header = TraceHeader({evil: evil, "target": "evil.py", "__reduce__": [evil]}, 3, {0: {"prompt": evil}}, {0: evil})
    path = written(tmp_path / "evil.jsonl", run_of(), header)
    code = (
        "import sys, json, builtins\n"
        "from pathlib import Path\n"
        "from sparkit.traces import read_trace\n"
        "path, events = Path(sys.argv[1]), []\n"
        "read_trace(path)\n"  # codecs and re are loaded once
        "watched = ('exec', 'compile', 'import', 'os.system', 'subprocess.Popen', 'pickle.find_class')\n"
        "sys.addaudithook(lambda event, args: events.append(event) if event in watched else None)\n"
        "trace = read_trace(path)\n"
        "assert not events, events\n"
        "assert any('touch evil' in key for key in trace.header.recipe)\n"
        "json.loads = lambda data: eval(data, {'null': None, 'true': True, 'false': False})\n"
        "read_trace(path)\n"
        "assert 'compile' in events or 'exec' in events, events\n"
    )
    done = plain_python(code, str(path))
    assert done.returncode == 0, done.stderr
    assert not Path("evil").exists()
