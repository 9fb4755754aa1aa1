"""STS kept current while serving, so that a shift from code to chat is followed [DSpark section 5; method section 5].

Memory: the last 1,024 verified rounds with weights 0.995^age; the temperatures are fitted to them again every few
rounds. For survival at k only rounds with verify_len >= k count, so the cut does not fool it; a position that too few
of them reach keeps its temperature. A position never verified would never be relearned: one round in 32, chosen before
drafting by an addressed decision, is a probe that verifies in full.

    Online(path="calibration.json").calibrate(logits, memory)
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit import calibration
from sparkit.calibration import Provenance, for_gamma, to_confidence
from sparkit.decisions import Decisions, Purpose
from sparkit.labels import Records
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Rounds
from sparkit.temperature_scaling import fit_temperatures

WINDOW = 1024
FORGETTING = 0.995  # a round
NUM_TEMPERATURES = 41
SMOOTHNESS = 0.01
MIN_WEIGHT = 5.0  # of 200: probes alone keep 6, a position without any is left as it was after 740 rounds
WHOLE_BLOCK = 1 << 16  # more drafts than any block has: the engine cuts it to the ceiling


@dataclass(frozen=True, slots=True)
class Memory:
    """The last verified rounds, oldest first, and the temperatures fitted to them."""

    calibration_temperatures: Float[Tensor, " positions"] | None = None  # None: as they came
    records: Records | None = None
    num_since_fit: int = 0


@CALIBRATORS.register("online", summary="STS refitted while serving, with forgetting and probes")
class Online:
    """Method section 5, online calibration.

    Args:
        path: an `sts` file, or a drafter's folder that may hold one, to start from; None: from temperature 1.
        refit_every: verified rounds between two fits.
        probe_every: one round in so many verifies in full; 0 means none.
        labels: "soft" takes 1 - TV where it is known (less noise; right for the verifier `rejection`), "hard" only
            what was accepted (right for every verifier; `block` and `coupled` need it).
    """

    lossless = True
    batch_independent = False

    def __init__(
        self,
        path: Path | None = None,
        refit_every: int = 64,
        probe_every: int = 32,
        labels: Literal["soft", "hard"] = "soft",
    ) -> None:
        if refit_every < 1 or probe_every < 0:
            raise ValueError(f"online refit_every={refit_every}, probe_every={probe_every}: expected >= 1 and >= 0")
        if labels not in ("soft", "hard"):
            raise ValueError(f"online labels={labels!r}: expected 'soft' or 'hard'")
        self.refit_every, self.probe_every, self.labels = refit_every, probe_every, labels
        self.provenance, self.initial = Provenance(), None
        if path is not None and (not Path(path).is_dir() or calibration.file_of(Path(path), "sts").is_file()):
            document, self.provenance = calibration.load(Path(path), "sts")
            self.initial = torch.tensor(
                calibration.numbers(document, "calibration_temperatures", Path(path)), dtype=torch.float64
            )

    def start(self) -> Memory:
        """Nothing seen."""
        return Memory()

    def temperatures(self, memory: Memory, gamma: int) -> Float[Tensor, " gamma"]:
        """Those in force."""
        current = self.initial if memory.calibration_temperatures is None else memory.calibration_temperatures
        return torch.ones(gamma, dtype=torch.float64) if current is None else for_gamma(current, gamma)

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: Memory) -> Float[Tensor, "R gamma"]:
        """See `Calibrator`."""
        return to_confidence(logits / self.temperatures(memory, logits.shape[1]).to(logits), logits)

    def floor(self, memory: Memory, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """The whole block for probes; each request's coin has its own address."""
        if not self.probe_every:
            return torch.zeros_like(anchors)
        prob = torch.full((len(anchors), 1), 1 / self.probe_every, dtype=torch.float32, device=anchors.device)
        return decisions.coins(prob, Purpose.PROBE)[:, 0].to(anchors) * WHOLE_BLOCK

    def observe(self, memory: Memory, rounds: Rounds) -> Memory:
        """Takes in a step's verified rounds, and fits again when enough are new."""
        new = _verified(rounds)
        if not len(new):
            return memory
        records = new if memory.records is None else memory.records.plus(new)[-WINDOW:]
        num = memory.num_since_fit + len(new)
        if num < self.refit_every:
            return Memory(memory.calibration_temperatures, records, num)
        return Memory(self._fit(memory, records), records, 0)

    def _fit(self, memory: Memory, records: Records) -> Float[Tensor, " gamma"]:
        age = torch.arange(len(records) - 1, -1, -1, dtype=torch.float64)
        kept = self.temperatures(memory, records.gamma)
        return fit_temperatures(
            records,
            FORGETTING**age,
            kept=kept,
            num_temperatures=NUM_TEMPERATURES,
            min_weight=MIN_WEIGHT,
            soft=self.labels == "soft",
            smoothness=SMOOTHNESS,
        ).calibration_temperatures


def _verified(rounds: Rounds) -> Records:
    """The rounds of a step that verified anything, on the CPU: one copy a step."""
    columns = (rounds.logits, rounds.verdict.accepted, rounds.plan.verify_len, rounds.accept_rate)
    logits, accepted, verify_len, accept_rate = (column.detach().cpu() for column in columns)
    return Records(logits.double(), accepted, verify_len, accept_rate.double())[verify_len > 0]
