"""Sources and a laboratory without models: the synthetic generator behind the protocols of the app."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkit_tui.messages import MAIN, Began, Compared, Item, LawKnown, Opened, Over, Stepped
from sparkit_tui.model.collision import JointLaw
from sparkit_tui.model.header import Header, Pieces
from sparkit_tui.settings import Settings
from sparkit_tui.worker import Source

from sparkit.capacity import staircase
from sparkit.traces import write_trace
from tests.tui.synthetic import PROMPTS, WORDS, Synthetic, rounds_of, trace_header

PARTS = {
    "target": "bundled", "drafter": "dspark", "head": "markov", "confidence": "head", "calibrator": "sts",
    "scheduler": "greedy", "verifier": "rejection", "capacity": "staircase",
}  # fmt: skip


def header_of(generator: Synthetic, **parts: str) -> Header:
    """A composition as a live source would announce it."""
    named = PARTS | parts
    lossy = ("scheduler lookahead",) if named["scheduler"] == "lookahead" else ()
    coupled = named["verifier"] == "coupled"
    return Header(
        parts=named,
        gamma=generator.gamma,
        batch=generator.num_requests,
        seed=generator.seed,
        is_lossless=not lossy or coupled,
        lossy_parts=() if coupled else lossy,
        is_schedule_invariant=coupled,
        capacity=staircase(tile=8, base=0.004, per_tile=0.001, draft=0.001),
        pieces=Pieces(dict(enumerate(WORDS))),
    )


def opening(generator: Synthetic, lane: str = "", **parts: str) -> list[Item]:
    """What comes before the first round."""
    began = [
        Began(r, PROMPTS[r % len(PROMPTS)], ("math", "code", "chat")[r % 3], lane)
        for r in range(generator.num_requests)
    ]
    return [Opened(header_of(generator, **parts), lane), *began]


def played(num: int = 60, lane: str = "", generator: Synthetic | None = None, **parts: str) -> list[Item]:
    """A run of `num` steps as items."""
    generator = generator or Synthetic()
    return [*opening(generator, lane, **parts), *(Stepped(rounds, lane) for rounds in generator.steps(num))]


class SyntheticSource:
    """The generator as a source."""

    def __init__(self, *, fails_at: int | None = None, **options: int) -> None:
        self.options, self.fails_at = options, fails_at
        self.generator = Synthetic(**options)
        self.parts: dict[str, str] = {}
        self.num_steps = 0
        self.reconfigured: list[Settings] = []

    def open(self) -> Sequence[Item]:
        return opening(self.generator, **self.parts)

    def step(self) -> Sequence[Item]:
        self.num_steps += 1
        if self.num_steps == self.fails_at:
            raise RuntimeError("the target's logits at row 3 of 8 are nan")
        rounds = self.generator.step()
        return (Stepped(rounds),) if rounds else ()

    def restart(self) -> Sequence[Item]:
        self.generator = Synthetic(**self.options)
        return self.open()

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        self.reconfigured.append(settings)
        self.parts = {"scheduler": settings.scheduler, "verifier": settings.verifier}
        self.options = {**self.options, "gamma": settings.gamma, "num_requests": settings.batch, "seed": settings.seed}
        return self.restart()

    def save(self, path: Path) -> None:
        generator = Synthetic(**self.options)
        write_trace(path, trace_header(generator), rounds_of(list(generator.steps(max(self.num_steps, 1)))))


class StillSource(SyntheticSource):
    """Never sends anything: the test feeds the session itself."""

    def open(self) -> Sequence[Item]:
        return ()

    def step(self) -> Sequence[Item]:
        return ()


class FakeRace(SyntheticSource):
    """Two lanes in turn."""

    names = ("plain", "dspark")

    def open(self) -> Sequence[Item]:
        self.lanes = {name: Synthetic(num_requests=1, limit=40, seed=i) for i, name in enumerate(self.names)}
        return [item for name, lane in self.lanes.items() for item in opening(lane, name, drafter=name)]

    def step(self) -> Sequence[Item]:
        for name, lane in list(self.lanes.items()):
            if rounds := lane.step():
                return (Stepped(rounds, name),)
            del self.lanes[name]
            return (Over(name),)
        return ()


class FakeToy(SyntheticSource):
    """A run whose audit bits do not follow the target, and its law."""

    def __init__(self, verifier: str) -> None:
        super().__init__(num_requests=2, gamma=2)
        self.parts = {"scheduler": "lookahead", "verifier": verifier, "target": "table:appendix-a"}

    def open(self) -> Sequence[Item]:
        is_equal = self.parts["verifier"] == "coupled"
        law = LawKnown("lookahead", ("A", "B"), (0.7, 0.3), (0.7, 0.3) if is_equal else (0.85, 0.15), is_equal)
        return [*super().open(), law, *([Compared(12, None)] if is_equal else [])]


class FakeLab:
    """Sources for the screens with an engine of their own."""

    def race(self, settings: Settings) -> Source:
        return FakeRace()

    def appendix_a(self, verifier: str) -> Source:
        return FakeToy(verifier)

    def collision(self, table: JointLaw) -> Source:
        return FakeRace(gamma=2)

    def part_names(self) -> Mapping[str, Sequence[str]]:
        return {"scheduler": ("fixed", "greedy", "lookahead"), "verifier": ("rejection", "coupled")}

    def source_of(self, kind: str, spec: str) -> tuple[str, str]:
        if kind == "capacity":
            raise LookupError("no such part")
        return "somewhere.py", "class Part:\n    lossless = True\n"


__all__ = ["MAIN", "FakeLab", "FakeRace", "FakeToy", "StillSource", "SyntheticSource", "header_of", "opening", "played"]
