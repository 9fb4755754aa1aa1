"""More held-out prompts than come with sparkit, for measurements that need many rounds.

    python benchmarks/heldout_prompts.py --num 300 > prompts.jsonl
    sparkit compose --prompts prompts.jsonl --scheduler fixed --calibrator identity --batch 32 --trace full.jsonl

A domain with fewer prompts than asked for gives them again: a request's seed follows its place in the file, so every
copy is decoded with other noise.
"""

import argparse
import json
from itertools import cycle, islice
from typing import get_args

from sparkit.training.corpus import load_tokenizer
from sparkit.training.corpus.documents import Domain
from sparkit.training.corpus.prompts import heldout_prompts

SEED = 11  # 0 made the bundled prompts, 7 those that the temperatures are fitted on


def prompts(domain: Domain, num: int) -> list[str]:
    """`num` prompts, again from the start when there are no more different ones."""
    tokenizer, most = load_tokenizer(), num
    while most > 1:
        try:
            return list(islice(cycle(heldout_prompts(domain, most, SEED, tokenizer)), num))
        except LookupError:
            most = most * 3 // 4
    raise LookupError(f"no held-out prompt of {domain}")


def main() -> None:
    """Prints the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=300, help="of each domain")
    parser.add_argument("--domain", action="append", choices=get_args(Domain), help="several; all if not given")
    given = parser.parse_args()
    for domain in given.domain or get_args(Domain):
        for number, text in enumerate(prompts(domain, given.num)):
            print(json.dumps({"id": f"{domain}-{SEED}-{number}", "domain": domain, "prompt": text}))


if __name__ == "__main__":
    main()
