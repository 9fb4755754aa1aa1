"""Kind 13, slowdowns: the draft's own cost decides whether speculation pays; a step waits for its device seldom."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sparkit import decisions
from sparkit.capacity import Capacity, Curve
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.engine import Engine, Request
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Draft, Limits
from sparkit.sampling import SamplingParams
from tests.drafting import GAMMA, WARM, Pausing, decode_all, made
from tests.parts import parts_of, tiny_target

MILLISECONDS = Capacity(
    verify=Curve(((1, 0.300), (2, 0.409)), "linear"),  # 300 + 109 n
    draft=Curve.constant(0.196),
    plain_overhead=Curve.constant(0.003),  # plain: 303 ms
)


def test_b37_estimated_speedup() -> None:
    """Kills: the draft left out; the bonus left out; plain decoding priced with the draft."""
    assert 1 / MILLISECONDS.rounds_per_second(1, 6) == pytest.approx(1.041)
    found = [MILLISECONDS.speedup(1, 6, accepted) for accepted in (5.0, 4.1, 2.0, 0.9, 0.0)]
    assert found == pytest.approx([1.746, 1.484, 0.873, 0.553, 0.291], abs=1e-3)
    assert MILLISECONDS.break_even(1, 6) == pytest.approx(2.436, abs=1e-3)


def test_b37_schedule_counts_the_draft() -> None:
    """Kills: a target-only curve, which would stop at 2."""
    a = torch.tensor([[0.9, 0.8, 0.5]], dtype=torch.float64)
    tau = torch.cat((torch.ones(1).double(), a[0])).cumsum(0)
    rates = MILLISECONDS.rates(1, 1, 3, a)
    assert (tau * rates).tolist() == pytest.approx([2.016, 3.140, 3.782, 3.888], abs=1e-3)
    limits = Limits(1, torch.zeros(1, dtype=torch.int64), torch.tensor([3]))
    greedy = SCHEDULERS.create("greedy")
    assert greedy.plan(a, MILLISECONDS, limits, greedy.start())[0].verify_len.tolist() == [3]
    target_only = Capacity(MILLISECONDS.verify)
    assert (tau * target_only.rates(1, 1, 3, a)).tolist() == pytest.approx([3.333, 4.645, 5.212, 5.104], abs=1e-3)
    assert greedy.plan(a, target_only, limits, greedy.start())[0].verify_len.tolist() == [2]


# ---------------------------------------------------------------------------------------------------------- B38
WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"}
"""What makes the host wait for a device: item, bool, int and float arrive as the first, masks of rows as the second."""

INDEXING = {"aten::index", "aten::index_put", "aten::index_put_"}
"""With a mask among the indices these count its ones first."""


MOST = {"small_lm": 7, "ngram": 6}  # measured; on a CPU two of each are checks for nan that other devices skip


class ReadBacks(TorchDispatchMode):
    """Counts the places of a step at which the host would wait for a device."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.seen = Counter[str]()
        for name in ("tolist", "cpu", "numpy"):
            patch.setattr(torch.Tensor, name, self._counting(name, getattr(torch.Tensor, name)))

    def _counting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self.seen[name] += 1
            return method(tensor, *args, **kwargs)

        return counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        masks = args[1] if name in INDEXING else ()
        by_mask = any(one is not None and one.dtype == torch.bool for one in masks)
        if name in WAITING or by_mask:
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def read_backs(
    patch: pytest.MonkeyPatch, name: str, scheduler: str, num_requests: int, gamma: int, top_tokens: int
) -> Counter[str]:
    """Of one drafted step in which nobody joins or leaves."""
    target, drafter = made(name, gamma=7)
    parts = parts_of(target, drafter, scheduler=scheduler, verifier="rejection")
    engine = Engine(parts, gamma=gamma, num_slots=num_requests, top_tokens=top_tokens)
    for number in range(num_requests):
        engine.add(Request((1, 2 + number), number, 60))
    for _ in range(3):
        engine.step()
    with patch.context() as inner, ReadBacks(inner) as counted:
        inner.setattr(decisions, "_on_host", lambda words: False)  # as on a device; the CPU's own way reads back freely
        rounds = engine.step()
    assert [one.kind for one in rounds] == ["drafted"] * num_requests
    assert {len(one.top) for one in rounds} == {gamma if top_tokens else 0}
    return counted.seen


@pytest.mark.parametrize("name", ["dflash", "dspark", "eagle3", "mtp", "small_lm", "ngram"])
def test_b38_waits_do_not_grow_with_requests_or_gamma(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R = 1 with gamma 2, R = 8 with gamma 7, five largest entries of every law or none: the same waits.

    Kills: one read-back a request or a draft position, a metric that reads its own tensor.
    """
    few = read_backs(monkeypatch, name, "fixed", 1, 2, 0)
    many = read_backs(monkeypatch, name, "fixed", 8, 7, 5)
    assert many == few
    assert 0 < sum(few.values()) <= MOST.get(name, 4)


@pytest.mark.parametrize("scheduler", SCHEDULERS.names())
def test_b38_schedulers_wait_a_fixed_number_of_times(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a plan that looks at each request on the host."""
    few = read_backs(monkeypatch, "dspark", scheduler, 1, 2, 0)
    many = read_backs(monkeypatch, "dspark", scheduler, 8, 7, 5)
    assert many == few


@pytest.mark.parametrize("name", ["dflash", "dspark", "eagle3", "mtp"])
def test_b38_the_first_resumed_draft_is_that_of_a_drafter_that_never_paused(name: str) -> None:
    """Five steps without speculation, then on: p_draft within 1e-5, and the text is the plain text.

    Both engines hold the same committed text when they draft: one drafted on the way, the other kept the taps.
    """

    def resumed(pattern: Sequence[bool]) -> dict[tuple[int, int], torch.Tensor]:
        target, drafter = made(name)
        parts = parts_of(target, drafter, scheduler=Pausing(SCHEDULERS.create("fixed"), pattern), verifier="coupled")
        drafts, propose = [], drafter.propose
        drafter.propose = lambda anchors, decisions: drafts.append(propose(anchors, decisions)) or drafts[-1]
        engine = Engine(parts, gamma=GAMMA, num_slots=2)
        for number in range(2):
            engine.add(Request((1, 2 + number), number, 30, WARM))
        positions = []
        while engine.has_work:
            positions += [{one.request: one.anchor_position for one in engine.step() if one.kind == "drafted"}]
        texts = [done.token_ids for done in engine.results()]
        assert texts == plain
        places = [place for place in positions if place]
        return {(r, place[r]): law for place, d in zip(places, drafts, strict=True) for r, law in laws(place, d)}

    def laws(place: dict[int, int], draft: Draft) -> list[tuple[int, torch.Tensor]]:
        return list(zip(sorted(place), draft.p_draft, strict=True))

    target, _ = made(name)
    plain_parts = parts_of(target, None, verifier="coupled")
    asked = [Request((1, 2 + number), number, 30, WARM) for number in range(2)]
    plain = [list(text) for text in decode_all(plain_parts, asked, 2)[0]]
    always, paused = resumed((True,)), resumed((True, False, False, False, False, False))
    shared = always.keys() & paused.keys()
    assert len(shared) >= 3
    assert max(float((always[key] - paused[key]).abs().max()) for key in shared) < 1e-5


def test_b38_a_perfect_drafter_accepts_all_at_once_after_a_pause() -> None:
    """Kills: a drafter that needs rounds to find its way back."""
    target = tiny_target(max_positions=64)
    prompt = (1, 2, 3)
    text = decode_all(parts_of(target, None), [Request(prompt, 0, 40, SamplingParams(0.0))], 1)[0][0]
    drafter = SmallLmDrafter(tiny_target(max_positions=64), target, 4)
    pausing = Pausing(SCHEDULERS.create("fixed"))
    engine = Engine(parts_of(target, drafter, scheduler=pausing), gamma=4, num_slots=1)
    engine.add(Request(prompt, 0, 40, SamplingParams(0.0)))
    accepted = []
    for is_on in (True, True, True, False, False, False, False, False, True, True):
        pausing.is_on = is_on
        accepted += [one.accepted for one in engine.step() if one.kind == "drafted"]
    assert accepted == [4] * 4
    list(engine.stream())
    assert tuple(engine.finished[0].token_ids) == text


@pytest.mark.slow
def test_b38_python_time_of_a_round(plain_python: Callable[..., Any]) -> None:
    """R = 8 on a tiny model, outside model calls: median CPU time below 20 ms (no type checks, fresh process).

    Kills: a loop over V in Python. The profiler reports the same number as `overhead_seconds`.
    """
    code = (
        "import statistics, time\n"
        "from sparkit.engine import Engine, Request\n"
        "from tests.drafting import made\n"
        "from tests.parts import parts_of\n"
        "target, drafter = made('dspark', 'markov')\n"
        "engine = Engine(parts_of(target, drafter), gamma=3, num_slots=8, clock=time.process_time)\n"
        "[engine.add(Request((1, 2 + n), n, 50)) for n in range(8)]\n"
        "rounds = list(engine.stream())\n"
        "steps = {one.step: one.seconds for one in rounds if one.num_requests == 8}\n"
        "print(statistics.median(s.overhead + s.schedule for s in steps.values()))\n"
    )
    done = plain_python(code)
    assert done.returncode == 0, done.stderr
    seconds = float(done.stdout)
    print(f"{seconds * 1e3:.2f} ms of a round outside model calls")
    assert seconds < 0.02
