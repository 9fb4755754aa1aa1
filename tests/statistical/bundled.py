"""The bundled target's own law of its first tokens, and texts decoded by compositions of bundled models.

Two tokens stay at every position (top_k 2, temperature 1.3), so the law of the first four tokens is a tree of sixteen
texts, known from plain forward passes.
"""

from collections import Counter
from functools import cache

import torch

from sparkit.compose import Composition, assemble
from sparkit.decisions import request_seed
from sparkit.protocols import Span
from sparkit.recipe import Recipe
from sparkit.sampling import probs

PROMPT = "How do I bake bread for my sister?"
NUM_TOKENS = 4
SLOTS = 64
Text = tuple[int, ...]


def composition(
    drafter: str, scheduler: str, verifier: str, device: str = "cpu", dtype: str = "float32"
) -> Composition:
    """Bundled models on a curve with steps, so that a scheduler really cuts."""
    stairs = "staircase:base=4.0,draft=0.5"
    name, _, head = drafter.partition("-")
    recipe = Recipe(
        drafter=name, head=head or None, scheduler=scheduler, verifier=verifier, capacity=stairs,
        temperature=1.3, top_k=2, max_new_tokens=NUM_TOKENS, ignore_eos=True, batch=SLOTS, device=device, dtype=dtype,
    )  # fmt: skip
    return assemble(recipe)


def texts_of(made: Composition, num: int) -> list[Text]:
    """Texts of requests with seeds of their own."""
    engine, prompt = made.engine(), made.encode(PROMPT)
    with torch.inference_mode():
        for sample in range(num):
            engine.add(made.request(prompt, request_seed(11, 0, sample)))
        for _ in engine.stream():
            pass
    return [tuple(one.token_ids) for one in engine.results()]


@cache
def law(device: str = "cpu", dtype: str = "float32") -> dict[Text, float]:
    """Of every text of `NUM_TOKENS` tokens, by plain forward passes over whole contexts."""
    made = composition("dspark-markov", "greedy", "rejection", device, dtype)
    prompt, found = made.encode(PROMPT), {(): 1.0}
    for _ in range(NUM_TOKENS):
        contexts = [prompt + list(text) for text in found]
        laws = _laws(made, contexts)
        found = {
            (*text, token): chance * float(row[token])
            for (text, chance), row in zip(found.items(), laws, strict=True)
            for token in row.nonzero()[:, 0].tolist()
        }
    return found


def _laws(made: Composition, contexts: list[list[int]]) -> torch.Tensor:
    target, width = made.parts.target, len(contexts[0])
    cache_ = target.new_cache(len(contexts), width)
    spans = [Span(slot, 0, width) for slot in range(len(contexts))]
    tokens = torch.tensor(contexts, device=target.device).flatten()
    last = torch.arange(1, len(contexts) + 1, device=target.device) * width - 1
    return probs(target.forward(tokens, spans, cache_, last).logits, made.recipe.sampling()).double().cpu()


def counted(texts: list[Text], expected: dict[Text, float]) -> tuple[list[int], list[float]]:
    """Counts beside the law; a text that the law does not have is counted in a cell without mass."""
    counts = Counter(texts)
    strays = sum(n for text, n in counts.items() if text not in expected)
    return [*(counts[text] for text in expected), strays], [*expected.values(), 0.0]
