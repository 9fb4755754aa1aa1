"""The work behind `sparkit simulate`: sweeps over loads, regret, drift, and the closed loop on the real engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sparkit.cli.environment import environment
from sparkit.compose import Composition, assemble
from sparkit.prompts import bundled
from sparkit.recipe import Recipe
from sparkit.reports import serving as report
from sparkit.serving import drift as drifting
from sparkit.serving import real as engine
from sparkit.serving import sources
from sparkit.serving.frontier import gains, is_outside, line_of
from sparkit.serving.load import Load
from sparkit.serving.policy import Policy, curve_of, policy_of
from sparkit.serving.reference import Regret, regret
from sparkit.serving.replay import recorded
from sparkit.serving.simulate import Outcome
from sparkit.serving.simulate import simulate as simulate_one
from sparkit.serving.sources import Blocks
from sparkit.traces import TraceHeader, write_trace

SCHEMA = "sparkit.simulate/1"
SCHEDULERS = ("fixed", "greedy", "delayed", "foresight")
USERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
REAL_USERS = (1, 2, 4, 8, 16, 32, 64)
BASELINE = "mtp-1"
PHASES = ("code", "chat", drifting.MIXED)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    sources: tuple[str, ...]
    baseline: tuple[str, ...]
    schedulers: tuple[str, ...]
    calibrator: str
    capacity: str
    baseline_capacity: str
    users: tuple[int, ...]
    rates: tuple[float, ...]
    slots: int
    steps: int
    prompt_tokens: int
    new_tokens: int
    prefill_chunk: int
    mix: tuple[tuple[str, float], ...]
    regret: tuple[int, ...]
    seed: int
    target: str
    drafter: str
    turns: int
    max_new_tokens: int


def weights(text: str | None) -> tuple[tuple[str, float], ...]:
    """Domain weights from math=1,code=2.

    Raises:
        ValueError: for anything else.
    """
    pairs = [item.partition("=") for item in (text or "").split(",") if item]
    try:
        return tuple((name.strip(), float(value)) for name, _, value in pairs)
    except ValueError as error:
        raise ValueError(f"--mix {text!r}: expected DOMAIN=WEIGHT,..., such as math=1,code=2") from error


def blocks_of(names: Sequence[str], seed: int) -> Blocks:
    """The acceptance source."""
    if "published" not in names:
        return sources.from_traces([Path(name) for name in names])
    if len(names) > 1:
        raise ValueError("--source published stands alone: give it, or traces")
    return sources.published(seed=seed)


def simulate(options: Options, out: Console, plot: Path | None, csv: Path | None) -> dict[str, Any]:
    """The frontier of every scheduler, MTP-1's beside it, and regret where asked."""
    blocks, curve = blocks_of(options.sources, options.seed), curve_of(options.capacity)
    policies = [policy_of(s, options.calibrator, curve, blocks.gamma) for s in options.schedulers or SCHEDULERS]
    first = (blocks_of(options.baseline, options.seed) if options.baseline else blocks).cut(1)
    mtp = policy_of("fixed", "identity", curve_of(options.baseline_capacity), 1, BASELINE)
    pairs = [*((policy, blocks) for policy in policies), (mtp, first)]
    judged = [(p, num) for num in options.regret for p in policies]
    with _bar(out, "serving", len(pairs) * len(_loads(options)) + len(judged)) as advance:
        sweeps = {policy.name: _sweep(policy, found, options, advance) for policy, found in pairs}
        regrets = [_regret(p, blocks, num, options, advance) for p, num in judged]
    every = [one for outcomes in sweeps.values() for one in outcomes]
    if csv is not None:
        report.write_csv(every, csv)
    if plot is not None:
        report.plot_frontier(sweeps, plot, f"{blocks.name}; {curve.source}")
    return {
        **_head(options, "closed" if not options.rates else "open"),
        "source": blocks.name,
        "capacity": curve.to_json(),
        "runs": [report.row_of(one) for one in every],
        "frontiers": [] if options.rates else _frontiers(sweeps),
        "regrets": [{**asdict(one), "attained": one.attained} for one in regrets],
    }


def _head(options: Options, kind: str) -> dict[str, Any]:
    return {"schema": SCHEMA, "environment": environment("cpu"), "kind": kind, "options": asdict(options)}


def _loads(options: Options) -> list[Load]:
    names = ("slots", "mix", "prompt_tokens", "new_tokens", "prefill_chunk", "seed")
    shared = {name: getattr(options, name) for name in names}
    if options.rates:
        return [Load(rate=rate, **shared) for rate in options.rates]
    return [Load(users=num, **shared) for num in options.users or USERS]


def _sweep(policy: Policy, blocks: Blocks, options: Options, advance: Any) -> list[Outcome]:
    outcomes = []
    for load in _loads(options):
        outcomes.append(simulate_one(policy, blocks, load, options.steps))
        advance()
    return outcomes


def _regret(policy: Policy, blocks: Blocks, num: int, options: Options, advance: Any) -> Regret:
    found = regret(policy, blocks, num, options.steps, options.seed)
    advance()
    return found


def _frontiers(sweeps: dict[str, list[Outcome]]) -> list[dict[str, Any]]:
    baseline = line_of(sweeps[BASELINE])
    rows = []
    for name, outcomes in sweeps.items():
        if name != BASELINE:
            line = line_of(outcomes)
            found = [gain._asdict() for gain in gains(line, baseline)]
            rows.append({"policy": name, "is_outside": is_outside(line, baseline), "gains": found})
    return rows


def drift(options: Options, out: Console, plot: Path | None) -> dict[str, Any]:
    """Static temperatures of code against online ones, over code, chat and both."""
    blocks, curve = blocks_of(options.sources, options.seed), curve_of(options.capacity)
    static = drifting.fitted(blocks.of_domain("code").half(False))
    judged = blocks.half(True)
    from sparkit.calibrators.online import Online
    from sparkit.calibrators.sts import Sts

    scheduler = (options.schedulers or ("greedy",))[0]
    base = policy_of(scheduler, "identity", curve, blocks.gamma)
    online = Online()
    online.initial = Sts(calibration_temperatures=static).calibration_temperatures
    policies = [
        replace(base, name="sts fitted on code", calibrator=Sts(calibration_temperatures=static)),
        replace(base, name="online from the same", calibrator=online),
    ]
    num = max(options.users or (16,))
    with out.status("serving code, then chat, then both"):
        windows = drifting.drift(policies, judged, PHASES, num, max(8, options.steps // 3), seed=options.seed)
        chat = blocks.of_domain("chat")
        full = policy_of("fixed", "identity", curve, blocks.gamma)
        fed = {
            name: drifting.fed_and_frozen(replace(policy, calibrator=online), chat)
            for name, policy in (("full verification", full), (f"{scheduler}'s cuts with probes", base))
        }
    if plot is not None:
        report.plot_drift(windows, plot, f"{blocks.name}; {scheduler}; {curve.source}")
    frozen = [{"learned_from": name, "ece": e, "ece_floor": floor} for name, (e, floor) in fed.items()]
    found = {"source": blocks.name, "capacity": curve.to_json(), "windows": [asdict(one) for one in windows]}
    return {**_head(options, "drift"), **found, "fed_300_rounds": frozen}


def real(options: Options, out: Console, trace: Path | None) -> dict[str, Any]:
    """The closed loop on the engine: every scheduler, fixed gamma and plain decoding in turn."""
    if trace is not None and not trace.parent.is_dir():
        raise FileNotFoundError(f"--trace {trace}: the folder {trace.parent} does not exist; create it first")
    users = options.users or REAL_USERS
    curve = "measured" if options.capacity == "roofline" else options.capacity  # a real engine has its own curve
    recipe = Recipe(
        target=options.target, drafter=options.drafter, capacity=curve, batch=max(users), seed=options.seed,
        max_new_tokens=options.max_new_tokens,
    )  # fmt: skip
    with out.status("loading"):
        compositions = [(s, assemble(replace(recipe, scheduler=s))) for s in options.schedulers or SCHEDULERS]
    compositions.append(("plain", compositions[0][1].plain()))
    prompts = bundled("all", 40)
    mixed = [prompts[i] for start in range(40) for i in range(start, len(prompts), 40)]  # domains by turns
    with _bar(out, "serving", len(users) * options.turns * len(compositions)) as advance:
        runs = engine.measure(compositions, mixed, users, options.turns, progress=advance)
    if trace is not None:
        write_real(trace, [run for run in runs if run.name == compositions[0][0]][-1])
    return {**_head(options, "real"), "recipe": asdict(recipe), "runs": [_real_row(run, runs) for run in runs]}


def _real_row(run: engine.RealRun, runs: Sequence[engine.RealRun]) -> dict[str, Any]:
    same = {one.name: one for one in runs if one.users == run.users}
    totals = recorded(run.rounds)
    return {
        "policy": run.name,
        "users": run.users,
        "tokens_per_second": run.tokens_per_second,
        "turns": run.rates,
        "over_plain": run.ratio(same["plain"]),
        "over_fixed": run.ratio(same["fixed"]) if "fixed" in same else None,
        "budget": run.budget,
        "tau": totals.tau,
        "num_rounds": totals.num_rounds,
        "decoded_tokens": totals.tokens,
        "step_seconds": totals.seconds,
    }


def write_real(path: Path, run: engine.RealRun) -> None:
    """The rounds of one real run, for `sparkit replay` and the TUI."""
    composition: Composition = run.composition
    ids = {i for one in run.rounds for i in (one.anchor, one.next_token, *one.drafted, *(t.id for t in one.tokens))}
    tokenizer = composition.tokenizer
    pieces = {i: tokenizer.decode([i]) if tokenizer is not None else str(i) for i in sorted(ids)}
    requests = {n: {"label": p.domain, "prompt": p.text, "seed": run.seeds[n]} for n, p in run.prompts.items()}
    recipe = {k: v for k, v in {**asdict(composition.recipe), **composition.names}.items() if v is not None}
    capacity = composition.parts.capacity.to_json()
    header = TraceHeader(recipe, composition.recipe.gamma, requests, pieces, capacity, composition.recipe.seed)
    write_trace(path, header, run.rounds)


@contextmanager
def _bar(out: Console, name: str, total: int) -> Iterator[Any]:
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)


def show(document: dict[str, Any], out: Console) -> None:
    """Tables for people."""
    {"drift": _show_drift, "real": _show_real}.get(document["kind"], _show_sweep)(document, out)


def _show_sweep(document: dict[str, Any], out: Console) -> None:
    titles = ("policy", "users" if document["kind"] == "closed" else "requests/s", "tokens/s", "one user", "p10..p90")
    table = _table(f"{document['source']}; {document['capacity']['source']}", (*titles, "budget", "tau", "undrafted"))
    for row in document["runs"]:
        spread = "-" if row["user_p10"] is None else f"{row['user_p10']:.1f}..{row['user_p90']:.1f}"
        load = row["users"] if row["users"] is not None else row["rate"]
        numbers = [_number(row[key]) for key in ("tokens_per_second", "user_tokens_per_second")]
        shares = (_number(row["budget"]), _number(row["tau"]), f"{row['undrafted_share']:.0%}")
        table.add_row(row["policy"], f"{load:g}", *numbers, spread, *shares)
    out.print(table)
    for one in document["frontiers"]:
        found = [(g["throughput_ratio"], g["speed_ratio"]) for g in one["gains"]]
        speeds = [f"{100 * s - 100:+.0f}%" for _, s in found if s is not None]
        throughputs = [f"{100 * t - 100:+.0f}%" for t, _ in found if t is not None]
        word = {True: "outside", False: "NOT everywhere outside", None: "nowhere comparable with"}[one["is_outside"]]
        out.print(f"{one['policy']}: {word} {BASELINE}; speed at its throughputs {' '.join(speeds) or '-'}")
        out.print(f"    throughput at its speeds {' '.join(throughputs) or '-'}  [dim](paper: +60..85%, +51%)[/]")
    for one in document["regrets"]:
        out.print(f"{one['policy']} at R = {one['num_requests']}: {one['attained']:.1%} of the reference's throughput")


def _show_drift(document: dict[str, Any], out: Console) -> None:
    table = _table(f"{document['source']}: ECE of survival", ("policy", "phase", "from round", "ECE", "perfect"))
    for row in document["windows"]:
        numbers = (f"{row['ece']:.2%}", f"{row['ece_floor']:.2%}")
        table.add_row(row["policy"], row["phase"], str(row["first_round"]), *numbers)
    out.print(table)
    for one in document["fed_300_rounds"]:
        text = f"{one['ece']:.2%} (perfect predictor {one['ece_floor']:.2%})"
        out.print(f"online, fed 300 rounds of chat by {one['learned_from']}, then frozen: {text}")


def _show_real(document: dict[str, Any], out: Console) -> None:
    titles = ("policy", "users", "tokens/s", "over plain", "over fixed", "budget", "tau")
    table = _table(f"real engine, {document['environment']['device_name']}", titles)
    for row in document["runs"]:
        keys = ("tokens_per_second", "over_plain", "over_fixed", "budget", "tau")
        table.add_row(row["policy"], str(row["users"]), *(_number(row[key]) for key in keys))
    out.print(table)


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("policy", "phase") else "right")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
