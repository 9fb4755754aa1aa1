"""`sparkit simulate` serves users: on a capacity curve and recorded acceptance, or, with --real, on the engine."""

from pathlib import Path
from typing import Annotated

import typer

from sparkit.cli.documents import JsonOption, console, out_option, write_json

Many = list[str] | None


def command(
    source: Annotated[Many, typer.Option(help="published, or full-verification traces (several).")] = None,
    baseline: Annotated[
        Many, typer.Option(help="Traces of the MTP drafter; by default the source's first draft.")
    ] = None,
    scheduler: Annotated[Many, typer.Option(help="Several times to compare. [fixed greedy delayed foresight]")] = None,
    calibrator: Annotated[str, typer.Option(help="sts:path=FILE, online:path=FILE, identity, ...")] = "identity",
    capacity: Annotated[
        str, typer.Option(help="roofline, staircase:tile=8,..., flat, or a JSON of profile.")
    ] = "roofline",
    baseline_capacity: Annotated[str | None, typer.Option(help="The MTP's curve; by default the same.")] = None,
    users: Annotated[list[int] | None, typer.Option(help="Closed loop; several times. [1 2 4 ... 256]")] = None,
    rate: Annotated[
        list[float] | None, typer.Option(help="Open loop instead: Poisson requests/s; several times.")
    ] = None,
    slots: Annotated[int, typer.Option(help="Open loop: requests decoded at once.")] = 256,
    steps: Annotated[int, typer.Option(help="Engine steps of each simulation; the first fifth is warm-up.")] = 1000,
    prompt_tokens: Annotated[int, typer.Option()] = 128,
    new_tokens: Annotated[int, typer.Option(help="Mean; requests have half to one and a half of it.")] = 256,
    prefill_chunk: Annotated[int, typer.Option(help="Prompt tokens a step.")] = 512,
    mix: Annotated[str | None, typer.Option(help="Domain weights, such as math=1,code=2.")] = None,
    regret: Annotated[
        list[int] | None, typer.Option(min=1, help="Users to judge schedulers at, by the reference K.")
    ] = None,
    drift: Annotated[
        bool, typer.Option("--drift", help="Code, then chat, then mixed: static sts against online.")
    ] = False,
    seed: Annotated[int, typer.Option()] = 0,
    plot: Annotated[Path | None, out_option(help="Frontier and budget (with --drift: errors) (PNG, PDF, SVG).")] = None,
    out: Annotated[Path | None, out_option("--csv", help="Every point as CSV.")] = None,
    real: Annotated[bool, typer.Option("--real", help="Closed loop on the real engine, wall seconds.")] = False,
    target: Annotated[str, typer.Option(help="--real: as for compose.")] = "bundled",
    drafter: Annotated[str, typer.Option(help="--real: as for compose.")] = "dspark",
    head: Annotated[str | None, typer.Option(help="--real: as for compose.")] = None,
    confidence: Annotated[str | None, typer.Option(help="--real: as for compose.")] = None,
    gamma: Annotated[int, typer.Option(help="--real: as for compose.")] = 7,
    turns: Annotated[int, typer.Option(help="--real: interleaved turns; medians count.")] = 12,
    max_new_tokens: Annotated[int, typer.Option(help="--real: mean tokens of a request.")] = 64,
    trace: Annotated[Path | None, out_option(help="--real: rounds of the first scheduler at the most users.")] = None,
    json: JsonOption = None,
) -> None:
    """Serve users under load and compare schedulers, MTP-1 beside them.

    Acceptance is what was recorded (or drawn from the published accepted lengths), time is the capacity curve's; the
    schedulers and calibrators are the real ones. The same requests come under every policy.

    Examples: `sparkit simulate --plot frontier.png --csv frontier.csv` ·
    `sparkit simulate --source full.jsonl --calibrator sts:path=sts.json --capacity cpu.json --regret 16 --regret 64` ·
    `sparkit simulate --rate 20 --rate 40 --scheduler delayed` · `sparkit simulate --drift --source full.jsonl` ·
    `sparkit simulate --real --users 1 --users 8 --users 32 --trace real.jsonl`
    """
    from sparkit.cli import simulating

    options = simulating.Options(
        sources=tuple(source or ("published",)), baseline=tuple(baseline or ()), schedulers=tuple(scheduler or ()),
        calibrator=calibrator, capacity=capacity, baseline_capacity=baseline_capacity or capacity,
        users=tuple(users or ()), rates=tuple(rate or ()), slots=slots, steps=steps, prompt_tokens=prompt_tokens,
        new_tokens=new_tokens, prefill_chunk=prefill_chunk, mix=simulating.weights(mix), regret=tuple(regret or ()),
        seed=seed, target=target, drafter=drafter, head=head, confidence=confidence, gamma=gamma,
        turns=turns, max_new_tokens=max_new_tokens,
    )  # fmt: skip
    if users and rate:
        raise ValueError("--users is a closed loop, --rate an open one: give one of them")
    if trace is not None and not real:
        raise ValueError("--trace needs --real: a simulation has no text to write down")
    screen = console(json)
    if real:
        document = simulating.real(options, screen, trace)
    elif drift:
        document = simulating.drift(options, screen, plot)
    else:
        document = simulating.simulate(options, screen, plot, out)
    if json is not None:
        write_json(document, json)
    if json != "-":
        simulating.show(document, screen)
