"""Logits to laws, and laws to tokens, against the plain definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.sampling import SamplingParams, draw, history_of, probs, residual, total_variation

LOGITS = st.lists(st.sampled_from([-2.0, 0.0, 0.0, 0.5, 1.0, 3.0]), min_size=2, max_size=6)
LAWS = st.lists(st.sampled_from([0.0, 1.0, 1.0, 2.0, 5.0]), min_size=2, max_size=6).filter(lambda w: sum(w) > 0)


def row(values: list[float]) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def law_of(weights: list[float]) -> list[float]:
    return [w / sum(weights) for w in weights]


@given(logits=LOGITS)
def test_temperature_zero_is_one_hot_on_the_first_largest(logits: list[float]) -> None:
    """Kills: a softmax left over at temperature 0 (a wrong greedy token would be accepted)."""
    law = probs(row(logits), SamplingParams(temperature=0.0))[0].tolist()
    assert law == [1.0 if i == logits.index(max(logits)) else 0.0 for i in range(len(logits))]


@given(logits=LOGITS, temperature=st.sampled_from([0.5, 1.0, 2.0]))
def test_softmax_at_a_temperature(logits: list[float], temperature: float) -> None:
    """Kills: multiplying by the temperature."""
    expected = law_of([math.exp(x / temperature) for x in logits])
    assert probs(row(logits), SamplingParams(temperature=temperature))[0].tolist() == pytest.approx(expected, abs=1e-15)


@given(logits=LOGITS, top_k=st.integers(1, 6))
def test_top_k_keeps_the_k_largest_and_their_ties(logits: list[float], top_k: int) -> None:
    """Kills: an off-by-one in k; a law that is not renormalised."""
    law = probs(row(logits), SamplingParams(top_k=top_k))[0]
    least = sorted(logits, reverse=True)[min(top_k, len(logits)) - 1]
    assert [p > 0 for p in law.tolist()] == [x >= least for x in logits]
    assert float(law.sum()) == pytest.approx(1, abs=1e-15)


@given(logits=LOGITS, top_p=st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits: list[float], top_p: float) -> None:
    """Kills: dropping the token that crosses p, or keeping one more."""
    whole = probs(row(logits), SamplingParams())[0]
    kept = whole[probs(row(logits), SamplingParams(top_p=top_p))[0] > 0]
    assert float(kept.sum()) >= top_p - 1e-12
    assert float(kept.sum() - kept.min()) < top_p


@given(logits=LOGITS, min_p=st.sampled_from([0.0, 0.2, 0.9]))
def test_min_p_is_relative_to_the_largest(logits: list[float], min_p: float) -> None:
    """Kills: an absolute threshold."""
    whole = probs(row(logits), SamplingParams())[0]
    kept = probs(row(logits), SamplingParams(min_p=min_p))[0] > 0
    assert kept.tolist() == (whole >= min_p * whole.max()).tolist()


def test_penalties_by_hand() -> None:
    """Kills: a repetition penalty that raises negative logits, presence and frequency mixed up."""
    params = SamplingParams(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    law = probs(row([2.0, -2.0, 1.0, 0.0]), params, history_of([0], [1, 1, 2], 4))
    logits = [1.0, -4.0 - 0.5 - 0.5, 0.5 - 0.5 - 0.25, 0.0]
    assert law[0].tolist() == pytest.approx(law_of([math.exp(x) for x in logits]), abs=1e-15)


def test_bias_and_bans_come_first() -> None:
    """Kills: a banned token brought back by a filter."""
    law = probs(row([5.0, 0.0, 0.0]), SamplingParams(banned=(0,), logit_bias=((1, 1.0),)))
    assert law[0].tolist() == pytest.approx([0.0, math.e / (math.e + 1), 1 / (math.e + 1)])


def test_rows_with_different_params_are_shaped_one_by_one() -> None:
    """Kills: one request's filters on another's row."""
    logits = row([0.0, 1.0, 2.0]).expand(3, -1)
    params = [SamplingParams(), SamplingParams(temperature=0.0), SamplingParams(top_k=2)]
    together = probs(logits, params)
    assert together.tolist() == [probs(logits[:1], one)[0].tolist() for one in params]


@pytest.mark.parametrize(("dtype", "kept"), [(torch.float64, torch.float64), (torch.bfloat16, torch.float32)])
def test_precision_is_promoted_and_never_demoted(dtype: torch.dtype, kept: torch.dtype) -> None:
    """Kills: a float32 in the middle of a float64 path; bf16 arithmetic in a law."""
    logits = torch.tensor([[0.0, 1.0]], dtype=dtype)
    for params in (
        SamplingParams(),
        SamplingParams(temperature=0.0),
        SamplingParams(top_p=0.5),
        SamplingParams(top_k=1),
    ):
        assert probs(logits, params).dtype == kept
    assert residual(probs(logits, SamplingParams()), probs(-logits, SamplingParams())).dtype == kept


@given(weights=LAWS, numerator=st.integers(0, 999))
def test_a_draw_inverts_the_cumulative_sums(weights: list[float], numerator: int) -> None:
    """Kills: a token without mass; a uniform that is compared with <=."""
    law, u = law_of(weights), numerator / 1000
    token = int(draw(row(law), torch.tensor([u], dtype=torch.float64)))
    assert law[token] > 0
    assert sum(law[:token]) <= u + 1e-12
    assert sum(law[: token + 1]) > u - 1e-12


@given(weights=LAWS)
def test_the_last_uniform_gives_the_last_token_with_mass(weights: list[float]) -> None:
    """Kills: rounding past the end of the vocabulary."""
    token = int(draw(row(law_of(weights)), torch.tensor([1 - 2.0**-53], dtype=torch.float64)))
    assert token == max(i for i, w in enumerate(weights) if w > 0)
    assert weights[int(draw(row(law_of(weights)), torch.zeros(1, dtype=torch.float64)))] > 0


@given(a=LAWS, b=LAWS)
def test_residual_and_total_variation(a: list[float], b: list[float]) -> None:
    """Kills: an unhalved L1; a residual that is not the excess; nan where two laws agree."""
    size = min(len(a), len(b))
    if sum(a[:size]) == 0 or sum(b[:size]) == 0:
        return
    p, q = law_of(a[:size]), law_of(b[:size])
    off = sum(max(x - y, 0) for x, y in zip(p, q, strict=True))
    assert float(total_variation(row(p), row(q))) == pytest.approx(off, abs=1e-15)
    expected = [max(x - y, 0) / off for x, y in zip(p, q, strict=True)] if off > 1e-12 else p
    assert residual(row(p), row(q))[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", -1.0), ("temperature", math.inf), ("top_k", -1), ("top_p", 0.0), ("min_p", 1.5)],
)
def test_impossible_parameters_are_refused_by_name(field: str, value: float) -> None:
    """Kills: a filter that silently does nothing."""
    with pytest.raises(ValueError, match=f"{field}="):
        SamplingParams(**{field: value})
