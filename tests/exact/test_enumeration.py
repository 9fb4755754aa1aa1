"""The exact laws of compositions, from the engine that ships."""

from fractions import Fraction

import pytest
import torch

from sparkit.decisions import Purpose
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.blame import PartError
from sparkit.proofs.enumeration import Enumerated
from sparkit.proofs.examples import Example, paper
from sparkit.proofs.exploration import explore
from sparkit.proofs.laws.scheduler import check_scheduler
from sparkit.proofs.paper import paper_row, thetas
from sparkit.proofs.paths import COUPLED
from sparkit.proofs.problem import Problem, total_variation
from sparkit.proofs.rational import explore_rational
from sparkit.proofs.search import EXACT, measure, plain_law
from sparkit.proofs.twins import Tables
from sparkit.protocols import SCHEDULERS
from tests.exact.worlds import AlwaysAll, CrossLooking, TakingTurns, composition, paper_problem, skewed

THREE = [("greedy", "rejection"), ("delayed", "block"), ("lookahead", "coupled")]


def off(problem: Problem) -> float:
    return total_variation(explore_batched(problem).probability, plain_law(problem))


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize("scheduler", ["fixed", "threshold", "greedy", "delayed", "foresight"])
def test_appendix_a_in_fractions(scheduler: str, verifier: str) -> None:
    """Kills: any bias of a lossless composition, however small: the law is compared as fractions."""
    row = paper_row(scheduler, verifier)
    assert row.law == (Fraction(7, 10), Fraction(3, 10))
    assert not row.faults


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_lookahead_is_the_papers_bias(verifier: str) -> None:
    """Kills: a lookahead that stops early, which would hide what the paper warns of."""
    assert paper_row("lookahead", verifier).law == (Fraction(17, 20), Fraction(3, 20))


def test_the_papers_throughputs() -> None:
    """Kills: Theta without the bonus, or survival instead of its sum."""
    assert thetas(0.9) == pytest.approx((1.0, 0.9, 1.134), abs=1e-15)
    assert thetas(0.0) == pytest.approx((1.0, 0.9), abs=1e-15)


@pytest.mark.parametrize("scheduler", SCHEDULERS.names())
def test_coupled_is_exact_under_every_scheduler(scheduler: str) -> None:
    """Kills: noise that is not shared between draft and target, or between rounds."""
    assert off(paper_problem(horizon=3, scheduler=scheduler, verifier="coupled")) < EXACT


@pytest.mark.parametrize(("scheduler", "verifier"), THREE)
def test_merging_changes_nothing(scheduler: str, verifier: str) -> None:
    """Kills: a state key that forgets a memory or a live interval."""
    problem = paper_problem(horizon=2, spare=0, scheduler=scheduler, verifier=verifier)
    unmerged = Problem(problem.parts, problem.requests, problem.gamma, problem.horizon, merge=False)
    merged, apart = explore_batched(problem), explore_batched(unmerged)
    assert total_variation(merged.probability, apart.probability) < 1e-15
    assert merged.num_states < apart.num_states or verifier == "coupled"  # its intervals tell most states apart


@pytest.mark.parametrize(("scheduler", "verifier"), THREE)
@pytest.mark.parametrize("requests", [1, 2])
def test_worlds_side_by_side_have_the_law_of_worlds_alone(scheduler: str, verifier: str, requests: int) -> None:
    """Kills: a wrapper that mixes worlds, loses a memory, or miscounts a step."""
    problem = paper_problem(horizon=1, spare=1, requests=requests, scheduler=scheduler, verifier=verifier)
    batched, alone = explore_batched(problem), explore(problem)
    assert total_variation(batched.probability, alone.probability) < 1e-15
    assert (batched.num_paths, batched.num_states) == (alone.num_paths, alone.num_states)


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_requests_that_rest_beside_drafting_ones_keep_the_law(verifier: str) -> None:
    """Kills: rows of the resting counted among the judged, a token given to the wrong request, features lost."""
    asked = paper_problem(horizon=2, spare=1, requests=2).requests
    problem = Problem(composition(Example(skewed(), (1.0, 0.5, 0.45)), TakingTurns(), verifier), asked, 2, 2)
    batched, alone = explore_batched(problem), explore(problem)
    assert total_variation(batched.probability, plain_law(problem)) < EXACT
    assert total_variation(batched.probability, alone.probability) < 1e-15
    assert (batched.num_paths, batched.num_states) == (alone.num_paths, alone.num_states)


def test_every_decision_of_the_engine_is_the_fractions_decision() -> None:
    """Kills: an engine law 1e-13 off (the oracle compares each at 1e-14 and calls it a fault)."""
    tables = skewed()
    example = Example(tables, (1.0, 0.5, 0.45))
    for rule in ("rejection", "block"):
        problem = Problem(composition(example, "greedy", rule), paper_problem().requests, 2, 2)
        law = explore_rational(problem, tables, rule)
        assert law.faults == ()
        assert sum(law.probability.values()) == 1
        assert all(isinstance(p, Fraction) for p in law.probability.values())


def test_requests_scheduled_together_have_the_product_law() -> None:
    """Kills: shared uniforms between requests; a plan that couples them."""
    assert off(paper_problem(horizon=1, requests=2, scheduler="greedy")) < EXACT
    tables = skewed()
    short = Tables(tables.target, tables.draft[:1], tables.confidence[:1])
    parts = composition(Example(short, (1.0, 0.9, 0.8, 0.5)), "delayed")
    assert off(Problem(parts, paper_problem(requests=3, horizon=0, spare=1).requests, 1, 1)) < EXACT


def test_cross_looking_requests_keep_their_marginals_and_are_caught() -> None:
    """Kills: testing marginals only, and testing one request at a time for anticipation."""
    problem = paper_problem(horizon=1, requests=2, scheduler=CrossLooking())
    law, plain = explore_batched(problem), plain_law(problem)
    for request in (0, 1):
        alone: dict[tuple[int, ...], float] = {}
        for outcome, p in plain.items():
            alone[outcome[request]] = alone.get(outcome[request], 0.0) + float(p)
        assert total_variation(law.marginal(request), alone) < EXACT
    assert total_variation(law.probability, plain) > 1e-3
    broken = [one.law for one in check_scheduler(CrossLooking()).broken]
    assert "the whole plan does not look past its cut" in broken


def question(source: Enumerated, p: list[float], offset: int = 1) -> int:
    rows = source.at(torch.tensor([1]), torch.tensor([4]))
    return int(rows.draw(torch.tensor([p], dtype=torch.float64), Purpose.DRAFT, offset))


def test_a_repeated_question_refines() -> None:
    """Kills: branching afresh on an address whose uniform is known."""
    source = Enumerated()
    path = source.begin((1,), {}, {1: 4})
    assert [question(source, [0.3, 0.7]), question(source, [0.3, 0.7])] == [1, 1]
    assert path.probability == pytest.approx(0.7)
    assert path.options == [2]
    assert path.faults == []


def test_two_decisions_at_one_address_are_a_fault() -> None:
    """Kills: silence about re-used noise."""
    source = Enumerated()
    path = source.begin((), {}, {1: 4})
    question(source, [0.3, 0.7]), question(source, [0.6, 0.4])
    assert path.faults == ["two decisions ask for the uniform of (seed 1, anchor 4, draft 1)"]


def test_an_address_of_the_past_is_a_fault() -> None:
    """Kills: an engine that binds decisions to an old anchor."""
    source = Enumerated()
    path = source.begin((), {}, {1: 5})
    question(source, [0.3, 0.7])
    assert path.faults == ["the uniform of (seed 1, anchor 4, draft 1) is asked for after its round"]


def test_too_many_branches_are_refused_before_anything_runs() -> None:
    """Kills: a proof that never ends."""
    problem = Problem(paper_problem().parts, paper_problem(requests=2).requests, 2, 40)
    with pytest.raises(ValueError, match=r"2 requests, V=2, gamma=2, horizon=40: up to .* branches.*try 2 requests"):
        explore_batched(problem)


def test_coupled_noise_over_three_tokens_is_refused() -> None:
    """Kills: enumerating a Gumbel draw as if it inverted a CDF."""
    law = torch.tensor([[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match=r"coupled noise over 3 tokens.*pathwise"):
        Enumerated(COUPLED).at(torch.tensor([1]), torch.tensor([4])).draw(law, Purpose.PLAIN, 1)


def test_requests_need_seeds_of_their_own() -> None:
    """Kills: two requests with shared noise, whose joint law is no product."""
    problem = paper_problem(requests=2)
    same = (problem.requests[0],) * 2
    with pytest.raises(ValueError, match="seed of its own"):
        explore_batched(Problem(problem.parts, same, 2, 1))


class Raising(AlwaysAll):
    """Planted: divides by zero."""

    def plan(self, survival, capacity, limits, memory):
        return 1 // 0, None


@pytest.mark.parametrize("run", [explore, explore_batched])
def test_a_part_that_raises_is_named_with_its_input(run) -> None:
    """Kills: a traceback from inside the engine for a third party's mistake."""
    with pytest.raises(PartError, match=r"Raising.plan raised ZeroDivisionError.*survival=\[\["):
        run(paper_problem(scheduler=Raising()))


def test_stops_and_limits_are_inside_the_law() -> None:
    """Kills: a stop token that changes the law of what comes before it."""
    from sparkit.engine import Request

    parts = composition(paper(), "greedy", "rejection")
    requests = (Request((0,), seed=0, max_new_tokens=4, stop_tokens=frozenset({1})),)
    problem = Problem(parts, requests, 2, 3)
    law = explore_batched(problem)
    assert total_variation(law.probability, plain_law(problem)) < EXACT
    assert law.probability[((1,),)] == pytest.approx(0.3)
    assert measure(paper(), lambda e: composition(e, "greedy", "rejection")).is_exact
