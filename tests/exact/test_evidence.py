"""What a step tells of every request, against the same told request by request, position by position."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.engine.evidence import evidence
from sparkit.rounds import Draft, Plan, Verdict

GAMMA, VOCAB = 3, 5


def _laws(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, VOCAB, generator=generator, dtype=torch.float64).softmax(-1)


@given(lens=st.lists(st.integers(0, GAMMA), min_size=1, max_size=4), data=st.data())
def test_evidence_is_what_each_request_would_tell_alone(lens: list[int], data: st.DataObject) -> None:
    """Kills: p_target at the committed, not the proposed token, a neighbour's rows, a position too few or many."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))
    kept = [data.draw(st.integers(0, n)) for n in lens]
    num = len(lens)
    tokens = torch.randint(0, VOCAB, (num, GAMMA), generator=generator)
    nexts = torch.randint(0, VOCAB, (num,), generator=generator)
    draft, p_target = Draft(tokens, _laws(generator, num, GAMMA)), _laws(generator, sum(lens) + num)
    plan, accepted = Plan(torch.tensor(lens)), torch.tensor(kept)
    seen = evidence(draft, plan, Verdict(accepted, nexts, accepted == plan.verify_len), p_target)
    first = 0
    for r, (n, a) in enumerate(zip(lens, kept, strict=True)):
        rows = p_target[first : first + 1 + n]
        first += 1 + n
        for k in range(GAMMA):
            p, token = draft.p_draft[r, k], int(tokens[r, k])
            assert float(seen.p_draft[r, k]) == float(p[token])
            if k > n:
                assert math.isnan(float(seen.accept_rate[r, k]))
                continue
            over = p > rows[k]
            assert math.isclose(float(seen.accept_rate[r, k]), float(torch.minimum(p, rows[k]).sum()), abs_tol=1e-12)
            assert math.isclose(float(seen.mass[r, k]), float(rows[k][over].sum()), abs_tol=1e-12)
            if k < n:
                assert float(seen.p_target[r, k]) == float(rows[k][token])
            if k <= a:
                assert bool(seen.chosen[r, k]) == bool(over[token if k < a else int(nexts[r])])
