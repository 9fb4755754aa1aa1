"""Held-out prompts are a file of the repository, so that everybody measures on the same ones.

`write_assets` makes them and the tokenizer anew: `python -c "from sparkit.training.corpus import write_assets as w; w()"`.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from sparkit.training.corpus.documents import DOMAINS, Domain
from sparkit.training.corpus.draw import endless
from sparkit.training.corpus.tokenizer import BUNDLED, save_tokenizer, train_tokenizer

PROMPTS_PER_DOMAIN = 96
MIN_TOKENS, MAX_TOKENS = 20, 90


def heldout_prompts(domain: Domain, num: int, seed: int, tokenizer: Tokenizer) -> list[str]:
    """The first `num` different held-out prompts of 20 to 90 tokens."""
    prompts: dict[str, None] = {}
    for document in endless(domain, "heldout", seed):
        if MIN_TOKENS <= len(tokenizer.encode(document.prompt).ids) <= MAX_TOKENS:
            prompts[document.prompt] = None
        if len(prompts) == num:
            break
    return list(prompts)


def _lines(tokenizer: Tokenizer, seed: int) -> Iterator[str]:
    for domain in DOMAINS:
        for index, prompt in enumerate(heldout_prompts(domain, PROMPTS_PER_DOMAIN, seed, tokenizer)):
            yield json.dumps({"id": f"{domain}-{index:03d}", "domain": domain, "prompt": prompt}) + "\n"


def write_assets(folder: Path = BUNDLED, seed: int = 0) -> None:
    """Trains the tokenizer and writes it and prompts.jsonl to `folder`."""
    tokenizer = train_tokenizer(seed=seed)
    save_tokenizer(tokenizer, folder)
    (folder / "prompts.jsonl").write_text("".join(_lines(tokenizer, seed)), encoding="utf-8")
