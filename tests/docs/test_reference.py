"""Every public name has a reference entry, and every page stands in the navigation."""

import pkgutil
import re
from pathlib import Path

import pytest
import yaml

import sparkit

ROOT = Path(__file__).parents[2]
PAGES = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "tutorials" / "reference").glob("*.md"))
ENTRIES = re.findall(r"^::: (sparkit\.\w+)$(\n    options: \{show_submodules: true\})?", PAGES, re.MULTILINE)


@pytest.mark.docs
@pytest.mark.parametrize("module", list(pkgutil.iter_modules(sparkit.__path__, "sparkit.")), ids=lambda m: m.name)
def test_every_module_has_an_entry(module: pkgutil.ModuleInfo) -> None:
    """Kills: a new module or family that no page shows (packages show their files by show_submodules)."""
    if module.name.endswith("__main__"):
        return
    entries = {name: bool(options) for name, options in ENTRIES}
    assert module.name in entries, f"add '::: {module.name}' to a page of tutorials/reference"
    assert entries[module.name] == module.ispkg, f"{module.name}: packages, and only they, take show_submodules: true"


def leaves(tree: object) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    values = tree.values() if isinstance(tree, dict) else tree
    return [leaf for value in values for leaf in leaves(value)]


@pytest.mark.docs
def test_navigation_and_pages_agree() -> None:
    """Kills: a page that nobody can reach; a navigation entry without a page."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = leaves(yaml.safe_load(text)["nav"])
    pages = [str(page.relative_to(ROOT / "tutorials")) for page in (ROOT / "tutorials").rglob("*.md")]
    assert sorted(navigation) == sorted(pages)
