"""`sparkit prove` and `sparkit check`: verdicts, documents, exit codes."""

import json
from dataclasses import replace

import pytest
import torch

from sparkit.proofs import neural
from sparkit.proofs.choice import chosen
from sparkit.proofs.examples import Limits, examples
from sparkit.proofs.matrix import covering
from sparkit.proofs.prove import SCHEMA, prove
from sparkit.proofs.search import search
from sparkit.recipe import Recipe
from sparkit.sampling import SamplingParams

FIELDS = {
    "schema", "recipe", "lossless", "declared_lossless", "max_total_variation", "num_examples", "classes_run",
    "counterexample",
}  # fmt: skip


def test_a_lossless_composition_is_proved_with_the_classes_that_ran() -> None:
    """Kills: a verdict on twins alone."""
    verdict = prove(Recipe(drafter="dspark", scheduler="greedy"), num_examples=6)
    document = verdict.document()
    assert set(document) == FIELDS
    assert document["schema"] == SCHEMA
    assert document["lossless"] is True
    assert document["declared_lossless"] is True
    assert document["max_total_variation"] < 1e-12
    assert {"BlockDrafter", "MarkovHead", "ConfidenceHead", "Greedy", "Rejection"} <= set(document["classes_run"])
    assert document["counterexample"] is None


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(scheduler="lookahead"),
        Recipe(scheduler="lookahead", verifier="block"),
        Recipe(confidence="token_prob"),
        Recipe(confidence="token_prob", verifier="block"),
        Recipe(scheduler="fixed", verifier="lenient"),
    ],
    ids=["lookahead", "lookahead-block", "token_prob", "token_prob-block", "lenient"],
)
def test_a_lossy_composition_gets_a_small_counterexample(recipe: Recipe) -> None:
    """Kills: a search that does not look where the bias is; laws that are not laws."""
    document = prove(recipe, num_examples=40).document()
    assert document["lossless"] is False
    assert document["declared_lossless"] is False
    found = document["counterexample"]
    assert found["requests"] == 1
    assert len(found["target"]) == 2
    assert sum(law["target"] for law in found["laws"]) == pytest.approx(1)
    assert sum(law["measured"] for law in found["laws"]) == pytest.approx(1)
    off = sum(abs(law["target"] - law["measured"]) for law in found["laws"]) / 2
    assert off == pytest.approx(found["total_variation"])
    assert off > 1e-3


def test_the_verdict_is_what_was_measured_not_what_was_declared() -> None:
    """Kills: a verdict read off the flag: lookahead is exact on a flat curve, and anything is at temperature 0."""
    flat = prove(Recipe(scheduler="lookahead"), Limits(is_flat=True), num_examples=8)
    greedy = prove(Recipe(scheduler="lookahead"), Limits(params=SamplingParams(temperature=0.0)), num_examples=8)
    for verdict in (flat, greedy):
        assert verdict.is_lossless
        assert not verdict.declared_lossless


def test_lookahead_under_a_schedule_invariant_verifier_is_lossless_by_law_and_by_declaration() -> None:
    """Kills: the composition's flag computed part by part."""
    verdict = prove(Recipe(scheduler="lookahead", verifier="coupled"), num_examples=10)
    assert verdict.is_lossless
    assert verdict.declared_lossless


def test_a_planted_fault_in_a_neural_class_flips_the_verdict() -> None:
    """Kills: a neural run that could not fail (the drafter reports its law at another temperature)."""
    recipe = Recipe(drafter="dspark", scheduler="fixed")
    parts = chosen(recipe)
    found = search(lambda example: None, Limits(), 0)  # type: ignore[arg-type, return-value]

    class Planted:
        kind, lossless = "semi-autoregressive", True

        def __init__(self, inner) -> None:
            self.inner, self.gamma, self.feature_layers = inner, inner.gamma, inner.feature_layers

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def propose(self, anchors, decisions):
            draft = self.inner.propose(anchors, decisions)
            return replace(draft, p_draft=torch.softmax(draft.p_draft.log() / 0.7, -1))

    def planted(*args, **options):
        made = neural.parts_of(*args, **options)
        return replace(made, drafter=Planted(made.drafter))

    assert neural.examine(recipe, parts, Limits(), found).max_total_variation < 1e-12
    flipped = neural.examine(recipe, parts, Limits(), found, make=planted)
    assert flipped.max_total_variation > 1e-3
    assert "Planted" in flipped.classes_run


def test_the_row_of_worlds_holds_what_hides_a_bias() -> None:
    """Kills: a search without ties, ends, several requests or curves that fall and rise."""
    row = [world for world, _ in zip(examples(0, Limits()), range(80), strict=False)]
    confidences = [value for world in row for values in world.tables.confidence for value in values]
    assert {0, 1} <= set(confidences)
    assert {world.requests for world in row} >= {1, 2}
    assert any(world.params.top_k for world in row)
    assert any(world.params.top_p < 1 for world in row)
    assert any(world.token_budget for world in row)
    assert any(list(world.rates) != sorted(world.rates, reverse=True) for world in row)
    assert row == [world for world, _ in zip(examples(0, Limits()), range(80), strict=False)]


def test_a_covering_array_covers() -> None:
    """Kills: a pair of parts that no row tries together."""
    axes = {"a": range(5), "b": range(4), "c": range(3), "d": range(4)}
    rows = covering(axes)
    for x, y in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")):
        assert {(row[x], row[y]) for row in rows} == {(i, j) for i in axes[x] for j in axes[y]}
    assert len(rows) < 40


def test_sizes_that_no_search_could_finish_are_refused() -> None:
    """Kills: a command that never comes back."""
    with pytest.raises(ValueError, match=r"these sizes take up to .*; lower --gamma, --horizon or --requests"):
        prove(Recipe(), Limits(gamma=5, requests=3, horizon=3), num_examples=1)


def test_the_command_line(sparkit_cli, tmp_path) -> None:
    """Kills: exit codes that say the opposite; a document that is no document."""
    path = tmp_path / "prove.json"
    done = sparkit_cli("prove", "--scheduler", "lookahead", "--examples", "2", "--json", str(path))
    assert done.returncode == 1, done.stderr
    assert "LOSSY" in done.stdout
    assert json.loads(path.read_text())["lossless"] is False
    done = sparkit_cli("prove", "--drafter", "dspark", "--scheduler", "greedy", "--examples", "4", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lossless"] is True
    done = sparkit_cli("prove", "--scheduler", "gredy")
    assert done.returncode == 2
    assert "did you mean greedy" in done.stderr


def test_appendix_a_and_check_on_the_command_line(sparkit_cli) -> None:
    """Kills: the paper's example missing a scheduler; a broken law with exit code 0."""
    done = sparkit_cli("prove", "--appendix-a", "--json", "-")
    runs = {(run["scheduler"], run["verifier"]): run["law"] for run in json.loads(done.stdout)["runs"]}
    assert runs["lookahead", "rejection"] == ["17/20", "3/20"]
    assert runs["greedy", "block"] == ["7/10", "3/10"]
    done = sparkit_cli("check", "confidence", "token_prob", "--json", "-")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["schema"] == "sparkit.check/1"
    assert document["broken"][0]["law"] == "c_k ignores x_k and everything after it"
    assert sparkit_cli("check", "verifier", "nonsense").returncode == 2
