"""Held-out prompts are a file of the repository, so that everybody measures on the same ones.

`write_prompts` makes the file anew.

>>> len(heldout_prompts("math", 2, seed=0, tokenizer=load_tokenizer()))
2
"""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from sparkit.training.corpus.documents import DOMAINS, Domain
from sparkit.training.corpus.draw import endless
from sparkit.training.corpus.tokenizer import BUNDLED, load_tokenizer

PROMPTS_PER_DOMAIN = 96
MIN_TOKENS, MAX_TOKENS = 20, 90


def heldout_prompts(domain: Domain, num: int, seed: int, tokenizer: Tokenizer) -> list[str]:
    """The first `num` different held-out prompts of 20 to 90 tokens."""
    prompts: dict[str, None] = {}
    for document in islice(endless(domain, "heldout", seed), 50 * num):
        if MIN_TOKENS <= len(tokenizer.encode(document.prompt).ids) <= MAX_TOKENS:
            prompts[document.prompt] = None
        if len(prompts) == num:
            return list(prompts)
    raise LookupError(f"num={num} held-out prompts of {domain}: only {len(prompts)} were found; ask for fewer.")


def _lines(tokenizer: Tokenizer, seed: int) -> Iterator[str]:
    for domain in DOMAINS:
        for index, prompt in enumerate(heldout_prompts(domain, PROMPTS_PER_DOMAIN, seed, tokenizer)):
            yield json.dumps({"id": f"{domain}-{index:03d}", "domain": domain, "prompt": prompt}) + "\n"


def write_prompts(folder: Path = BUNDLED, seed: int = 0) -> None:
    """Writes prompts.jsonl beside the tokenizer of `folder`."""
    (folder / "prompts.jsonl").write_text("".join(_lines(load_tokenizer(folder), seed)), encoding="utf-8")
