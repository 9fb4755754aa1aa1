"""Kind 12, metrics: a token that was not emitted is counted nowhere.

The cure of the kind: metrics, usage and streams read the same emitted tokens (`Round.tokens`, cut by
`sparkit.engine.stops`), never drafted or accepted ones; the identity below holds for every composition.
"""

from collections.abc import Sequence

import pytest

from sparkit.engine import Engine, Request
from sparkit.engine.requests import Finished
from sparkit.experiments import DomainRun
from sparkit.metrics import measure
from sparkit.protocols import SCHEDULERS
from sparkit.reports import comparison
from sparkit.rounds import Round
from sparkit.sampling import SamplingParams
from tests.drafting import GAMMA, LEANING, made
from tests.parts import parts_of, perfect
from tests.worlds import chain_target

GREEDY = SamplingParams(temperature=0.0)
TEXT = tuple(range(1, 30))
EOS = frozenset({11})


def decoded(**options: object) -> tuple[Finished, list[Round]]:
    """1 2 3 ... with a perfect drafter and gamma 5; the prefill gives 2, the rounds 3..8, 9..14, ..."""
    engine = Engine(parts_of(chain_target(30), perfect([TEXT], 30)), gamma=5, num_slots=1)
    engine.add(Request((1,), 0, params=GREEDY, **options))
    rounds = list(engine.stream())
    return engine.finished[0], rounds


def taus(rounds: Sequence[Round]) -> list[int]:
    return [one.tau for one in rounds if one.kind != "prefill"]


# ---------------------------------------------------------------------------------------------------------- B35
def test_b35_a_block_across_the_end_adds_what_was_emitted() -> None:
    """[d1, d2, EOS, d4, d5] + bonus, all matching: this round adds 3, not 6; rounds of 6 and 3: mean 4.5.

    Kills: tau from accepted + 1, which the last round would make 6.
    """
    done, rounds = decoded(max_new_tokens=25, stop_tokens=EOS)
    assert list(done.token_ids) == list(range(2, 12))
    assert taus(rounds) == [6, 3]
    assert rounds[-1].accepted == 5
    found = measure(rounds, gamma=5)
    assert found.tau == 4.5
    assert found.accepted == (5 + 3) / 2  # drafts that reached the text
    assert found.num_new_tokens == len(done.text) == 10


def test_b35_the_limit_inside_a_block() -> None:
    """Limit 8: 1 (prefill) + 6 + 1. Kills: a last round that counts what the ceiling cut away."""
    done, rounds = decoded(max_new_tokens=8)
    assert [one.tau for one in rounds] == [1, 6, 1]
    assert (len(done.text), measure(rounds, gamma=5).tau) == (8, 3.5)


@pytest.mark.parametrize("stop", sorted(range(2, 16)))
def test_b35_wherever_the_end_lies(stop: int) -> None:
    """1 + sum of rounds = tokens returned = usage. Kills: a bonus counted behind a stop at the block's last draft."""
    done, rounds = decoded(max_new_tokens=25, stop_tokens=frozenset({stop}))
    assert 1 + sum(taus(rounds)) == len(done.text) == stop - 1
    assert measure(rounds, gamma=5).num_new_tokens == len(done.text)


@pytest.mark.parametrize("scheduler", SCHEDULERS.names())
@pytest.mark.parametrize("name", ["dflash", "ngram"])
def test_b35_the_identity_in_a_batch(name: str, scheduler: str) -> None:
    """Stops, limits and cuts of eight requests in three slots. Kills: drafted tokens in a total."""
    target, drafter = made(name)
    parts = parts_of(target, drafter, scheduler=scheduler, rates=(1.0, 0.98, 0.96, 0.95, 0.5))
    engine = Engine(parts, gamma=GAMMA, num_slots=3)
    params = SamplingParams(logit_bias=LEANING)
    for n in range(8):
        engine.add(Request((n, n + 1), n, 3 + n, params, frozenset({7} if n % 2 else ())))
    rounds = list(engine.stream())
    for done in engine.results():
        own = [one for one in rounds if one.request == done.id]
        assert 1 + sum(taus(own)) == len(done.text)
        assert [t for one in own for t in one.tokens] == list(done.text)
        assert [one.stop_reason for one in own] == [None] * (len(own) - 1) + [done.stop_reason]
    usage = sum(len(done.text) for done in engine.results())
    assert measure(rounds, GAMMA).num_new_tokens == usage
    assert sum(len(one.drafted) - one.accepted for one in rounds) > 0  # a total with drafted tokens would be off


def test_b35_throughput_is_returned_tokens_over_wall_time() -> None:
    """10 tokens in 2 s: 0.2 s each, whatever was drafted. Kills: rounds x (gamma + 1) over seconds."""
    done, rounds = decoded(max_new_tokens=25, stop_tokens=EOS)
    run = DomainRun(rounds, [done], seconds=2.0)
    assert run.num_new_tokens == 10
    assert comparison._seconds_per_token(run) == 0.2
