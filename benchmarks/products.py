"""Which way of a product is cheaper with how many tokens: what `sparkit.targets.plain` decides by.

A linear layer by `x W^T` on an input-major matrix and by `W x^T`, over eight matrices in turn, so that none stays in
the innermost cache, and both ways by turns; then the same choice inside a whole pass of the target, which is what
counts. Medians, microseconds of a matrix and milliseconds of a pass.

    python benchmarks/products.py --out benchmarks/results/products-cpu-DATE.json
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from sparkit.cli.environment import environment
from sparkit.files import write_json
from sparkit.protocols import Span
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer
from sparkit.training.target import BUNDLED

SIZES = ((160, 896), (576, 3072))  # gate and up of the bundled target and of SmolLM2-135M
TOKENS = (1, 2, 4, 8, 16, 32, 128)
PASSES, KEYS = ((1, 1), (1, 4), (1, 8), (16, 1), (32, 1), (64, 1), (32, 8)), 120  # requests, tokens of each; cached


def medians(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Microseconds of each way, one call of each in turn."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 5):
        for name, way in ways.items():
            begun = time.perf_counter()
            way()
            if turn >= 5:
                found[name].append(1e6 * (time.perf_counter() - begun))
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def linear(inputs: int, outputs: int, tokens: int, repeats: int) -> dict[str, float]:
    """Of one matrix."""
    whole = [torch.randn(outputs, inputs) for _ in range(8)]
    turned, x = [w.t().contiguous() for w in whole], torch.randn(tokens, inputs)
    ways = {"x W^T": lambda: [x.mm(w) for w in turned], "W x^T": lambda: [w.mm(x.t()) for w in whole]}
    return {name: round(value / 8, 1) for name, value in medians(ways, repeats).items()}


def passes(requests: int, tokens: int, repeats: int) -> dict[str, float]:
    """Of twelve layers, in which gate and up take either way."""
    torch.manual_seed(0)
    target = TransformerTarget(Transformer(BUNDLED))
    cache, kept = target.new_cache(requests, 256), [layer.gate_up for layer in target.decoder.layers.layers]
    for one in kept:
        one.whole = one.matrix.t().contiguous()  # both ways, whatever this processor would choose
    for slot in range(requests):
        target.forward(torch.arange(KEYS) + 8, [Span(slot, 0, KEYS)], cache)
    spans, row = [Span(slot, KEYS, tokens) for slot in range(requests)], torch.arange(requests * tokens) % 1000

    def with_least(many: int) -> None:
        for one in kept:
            one.many = many
        target.forward(row, spans, cache)
        for slot in range(requests):
            cache.truncate(slot, KEYS)

    ways = {"x W^T": lambda: with_least(sys.maxsize), "W x^T": lambda: with_least(1)}
    return {name: round(value / 1000, 2) for name, value in medians(ways, repeats).items()}


def main() -> None:
    """Prints a line a size and writes the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    with torch.inference_mode():
        for inputs, outputs in SIZES:
            for tokens in TOKENS:
                found = linear(inputs, outputs, tokens, given.repeats)
                rows.append({"layer": f"{inputs} x {outputs}", "tokens": tokens, **found})
                print(rows[-1], flush=True)
        for requests, tokens in PASSES:
            rows.append({"requests": requests, "tokens": tokens, **passes(requests, tokens, 2 * given.repeats)})
            print(rows[-1], flush=True)
    if given.out is not None:
        write_json(given.out, {"schema": "sparkit.products/1", "environment": environment("cpu"), "rows": rows})


if __name__ == "__main__":
    main()
