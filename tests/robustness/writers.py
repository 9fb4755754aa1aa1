"""Every file that sparkit writes over an old one: how a version is written, and which version lies there.

WRITERS["trace"].write(folder, 2);  WRITERS["trace"].version(folder) == 2
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Writer:
    """One kind of file, and whether a half-written folder would be seen as one."""

    write: Callable[[Path, int], Any]
    version: Callable[[Path], int | None]  # raises for half a file; None: nothing there


def _trained(folder: Path) -> Any:
    from sparkit.training.loop import Optimisation, StepLoss, Training

    training = Training(nn.Linear(40, 500), Optimisation(peak_rate=0.1, steps=9), folder)
    return training, lambda _: StepLoss(training.module(torch.ones(40)).sum(), torch.tensor(1.0))


def write_checkpoint(folder: Path, version: int) -> None:
    training, loss = _trained(folder)
    while training.step < version:
        training.update(loss)
    training.save()


def checkpoint_version(folder: Path) -> int | None:
    if not (folder / "checkpoint.safetensors").exists():
        return None
    step: int = _trained(folder)[0].step
    return step


def write_conversion(folder: Path, version: int) -> None:
    from sparkit.targets.loaders.gguf_model import converted
    from tests.robustness.readers import make_gguf

    os.environ["SPARKIT_CACHE"] = str(folder / "cache")
    if not (folder / "x.gguf").exists():
        make_gguf(folder)
    if version > 1:  # version 1: not converted yet
        converted(folder / "x.gguf")


def conversion_version(folder: Path) -> int | None:
    from sparkit.targets.loaders.folder import load_model

    found = list((folder / "cache" / "converted").glob("x-*"))
    for one in found:
        load_model(one)
        assert (one / "tokenizer.json").exists()
    return 2 if found else 1


def write_trace(folder: Path, version: int) -> None:
    from sparkit.traces import read_trace, write_trace
    from tests.robustness.readers import make_trace

    if not (folder / "good" / "x.jsonl").exists():
        (folder / "good").mkdir()
        make_trace(folder / "good")
    trace = read_trace(folder / "good" / "x.jsonl")
    write_trace(folder / "x.jsonl", trace.header, trace.rounds[:1] * (40 * version))


def trace_version(folder: Path) -> int | None:
    from sparkit.traces import read_trace

    trace = read_trace(folder / "x.jsonl")
    assert not trace.is_cut
    assert len(trace.rounds) % 40 == 0
    return len(trace.rounds) // 40


def write_calibration(folder: Path, version: int) -> None:
    from sparkit.calibrators.sts import Sts

    Sts(calibration_temperatures=(float(version),) * 7).save(folder / "sts.json")


def calibration_version(folder: Path) -> int | None:
    from sparkit.calibrators.sts import Sts

    temperatures = Sts(path=folder / "sts.json").calibration_temperatures
    assert len(temperatures) == 7
    return int(temperatures[0])


WRITERS = {
    "training": Writer(write_checkpoint, checkpoint_version),
    "conversion": Writer(write_conversion, conversion_version),
    "trace": Writer(write_trace, trace_version),
    "calibration": Writer(write_calibration, calibration_version),
}
