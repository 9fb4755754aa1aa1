"""A run as the screens hold it: texts by request, rounds by request, steps, counts; grows by `add`, forgets the old."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING

from sparkit_tui.flow import Flow
from sparkit_tui.model.audit import Audit
from sparkit_tui.model.cells import verdict_of
from sparkit_tui.model.header import Header
from sparkit_tui.model.tally import Tally

if TYPE_CHECKING:
    from sparkit.rounds import Origin, Round

KEEP_ROUNDS = 2000  # per request
KEEP_REQUESTS = 64
KEEP_STEPS = 400


@dataclass(slots=True)
class Passage:
    """One request's prompt and growing text."""

    request: int
    prompt: str = ""
    label: str = ""
    tokens: list[tuple[int, Origin]] = field(default_factory=list)
    rounds: deque[Round] = field(default_factory=lambda: deque(maxlen=KEEP_ROUNDS))
    num_rounds: int = 0
    num_emitted: int = 0  # by those rounds
    stop_reason: str | None = None
    flow: Flow | None = None  # the text as wrapped so far, for the screen's width
    num_flowed: int = 0  # tokens in it

    def add(self, round_: Round) -> None:
        """Takes in one round."""
        self.tokens += [(token.id, token.origin) for token in round_.tokens]
        self.rounds.append(round_)
        if round_.kind != "prefill":
            self.num_rounds += 1
            self.num_emitted += len(round_.tokens)
        self.stop_reason = round_.stop_reason

    @property
    def tau(self) -> float:
        """Tokens a round so far, the prompt's own token not counted."""
        return self.num_emitted / self.num_rounds if self.num_rounds else nan


@dataclass(slots=True)
class Step:
    """One engine step: all its request-rounds."""

    number: int
    rounds: list[Round]

    @property
    def decoding(self) -> list[Round]:
        """Rounds that were not prefill."""
        return [r for r in self.rounds if r.kind != "prefill"]


@dataclass(slots=True)
class Run:
    """Everything the screens know of one composition's run."""

    header: Header
    passages: dict[int, Passage] = field(default_factory=dict)
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=KEEP_STEPS))
    tally: Tally = field(init=False)
    audit: Audit = field(init=False)
    engine_seconds: float = 0.0
    phases: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0])
    num_steps: int = 0
    num_tokens: int = 0  # everything emitted, the prefill's own tokens included
    is_over: bool = False

    def __post_init__(self) -> None:
        self.tally = Tally(self.header.gamma)
        self.audit = Audit(self.header)

    def begin(self, request: int, prompt: str, label: str = "") -> None:
        """Announces a request."""
        passage = self.passages.setdefault(request, Passage(request))
        passage.prompt, passage.label, passage.flow = prompt, label, None
        while len(self.passages) > KEEP_REQUESTS:
            del self.passages[next(iter(self.passages))]

    def add(self, rounds: Sequence[Round]) -> None:
        """Takes in the rounds of one engine step."""
        if not rounds:
            return
        self.num_steps += 1
        self.steps.append(Step(rounds[0].step, list(rounds)))
        seconds = rounds[0].seconds
        self.engine_seconds += seconds.total
        for i, value in enumerate((seconds.draft, seconds.schedule, seconds.verify, seconds.overhead)):
            self.phases[i] += value
        for one in rounds:
            self._add(one)

    def _add(self, round_: Round) -> None:
        passage = self.passages.get(round_.request)
        if passage is None:
            self.begin(round_.request, "")
            passage = self.passages[round_.request]
        passage.add(round_)
        self.num_tokens += len(round_.tokens)
        self.tally.add(round_)
        self.audit.add(round_)

    @property
    def tokens_per_second(self) -> float:
        """Emitted tokens over engine seconds."""
        return self.num_tokens / self.engine_seconds if self.engine_seconds > 0 else nan

    def active(self) -> list[int]:
        """Requests of the latest step, in order; all requests before the first step."""
        if not self.steps:
            return list(self.passages)
        return sorted({r.request for r in self.steps[-1].rounds})

    def follow(self, request: int | None) -> int | None:
        """The request to show: the one asked for while it lives, else one that runs now."""
        active = self.active()
        if request is not None and (request in active or (request in self.passages and not active)):
            return request
        return active[0] if active else next(iter(self.passages), None)

    def step_of(self, round_: Round) -> Step | None:
        """The step a round belongs to, while it is remembered."""
        return next((s for s in reversed(self.steps) if s.number == round_.step), None)


def ghosts(passage: Passage) -> list[tuple[int, str]]:
    """Drafts of the last round that were not kept, as (token, verdict): they stand before the token that closed it."""
    last = passage.rounds[-1] if passage.rounds else None
    if last is None or last.kind != "drafted" or last.stop_reason is not None:
        return []
    return [(last.drafted[k], verdict_of(last, k)) for k in range(last.accepted, len(last.drafted))]
