"""Coupled noise over any vocabulary, path by path: the text of a seed is its plain decoding, whatever is drafted.

For V > 2 a Gumbel draw is no single uniform, so the law is proved in two steps: every text under the real engine
equals the plain decoding of the same seed (here, for as many worlds and seeds as asked), and one draw follows p:
    P(argmax_v log p_v + G_v = i) = integral over u_i of prod_{j != i} u_i^(p_j / p_i) = p_i.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkit.engine import Engine, Parts, Request
from sparkit.proofs.examples import Example, Limits, examples
from sparkit.proofs.search import Build


@dataclass(frozen=True, slots=True)
class Difference:
    """A seed whose text is not its plain decoding."""

    example: Example
    seed: int
    text: tuple[int, ...]
    plain: tuple[int, ...]


def text_of(parts: Parts, requests: tuple[Request, ...], gamma: int) -> tuple[tuple[int, ...], ...]:
    """What the engine decodes with the composition's own hashed noise."""
    engine = Engine(parts, gamma=gamma, num_slots=len(requests), max_len=64)
    for request in requests:
        engine.add(request)
    for _ in engine.stream():
        pass
    return tuple(tuple(finished.token_ids) for finished in engine.results())


def differences(build: Build, num_worlds: int, num_tokens: int = 12, *, seed: int = 0) -> Iterator[Difference]:
    """Seeds whose text differs from their plain decoding alone, over random worlds of up to three tokens.

    Args:
        build: the composition for a world.
        num_worlds: worlds to try, a fresh seed for each request.
        num_tokens: length of a text.
        seed: of worlds and request seeds.
    """
    rng = random.Random(seed)
    for example, _ in zip(examples(seed, Limits(max_size=10**9)), range(num_worlds), strict=False):
        parts = build(example)
        requests = tuple(
            Request((r % 2,), seed=rng.getrandbits(60), max_new_tokens=num_tokens, params=example.params)
            for r in range(example.requests)
        )
        texts = text_of(parts, requests, example.gamma)
        for request, text in zip(requests, texts, strict=True):
            (plain,) = text_of(replace(parts, drafter=None), (request,), example.gamma)
            if text != plain:
                yield Difference(example, request.seed, text, plain)
