"""The command line stays light, lists what exists, and speaks in one line about a user's mistake."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import typer
from typer.testing import CliRunner

from sparkit.cli import app as application
from sparkit.cli.documents import console, write_json
from sparkit.cli.errors import sentence, spoken
from sparkit.registry import Registry

Run = Callable[..., CompletedProcess[str]]


def test_help_is_fast_and_imports_no_torch(plain_python: Run) -> None:
    """Kills: a module-level import of torch, rich or textual on the way to --help (0.6 s, best of three)."""
    code = (
        "import sys, time; start = time.perf_counter(); sys.argv = ['sparkit', '--help']\n"
        "from sparkit.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'numpy', 'textual', 'matplotlib', 'transformers', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = plain_python(code)
        seconds.append(time.perf_counter() - start)
        assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout
    assert min(seconds) < 0.6


def test_importing_sparkit_imports_nothing_heavy(plain_python: Run) -> None:
    """Kills: `import sparkit` that pulls in an optional or slow package."""
    code = "import sys, sparkit; print({'torch', 'textual', 'matplotlib', 'transformers', 'mkdocs'} & set(sys.modules))"
    assert plain_python(code).stdout.strip() == "set()"


def test_table_shows_only_existing_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a command in --help that ends in an ImportError."""
    monkeypatch.setitem(application.COMMANDS, "phantom", ("no_such_file", "Not there."))
    assert "phantom" not in application.available()
    assert "doctor" in application.available()
    for name, (source, line) in application.available().items():
        assert line.endswith("."), name
        assert application.load(name, source) is not None


def run_raising(error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple:
    def command() -> None:
        raise error

    monkeypatch.setattr(application, "load", lambda name, source: typer.main.get_command(single(command)))
    monkeypatch.setattr(sys, "argv", ["sparkit", "doctor"])
    with pytest.raises(SystemExit) as end:
        application.main()
    return end.value.code, capsys.readouterr().err


def single(command: Callable[[], None]) -> typer.Typer:
    made = typer.Typer()
    made.command()(command)
    return made


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("gamma=0 is too small:\n give 1 or more"), 2, "error: gamma=0 is too small: give 1 or more\n"),
        (LookupError("unknown drafter 'x'"), 2, "error: unknown drafter 'x'\n"),
        (
            FileNotFoundError(2, "No such file or directory", "p.jsonl"),
            2,
            "error: p.jsonl: No such file or directory\n",
        ),
        (OSError(28, "No space left on device"), 2, "error: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_mistakes_end_in_one_line(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: tracebacks for users; exit code 1 for a mistake (1 means "the answer is no")."""
    monkeypatch.delenv("SPARKIT_DEBUG", raising=False)
    assert run_raising(error, monkeypatch, capsys) == (code, line)


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a KeyError of ours shown as the user's fault; SPARKIT_DEBUG ignored."""
    with pytest.raises(KeyError), spoken():
        raise KeyError("forgotten")
    monkeypatch.setenv("SPARKIT_DEBUG", "1")
    with pytest.raises(ValueError, match="shown"), spoken():
        raise ValueError("shown")
    assert sentence(ValueError()) == "ValueError"


def test_unknown_command_suggests(sparkit_cli: Run) -> None:
    """Kills: suggestions lost because the table is lazy."""
    done = sparkit_cli("doctr")
    assert done.returncode == 2
    assert "Did you mean 'doctor'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a half-written document after a failure; NaN in JSON; the old file lost."""
    path = tmp_path / "out.json"
    write_json({"schema": "x/1", "value": None}, str(path))
    assert json.loads(path.read_text()) == {"schema": "x/1", "value": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"value": float("nan")}, str(path))

    def full_disk(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match=r"cannot write .*out.json: No space left on device"):
        write_json({"value": 2}, str(path))
    assert json.loads(path.read_text())["schema"] == "x/1"
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_people_read_stderr_when_json_takes_stdout() -> None:
    """Kills: a table in the middle of a JSON document that is piped on."""
    assert console("-").stderr
    assert not console(None).stderr
    assert not console("out.json").stderr


def test_doctor_document(sparkit_cli: Run) -> None:
    """Kills: text mixed into the JSON on standard output; a missing field."""
    done = sparkit_cli("doctor", "--json", "-")
    document = json.loads(done.stdout)
    assert document["schema"] == "sparkit.doctor/1"
    assert {"sparkit", "torch", "device_name", "cpu_count", "threads"} <= set(document["environment"])
    topics = {finding["topic"] for finding in document["findings"]}
    assert {"device", "package", "extra", "asset", "runs"} <= topics
    torch_row = next(finding for finding in document["findings"] if finding["name"] == "torch")
    assert torch_row["is_present"]
    assert torch_row["detail"] == document["environment"]["torch"]


def test_list_document(sparkit_cli: Run) -> None:
    """Kills: a lossy part without its flag; parameters dropped; a kind spelled in the plural refused."""
    document = json.loads(sparkit_cli("list", "verifiers", "--json", "-").stdout)
    assert document["schema"] == "sparkit.list/1"
    flags = {part["name"]: part["lossless"] for part in document["parts"]}
    assert flags["rejection"]
    assert not flags["lenient"]
    done = sparkit_cli("list", "gadget")
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown kind 'gadget'; known: target, drafter")


def test_list_shows_a_broken_plugin_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: one broken package that empties the whole list."""
    from sparkit.cli.list import Broken, entries

    registry: Registry[object] = Registry("gadget")
    registry.register("good", summary="works")(dict)
    monkeypatch.setattr(registry, "names", lambda: ("bad", "good"))
    bad, good = entries(registry)
    assert isinstance(bad, Broken)
    assert (bad.name, good.name) == ("bad", "good")


def test_version() -> None:
    """Kills: a version option that runs a command or prints nothing."""
    done = CliRunner().invoke(application.app, ["--version"])
    assert (done.exit_code, done.output) == (0, "sparkit 0.1.0\n")
