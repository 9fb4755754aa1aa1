"""Code is the standard library's own source, cut into pieces and chosen for regularity by measurement.

A four-million-parameter model cannot learn all of the library, and its own samples would wander. So a piece is kept
by its `repetition`: the share of its word 4-grams that stand earlier in the same piece (assertions in a row, tables,
setters, dispatch). Held-out entropy per token of a 6-gram model with a copy cache was 2.65 nats for pieces of the
top-level modules, 2.5 for idlelib, 2.0 for test, 1.8 for tkinter, 1.4 for ctypes and 0.5 for the codecs of encodings.
The mix is therefore: pieces of repetition `REGULAR` and more from everywhere; codecs, a third of all pieces; ordinary
pieces, an eighth. Few pieces, seen several times by the target, say more to it than many seen once.

The split follows the hash of the module's path, and a held-out piece whose prompt also stands in training is dropped.
Another version of Python has other pieces, an installation without the `test` package fewer; therefore the held-out
prompts are a file of the repository.
"""

import random
import re
import sysconfig
import textwrap
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from pathlib import Path

from sparkit.training.corpus.documents import Document, Split, split_of

REGULAR, ORDINARY, CODEC = 0.55, 0.35, 0.30
CODEC_SHARE, ORDINARY_SHARE = 1 / 3, 1 / 8
MAX_PER_MODULE = 100
MAX_DEFLATED = 0.50  # no piece that deflates to more of its size is repetitive; this skips most of them quickly
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
        return tuple(document for document in _chosen("heldout") if document.prompt not in trained)
    return _chosen("train")


def _chosen(split: Split) -> tuple[Document, ...]:
    """Every regular piece, with codecs and ordinary pieces in their shares; each prompt once."""
    regular: dict[str, Document] = {}
    ordinary: dict[str, Document] = {}
    codecs: dict[str, Document] = {}
    for name, document in _candidates(split):
        score = repetition(document)
        if name.startswith("encodings/") and score >= CODEC:
            codecs[document.prompt] = document
        elif score >= ORDINARY:
            (regular if score >= REGULAR else ordinary)[document.prompt] = document
    if not regular:
        raise LookupError(f"stdlib={library()} holds no Python source to learn from; use an interpreter with its Lib.")
    total = len(regular) / (1 - CODEC_SHARE - ORDINARY_SHARE)
    return (*regular.values(), *_some(codecs, total * CODEC_SHARE), *_some(ordinary, total * ORDINARY_SHARE))


def _some(pieces: dict[str, Document], num: float) -> list[Document]:
    kept = list(pieces.values())
    random.Random(0).shuffle(kept)
    return kept[: round(num)]


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


def _candidates(split: Split) -> Iterator[tuple[str, Document]]:
    """Module path and piece, for all pieces of a split that may be repetitive."""
    for path in sorted(library().rglob("*.py")):
        name = path.relative_to(library()).as_posix()
        if not _SKIPPED.search(name) and split_of(name) == split:
            pieces = [piece for piece in cut(_read(path)) if _deflated(piece.response) <= MAX_DEFLATED]
            random.Random(name).shuffle(pieces)
            yield from ((name, piece) for piece in pieces[:MAX_PER_MODULE])


def _deflated(text: str) -> float:
    return len(zlib.compress(text.encode("ascii"), 1)) / len(text)


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
