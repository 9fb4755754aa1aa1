"""Rounds made up by a seeded generator, consistent in every field; for tests only, no screen ever shows them.

Each position has small random laws over a few words; a token is drawn from p_draft, accepted with
min(1, p_target / p_draft), corrected from the residual: the screens see what a real run would send.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log

from sparkit.capacity import staircase
from sparkit.rounds import Round, Seconds, Token, TopTokens
from sparkit.traces import TraceHeader

WORDS = (
    " of", " course", " no", " problem", " the", " answer", " is", " seven", ".", "\n", " def", " add", "(", "a", ",",
    " b", ")", ":", " return", " +", " and", " then", " we", " take", " half", " a", " dozen", " eggs", " from",
    " him", " to", "?",
)  # fmt: skip
Law = list[float]


@dataclass
class Synthetic:
    """A generator of engine steps."""

    gamma: int = 7
    num_requests: int = 4
    seed: int = 0
    limit: int = 10_000
    rng: random.Random = field(init=False)
    positions: list[int] = field(init=False)
    anchors: list[int] = field(init=False)
    produced: list[int] = field(init=False)
    step_number: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.positions = [9 + i for i in range(self.num_requests)]
        self.anchors = [i % len(WORDS) for i in range(self.num_requests)]
        self.produced = [0] * self.num_requests

    def steps(self, num: int) -> Iterator[tuple[Round, ...]]:
        """The prefill step, then drafted ones."""
        for _ in range(num):
            rounds = self.step()
            if not rounds:
                return
            yield rounds

    def step(self) -> tuple[Round, ...]:
        """One engine step of every request that is not finished."""
        running = [r for r in range(self.num_requests) if self.produced[r] < self.limit]
        self.step_number += 1
        if not running:
            return ()
        if self.step_number == 1:
            return tuple(self._prefill(r) for r in running)
        plans = {r: self._block(r) for r in running}
        batch = sum(1 + plan["verify_len"] for plan in plans.values())
        return tuple(self._round(r, plans[r], len(running), batch) for r in running)

    def _prefill(self, r: int) -> Round:
        token = self.rng.randrange(len(WORDS))
        self.anchors[r], self.produced[r] = token, 1
        return Round(
            r, 1, "prefill", 0, self.positions[r], (), (), (), (), (), (), (), 0, 0, 0, False, 0, token, "plain",
            (Token(token, "plain"),), None, (), (), self.num_requests, 40, 40, Seconds(0.0, 0.0, 0.004, 0.001),
        )  # fmt: skip

    def _law(self) -> Law:
        weights = [self.rng.random() ** 6 for _ in WORDS]
        total = sum(weights)
        return [w / total for w in weights]

    def _block(self, r: int) -> dict:
        drafts, targets = [], []
        for _ in range(self.gamma + 1):
            target, noise = self._law(), self._law()
            mix = 0.55 + 0.4 * self.rng.random()
            drafts.append([mix * t + (1 - mix) * n for t, n in zip(target, noise, strict=True)])
            targets.append(target)
        tokens = [self.rng.choices(range(len(WORDS)), law)[0] for law in drafts[: self.gamma]]
        rate = [sum(map(min, d, t)) for d, t in zip(drafts, targets, strict=True)]
        logits = [log(a / (1 - a)) + self.rng.gauss(0.4, 0.5) for a in rate[: self.gamma]]
        survival, verify_len, product = [], 0, 1.0
        for value in rate[: self.gamma]:
            product *= value
            survival.append(product)
        is_probe = self.rng.random() < 1 / 32
        while verify_len < self.gamma and (is_probe or survival[verify_len] > 0.3):
            verify_len += 1
        return locals()

    def _round(self, r: int, plan: dict, num_requests: int, batch: int) -> Round:
        drafts, targets, tokens, verify_len = plan["drafts"], plan["targets"], plan["tokens"], plan["verify_len"]
        accepted = 0
        while accepted < verify_len:
            token = tokens[accepted]
            if self.rng.random() >= min(1, targets[accepted][token] / drafts[accepted][token]):
                break
            accepted += 1
        is_bonus = accepted == verify_len
        residuals = [_residual(t, d) for t, d in zip(targets, drafts, strict=True)]
        law = targets[accepted] if is_bonus else residuals[accepted]
        closing = self.rng.choices(range(len(WORDS)), law)[0]
        origin = "bonus" if is_bonus else "correction"
        emitted = (*(Token(t, "draft") for t in tokens[:accepted]), Token(closing, origin))
        emitted = emitted[: self.limit - self.produced[r]]
        start, anchor = self.positions[r], self.anchors[r]
        self.positions[r] += len(emitted)
        self.anchors[r] = closing
        self.produced[r] += len(emitted)
        known = min(verify_len + 1, self.gamma)
        audited = min(accepted + 1, self.gamma, len(emitted))
        chosen = [drafts[k][t.id] > targets[k][t.id] for k, t in zip(range(audited), emitted, strict=False)]
        mass = [sum(t for d, t in zip(drafts[k], targets[k], strict=True) if d > t) for k in range(audited)]
        product, raised = 1.0, []
        for logit in plan["logits"]:
            product *= 1 / (1 + 2.718281828 ** -(0.9 * logit - 0.3))
            raised.append(product)
        return Round(
            request=r,
            step=self.step_number,
            kind="drafted",
            anchor=anchor,
            anchor_position=start,
            drafted=tuple(tokens),
            p_draft=tuple(drafts[k][t] for k, t in enumerate(tokens)),
            p_target=tuple(targets[k][tokens[k]] for k in range(verify_len)),
            logits=tuple(plan["logits"]),
            confidence=tuple(1 / (1 + 2.718281828 ** -(0.9 * x - 0.3)) for x in plan["logits"]),
            survival=tuple(raised),
            accept_rate=tuple(plan["rate"][:known]),
            verify_len=verify_len,
            floor=self.gamma if plan["is_probe"] else 0,
            ceiling=self.gamma,
            is_probe=plan["is_probe"],
            accepted=accepted,
            next_token=closing,
            origin=origin,
            tokens=emitted,
            stop_reason="length" if self.produced[r] >= self.limit else None,
            audit_chosen=tuple(chosen),
            audit_mass=tuple(mass),
            num_requests=num_requests,
            batch_tokens=batch,
            base_tokens=num_requests,
            seconds=Seconds(0.0015, 0.0002, 0.004 + 0.0001 * batch, 0.0003),
            top=tuple(
                TopTokens(
                    _largest(drafts[k]),
                    _largest(targets[k]) if k <= verify_len else None,
                    _largest(residuals[k]) if k <= verify_len else None,
                )
                for k in range(self.gamma)
            ),
        )


def _residual(target: Law, draft: Law) -> Law:
    excess = [max(t - d, 0.0) for t, d in zip(target, draft, strict=True)]
    total = sum(excess)
    return [e / total for e in excess] if total > 0 else target


def _largest(law: Law, num: int = 5) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(enumerate(law), key=lambda entry: -entry[1])[:num])


PROMPTS = ("Tell me how many eggs are in half a dozen.\n", "Write a function that adds.\n", "Thank you!\n", "2 + 5 =")


def trace_header(source: Synthetic, **recipe: object) -> TraceHeader:
    """What `compose --trace` would write above these rounds."""
    parts = {
        "target": "bundled",
        "drafter": "dspark",
        "head": "markov",
        "confidence": "head",
        "calibrator": "sts",
        "scheduler": "greedy",
    }
    requests = {
        r: {"prompt": PROMPTS[r % len(PROMPTS)], "label": ("math", "code", "chat")[r % 3], "seed": r}
        for r in range(source.num_requests)
    }
    capacity = staircase(tile=8, base=0.004, per_tile=0.001, draft=0.001)
    return TraceHeader(
        recipe={**parts, "verifier": "rejection", "temperature": 1.0, "batch": source.num_requests, **recipe},
        gamma=source.gamma,
        requests=requests,
        pieces=dict(enumerate(WORDS)),
        capacity=capacity.to_json(),
        seed=source.seed,
    )


def rounds_of(steps: Sequence[Sequence[Round]]) -> list[Round]:
    """All rounds of some steps in order."""
    return [r for rounds in steps for r in rounds]
