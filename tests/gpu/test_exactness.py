"""Exactness on CUDA: float32 texts follow the target's law; the bf16 drift is measured and told."""

from collections.abc import Callable
from dataclasses import asdict

import pytest
import torch

from sparkit.compose import PLAIN, Composition, assemble
from sparkit.decisions import request_seed
from sparkit.protocols import Span
from sparkit.recipe import Recipe
from tests.statistical.bundled import PROMPT, composition, counted, law, texts_of
from tests.statistical.drift import drift
from tests.statistics import assert_law

pytestmark = pytest.mark.gpu
NEAR = 1e-3
"""Two best logits this close may change places in float32."""


@pytest.mark.statistical
@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("scheduler", ["greedy", "delayed", "foresight"])
def test_float32_texts_on_cuda_follow_the_target(scheduler: str, verifier: str) -> None:
    """Kills: a kernel or a graph that mixes requests, or reads a stale cache; the law is the CPU's, in float64."""
    made = composition("dspark-markov", scheduler, verifier, device="cuda")
    assert_law(*counted(texts_of(made, 4096), law("cpu", "float64")))


def test_temperature_zero_on_cuda_is_plain_decoding_up_to_near_ties() -> None:
    """Kills: a committed token that plain decoding would not have said; only a near tie may part two texts."""
    recipe = Recipe(capacity="flat", temperature=0.0, device="cuda", max_new_tokens=64, ignore_eos=True)
    made, plain = assemble(recipe), assemble(Recipe(**{**_fields(recipe), "drafter": PLAIN}))
    texts = [_text(made, sample) for sample in range(8)]
    for text, alone in zip(texts, [_text(plain, sample) for sample in range(8)], strict=True):
        parted = next((k for k, (a, b) in enumerate(zip(text, alone, strict=True)) if a != b), None)
        if parted is not None:
            first, second = _two_best(plain, plain.encode(PROMPT) + alone[:parted])
            assert first - second < NEAR, f"token {parted}: logits {first} and {second}"


def _fields(recipe: Recipe) -> dict[str, object]:
    return {name: getattr(recipe, name) for name in recipe.__slots__}


def _text(made: Composition, sample: int) -> list[int]:
    engine = made.engine(num_slots=1)
    engine.add(made.request(made.encode(PROMPT), request_seed(3, 0, sample)))
    for _ in engine.stream():
        pass
    return list(engine.results()[0].token_ids)


def _two_best(made: Composition, context: list[int]) -> tuple[float, float]:
    target = made.parts.target
    tokens = torch.tensor(context, device=target.device)
    logits = target.forward(tokens, [Span(0, 0, len(context))], target.new_cache(1, len(context))).logits
    first, second = logits[-1].topk(2).values.tolist()
    return first, second


def test_float32_drift_on_cuda_is_rounding() -> None:
    """Kills: a block pass on CUDA that computes something else than the sequential one (TF32 left on, say)."""
    assert drift("cuda", "float32").worst < 1e-3


def test_bf16_drift_on_cuda_is_reported(record_property: Callable[[str, object], None]) -> None:
    """Kills: a bf16 run whose drift nobody looked at."""
    found = drift("cuda", "bfloat16")
    record_property("bf16_drift_cuda", asdict(found))
    print(found)
    assert 0 < found.worst < 1
