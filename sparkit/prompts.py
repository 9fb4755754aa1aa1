"""Prompts to decode: the held-out ones that come with sparkit, a file of the user's, or one typed by hand.

A prompts file has one JSON object a line: {"id", "domain", "prompt"}; id and domain may be left out.

>>> len(bundled("math", 2))
2
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkit.files import parse_json

DOMAINS = ("math", "code", "chat")
BUNDLED = Path(__file__).parent / "assets" / "bundled" / "prompts.jsonl"
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prompt:
    """One text to continue."""

    id: str
    domain: str
    text: str


def read_prompts(path: Path) -> list[Prompt]:
    """All prompts of a file.

    Raises:
        ValueError: naming file and line, for a line that is not such an object, or a file that is not UTF-8.
    """
    if Path(path).stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES} bytes; split it")
    prompts = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        if line.strip():
            prompts.append(_prompt(line, f"{path}, line {number}", number))
    if not prompts:
        raise ValueError(f'{path}: holds no prompt; expected one JSON object a line: {{"prompt": "..."}}')
    return prompts


def _prompt(line: bytes, where: str, number: int) -> Prompt:
    document = parse_json(line, where)
    text = document.get("prompt") if isinstance(document, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f'{where}: expected {{"id", "domain", "prompt"}} with a text that is not empty')
    return Prompt(str(document.get("id", number)), str(document.get("domain", "custom")), text)


def bundled(domain: str, num: int | None = None) -> list[Prompt]:
    """Held-out prompts of a domain, or the same number of each for "all".

    Raises:
        ValueError: for an unknown domain, or more prompts than there are.
    """
    if domain not in (*DOMAINS, "all"):
        raise ValueError(f"domain={domain!r}: expected one of {', '.join((*DOMAINS, 'all'))}")
    if num is not None and num < 1:
        raise ValueError(f"num_prompts={num}: expected 1 or more")
    rows = read_prompts(BUNDLED)
    chosen = [[row for row in rows if row.domain == each] for each in (DOMAINS if domain == "all" else (domain,))]
    most = min(len(each) for each in chosen)
    if num is not None and num > most:
        raise ValueError(f"num_prompts={num}: there are {most} held-out prompts a domain; give --prompts FILE for more")
    return list(itertools.chain.from_iterable(each[:num] for each in chosen))


def domains_of(prompts: Sequence[Prompt]) -> list[str]:
    """Their domains, each once, in order."""
    return list(dict.fromkeys(prompt.domain for prompt in prompts))
