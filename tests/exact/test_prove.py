"""`sparkit prove` and `sparkit check`: verdicts, documents, exit codes."""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import pytest
import torch

from sparkit.proofs import real
from sparkit.proofs.choice import chosen
from sparkit.proofs.examples import Limits, examples
from sparkit.proofs.matrix import Group, covering, everything
from sparkit.proofs.prove import SCHEMA, joined, prove
from sparkit.proofs.reading import matrix_summary, tables_of
from sparkit.proofs.search import Finding, search
from sparkit.proofs.sweep import Report, sweep
from sparkit.protocols import SCHEDULERS
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


class Planted:
    """A drafter that reports its law at another temperature."""

    kind, lossless = "semi-autoregressive", True

    def __init__(self, inner) -> None:
        self.inner, self.gamma, self.feature_layers = inner, inner.gamma, inner.feature_layers

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def propose(self, anchors, decisions):
        draft = self.inner.propose(anchors, decisions)
        return replace(draft, p_draft=torch.softmax(draft.p_draft.log() / 0.7, -1))


def planted(*args, **options):
    made = real.parts_of(*args, **options)
    return replace(made, drafter=Planted(made.drafter))


def test_a_planted_fault_in_a_neural_class_flips_the_verdict() -> None:
    """Kills: a neural run that could not fail (the drafter reports its law at another temperature)."""
    recipe = Recipe(drafter="dspark", scheduler="fixed")
    parts = chosen(recipe)
    found = search(lambda example: None, Limits(), 0)  # type: ignore[arg-type, return-value]

    assert real.examine(recipe, parts, Limits(), found).max_total_variation < 1e-12
    flipped = real.examine(recipe, parts, Limits(), found, make=planted)
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


WORLD = {
    "schema": "sparkit.table/1",
    "vocab": ["A", "B", "C"],
    "target": {"": [0.5, 0.3, 0.2], "A B": [0.1, 0.7, 0.2]},
    "draft": [{"": [0.4, 0.4, 0.2]}, {"": [0.2, 0.3, 0.5], "A": [0.6, 0.2, 0.2]}],
    "confidence": [{"": 0.8}, {"": 0.1, "A": 0.9}],
    "capacity": {"1": 1.0, "2": 0.5, "3": 0.45},
}


def test_a_file_of_tables_is_the_world_to_prove_in(sparkit_cli, tmp_path) -> None:
    """Kills: a target that is read and then not used; a counterexample with other numbers than the file's."""
    world = tmp_path / "world.json"
    world.write_text(json.dumps(WORLD))
    document = prove(Recipe(target=str(world), drafter="table", scheduler="greedy")).document()
    assert document["lossless"] is True
    assert document["num_examples"] == 1
    assert document["classes_run"] == [
        "Greedy",
        "Identity",
        "Rejection",
        "TableTarget",
        "TableDrafter",
        "TableConfidence",
    ]
    done = sparkit_cli("prove", "--target", str(world), "--scheduler", "lookahead", "--json", "-")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["counterexample"]
    assert found["target"] == {"": ["0.5", "0.3", "0.2"], "0 1": ["0.1", "0.7", "0.2"]}
    assert found["rounds_per_second"] == pytest.approx([1.0, 0.5, 0.45])
    assert found["gamma"] == 2


def test_the_papers_world_by_name_and_targets_that_cannot_be_proved(sparkit_cli) -> None:
    """Kills: the paper's bias lost on its own tables; a model of 2048 tokens accepted; a neural drafter over tables."""
    verdict = prove(Recipe(target="table:appendix-a", drafter="table", scheduler="lookahead"), Limits(horizon=1))
    assert verdict.max_total_variation == pytest.approx(0.15, abs=1e-12)
    done = sparkit_cli("prove", "--target", "bundled")
    assert done.returncode == 2
    assert "a proof enumerates small tables" in done.stderr
    with pytest.raises(ValueError, match="--drafter dspark over tables: expected one of table, ngram, small_lm"):
        prove(Recipe(target="table:appendix-a", drafter="dspark"))


def test_a_lossy_neural_class_gets_a_counterexample_of_its_own() -> None:
    """Kills: exit 1 with nothing to look at, when the tables of the search are exact and a real class is not."""
    recipe = Recipe(drafter="dspark", scheduler="fixed")
    none = Finding(0, 0, 0.0, None)
    seen = real.examine(recipe, chosen(recipe), Limits(), none, make=planted)
    verdict = joined(recipe, chosen(recipe), none, seen)
    found = verdict.document()["counterexample"]
    assert verdict.is_lossless is False
    assert found["seed"] == 0
    assert found["target"] is None
    off = sum(abs(law["target"] - law["measured"]) for law in found["laws"]) / 2
    assert off == pytest.approx(verdict.max_total_variation)
    assert off > 1e-3
    assert len(tables_of(found)) == 2


def ngram_groups() -> list[Group]:
    return everything({"drafter": "ngram", "confidence": "position", "calibrator": "identity", "verifier": "rejection"})


def test_the_matrix_is_the_full_product() -> None:
    """Kills: a part that the matrix leaves out; a named part that is not kept fixed."""
    recipes = [recipe for group in everything() for recipe in group.recipes]
    assert len(recipes) == len(set(recipes)) == 9 * 5 * 5 * 6 * 4
    for group in everything({"drafter": "ngram", "scheduler": "threshold:value=0.6"}):
        assert {(r.drafter, r.scheduler) for r in group.recipes} == {("ngram", "threshold:value=0.6")}


def test_the_matrix_is_judged_and_an_unfinished_one_says_so() -> None:
    """Kills: a matrix that loses compositions, or calls itself complete when it was interrupted."""
    groups = ngram_groups()
    report = Report(len(groups), {}, jobs=1)
    for runs in itertools.islice(sweep(groups, 2), 3):
        report.runs.extend(runs)
    document = report.document()
    assert document["is_complete"] is False
    assert (document["num_compositions"], len(document["runs"])) == (6, 3)
    assert document["max_total_variation"] < 1e-12
    assert "not complete" in matrix_summary(document)[1]
    assert all(run["lossless"] and run["cpu_seconds"] > 0 for run in document["runs"])


PROVE_ALL = ("prove", "--all", "--drafter", "ngram", "--confidence", "head", "--calibrator", "identity")


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_the_matrix_on_the_command_line(jobs: str, sparkit_cli, tmp_path) -> None:
    """Kills: processes that never answer; lookahead called exact; an exit code for what is declared lossy."""
    path = tmp_path / "all.json"
    done = sparkit_cli(*PROVE_ALL, "--verifier", "rejection", "--examples", "2", "--jobs", jobs, "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    assert document["schema"] == "sparkit.prove-all/1"
    assert document["is_complete"] is True
    assert {run["recipe"]["scheduler"]: run["lossless"] for run in document["runs"]} == {
        name: name != "lookahead" for name in SCHEDULERS.names()
    }
    assert "6 of 6 compositions" in done.stdout


INTERRUPTED = """
import os, signal, sys
from concurrent.futures.process import BrokenProcessPool
from sparkit.proofs import prove, sweep

judged, searched = sweep.sweep, prove.search
number = getattr(signal, sys.argv[1], None)  # a process of the pool imports this file, with other arguments

def two_groups(*args):
    for index, runs in enumerate(judged(*args)):
        if index == 2:
            if number is None:
                raise BrokenProcessPool("a process died")
            os.kill(os.getpid(), number)
        yield runs

def two_worlds(*args, tell):
    def told(num):
        if num == 2:
            os.kill(os.getpid(), number)
        tell(num)
    return searched(*args, tell=told)

if __name__ == "__main__":
    from sparkit.cli.app import main
    sweep.sweep, prove.search = two_groups, two_worlds
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
    sys.argv = ["sparkit", *sys.argv[2:]]
    main()
"""


@pytest.mark.parametrize(
    ("number", "jobs", "code", "word"),
    [
        ("SIGINT", "1", 130, "interrupted"),
        ("a death", "1", 3, "a process died"),
        pytest.param("SIGTERM", "2", 130, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_a_matrix_that_ends_early_keeps_what_is_done(number: str, jobs: str, code: int, word: str, tmp_path) -> None:
    """Kills: an hour's work thrown away; a traceback; a death told as Ctrl-C; processes left behind."""
    script, path = tmp_path / "script.py", tmp_path / "all.json"
    script.write_text(INTERRUPTED)
    options = [*PROVE_ALL, "--examples", "1", "--jobs", jobs, "--json", str(path)]
    command = [sys.executable, str(script), number, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert word in done.stdout
    document = json.loads(path.read_text())
    assert document["is_complete"] is False
    assert len(document["runs"]) == 2


class Deadly(Group):
    """Ends the process that reads it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_dies_ends_the_matrix() -> None:
    """Kills: a pool that starts dying processes anew for ever, and a run that never comes back."""
    with pytest.raises(BrokenProcessPool):
        list(sweep([Deadly(())] * 3, jobs=2))


def test_an_interrupted_proof_says_so_in_one_line(plain_python) -> None:
    """Kills: a traceback from inside the engine when somebody presses Ctrl-C."""
    done = plain_python(INTERRUPTED, "SIGINT", "prove", "--drafter", "ngram")
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip().endswith("interrupted")
    assert "Traceback" not in done.stderr
