"""Kind 5, logits processors: every verified row gets what plain decoding would get, not only the bonus row.

The cure of the kind: one function shapes draft rows, verified rows and plain rows (`sparkit.sampling.probs`), and the
verifier sees its output only. So the test looks at every row the verifier is given.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sparkit.decisions import AddressedSource
from sparkit.engine import Engine, Request
from sparkit.protocols import VERIFIERS
from sparkit.rounds import Draft, Plan
from sparkit.sampling import SamplingParams, probs
from tests.parts import ScriptedDrafter, parts_of
from tests.worlds import law_target

LAW = (0.6, 0.3, 0.1)
NO_2 = [2 / 3, 1 / 3, 0]
OPTIONS = {
    "min_p": SamplingParams(min_p=0.4),
    "top_k": SamplingParams(top_k=2),
    "top_p": SamplingParams(top_p=0.8),
    "bias": SamplingParams(logit_bias=((2, -float("inf")),)),
    "banned": SamplingParams(banned=(2,)),
}
every = pytest.mark.parametrize("option", OPTIONS)


def rows_seen(params: SamplingParams, proposed: int, verifier: str = "rejection") -> tuple[Tensor, list[Any], Engine]:
    """All rows of p_target that verification was given over one text, its rounds and its engine."""
    seen: list[Tensor] = []
    judge = VERIFIERS.create(verifier)
    verify = judge.verify
    judge.verify = lambda draft, plan, p, noise: seen.append(p) or verify(draft, plan, p, noise)
    drafter = ScriptedDrafter(lambda context, gamma: [proposed] * gamma, 3)
    engine = Engine(parts_of(law_target(LAW), drafter, verifier=judge), gamma=3, num_slots=2)
    for seed in range(2):
        engine.add(Request((0, 1), seed, 40, params))
    rounds = list(engine.stream())
    return torch.cat(seen), rounds, engine


@every
@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_b15_every_verified_row_is_filtered(option: str, verifier: str) -> None:
    """Drafter always proposes the filtered token: never accepted nor out. Kills: a short list for verified rows."""
    rows, rounds, _ = rows_seen(OPTIONS[option], 2, verifier)
    torch.testing.assert_close(rows, torch.tensor([NO_2]).double().expand(len(rows), -1))
    drafted = [one for one in rounds if one.kind == "drafted"]
    assert len(rows) == sum(1 + one.verify_len for one in drafted)
    assert {one.accepted for one in drafted} == {0}
    assert not any(token.id == 2 for one in rounds for token in one.tokens)


@every
@pytest.mark.parametrize(("proposed", "accept_rate"), [(2, 0.0), (0, 2 / 3)])
def test_b15_output_and_acceptance_rates(option: str, proposed: int, accept_rate: float) -> None:
    """30,000 rounds: 2/3, 1/3, 0 (+- 0.0082) whatever is proposed; the unfiltered law misses that band."""
    num = 30_000
    filtered = probs(torch.tensor([LAW], dtype=torch.float64).log(), OPTIONS[option])

    def shares(law: Tensor) -> tuple[list[float], float]:
        tokens = torch.full((num, 1), proposed)
        noise = AddressedSource().at(torch.arange(num), torch.zeros(num, dtype=torch.int64))
        drafted = Draft(tokens, F.one_hot(tokens, 3).double())
        found = VERIFIERS.create("rejection").verify(
            drafted, Plan(torch.ones_like(tokens[:, 0])), law.repeat(2 * num, 1), noise
        )
        first = torch.where(found.accepted > 0, tokens[:, 0], found.next_token)
        return (torch.bincount(first, minlength=3) / num).tolist(), float(found.accepted.double().mean())

    out, accepted = shares(filtered)
    assert out == pytest.approx(NO_2, abs=0.0082)
    assert out[2] == 0
    assert accepted == pytest.approx(accept_rate, abs=0.0082)
    broken, _ = shares(torch.tensor([LAW], dtype=torch.float64))
    assert broken != pytest.approx(NO_2, abs=0.0082)


def test_b15_penalties_see_the_drafts_in_front_of_them() -> None:
    """Row j of a block of 0s has 0 counted j times more. Kills: a penalty of the committed text only."""
    params = SamplingParams(frequency_penalty=0.5, presence_penalty=0.25)
    rows, rounds, _ = rows_seen(params, 0)
    one = next(one for one in rounds if one.kind == "drafted" and one.request == 0)
    first = next(r for r in rounds if r.request == 0 and r.kind == "prefill").tokens[0].id
    for j in range(1 + one.verify_len):
        counts = torch.zeros(3).double()
        counts[first] += 1
        counts[0] += j
        logits = torch.tensor(LAW).double().log() - 0.5 * counts - 0.25 * (counts > 0)
        torch.testing.assert_close(rows[j], logits.softmax(-1), atol=1e-6, rtol=0)


def test_b15_the_law_of_the_text_is_plain_decodings() -> None:
    """With coupled noise the filtered text is the plain text, token for token, penalties too."""
    for params in (*OPTIONS.values(), SamplingParams(repetition_penalty=1.5), SamplingParams(frequency_penalty=0.7)):
        _, _, engine = rows_seen(params, 0, "coupled")
        plain = Engine(parts_of(law_target(LAW), None, verifier="coupled"), gamma=1, num_slots=2)
        for seed in range(2):
            plain.add(Request((0, 1), seed, 40, params))
        list(plain.stream())
        assert [d.token_ids for d in engine.results()] == [d.token_ids for d in plain.results()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature=-1.0: expected a finite number >= 0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": -1}, "top_k=-1"),
        ({"top_p": 0.0}, "top_p=0.0: expected a number in"),
        ({"min_p": 1.5}, "min_p=1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0"),
        ({"presence_penalty": float("nan")}, "presence_penalty=nan"),
        ({"frequency_penalty": float("inf")}, "frequency_penalty=inf"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty=inf"),
        ({"logit_bias": ((0, float("nan")),)}, "logit_bias"),
        ({"logit_bias": ((-1, 1.0),)}, "logit_bias"),
        ({"banned": (-1,)}, "banned"),
    ],
)
def test_b15_a_value_that_is_no_option_is_refused(options: dict[str, Any], message: str) -> None:
    """Kills: a value that is dropped, or only crashes rounds later."""
    with pytest.raises(ValueError, match=message):
        SamplingParams(**options)


@pytest.mark.parametrize("params", [SamplingParams(banned=(3,)), SamplingParams(logit_bias=((7, 1.0),))], ids=str)
def test_b15_tokens_that_the_target_lacks_are_refused_at_the_door(params: SamplingParams) -> None:
    """Kills: an index error in the middle of everybody's batch."""
    engine = Engine(parts_of(law_target(LAW), None), gamma=1, num_slots=1)
    with pytest.raises(ValueError, match=r"logit_bias or banned name token \d: expected ids in 0\.\.2"):
        engine.add(Request((0,), 0, 3, params))


def test_b15_an_option_of_another_library_is_refused() -> None:
    """Kills: an unknown option swallowed by **kwargs."""
    with pytest.raises(TypeError, match="typical_p"):
        SamplingParams(typical_p=0.9)
