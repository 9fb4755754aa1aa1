"""A verifier keeps the target's law for all p_draft, p_target and all non-anticipating cuts; rows do not mix.

A toy world gives every prefix its own random p_draft and p_target and its own decision to cut there (so the cut is a
stopping rule). Drafts and the verifier's decisions are enumerated; behind the committed tokens the target goes on.
The law of the first gamma + 1 tokens must be the target's. A schedule-invariant verifier is given any cut at all.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sparkit.decisions import AddressedSource, Purpose
from sparkit.proofs.enumeration import Enumerated, Rows
from sparkit.proofs.laws.keeping import Report, hold
from sparkit.proofs.paths import ANCHORED, COUPLED, Path
from sparkit.protocols import Verifier
from sparkit.rounds import Draft, Plan, Verdict

SIZES = ((2, 1), (2, 2), (3, 2), (2, 3))  # (V, gamma)
EXACT = 1e-12
Prefix = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """A law and a cut for every prefix."""

    V: int
    gamma: int
    p_target: dict[Prefix, list[float]]
    p_draft: dict[Prefix, list[float]]
    stops: dict[Prefix, bool]  # cut before the token after this prefix

    def verify_len(self, tokens: Prefix) -> int:
        """The first prefix that stops."""
        return next((k for k in range(self.gamma) if self.stops[tokens[:k]]), self.gamma)

    def probability(self, text: Prefix) -> float:
        """Of a text under the target."""
        p = 1.0
        for k, token in enumerate(text):
            p *= self.p_target[text[:k]][token]
        return p


def check_verifier(part: Verifier, *, num_trees: int = 12) -> Report:
    """Holds a verifier to its laws.

    Args:
        part: the verifier.
        num_trees: random worlds of each size.
    """
    return hold(
        "verifier",
        part,
        {
            "the committed tokens follow the target": lambda: _exact(part, num_trees),
            "accepted lies in 0..verify_len, a bonus follows full acceptance": lambda: _consistent(part),
            "requests do not see each other": lambda: _rows(part),
            "a token without target mass is never committed": lambda: _mass(part),
            "no address is asked by two decisions": lambda: _addresses(part, num_trees),
        },
    )


def random_tree(rng: random.Random, V: int, gamma: int) -> Tree:
    """Random laws, some with tokens of no mass; cuts by prefix."""
    prefixes = [p for n in range(gamma + 2) for p in itertools.product(range(V), repeat=n)]

    def law() -> list[float]:
        weights = [rng.choice((0.0, 1.0, rng.random(), rng.random(), 3 * rng.random())) for _ in range(V)]
        weights = weights if sum(weights) > 0 else [1.0] * V
        return [w / sum(weights) for w in weights]

    share = rng.choice((0.0, 0.2, 0.5))
    stops = {p: rng.random() < share for p in prefixes}
    return Tree(V, gamma, {p: law() for p in prefixes}, {p: law() for p in prefixes}, stops)


def outcomes(part: Verifier, tree: Tree, rng: random.Random | None = None) -> Iterator[tuple[Prefix, float, Path]]:
    """Every branch of one round: committed tokens, probability, path."""
    source = Enumerated(COUPLED if part.schedule_invariant else ANCHORED)
    scripts: list[tuple[int, ...]] = [()]
    cuts: dict[Prefix, int] = {}
    while scripts:
        path = source.begin(scripts.pop(), {}, {})
        rows = source.at(torch.tensor([0]), torch.tensor([5]))
        draft, tokens = _draft(tree, rows)
        if rng is not None and tokens not in cuts:
            cuts[tokens] = rng.randint(0, tree.gamma)
        length = cuts[tokens] if rng is not None else tree.verify_len(tokens)
        laws = torch.tensor([tree.p_target[tokens[:k]] for k in range(length + 1)], dtype=torch.float64)
        verdict = part.verify(draft, Plan(torch.tensor([length])), laws, rows)
        scripts += path.alternatives()
        yield (*tokens[: int(verdict.accepted)], int(verdict.next_token)), float(path.probability), path


def _draft(tree: Tree, rows: Rows) -> tuple[Draft, Prefix]:
    tokens: Prefix = ()
    for k in range(tree.gamma):
        law = torch.tensor([tree.p_draft[tokens]], dtype=torch.float64)
        tokens = (*tokens, int(rows.draw(law, Purpose.DRAFT, k + 1)))
    laws = torch.tensor([[tree.p_draft[tokens[:k]] for k in range(tree.gamma)]], dtype=torch.float64)
    return Draft(torch.tensor([tokens]), laws), tokens


def total_variation_of(part: Verifier, tree: Tree, rng: random.Random | None = None) -> float:
    """Of the first gamma + 1 tokens, the target going on behind the committed ones."""
    found: dict[Prefix, float] = {}
    for text, p, _ in outcomes(part, tree, rng):
        found[text] = found.get(text, 0.0) + p
    law = dict.fromkeys(itertools.product(range(tree.V), repeat=tree.gamma + 1), 0.0)
    for text, p in found.items():
        for full in law:
            if full[: len(text)] == text:
                law[full] += p * tree.probability(full) / (tree.probability(text) or float("inf"))
    lost = 1.0 - sum(law.values())  # mass on a text that the target does not have
    return (sum(abs(p - tree.probability(full)) for full, p in law.items()) + lost) / 2


def _trees(part: Verifier, num: int) -> Iterator[Tree]:
    rng = random.Random(1)
    for V, gamma in SIZES:
        if part.schedule_invariant and V > 2:
            continue  # coupled noise over more tokens is no single uniform: `sparkit.proofs.pathwise`
        yield from (random_tree(rng, V, gamma) for _ in range(num))


def _exact(part: Verifier, num: int) -> Iterator[str]:
    rng = random.Random(2) if part.schedule_invariant else None
    for tree in _trees(part, num):
        if part.schedule_invariant:
            continue  # one round alone is not its law: its noise lives on (measured over rounds by `prove`)
        if (off := total_variation_of(part, tree, rng)) > EXACT:
            yield f"total variation {off:.3g} for {tree}"


def _addresses(part: Verifier, num: int) -> Iterator[str]:
    for tree in _trees(part, min(num, 4)):
        for _, _, path in outcomes(part, tree):
            yield from path.faults


def _batch(seed: int, V: int = 4, gamma: int = 3, R: int = 6) -> tuple[Draft, Plan, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    p_draft = torch.rand(R, gamma, V, generator=generator, dtype=torch.float64) + 0.05
    p_draft = p_draft / p_draft.sum(-1, keepdim=True)
    tokens = torch.multinomial(p_draft.view(-1, V), 1, generator=generator).view(R, gamma)
    plan = Plan(torch.randint(gamma + 1, (R,), generator=generator))
    p_target = torch.rand(int((1 + plan.verify_len).sum()), V, generator=generator, dtype=torch.float64)
    p_target[:, seed % V] = 0.0
    seeds, anchors = torch.arange(R) + 100 * seed, torch.arange(R) + 7
    return Draft(tokens, p_draft), plan, p_target / p_target.sum(-1, keepdim=True), seeds, anchors


def _verdicts(part: Verifier) -> Iterator[tuple[int, Draft, Plan, Tensor, Verdict]]:
    for seed in range(40):
        draft, plan, p_target, seeds, anchors = _batch(seed)
        yield seed, draft, plan, p_target, part.verify(draft, plan, p_target, part.source.at(seeds, anchors))


def _consistent(part: Verifier) -> Iterator[str]:
    for seed, _, plan, _, verdict in _verdicts(part):
        inside = (verdict.accepted >= 0) & (verdict.accepted <= plan.verify_len)
        if not bool(inside.all()) or not torch.equal(verdict.is_bonus, verdict.accepted == plan.verify_len):
            yield f"batch {seed}: accepted {verdict.accepted.tolist()} of {plan.verify_len.tolist()}, {verdict}"


def _mass(part: Verifier) -> Iterator[str]:
    for seed, draft, plan, p_target, verdict in _verdicts(part):
        for r, accepted in enumerate(verdict.accepted.tolist()):
            text = [*draft.tokens[r, :accepted].tolist(), int(verdict.next_token[r])]
            first = int(plan.first_row[r])
            if any(float(p_target[first + k, token]) == 0 for k, token in enumerate(text)):
                yield f"batch {seed}, request {r}: committed {text}, one of which has no target mass"


def _rows(part: Verifier) -> Iterator[str]:
    source = part.source if part.schedule_invariant else AddressedSource()
    for seed in range(12):
        draft, plan, p_target, seeds, anchors = _batch(seed)
        together = part.verify(draft, plan, p_target, source.at(seeds, anchors))
        for r in range(len(seeds)):
            one = slice(r, r + 1)
            first = int(plan.first_row[r])
            rows = p_target[first : first + 1 + int(plan.verify_len[r])]
            alone = part.verify(
                Draft(draft.tokens[one], draft.p_draft[one]), Plan(plan.verify_len[one]), rows,
                source.at(seeds[one], anchors[one]),
            )  # fmt: skip
            if int(alone.accepted) != int(together.accepted[r]) or int(alone.next_token) != int(together.next_token[r]):
                yield f"batch {seed}, request {r}: {alone} alone, {together} in the batch"
