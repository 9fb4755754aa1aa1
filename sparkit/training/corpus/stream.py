"""A token stream is all documents of a split as one array of ids, a third of its tokens from each domain.

>>> stream = token_stream("train", num_tokens=3000, seed=0)
>>> len(stream.document(0)) == int(stream.starts[1])
True
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from sparkit.training.corpus.documents import DOMAINS, Domain, Split, render
from sparkit.training.corpus.draw import endless
from sparkit.training.corpus.tokenizer import load_tokenizer

CORPUS_VERSION = 2  # in the name of every saved stream; raise it when the generators change
_CHUNK = 512  # documents encoded at once


@dataclass(frozen=True, slots=True)
class TokenStream:
    """Documents behind each other.

    Attributes:
        ids: [T] int16 token ids; each document is USER prompt ASSISTANT response END.
        starts: [D + 1] int64, where document i begins; the last entry is T.
        response_starts: [D] int64, where the response of document i begins, behind the assistant marker.
        domains: [D] int8, index into `DOMAINS`.
    """

    ids: NDArray[np.int16]
    starts: NDArray[np.int64]
    response_starts: NDArray[np.int64]
    domains: NDArray[np.int8]

    def document(self, index: int) -> NDArray[np.int16]:
        """The ids of one document."""
        return self.ids[self.starts[index] : self.starts[index + 1]]

    def of_domain(self, domain: Domain) -> list[NDArray[np.int16]]:
        """The documents of one domain."""
        return [self.document(int(i)) for i in np.flatnonzero(self.domains == DOMAINS.index(domain))]


def token_stream(
    split: Split, num_tokens: int, seed: int, cache: Path | None = None, tokenizer: Tokenizer | None = None
) -> TokenStream:
    """At least `num_tokens` ids, as many of each domain; read from the folder `cache` if they are there.

    Args:
        split: "train" or "heldout".
        num_tokens: Ids in all; each domain ends with its first whole document past a third of them.
        seed: Of the draw; the same arguments give the same stream.
        cache: Folder of saved streams, named by corpus version, split, size, seed and tokenizer.
        tokenizer: The bundled one if not given.
    """
    tokenizer = tokenizer or load_tokenizer()
    path = (
        None
        if cache is None
        else cache / f"v{CORPUS_VERSION}-{split}-{num_tokens}-{seed}-{_fingerprint(tokenizer)}.npz"
    )
    if path is not None and path.is_file():
        return _load(path)
    stream = _build(split, num_tokens, seed, tokenizer)
    if path is not None:
        _save(stream, path)
    return stream


def _fingerprint(tokenizer: Tokenizer) -> str:
    return hashlib.blake2b(tokenizer.to_str().encode("utf-8"), digest_size=4).hexdigest()


def _build(split: Split, num_tokens: int, seed: int, tokenizer: Tokenizer) -> TokenStream:
    ids: list[int] = []
    starts, response_starts, domains = [0], [], []
    for index, domain in enumerate(DOMAINS):
        budget = len(ids) + num_tokens / len(DOMAINS)
        for prompt, response in _encoded(domain, split, seed, tokenizer):
            response_starts.append(len(ids) + len(prompt))
            ids += prompt + response
            starts.append(len(ids))
            domains.append(index)
            if len(ids) >= budget:
                break
    return TokenStream(
        np.array(ids, np.int16),
        np.array(starts, np.int64),
        np.array(response_starts, np.int64),
        np.array(domains, np.int8),
    )


def _encoded(domain: Domain, split: Split, seed: int, tokenizer: Tokenizer) -> Iterator[tuple[list[int], list[int]]]:
    source = endless(domain, split, seed)
    while True:
        texts = [render(document) for document in islice(source, _CHUNK)]
        prompts = tokenizer.encode_batch([prompt for prompt, _ in texts])
        responses = tokenizer.encode_batch([response for _, response in texts])
        yield from ((p.ids, r.ids) for p, r in zip(prompts, responses, strict=True))


def _save(stream: TokenStream, path: Path) -> None:
    """Writes under a temporary name first, so that a broken run leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.npz")
    np.savez(
        temporary,
        ids=stream.ids,
        starts=stream.starts,
        response_starts=stream.response_starts,
        domains=stream.domains,
    )
    temporary.replace(path)


def _load(path: Path) -> TokenStream:
    with np.load(path) as saved:
        return TokenStream(saved["ids"], saved["starts"], saved["response_starts"], saved["domains"])
