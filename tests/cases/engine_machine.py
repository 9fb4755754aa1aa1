"""Random histories of one engine: whatever happens around a request, its text is what it says alone.

Requests of all kinds come and go, are cancelled, run into limits, stops and the context's end; schedulers change,
speculation goes off and on, the engine is put back from a snapshot. After every step the caches, the drafter, the
streams and the decisions' addresses are looked over; after draining nothing is left.

Two modes. Exact: temperature 0, or coupled noise, any scheduler, switches allowed; the text is plain decoding's.
Independent: temperature 1, batch-independent parts, no switches; the text is that of the same composition alone.
Run by `test_engine_machine.py`, in a process without type checks.
"""

import gc
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor

from sparkit.capacity.steps import _table as curves
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.engine import Engine, Parts, Request, restore, snapshot
from sparkit.engine.requests import Sequence as Running
from sparkit.protocols import SCHEDULERS, Drafter, Target
from sparkit.sampling import SamplingParams
from tests.drafting import GAMMA, LEANING, VOCAB_SIZE, Pausing, Recording, decode_all, made
from tests.parts import parts_of

MAX_LEN = 22
DRAFTERS = [
    ("dflash", None),
    ("dspark", "markov"),
    ("eagle3", None),
    ("mtp", None),
    ("small_lm", None),
    ("ngram", None),
]
RATES = (1.0, 0.98, 0.96, 0.95, 0.5)
PIECES = [b"a", b"b", b"\xc3", b"\xa9", b"c", b"\xe2\x82", b" ", b"\xac", b"\xf0\x9f", b"\x98\x80", b"", b"d\xc3"]
STOP_STRINGS = ["\u00e9", "\u20ac", "\U0001f600", "\u20ac\u00e9", "a", "b ", "\u00e9\u20ac\u00e9"]
SHAPES: list[dict[str, Any]] = [
    {"logit_bias": LEANING},
    {"logit_bias": LEANING, "repetition_penalty": 1.4},
    {"logit_bias": LEANING, "frequency_penalty": 0.6, "banned": (3,)},
    {"logit_bias": LEANING, "presence_penalty": 0.9, "top_k": 5},
    {"min_p": 0.1},
    {"top_p": 0.8},
]


def spell(ids: Sequence[int]) -> str:
    """Characters lie across tokens; one token has no text at all."""
    return b"".join(PIECES[i % len(PIECES)] for i in ids).decode(errors="replace")


@cache
def model(name: str, head: str | None, copy: int) -> tuple[Target, Drafter]:
    """Built and warmed up once; two copies, since a drafter's slots belong to one engine."""
    target, drafter = made(name, head)
    decode_all(parts_of(target, drafter), [Request((1, 2), 0, 6)], 1)
    return target, drafter


@cache
def alone(name: str, head: str | None, verifier: str, scheduler: str | None, request: Request) -> tuple[int, ...]:
    """The whole text of a request that has no stops: plain, or that of its own composition (scheduler given)."""
    target, drafter = model(name, head, 1)
    chain: dict[str, Any] = {} if scheduler is None else {"scheduler": scheduler, "confidence": "max_prob"}
    parts = parts_of(target, None if scheduler is None else drafter, verifier=verifier, **chain)
    return decode_all(parts, [request], 1, max_len=MAX_LEN)[0][0]


def cut_at_stops(request: Request, whole: Sequence[int]) -> tuple[tuple[int, ...], str]:
    """The oracle for stops: the shortest prefix that ends in a stop token or whose text holds a stop string."""
    for n in range(1, len(whole) + 1):
        text = spell(whole[:n])
        if whole[n - 1] in request.stop_tokens or any(stop in text for stop in request.stop_strings):
            return tuple(whole[:n]), "stop"
    return tuple(whole), "length"


def live_tensors() -> int:
    curves.cache_clear()  # 256 at most, by number of requests and size
    gc.collect()
    return sum(issubclass(type(one), Tensor) for one in gc.get_objects())  # isinstance wakes lazy objects


class EngineMachine(RuleBasedStateMachine):
    """One engine and what we know of its requests."""

    @initialize(
        drafting=st.sampled_from(DRAFTERS),
        verifier=st.sampled_from(["rejection", "block", "coupled"]),
        is_exact=st.booleans(),
        scheduler=st.sampled_from(["fixed", "threshold"]),
        num_slots=st.integers(1, 3),
        prefill_chunk=st.sampled_from([2, 5, 64]),
        token_budget=st.sampled_from([None, None, 5]),
    )
    def begin(
        self,
        drafting: tuple[str, str | None],
        verifier: str,
        is_exact: bool,
        scheduler: str,
        num_slots: int,
        prefill_chunk: int,
        token_budget: int | None,
    ) -> None:
        self.drafting, self.verifier, self.is_exact, self.scheduler = drafting, verifier, is_exact, scheduler
        (self.target, self.drafter), _ = model(*drafting, 0), model(*drafting, 1)
        self.pausing = Pausing(SCHEDULERS.create(scheduler))
        parts = self.parts("max_prob")
        self.log = Recording(parts.verifier.source)
        self.engine = Engine(
            parts, gamma=GAMMA, num_slots=num_slots, max_len=MAX_LEN, prefill_chunk=prefill_chunk,
            token_budget=token_budget if is_exact else None, decode=spell,
        )  # fmt: skip
        parts.verifier.source = self.log
        self.requests: dict[int, Request] = {}
        self.expected: dict[int, tuple[tuple[int, ...], str]] = {}
        self.streams: dict[int, list[int]] = {}
        self.by_rounds: dict[int, int] = {}
        self.num_live = live_tensors()

    def parts(self, confidence: str) -> Parts:
        return parts_of(
            self.target, self.drafter,
            scheduler=self.pausing, confidence=confidence, verifier=self.verifier, rates=RATES,
        )  # fmt: skip

    # --------------------------------------------------------------------------------------- what happens
    @rule(
        prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=9),
        limit=st.one_of(st.none(), st.integers(0, 14)),
        shape=st.sampled_from(SHAPES),
        is_greedy=st.booleans(),
        stop_tokens=st.frozensets(st.integers(0, VOCAB_SIZE - 1), max_size=2),
        stop_strings=st.lists(st.sampled_from(STOP_STRINGS), max_size=2),
    )
    def add(
        self,
        prompt: list[int],
        limit: int | None,
        shape: dict[str, Any],
        is_greedy: bool,
        stop_tokens: frozenset[int],
        stop_strings: list[str],
    ) -> None:
        temperature = 0.0 if is_greedy or (self.is_exact and self.verifier != "coupled") else 1.0
        bare = Request(tuple(prompt), 100 + len(self.requests), limit, SamplingParams(temperature, **shape))
        request = replace(bare, stop_tokens=stop_tokens, stop_strings=tuple(stop_strings))
        number = self.engine.add(request)
        assert number not in self.requests
        whole = alone(*self.drafting, self.verifier, None if self.is_exact else self.scheduler, bare)
        self.requests[number], self.expected[number] = request, cut_at_stops(request, whole)
        self.streams[number], self.by_rounds[number] = [], 0

    @rule(num=st.integers(1, 3))
    def step(self, num: int) -> None:
        for _ in range(num):
            self.one_step()

    def one_step(self) -> None:
        for one in self.engine.step():
            self.streams[one.request] += [token.id for token in one.tokens]
            self.by_rounds[one.request] += 0 if one.kind == "prefill" else one.tau
            assert one.tau == len(one.tokens) > 0
        self.look()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.engine.cancel(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.is_exact)
    @rule(name=st.sampled_from(SCHEDULERS.names()), confidence=st.sampled_from(["max_prob", "position"]))
    def change_scheduler(self, name: str, confidence: str) -> None:
        self.pausing = Pausing(SCHEDULERS.create(name))
        parts = self.parts(confidence)
        parts.verifier.source = self.log
        self.engine.replace(parts)

    @precondition(lambda self: self.is_exact)
    @rule()
    def switch_speculation(self) -> None:
        self.pausing.is_on = not self.pausing.is_on

    @precondition(lambda self: self.is_exact)
    @rule(share=st.integers(1, 3))
    def let_some_rest(self, share: int) -> None:
        self.pausing.share = share

    @rule()
    def put_back(self) -> None:
        restore(self.engine, snapshot(self.engine))

    @property
    def open(self) -> list[int]:
        return [number for number in self.requests if number not in self.engine.finished]

    # --------------------------------------------------------------------------------------- what must hold
    @invariant()
    def look(self) -> None:
        engine = self.engine
        for sequence in engine.running.values():
            self.look_at(sequence)
        for number, done in engine.finished.items():
            text, reason = self.expected[number]
            assert self.streams[number] == list(done.token_ids)
            if done.stop_reason == "cancelled":
                assert tuple(done.token_ids) == text[: len(done.text)]
            else:
                assert (tuple(done.token_ids), done.stop_reason) == (text, reason)
            assert not done.text or 1 + self.by_rounds[number] == len(done.text)
        used = sorted(engine.running)
        assert sorted([*engine.free_slots, *used]) == list(range(len(engine.cache.lengths)))
        assert {engine.cache.lengths[slot] for slot in engine.free_slots} <= {0}
        assert engine.inbox.absorbed.keys() | engine.inbox.features.keys() <= set(used)
        if self.verifier != "coupled":
            assert max(self.log.asked.values(), default=0) <= 1

    def look_at(self, sequence: Running) -> None:
        engine, slot, text = self.engine, sequence.slot, [token.id for token in sequence.text]
        assert sequence.tokens == [*sequence.request.prompt, *text]
        assert self.streams[sequence.id] == text
        assert tuple(text) == self.expected[sequence.id][0][: len(text)]
        held = engine.cache.lengths[slot]
        if text:
            assert 1 + self.by_rounds[sequence.id] == len(text)
            assert held == len(sequence.tokens) - 1
        absorbed = engine.inbox.absorbed.get(slot, 0)
        assert absorbed + engine.inbox.pending(slot) == held
        assert self.held_by_drafter(sequence, absorbed) == absorbed

    def held_by_drafter(self, sequence: Running, absorbed: int) -> int:
        """Committed positions in the drafter's own cache, owed ones included."""
        if isinstance(self.drafter, SmallLmDrafter):
            fed, owed = self.drafter.state.fed[sequence.slot], self.drafter.state.owed[sequence.slot]
            assert self.drafter.state.cache.lengths[sequence.slot] == len(fed)
            kept = fed[: absorbed - len(owed)]
            assert [*kept, *owed] == sequence.tokens[:absorbed]
            return len(kept) + len(owed)
        if self.drafting[0] == "ngram":
            return absorbed
        own = getattr(self.drafter, "cache", None) or self.drafter.state.cache
        return int(own.lengths[sequence.slot])

    def teardown(self) -> None:
        """Draining leaves nothing behind."""
        if not hasattr(self, "num_live"):
            return
        while self.engine.has_work:
            self.one_step()
        assert self.open == []
        assert self.engine.free_slots == list(range(len(self.engine.cache.lengths)))
        assert not self.engine.inbox.absorbed
        assert not self.engine.inbox.features
        self.pausing = Pausing(SCHEDULERS.create("fixed"))
        self.engine.replace(self.parts("max_prob"))  # memories and curves hold what was learnt, not what was decoded
        assert live_tensors() <= self.num_live


def case(max_examples: int, phases: Sequence[Phase]) -> Any:
    """The machine as a test case."""
    made_case = type("Case", (EngineMachine,), {}).TestCase
    made_case.settings = settings(max_examples=max_examples, stateful_step_count=24, deadline=None, phases=phases)
    return made_case


class TestHistories(case(15, (Phase.generate,))):  # type: ignore[misc]
    """Kills: pending features or an owed token kept from a cancelled request, a stop string searched in its round
    only, a draw at an address of the round before, a penalty of another row, absorbed features lost in a pause.
    """


@pytest.mark.deep
class TestManyHistories(case(1500, tuple(Phase))):  # type: ignore[misc]
    """The same, for nights."""
