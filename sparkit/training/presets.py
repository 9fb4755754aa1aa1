"""The sizes and budgets of the bundled lane, in one place; `sparkit train all --preset bundled` follows them.

>>> PRESETS["bundled"].gamma
7
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sparkit.targets.transformer import TransformerConfig
from sparkit.training.loop import Optimisation
from sparkit.training.target import BUNDLED


@dataclass(frozen=True, slots=True)
class Preset:
    """Everything that a rebuild needs to know."""

    target: TransformerConfig = BUNDLED
    target_plan: Optimisation = Optimisation(peak_rate=3e-3, minutes=43.0)
    target_tokens_per_step: int = 1600  # of all ranks together
    target_shares: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType({"math": 0.28, "code": 0.44, "chat": 0.28})
    )
    """Code takes most learning, so it gets most tokens."""
    corpus_tokens: int = 6_000_000
    heldout_tokens: int = 200_000
    max_len: int = 320  # tokens of a document that are used
    gamma: int = 7
    seed: int = 0


PRESETS: Mapping[str, Preset] = MappingProxyType({"bundled": Preset()})
