"""Code is the standard library's own source, cut into pieces and chosen for regularity by measurement.

A four-million-parameter model cannot learn all of the library, and its own samples would wander. So a piece is kept
by its `repetition`: the share of its word 4-grams that stand earlier in the same piece (assertions in a row, tables,
setters, dispatch). The mix is two thirds pieces of repetition 0.40 and more and one third ordinary ones down to 0.22;
character tables (`encodings`) give at most `MAX_PER_MODULE` pieces a module like every other module. Of the CPython
3.11 library about a fifth of the text is left: mostly `test`, then `encodings`, `lib2to3`, `idlelib`, `tkinter`.

The split follows the hash of the module's path, and a held-out piece whose prompt also stands in a training module is
dropped. An interpreter without the `test` package has fewer pieces, an interpreter of another version other ones;
therefore the held-out prompts of the bundled lane are a file of the repository.
"""

import random
import re
import sysconfig
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path

from sparkit.training.corpus.documents import Document, Split, split_of

REGULAR, ORDINARY = 0.40, 0.22
ORDINARY_SHARE = 1 / 3
MAX_PER_MODULE = 150
PROMPT_CHARS, MAX_PROMPT_LINES = 130, 8
RESPONSE_CHARS, MAX_RESPONSE_CHARS = 480, 800

_SKIPPED = re.compile(r"site-packages|lib2to3/tests/data|bad_|badsyntax|_sysconfigdata|pydoc_data")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_OPENING = re.compile(r"\s*(def|class|async def|@|import|from|with|for|if)\b|\w")


def documents(split: Split, rng: random.Random) -> Iterator[Document]:
    """Pieces of code of `split` in random order; after the last one they come again."""
    pieces = list(pool(split))
    rng.shuffle(pieces)
    return cycle(pieces)


@cache
def pool(split: Split) -> tuple[Document, ...]:
    """All chosen pieces of `split`; for the held-out ones no prompt stands in training."""
    if split == "heldout":
        trained = {document.prompt for document in pool("train")}
        return tuple(d for d in _chosen("heldout") if d.prompt not in trained)
    return _chosen("train")


def _chosen(split: Split) -> tuple[Document, ...]:
    """Every regular piece, and so many ordinary ones that they make `ORDINARY_SHARE`; each prompt once."""
    found = {document.prompt: (repetition(document), document) for document in _all_pieces(split)}
    regular = [d for score, d in found.values() if score >= REGULAR]
    ordinary = [d for score, d in found.values() if ORDINARY <= score < REGULAR]
    random.Random(0).shuffle(ordinary)
    kept = int(len(regular) * ORDINARY_SHARE / (1 - ORDINARY_SHARE))
    if not regular:
        raise LookupError(f"stdlib={library()} holds no Python source to learn from; use an interpreter with its Lib.")
    return tuple(regular + ordinary[:kept])


def library() -> Path:
    """Folder of the running interpreter's standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def repetition(document: Document) -> float:
    """Share, in [0, 1], of the response's word 4-grams that stand earlier in the prompt or the response."""
    prompt = _WORD.findall(document.prompt)
    words = prompt + _WORD.findall(document.response)
    grams = list(zip(words, words[1:], words[2:], words[3:], strict=False))
    seen = set(grams[: len(prompt)])
    repeated = 0
    for gram in grams[len(prompt) :]:
        repeated += gram in seen
        seen.add(gram)
    return repeated / max(1, len(grams) - len(prompt))


def _all_pieces(split: Split) -> Iterator[Document]:
    for path in sorted(library().rglob("*.py")):
        name = path.relative_to(library()).as_posix()
        if not _SKIPPED.search(name) and split_of(name) == split:
            pieces = list(cut(_read(path)))
            random.Random(name).shuffle(pieces)
            yield from pieces[:MAX_PER_MODULE]


def _read(path: Path) -> str:
    """The text of a plain ASCII module; other encodings are left out, one such token would be 3 bytes."""
    text = path.read_bytes()
    return text.decode("ascii").replace("\r\n", "\n").expandtabs(4) if text.isascii() else ""


def cut(source: str) -> Iterator[Document]:
    """Pieces of a module, one behind the other, each begun where a statement begins."""
    lines = source.split("\n")
    start = 0
    while start < len(lines):
        if not _OPENING.match(lines[start]):
            start += 1
            continue
        middle = _advance(lines, start, PROMPT_CHARS, start + MAX_PROMPT_LINES)
        end = _end(lines, middle)
        piece = _piece(lines, start, middle, end)
        if piece is not None:
            yield piece
        start = end


def _advance(lines: list[str], start: int, chars: int, last: int) -> int:
    """First line behind `chars` characters from `start`, at most `last`."""
    while start < min(last, len(lines)) and chars > 0:
        chars -= len(lines[start].strip()) + 4
        start += 1
    return start


def _end(lines: list[str], middle: int) -> int:
    """Line behind a response: the first blank one after `RESPONSE_CHARS`, or where `MAX_RESPONSE_CHARS` are full."""
    end = _advance(lines, middle, RESPONSE_CHARS, len(lines))
    last = _advance(lines, middle, MAX_RESPONSE_CHARS, len(lines))
    return next((line for line in range(end, last) if not lines[line].strip()), last)


def _piece(lines: list[str], start: int, middle: int, end: int) -> Document | None:
    text = textwrap.dedent("\n".join(line.rstrip() for line in lines[start:end])).split("\n")
    prompt, response = "\n".join(text[: middle - start]), "\n".join(text[middle - start :]).rstrip()
    fits = len(prompt) >= 60 and RESPONSE_CHARS * 0.8 <= len(response) <= 2 * MAX_RESPONSE_CHARS
    is_wide = max(map(len, text)) > 120
    return Document("code", prompt + "\n", response) if fits and not is_wide else None
