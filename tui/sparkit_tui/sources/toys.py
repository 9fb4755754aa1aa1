"""Two toy worlds decoded by the real engine: Appendix A under a scheduler that looks ahead, and the collision table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from sparkit_tui.messages import Item, LawKnown, Opened
from sparkit_tui.model.collision import JointLaw, collision_of
from sparkit_tui.model.header import Header, Pieces
from sparkit_tui.sources.decoding import Decoding, Entry

if TYPE_CHECKING:
    from sparkit.engine import Parts
    from sparkit.targets.table import Tables

TOY_TOKENS = 64


def parts_of(tables: Tables, scheduler: str, verifier: str) -> Parts:
    """A whole composition out of one set of tables."""
    from sparkit.engine import Parts
    from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, SCHEDULERS, VERIFIERS
    from sparkit.targets.table import TableTarget

    target = TableTarget(tables)
    return Parts(
        target,
        DRAFTERS.create("table", target=target),
        CONFIDENCES.create("table", target=target),
        CALIBRATORS.create("identity"),
        SCHEDULERS.create(scheduler),
        VERIFIERS.create(verifier),
        tables.capacity,
    )


def header_of(parts: Parts, names: dict[str, str], gamma: int, pieces: Pieces) -> Header:
    """What the screens say of it."""
    chain = ("confidence", "calibrator", "scheduler", "verifier")
    judged = ("verifier",) if parts.verifier.schedule_invariant else chain
    lossy = tuple(f"{kind} {names[kind]}" for kind in judged if not getattr(parts, kind).lossless)
    return Header(
        parts=names,
        gamma=gamma,
        is_lossless=parts.is_lossless,
        lossy_parts=lossy,
        is_schedule_invariant=parts.verifier.schedule_invariant,
        capacity=parts.capacity,
        pieces=pieces,
    )


def entries(prompt: tuple[int, ...], text: str, max_new_tokens: int, label: str) -> Iterator[Entry]:
    """The same prompt for ever, each time with another seed."""
    from sparkit.decisions import request_seed
    from sparkit.engine import Request

    for index in count():
        yield Entry(Request(prompt, request_seed(0, index, 0), max_new_tokens), text, label)


def decoding_of(
    tables: Tables, parts: Parts, prompt: str, max_new_tokens: int, pieces: Pieces, lane: str = ""
) -> Decoding:
    """One request at a time, blocks of two."""
    texts = entries((0,), prompt, max_new_tokens, "toy")
    return Decoding(parts, texts, gamma=2, batch=1, pieces=pieces, text_of=tables.vocab.__getitem__, lane=lane)


def appendix_a_lane(verifier: str) -> tuple[list[Decoding], list[Item]]:
    """The extended model of Appendix A [DSpark appendix A] under `lookahead`, and the exact law of its first token."""
    from sparkit.proofs.paper import paper_row
    from sparkit.targets.table import appendix_a

    tables = appendix_a()
    parts = parts_of(tables, "lookahead", verifier)
    names = {
        "target": "table:appendix-a", "drafter": "table", "confidence": "table", "calibrator": "identity",
        "scheduler": "lookahead", "verifier": verifier, "capacity": "appendix-a",
    }  # fmt: skip
    pieces = Pieces(dict(enumerate(tables.vocab)))
    header = header_of(parts, names, 2, pieces)
    row = paper_row("lookahead", verifier)
    law = LawKnown(header.label, tables.vocab, tables.target[()], tuple(map(float, row.law)), row.is_lossless)
    return [decoding_of(tables, parts, "A", TOY_TOKENS, pieces)], [Opened(header), law]


def collision_lanes(table: JointLaw) -> tuple[list[Decoding], list[Item]]:
    """A table of word pairs, drafted by its marginals and by its conditionals."""
    lanes: list[Decoding] = []
    items: list[Item] = []
    for name in ("parallel", "semi-autoregressive"):
        tables = tables_of(table, is_parallel=name == "parallel")
        parts = parts_of(tables, "fixed", "rejection")
        names = {"target": "table", "drafter": name, "confidence": "table", "calibrator": "identity"}
        names |= {"scheduler": "fixed", "verifier": "rejection"}
        pieces = Pieces(dict(enumerate(tables.vocab)))
        lanes.append(decoding_of(tables, parts, "thanks", 4, pieces, name))
        items.append(Opened(header_of(parts, names, 2, pieces), name))
    return lanes, items


def tables_of(table: JointLaw, *, is_parallel: bool) -> Tables:
    """The joint table as a toy world: thanks -> ":" -> first word -> second word -> ".".

    The colon is the prefill's own token, so that both words are drafted, and nothing else ever is.
    """
    from sparkit.targets.table import Tables

    seen = collision_of(table)
    words = ["thanks", ":", ".", *dict.fromkeys((*seen.firsts, *seen.seconds))]
    ids = {word: i for i, word in enumerate(words)}

    def law(masses: dict[str, float]) -> tuple[float, ...]:
        total = sum(masses.values())
        return tuple(masses.get(word, 0.0) / total for word in words)

    first = {a: sum(seen.target[a, b] for b in seen.seconds) for a in seen.firsts}
    second = {b: sum(seen.target[a, b] for a in seen.firsts) for b in seen.seconds}
    given = {a: {b: seen.target[a, b] for b in seen.seconds} for a in seen.firsts if first[a] > 0}
    target = {(): law({".": 1.0}), (ids["thanks"],): law({":": 1.0}), (ids[":"],): law(first)}
    target |= {(ids[":"], ids[a]): law(masses) for a, masses in given.items()}
    conditional: dict[tuple[int, ...], tuple[float, ...]] = {
        (ids[":"], ids[a]): law(masses) for a, masses in given.items()
    }
    draft: tuple[dict[tuple[int, ...], tuple[float, ...]], ...] = (
        {(): law(first)},
        {(): law(second)} | ({} if is_parallel else conditional),
    )
    acceptance = seen.parallel_acceptance if is_parallel else seen.semi_acceptance
    chances: tuple[dict[tuple[int, ...], float], ...] = tuple({(): rate} for rate in acceptance)
    return Tables(tuple(words), target, draft, chances, {1: 1.0})
