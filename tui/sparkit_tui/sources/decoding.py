"""An engine kept full with prompts: when a text ends the next one enters, so that the screens never run dry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sparkit_tui.messages import Began, Compared, Item, Stepped
from sparkit_tui.model.header import Pieces

if TYPE_CHECKING:
    from sparkit.engine import Engine, Parts, Request
    from sparkit.rounds import Round
    from sparkit.sampling import SamplingParams

TOP_TOKENS = 5
KEEP_ROUNDS = 20_000  # for a trace


class Entry(NamedTuple):
    """One text to be."""

    request: Request
    prompt: str
    label: str


class Decoding:
    """Steps of one engine, with everything the screens need beside the rounds."""

    def __init__(
        self,
        parts: Parts,
        entries: Iterable[Entry],
        *,
        gamma: int,
        batch: int,
        pieces: Pieces,
        text_of: Callable[[int], str],
        lane: str = "",
    ) -> None:
        from sparkit.engine import Engine

        self.parts, self.gamma, self.batch, self.lane = parts, gamma, batch, lane
        self.pieces, self._text_of = pieces, text_of
        self.engine: Engine = Engine(parts, gamma=gamma, num_slots=batch, top_tokens=TOP_TOKENS)
        self._entries: Iterator[Entry] = iter(entries)
        self.entries: dict[int, Entry] = {}
        self.rounds: list[Round] = []
        self._shadow: Shadow | None = None

    def step(self) -> list[Item]:
        """One engine step; [] when every text has ended and no prompt is left."""
        began = self._fill()
        rounds = self.engine.step()
        if not rounds:
            return self.step() if self.engine.has_work else []  # a long prompt takes several chunks
        self._learn(rounds)
        if len(self.rounds) < KEEP_ROUNDS:
            self.rounds += rounds
        return [*began, Stepped(tuple(rounds), self.lane), *self._compare(rounds)]

    def _fill(self) -> list[Item]:
        began: list[Item] = []
        while len(self.engine.running) + len(self.engine.waiting) < self.batch:
            entry = next(self._entries, None)
            if entry is None:
                break
            number = self.engine.add(entry.request)
            self.entries[number] = entry
            began.append(Began(number, entry.prompt, entry.label, self.lane))
        return began

    def _learn(self, rounds: Sequence[Round]) -> None:
        new = {token for round_ in rounds for token in ids_of(round_) if token not in self.pieces}
        self.pieces.learn({token: self._text_of(token) for token in new})

    def _compare(self, rounds: Sequence[Round]) -> list[Item]:
        """Under a schedule-invariant verifier one text at a time is held against its plain decoding."""
        if not self.parts.verifier.schedule_invariant:
            return []
        if self._shadow is None or self._shadow.is_over:
            first = min(round_.request for round_ in rounds if round_.request in self.entries)
            known = [t.id for r in self.rounds if r.request == first for t in r.tokens]
            self._shadow = Shadow(self.parts, self.entries[first].request, first)
            return self._shadow.follow(known, is_over=False, lane=self.lane)
        mine = [round_ for round_ in rounds if round_.request == self._shadow.number]
        tokens = [token.id for round_ in mine for token in round_.tokens]
        is_over = any(round_.stop_reason for round_ in mine) or self._shadow.number not in self._alive()
        return self._shadow.follow(tokens, is_over=is_over, lane=self.lane)

    def _alive(self) -> set[int]:
        return {sequence.id for sequence in self.engine.running.values()}

    def only_one(self) -> None:
        """Ends after the first text, for a race."""
        self._entries = islice(self._entries, 1)

    def swap(self, parts: Parts) -> None:
        """Other confidence, calibrator, scheduler, verifier or capacity from the next round on."""
        self.engine.replace(parts)
        self.parts, self._shadow = parts, None

    def reshape(self, params: SamplingParams) -> None:
        """Another temperature from the next round on."""
        for sequence in self.engine.running.values():
            sequence.request = replace(sequence.request, params=params)
        self._shadow = None

    def begun(self) -> list[Item]:
        """Announces the running texts again, for a run that goes on under other parts."""
        numbers = sorted(sequence.id for sequence in self.engine.running.values())
        return [Began(n, self.entries[n].prompt, self.entries[n].label, self.lane) for n in numbers]


class Shadow:
    """Plain decoding of one request beside the real one, as far as that has come."""

    def __init__(self, parts: Parts, request: Request, number: int) -> None:
        from sparkit.engine import Engine

        self.number, self.is_over = number, False
        self._engine: Engine = Engine(replace(parts, drafter=None), gamma=1, num_slots=1)
        self._engine.add(request)
        self._plain: list[int] = []
        self._seen = 0

    def follow(self, tokens: Sequence[int], *, is_over: bool, lane: str) -> list[Item]:
        """Compares the newly committed tokens."""
        num_equal = 0
        for token in tokens:
            while len(self._plain) <= self._seen and self._engine.has_work:
                self._plain += [t.id for round_ in self._engine.step() for t in round_.tokens]
            if self._seen >= len(self._plain) or self._plain[self._seen] != token:
                self.is_over = True
                return [Compared(num_equal, self._seen, lane)]
            self._seen, num_equal = self._seen + 1, num_equal + 1
        self.is_over = is_over
        return [Compared(num_equal, None, lane)] if num_equal else []


def ids_of(round_: Round) -> set[int]:
    """Every token id that a round names."""
    ids = {round_.anchor, round_.next_token, *round_.drafted, *(token.id for token in round_.tokens)}
    for top in round_.top:
        for law in (top.draft, top.target or (), top.residual or ()):
            ids.update(token for token, _ in law)
    return ids
