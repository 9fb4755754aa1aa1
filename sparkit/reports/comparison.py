"""The numbers of `compose --json`: one row a run and domain, and a row "macro" that weighs domains equally.

Definitions: design section 5. tau = tokens emitted by rounds / request-rounds (prefill excluded); seconds_per_token =
wall / new tokens; macro seconds are the mean over domains and the macro speedup their ratio. Overhead is what is left
of the wall after the draft, schedule and verify phases, so nothing is lost between the clocks.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sparkit.audit import Audit, reading
from sparkit.experiments import DomainRun, Run
from sparkit.metrics import macro_interval, measure, tau_groups

SCHEMA = "sparkit.compose/1"
MACRO = "macro"
_AVERAGED = ("tau", "accepted", "verified_acceptance", "mean_verify_len", "undrafted_share", "ece", "ece_floor", "auc")
_PHASES = ("draft_seconds", "schedule_seconds", "verify_seconds", "overhead_seconds")


def rows(run: Run) -> list[dict[str, Any]]:
    """One row a domain, then macro."""
    found = [_row(run, domain, done) for domain, done in run.domains.items() if done.finished]
    return [*found, _macro(run, found)] if found else []


def _row(run: Run, domain: str, done: DomainRun) -> dict[str, Any]:
    recipe = run.composition.recipe
    measures = asdict(measure(done.rounds, recipe.gamma))
    plain = None if run.plain is None else run.plain.domains.get(domain)
    spent = _seconds_per_token(done)
    plain_spent = None if plain is None else _seconds_per_token(plain)
    return {
        "recipe": _recipe(run),
        "domain": domain,
        "batch": recipe.batch,
        "num_prompts": len(done.finished),
        **measures,
        "overhead_seconds": _overhead(done),
        "num_new_tokens": done.num_new_tokens,
        "tokens_per_second": None if not spent else 1 / spent,
        "plain_tokens_per_second": None if not plain_spent else 1 / plain_spent,
        "speedup": plain_spent / spent if plain_spent and spent else None,
        "seconds_per_token": spent,
        "plain_seconds_per_token": plain_spent,
        **_shared(run),
    }


def _recipe(run: Run) -> dict[str, Any]:
    names = {k: v for k, v in run.composition.names.items() if k in ("head", "confidence", "calibrator")}
    return {**asdict(run.composition.recipe), **names}


def _seconds_per_token(done: DomainRun) -> float | None:
    return done.seconds / done.num_new_tokens if done.num_new_tokens else None


def _overhead(done: DomainRun) -> float | None:
    steps = {one.step: one.seconds for one in done.rounds}
    inside = sum(s.draft + s.schedule + s.verify for s in steps.values())
    return (done.seconds - inside) / len(steps) if steps else None


def _shared(run: Run) -> dict[str, Any]:
    parts = run.composition.parts
    audit = Audit()
    for one in run.rounds:
        audit = audit.after(one.audit_chosen, one.audit_mass)
    verdict = reading(
        audit,
        declared_lossless=parts.is_lossless,
        schedule_invariant=parts.verifier.schedule_invariant,
        equals_plain=equals_plain(run),
    )
    return {
        "capacity": parts.capacity.to_json(),
        "lossless": parts.is_lossless,
        "log_e_value": None if parts.verifier.schedule_invariant else audit.log_e_value,
        "audit": verdict.sentence,
    }


def equals_plain(run: Run) -> bool | None:
    """Whether every text is the plain decoding of its seed, as far as both were decoded; None without a plain run."""
    if run.plain is None:
        return None
    pairs = [
        (mine.token_ids, alone.token_ids)
        for domain, done in run.domains.items()
        if domain in run.plain.domains
        for mine, alone in zip(done.finished, run.plain.domains[domain].finished, strict=False)
    ]
    return all(a == b for mine, alone in pairs for a, b in zip(mine, alone, strict=False)) if pairs else None


def _macro(run: Run, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    spent, plain = (_mean([row[key] for row in found]) for key in ("seconds_per_token", "plain_seconds_per_token"))
    groups = [tau_groups(done.rounds, lambda one: one.request) for done in run.domains.values() if done.finished]
    return {
        **found[0],
        "domain": MACRO,
        **{key: sum(row[key] for row in found) for key in ("num_prompts", "num_rounds", "num_new_tokens")},
        **{key: _mean([row[key] for row in found]) for key in (*_AVERAGED, *_PHASES)},
        "tau_interval": macro_interval(groups),
        "num_at_position": [sum(counts) for counts in zip(*(row["num_at_position"] for row in found), strict=True)],
        **{key: _means([row[key] for row in found]) for key in ("conditional_acceptance", "prefix_acceptance")},
        "seconds_per_token": spent,
        "plain_seconds_per_token": plain,
        "tokens_per_second": None if not spent else 1 / spent,
        "plain_tokens_per_second": None if not plain else 1 / plain,
        "speedup": plain / spent if plain and spent else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """None as soon as one domain has no data: a mean over fewer domains would not be the macro."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _means(columns: Sequence[Sequence[float | None]]) -> list[float | None]:
    return [_mean(values) for values in zip(*columns, strict=True)]


def texts(run: Run, index: int) -> list[dict[str, Any]]:
    """Every decoded text with the origin of its tokens."""
    return [_text(run, index, i, done) for done in run.domains.values() for i in range(len(done.finished))]


def _text(run: Run, index: int, place: int, done: DomainRun) -> dict[str, Any]:
    one, tokenizer = done.finished[place], run.composition.tokenizer
    stream = None if tokenizer is None else tokenizer.stream()
    pieces = [(stream.push(t.id) if stream is not None else str(t.id), t.origin) for t in one.text]
    if stream is not None and pieces:
        pieces[-1] = (pieces[-1][0] + stream.finish(), pieces[-1][1])
    return {
        "run": index,
        "prompt": done.prompts[place].text,
        "stop_reason": one.stop_reason,
        "tokens": [{"text": text, "origin": origin} for text, origin in pieces],
    }


def document(runs: Sequence[Run], environment: dict[str, object], *, is_complete: bool = True) -> dict[str, Any]:
    """The whole document."""
    return {
        "schema": SCHEMA,
        "environment": environment,
        "is_complete": is_complete,
        "runs": [row for run in runs for row in rows(run)],
        "texts": [text for index, run in enumerate(runs) for text in texts(run, index)],
    }
