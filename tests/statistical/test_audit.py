"""The sequential audit: quiet on lossless runs, loud on the paper's lookahead."""

import math
from collections.abc import Callable
from dataclasses import replace
from subprocess import CompletedProcess

import pytest
import torch

from sparkit.audit import LOG_LIMIT, THETAS, Audit, factors, reading
from sparkit.compose import assemble
from sparkit.decisions import AddressedSource
from sparkit.engine import Engine, Request
from sparkit.engine.evidence import evidence
from sparkit.experiments import DomainRun, with_plain
from sparkit.proofs.examples import paper
from sparkit.proofs.twins import TwinDrafter, TwinTarget, appendix_a
from sparkit.protocols import Anchors, Span
from sparkit.recipe import Recipe
from sparkit.reports.comparison import equals_plain
from sparkit.rounds import Plan
from sparkit.sampling import SamplingParams
from sparkit.verifiers.block import Block
from sparkit.verifiers.rejection import Rejection
from tests.exact.worlds import composition


@pytest.mark.parametrize("mass", [1e-5, 0.1, 0.5, 0.7, 0.999])
def test_every_factor_has_mean_one_and_stays_above_zero(mass: float) -> None:
    """Kills: lambda with the wrong sign or denominator."""
    chosen, other = factors(True, mass), factors(False, mass)
    for a, b in zip(chosen, other, strict=True):
        assert mass * a + (1 - mass) * b == pytest.approx(1, abs=1e-12)
        assert min(a, b) > 0


def test_the_e_value_is_the_mean_of_eight_products() -> None:
    """Kills: a maximum over bets instead of their mean (not an e-value)."""
    tokens = [(True, 0.3), (True, 0.3), (False, 0.6), (True, 0.2)]
    products = [math.prod(factors(s, m)[i] for s, m in tokens) for i in range(2 * len(THETAS))]
    audit = Audit().after([s for s, _ in tokens], [m for _, m in tokens])
    assert audit.log_e_value == pytest.approx(math.log(sum(products) / len(products)))
    assert audit.num_tokens == 4


def test_masses_of_zero_and_one_say_nothing() -> None:
    """Kills: a division by zero; evidence from rounding."""
    assert Audit().after((True, False, True), (0.0, 1.0, 1.0)) == Audit()


def run(scheduler: str, verifier: str, num_tokens: int = 2000) -> tuple[Audit, int | None, int]:
    """An audited run of the extended appendix A; the tokens until it was shown lossy, if ever."""
    parts = composition(paper(), scheduler, verifier, target=TwinTarget(appendix_a(), max_positions=num_tokens + 8))
    engine = Engine(parts, gamma=2, num_slots=1)
    engine.add(Request((0,), seed=7, max_new_tokens=num_tokens))
    audit, shown, count = Audit(), None, 0
    for one in engine.stream():
        count += one.tau
        audit = audit.after(one.audit_chosen, one.audit_mass)
        shown = count if shown is None and audit.is_shown_lossy else shown
    return audit, shown, count


def test_lookahead_is_shown_lossy_within_2000_tokens() -> None:
    """Kills: an audit that looks at the wrong tokens (accepted ones only, say)."""
    audit, shown, _ = run("lookahead", "rejection")
    assert shown is not None
    assert shown <= 2000
    assert reading(audit, declared_lossless=False, schedule_invariant=False).colour == "red"


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_lossless_run_stays_green(verifier: str) -> None:
    """Kills: a factor whose mean is above 1."""
    audit, shown, _ = run("fixed", verifier, 1000)
    assert shown is None
    assert audit.num_tokens > 500
    assert reading(audit, declared_lossless=True, schedule_invariant=False).colour == "green"


def test_under_coupled_noise_the_audit_is_off_and_says_why() -> None:
    """Kills: an audit whose factor's mean is not 1."""
    audit, _, _ = run("fixed", "coupled", 100)
    assert audit.num_tokens == 0
    told = reading(audit, declared_lossless=True, schedule_invariant=True)
    assert told.log_e_value is None
    assert told.colour == "green"
    assert "plain decoding" in told.sentence
    assert reading(audit, declared_lossless=True, schedule_invariant=True, equals_plain=False).colour == "red"
    assert "equals" in reading(audit, declared_lossless=True, schedule_invariant=True, equals_plain=True).sentence


def test_compose_compares_coupled_texts_with_plain_decoding() -> None:
    """Kills: a running check that is named and never made; a comparison of a text with itself."""
    tables = Recipe(target="table:appendix-a", drafter="table", gamma=2, max_new_tokens=40, dtype="float64")
    for verifier, equal in (("coupled", True), ("rejection", False)):
        (run,) = with_plain([assemble(replace(tables, verifier=verifier, scheduler="lookahead"))])
        for one in (run, run.plain):
            assert one is not None
            number = one.engine.add(Request((0,), seed=5, max_new_tokens=40))
            for _ in one.engine.stream():
                pass
            one.domains["toy"] = DomainRun(finished=[one.engine.finished[number]])
        assert equals_plain(run) is equal
        run.plain = None
        assert equals_plain(run) is None


def test_declared_lossy_and_not_yet_shown_is_amber() -> None:
    """Kills: a green light for lookahead's first round."""
    assert reading(Audit(), declared_lossless=False, schedule_invariant=False).colour == "amber"


COST = """
import math, time
from sparkit.audit import Audit
audit, best = Audit(), math.inf
for _ in range(200):
    begun = time.perf_counter()
    audit = audit.after((True, False) * 4, (0.3, 0.6) * 4)
    best = min(best, time.perf_counter() - begun)
print(best)
"""


def test_its_cost_is_microseconds(plain_python: Callable[..., CompletedProcess[str]]) -> None:
    """Kills: an audit that is felt: 2% of a 5 ms round are 100 microseconds for a block of eight tokens."""
    assert float(plain_python(COST).stdout) < 1e-4  # without beartype, as timing bars run


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("verifier", [Rejection(), Block()], ids=["rejection", "block"])
def test_of_1000_lossless_runs_of_10000_tokens_at_most_5_exceed_1000(verifier: Rejection | Block) -> None:
    """Kills: evidence that drifts upwards. Ville: each run exceeds with probability at most 1/1000."""
    num, length, gamma = 1000, 10_000, 2
    tables = appendix_a()
    drafter, target = TwinDrafter(tables), TwinTarget(tables).lm_head
    tokens, positions = torch.zeros(num, dtype=torch.int64), torch.zeros(num, dtype=torch.int64)
    logs, peak = torch.zeros(num, 2 * len(THETAS), dtype=torch.float64), torch.zeros(num, dtype=torch.float64)
    spans = tuple(Span(r, 0, gamma) for r in range(num))
    plan = Plan(torch.full((num,), gamma))
    while int(positions.min()) < length:
        rows = AddressedSource().at(torch.arange(num), positions)
        draft = drafter.propose(Anchors(tokens, positions, spans, (SamplingParams(),) * num), rows)
        judged = torch.cat((tokens[:, None], draft.tokens), dim=1).flatten()
        p_target = torch.softmax(target(judged[:, None].double()), -1)
        verdict = verifier.verify(draft, plan, p_target, rows)
        seen = evidence(draft, plan, verdict, p_target)
        for k in range(gamma):
            audited = (k <= verdict.accepted) & (positions + k < length)
            logs = logs + torch.where(audited[:, None], _log_factors(seen.chosen[:, k], seen.mass[:, k]), 0.0)
        peak = torch.maximum(peak, logs.logsumexp(1) - math.log(2 * len(THETAS)))
        tokens, positions = verdict.next_token, positions + verdict.accepted + 1
    assert int((peak >= LOG_LIMIT).sum()) <= 5
    assert float(logs.std()) > 0.1


def _log_factors(chosen: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """`factors`, for a batch; a mass of 0 or 1 says nothing."""
    told = (mass > 1e-6) & (mass < 1 - 1e-6)
    m = torch.where(told, mass, 0.5)[:, None]
    theta = torch.tensor(THETAS, dtype=torch.float64)
    s = chosen.double()[:, None]
    both = torch.cat((1 + theta / m * (s - m), 1 - theta / (1 - m) * (s - m)), dim=1)
    return torch.where(told[:, None], both.log(), 0.0)
