"""Everything the app remembers: channels with their runs, counts by drafter, loads, old audits, what is selected.

`apply` is the only way in: an item of a feed changes the state, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sparkit_tui.messages import MAIN, Began, Compared, Item, LawKnown, Opened, Over, Stepped
from sparkit_tui.model.audit import AuditReading
from sparkit_tui.model.run import Run
from sparkit_tui.model.serving import LoadTable
from sparkit_tui.model.tally import Tally

if TYPE_CHECKING:
    from sparkit.rounds import Round


SIDE_BY_SIDE = (MAIN, "race")  # channels whose drafters are compared; toys are not


@dataclass(slots=True)
class Channel:
    """What one driver has sent."""

    lanes: dict[str, Run] = field(default_factory=dict)
    old_audits: list[AuditReading] = field(default_factory=list)  # of compositions that ran before, newest first
    laws: list[LawKnown] = field(default_factory=list)

    @property
    def run(self) -> Run | None:
        """The only lane, or the first."""
        return next(iter(self.lanes.values()), None)


@dataclass(frozen=True, slots=True)
class Selection:
    """What the reader looks at."""

    request: int | None = None  # None: the first that runs
    pinned: Round | None = None  # a past round; None: the newest
    cell: int = 0  # 0-based draft position
    position: int = 0  # of the calibration figure; 0: all positions together


@dataclass(slots=True)
class Session:
    """The state behind all screens."""

    channels: dict[str, Channel] = field(default_factory=dict)
    drafters: dict[str, Tally] = field(default_factory=dict)  # counts by drafter, over all runs of the session
    loads: LoadTable = field(default_factory=LoadTable)
    selection: Selection = field(default_factory=Selection)

    def channel(self, name: str) -> Channel:
        """The channel, made when it is first asked for."""
        return self.channels.setdefault(name, Channel())

    def run(self, name: str = MAIN) -> Run | None:
        """A channel's first run."""
        return self.channel(name).run

    def retire(self, name: str) -> None:
        """Forgets a channel's runs, keeping their audits; another source takes it over."""
        channel = self.channel(name)
        audits = [run.audit.reading() for run in channel.lanes.values() if run.audit.num_tokens]
        channel.old_audits = [*audits, *channel.old_audits][:20]
        channel.lanes.clear()

    def apply(self, name: str, items: Sequence[Item]) -> None:
        """Takes in a feed's items in order."""
        channel = self.channel(name)
        for item in items:
            self._apply(name, channel, item)

    def _apply(self, name: str, channel: Channel, item: Item) -> None:
        if isinstance(item, Opened):
            self._open(name, channel, item)
        elif isinstance(item, LawKnown):
            channel.laws = [item, *(law for law in channel.laws if law.label != item.label)]
        elif (run := channel.lanes.get(item.lane)) is None:
            raise ValueError(f"channel {name!r} sent {type(item).__name__} before it opened lane {item.lane!r}")
        elif isinstance(item, Began):
            run.begin(item.request, item.prompt, item.label)
        elif isinstance(item, Stepped):
            self._step(name, run, item)
        elif isinstance(item, Compared):
            run.audit.compare(item.num_equal, item.first_difference)
        elif isinstance(item, Over):
            run.is_over = True

    def _open(self, name: str, channel: Channel, item: Opened) -> None:
        old = channel.lanes.get(item.lane)
        run = Run(item.header)
        if old is not None:
            channel.old_audits = [old.audit.reading(), *channel.old_audits][:20]
            if item.keeps_text:
                run.passages = old.passages
        if old is None and not item.lane:
            channel.lanes.clear()
        channel.lanes[item.lane] = run
        if name == MAIN and not item.keeps_text:
            self.selection = Selection(position=self.selection.position)

    def _step(self, name: str, run: Run, item: Stepped) -> None:
        run.add(item.rounds)
        header = run.header
        if name == MAIN and item.rounds:
            users = item.rounds[0].num_requests
            self.loads.at(header.label, users).add(item.rounds)
        if name in SIDE_BY_SIDE and any(r.kind == "drafted" for r in item.rounds):
            tally = self.drafters.get(header.drafter)
            if tally is None or tally.gamma < header.gamma:
                tally = self.drafters[header.drafter] = Tally(header.gamma)
            for one in item.rounds:
                tally.add(one)

    # ------------------------------------------------------------------------------------------------ selecting
    def shown_request(self) -> int | None:
        """The request on the screen."""
        run = self.run()
        return run.follow(self.selection.request) if run is not None else None

    def shown_round(self) -> Round | None:
        """The round on the screen: the pinned one, else the newest of the request."""
        if self.selection.pinned is not None:
            return self.selection.pinned
        run, request = self.run(), self.shown_request()
        if run is None or request is None or not run.passages[request].rounds:
            return None
        return run.passages[request].rounds[-1]

    def move(self, what: str, by: int) -> None:
        """Another request, round, cell or position."""
        moves = {"request": self.next_request, "round": self.move_round, "cell": self.move_cell}
        {**moves, "position": self.move_position}[what](by)

    def next_request(self, by: int) -> None:
        """Shows another of the concurrent requests, at the same step where a past one is open."""
        run, current = self.run(), self.shown_request()
        if run is None or current is None:
            return
        ids = run.active()
        if self.selection.pinned is not None and (step := run.step_of(self.selection.pinned)) is not None:
            ids = [r.request for r in step.rounds]
        ids = ids or list(run.passages)
        request = ids[(ids.index(current) + by) % len(ids)] if current in ids else ids[0]
        self.selection = replace(self.selection, request=request, pinned=self._same_step(run, request))

    def _same_step(self, run: Run, request: int) -> Round | None:
        pinned = self.selection.pinned
        step = run.step_of(pinned) if pinned is not None else None
        if step is None:
            return None
        return next((r for r in step.rounds if r.request == request), None)

    def move_round(self, by: int) -> None:
        """Opens an older (negative) or newer round of the request; past the newest the screen follows again."""
        run, request = self.run(), self.shown_request()
        if run is None or request is None:
            return
        rounds = list(run.passages[request].rounds)
        if not rounds:
            return
        pinned = self.selection.pinned
        index = next((i for i, r in enumerate(rounds) if r is pinned), len(rounds) - 1) + by
        chosen = None if index >= len(rounds) - 1 else rounds[max(index, 0)]
        self.selection = replace(self.selection, request=request, pinned=chosen)

    def open_round(self, step: int) -> None:
        """Opens the round that the request had in a step, while it is remembered."""
        run, request = self.run(), self.shown_request()
        if run is None or request is None:
            return
        chosen = next((r for r in run.passages[request].rounds if r.step == step), None)
        if chosen is not None:
            self.selection = replace(self.selection, request=request, pinned=chosen)

    def pin(self) -> None:
        """Holds on to the shown round while others arrive."""
        self.selection = replace(self.selection, pinned=self.shown_round())

    def move_cell(self, by: int) -> None:
        """Selects another draft position of the shown round."""
        self.select_cell(self.selection.cell + by)

    def select_cell(self, cell: int) -> None:
        """Selects a draft position of the shown round, the nearest there is."""
        round_ = self.shown_round()
        last = max(len(round_.drafted) - 1, 0) if round_ is not None else 0
        self.selection = replace(self.selection, cell=min(max(cell, 0), last))

    def move_position(self, by: int) -> None:
        """Selects another position of the calibration figure; 0 is all of them."""
        run = self.run()
        gamma = run.header.gamma if run is not None else 0
        self.select_position((self.selection.position + by) % (gamma + 1))

    def select_position(self, position: int) -> None:
        """Selects a position of the calibration figure."""
        self.selection = replace(self.selection, position=position)
