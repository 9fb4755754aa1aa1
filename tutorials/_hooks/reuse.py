"""A page whose blocks and library have not changed is not executed again (design, section 9).

The built page is kept in .cache/pages under the hash of its text and of all of sparkit's source. A page found there is
rendered without its blocks (for the table of contents and the links' check), then replaced by what was kept.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".cache" / "pages"
BLOCK = re.compile(r"^```python exec=.*?^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Drop the blocks of a page that is kept."""
    if BLOCK.search(markdown) is None:
        return markdown
    page.meta["kept"] = KEPT / f"{_digest(markdown)}.html"
    return BLOCK.sub("", markdown) if page.meta["kept"].exists() else markdown


def on_page_content(content: str, page: Any, **_: object) -> str:
    """Bring back the kept page, or keep this one unless a block failed."""
    kept = page.meta.pop("kept", None)
    if kept is None:
        return content
    if kept.exists():
        return str(kept.read_text(encoding="utf-8"))
    if "Traceback (most recent call last)" not in content:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(content, encoding="utf-8")
    return content


def _digest(markdown: str) -> str:
    digest = hashlib.sha256(markdown.encode())
    for source in sorted([*(ROOT / "sparkit").rglob("*.py"), *(ROOT / "tutorials" / "_hooks").glob("*.py")]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]
