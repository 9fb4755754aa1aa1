"""The sizes and budgets of the bundled lane, in one place; `sparkit train all --preset bundled` follows them.

>>> PRESETS["bundled"].gamma
7
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sparkit.targets.transformer import TransformerConfig
from sparkit.training.loop import Optimisation
from sparkit.training.target import BUNDLED

TARGET_PLAN = Optimisation(peak_rate=1e-2, minutes=46.0, method="muon", adamw_share=0.3)
"""Loss after 75 steps of 1600 tokens: 3.40 so, 3.84 with peak 3e-3 for both kinds; with AdamW alone, peak 3e-3, on the
tokenizer of 2048 ids 5.76, where Muon stood at 3.62."""
DRAFTER_PLAN = Optimisation(peak_rate=1e-2, steps=3000, weight_decay=0.01, method="muon", adamw_share=2.0)
"""tau of dspark-markov after 120 steps (math, code, chat; first target): 2.47, 2.48, 1.92 so; 2.63, 2.56, 1.99 with
2e-2 and share 1, which leaves a long run no calm; 1.61, 1.70, 1.21 with AdamW alone at 3e-3.
Of dspark-rnn: 4.88, 3.02, 3.41 after 1000 steps, 5.19, 3.10, 3.64 after 1500, 5.78, 3.22, 4.27 after 3000, 5.73, 3.33,
5.25 after 8000 on twice the answers; 7.92, 3.64, 7.43 after 16,000 with blocks of twelve."""

LONGER = {"dspark-rnn": 16_000}
"""The drafter for speed; the other five were trained on the first half of the answers, for `DRAFTER_PLAN.steps`. The
weights that come with sparkit were not made in one go: 8000 steps for blocks of seven, then on from that checkpoint at
the rates of a longer plan, from step 9100 for blocks of twelve."""

LONG_BLOCKS = {"dspark-rnn": 12}
"""The same drafter: after seven accepted tokens the eighth is accepted as often, and lengthens a round at batch 1 by a
thirtieth. In shorter blocks than it was trained for, positions are accepted as in long ones (in four for seven: 0.73,
0.81, 0.82, 0.83 for 0.74, 0.79, 0.83, 0.84)."""

CONFIDENCE_PLAN = Optimisation(peak_rate=1e-2, steps=1000, weight_decay=0.01, method="muon", adamw_share=0.2)
"""AUC of dspark-markov's survivals on 107,420 held-out rounds, as a share of the analytic product's: 0.971; the paper's
head reaches 0.883 (`benchmarks/calibration.py`)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Everything that a rebuild needs to know."""

    target: TransformerConfig = BUNDLED
    target_plan: Optimisation = TARGET_PLAN
    target_tokens_per_step: int = 2000  # of all ranks together
    target_shares: Mapping[str, float] = field(
        default_factory=lambda: MappingProxyType({"math": 0.28, "code": 0.44, "chat": 0.28})
    )
    """Code takes most learning, so it gets most tokens."""
    corpus_tokens: int = 6_000_000
    heldout_tokens: int = 200_000
    max_len: int = 320  # tokens of a document that are used
    response_tokens: int = 1_040_000  # written by the target for the drafters, prompts included
    check_tokens: int = 45_000  # the same from held-out prompts, for the offline numbers
    taps: tuple[int, ...] = (1, 4, 7, 10, 11)  # target layers kept with the responses; the last layer is the last
    drafter_plan: Optimisation = DRAFTER_PLAN
    drafter_steps: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(LONGER))  # where not the plan's
    drafter_tokens_per_step: int = 1200
    num_anchors: int = 160  # blocks a step
    gamma: int = 7
    drafter_gammas: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(LONG_BLOCKS))  # where another
    fitting_prompts: int = 64  # held-out prompts a domain for the temperatures
    confidences: tuple[str, ...] = ("dspark-markov", "dspark-rnn")  # that get a recurrent one
    confidence_rounds: int = 110_000  # verified blocks it is trained on
    confidence_plan: Optimisation = CONFIDENCE_PLAN
    seed: int = 0

    def plan_of(self, drafter: str) -> Optimisation:
        """How a drafter is trained.

        >>> PRESETS["smoke"].plan_of("dspark-rnn").steps
        10
        """
        steps = self.drafter_steps.get(drafter)
        return self.drafter_plan if steps is None else replace(self.drafter_plan, steps=steps)

    def gamma_of(self, drafter: str) -> int:
        """The longest block that a drafter is trained for.

        >>> PRESETS["bundled"].gamma_of("dflash")
        7
        """
        return self.drafter_gammas.get(drafter, self.gamma)

    def with_drafter_steps(self, steps: int) -> "Preset":
        """The same with so many steps for every drafter."""
        return replace(self, drafter_plan=replace(self.drafter_plan, steps=steps, minutes=None), drafter_steps={})


@dataclass(frozen=True, slots=True)
class DrafterSpec:
    """How a bundled drafter is made: its part, the part's options, its loss recipe."""

    part: str
    recipe: str
    options: Mapping[str, object] = field(default_factory=dict)


BLOCK: Mapping[str, object] = MappingProxyType({"mask_token_id": 4, "num_kv_heads": 5})
"""The target has one key/value head: 32 numbers a layer would be all that a block drafter gets to see of a feature."""

DRAFTERS: Mapping[str, DrafterSpec] = MappingProxyType(
    {
        "dflash": DrafterSpec("dflash", "dflash", BLOCK),
        "eagle3": DrafterSpec("eagle3", "eagle3"),
        "mtp": DrafterSpec("mtp", "mtp"),
        "dspark-markov": DrafterSpec("dspark", "dspark", {**BLOCK, "head": "markov"}),
        "dspark-gated": DrafterSpec("dspark", "dspark", {**BLOCK, "head": "gated"}),
        "dspark-rnn": DrafterSpec("dspark", "dspark", {**BLOCK, "head": "rnn"}),
    }
)
"""Same sequences, same anchors, same optimiser steps for all."""

ABLATIONS: Mapping[str, DrafterSpec] = MappingProxyType(
    {"dflash-dspark-losses": DrafterSpec("dflash", "dspark", BLOCK)}
)
"""Not bundled: how much of dspark's lead is its losses, and how much its serial head."""

SMOKE = Preset(
    target=replace(BUNDLED, hidden_size=64, intermediate_size=128, num_layers=6),
    target_plan=Optimisation(peak_rate=1e-2, steps=40, method="muon"),
    target_tokens_per_step=800,
    corpus_tokens=60_000,
    heldout_tokens=9_000,
    response_tokens=8_000,
    check_tokens=4_000,
    taps=(1, 2, 3, 4, 5),
    drafter_plan=Optimisation(peak_rate=1e-2, steps=10, method="muon"),
    drafter_steps={},
    drafter_gammas={},
    drafter_tokens_per_step=400,
    num_anchors=24,
    fitting_prompts=2,
    confidences=("dspark-markov",),
    confidence_rounds=600,
    confidence_plan=replace(CONFIDENCE_PLAN, steps=4),
)
"""Every stage in a minute, to see that it runs; what it makes speaks gibberish."""

DEEP = replace(
    Preset(),
    target=replace(BUNDLED, num_layers=20),
    target_plan=replace(TARGET_PLAN, minutes=60.0),
    target_shares=MappingProxyType({"math": 0.25, "code": 0.5, "chat": 0.25}),
    response_tokens=520_000,
    taps=(1, 7, 12, 18, 19),
    drafter_steps={},
    drafter_gammas={},
)
"""Not bundled: a target of twenty layers, for which the same draft is a smaller share of a round."""

PRESETS: Mapping[str, Preset] = MappingProxyType({"bundled": Preset(), "deep": DEEP, "smoke": SMOKE})
