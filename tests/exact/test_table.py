"""Table targets: appendix A to the digit, through the engine that ships; JSON files; suffix look-up."""

import json
from pathlib import Path

import pytest
import torch

from sparkit.engine import Request
from sparkit.proofs.exploration import explore
from sparkit.proofs.problem import Problem, total_variation
from sparkit.protocols import CONFIDENCES, DRAFTERS, Span
from sparkit.targets.table import TableTarget, load_table
from sparkit.targets.tables import SCHEMA
from tests.parts import parts_of, tiny_target

CYCLE = {
    "schema": SCHEMA,
    "vocab": ["a", "b", "c"],
    "target": {"": [0.2, 0.3, 0.5], "a": [0.0, 1.0, 0.0], "c a": [0.5, 0.25, 0.25]},
    "draft": [{"": [0.4, 0.3, 0.3]}, {"": [0.1, 0.1, 0.8], "b": [1, 0, 0], "a b": [0, 0, 1]}],
    "confidence": [{"": 0.75}, {"": 0.5, "a": 1, "b": 0}],
    "capacity": {"1": 2.0, "2": 1.5, "10": 1.0},
}


def saved(folder: Path, **changes: object) -> Path:
    path = folder / "tables.json"
    path.write_text(json.dumps({**CYCLE, **changes}))
    return path


def law_of(scheduler: str) -> dict[tuple[int, ...], float]:
    target = load_table("appendix-a")
    parts = parts_of(
        target,
        DRAFTERS.create("table", target=target),
        confidence=CONFIDENCES.create("table", target=target),
        scheduler=scheduler,
        rates=list(target.tables.rates.values()),
    )
    found = explore(Problem(parts, (Request((0,), seed=1, max_new_tokens=5),), gamma=2, horizon=1))
    assert not found.faults
    return found.marginal(0)


def test_appendix_a_to_the_digit():
    """Algorithm 1 keeps (7/10, 3/10), lookahead gives (17/20, 3/20): total variation 3/20 [method section 8].

    Catches any wrong number in the built-in example: a_1, c_2 after A or B, the capacity, either law.
    """
    expected = {(x, y): p * q for x, p in ((0, 0.7), (1, 0.3)) for y, q in ((0, 0.7), (1, 0.3))}
    assert total_variation(law_of("greedy"), expected) < 1e-15
    biased = {(x, y): p * q for x, p in ((0, 0.7), (1, 0.3)) for y, q in ((0, 0.85), (1, 0.15))}
    seen = law_of("lookahead")
    assert total_variation(seen, biased) < 1e-15
    assert total_variation(seen, expected) == pytest.approx(3 / 20, abs=1e-15)


def test_appendix_a_numbers():
    tables = load_table("appendix-a").tables
    rates = [tables.capacity.rounds_per_second(1, size) for size in (1, 2, 3)]
    assert rates == pytest.approx([1.0, 0.5, 0.45], abs=1e-15)
    assert tables.target[()] == (0.7, 0.3)
    assert tables.confidence[1] == {(0,): 0.9, (1,): 0.0}


def test_longest_suffix_wins(tmp_path: Path):
    """Catches a look-up that takes the shortest suffix, or reads the context from the wrong end."""
    target = load_table(str(saved(tmp_path)))
    cache = target.new_cache(2, 16)
    tokens = torch.tensor([1, 0, 2, 0, 2, 0])  # b a c a | c a
    out = target.forward(tokens, [Span(0, 0, 4), Span(1, 0, 2)], cache)
    laws = torch.tensor([[0.2, 0.3, 0.5], [0, 1, 0], [0.2, 0.3, 0.5], [0.5, 0.25, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(out.logits.softmax(-1)[:4], laws, rtol=0, atol=1e-15)
    torch.testing.assert_close(out.logits.softmax(-1)[5], laws[3], rtol=0, atol=1e-15)
    assert out.logits.dtype == torch.float64
    assert out.features.shape == (6, 0)


def test_rollback_forgets_tokens(tmp_path: Path):
    """Catches a truncate that keeps the rejected tokens: the law after a rollback is that of the kept context."""
    target = load_table(str(saved(tmp_path)))
    cache = target.new_cache(1, 16)
    target.forward(torch.tensor([2, 1, 1]), [Span(0, 0, 3)], cache)
    copy = cache.clone()
    cache.truncate(0, 1)
    out = target.forward(torch.tensor([0]), [Span(0, 1, 1)], cache, torch.tensor([0]))
    torch.testing.assert_close(out.logits.softmax(-1)[0], torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64))
    assert (cache.lengths, copy.lengths) == ([2], [3])
    with pytest.raises(ValueError, match="holds 2 tokens"):
        cache.truncate(0, 3)


def test_spans_must_continue_their_slots(tmp_path: Path):
    target = load_table(str(saved(tmp_path)))
    with pytest.raises(ValueError, match="a span starts where its slot ends"):
        target.forward(torch.tensor([0]), [Span(0, 1, 1)], target.new_cache(1, 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "other"}, 'expected an object with "schema"'),
        ({"vocab": ["a", "a", "c"]}, "two different texts"),
        ({"vocab": ["a b", "b", "c"]}, "without blanks"),
        ({"target": {"": [0.2, 0.3]}}, r"target: \[0.2, 0.3\]; expected 3 probabilities"),
        ({"target": {"": [0.2, 0.3, 0.4]}}, "sum to 1"),
        ({"target": {"x": [0.2, 0.3, 0.5]}}, "'x' in 'x' is not in the vocabulary"),
        ({"target": {}}, "expected an object of context suffixes"),
        ({"draft": []}, "0 draft tables and 2 of confidences"),
        ({"draft": {"": 1}}, "expected a list, one object a draft position"),
        ({"confidence": [{"": 0.5}, {"": 1.5}]}, r"1.5; expected a number in \[0, 1\]"),
        ({"capacity": {"0": 1.0}}, "expected an object of batch_tokens"),
        ({"capacity": {"1": -1.0}}, "expected rounds per second above 0"),
        ({"capacity": {"1": 1e-320}}, "at least 1e-300"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, changes: dict[str, object], message: str):
    path = saved(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_table(str(path))
    assert str(path) in str(caught.value)


def test_a_context_without_entry_is_an_error(tmp_path: Path):
    target = load_table(str(saved(tmp_path, target={"a": [1, 0, 0]})))
    with pytest.raises(LookupError, match="no entry for the context"):
        target.forward(torch.tensor([1]), [Span(0, 0, 1)], target.new_cache(1, 4))


def test_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match="no-such: no such file; expected 'appendix-a'"):
        load_table("no-such")


def test_other_parts_want_a_table_target():
    for registry in (DRAFTERS, CONFIDENCES):
        with pytest.raises(ValueError, match="needs a table target, not TransformerTarget"):
            registry.create("table", target=tiny_target())


def test_it_lends_no_head():
    with pytest.raises(ValueError, match="no LM head to share"):
        TableTarget(load_table().tables).lm_head(torch.zeros(1, 1, dtype=torch.float64))
