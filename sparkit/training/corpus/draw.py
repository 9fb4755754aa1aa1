"""`documents` draws the same list for the same (domain, split, num, seed), and train and heldout share no prompt."""

import random
from collections.abc import Iterator
from itertools import islice

from sparkit.training.corpus import chat, code, math
from sparkit.training.corpus.documents import SPLITS, Document

_SOURCES = {"math": math.documents, "code": code.documents, "chat": chat.documents}


def documents(domain: str, split: str, num: int, seed: int) -> list[Document]:
    """The first `num` documents of a domain.

    Code is finite: past its last piece the pieces come again. Dialogues and problems may repeat by chance only.
    """
    return list(islice(endless(domain, split, seed), num))


def endless(domain: str, split: str, seed: int) -> Iterator[Document]:
    """The documents of a domain, without end."""
    if domain not in _SOURCES:
        raise LookupError(f"domain={domain!r} is unknown; choose one of {', '.join(_SOURCES)}.")
    if split not in SPLITS:
        raise LookupError(f"split={split!r} is unknown; choose one of {', '.join(SPLITS)}.")
    return _SOURCES[domain](split, random.Random(f"{domain}/{split}/{seed}"))
