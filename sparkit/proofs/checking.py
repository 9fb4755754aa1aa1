"""One part by kind and name, made small, and held to the laws of its kind (`sparkit check KIND NAME`)."""

from collections.abc import Callable

import torch

from sparkit.proofs import neural
from sparkit.proofs.choice import create
from sparkit.proofs.laws import (
    Report,
    check_calibrator,
    check_confidence,
    check_drafter,
    check_head,
    check_scheduler,
    check_verifier,
)
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS
from sparkit.registry import parse_spec


def _confidence(spec: str) -> Report:
    V, gamma = (2, 2) if parse_spec(spec)[0] == "table" else (5, 3)  # the tables have two tokens and two positions
    V = neural.VOCAB if parse_spec(spec)[0] == "recurrent" else V  # its table of tokens is the tiny target's
    sizes = {"vocab_size": V, "gamma": gamma, "hidden_size": neural.HIDDEN, "rank": neural.RANK}
    return check_confidence(neural.confidence(spec), **sizes)


def _drafter(spec: str) -> Report:
    gamma = 2 if parse_spec(spec)[0] == "table" else neural.GAMMA
    return check_drafter(lambda: neural.prepared(spec, gamma=gamma), neural.drafter(spec))


KINDS: dict[str, Callable[[str], Report]] = {
    "scheduler": lambda spec: check_scheduler(create(SCHEDULERS, spec)),
    "calibrator": lambda spec: check_calibrator(create(CALIBRATORS, spec)),
    "verifier": lambda spec: check_verifier(create(VERIFIERS, spec)),
    "confidence": _confidence,
    "head": lambda spec: check_head(neural.head(spec), neural.VOCAB, neural.HIDDEN),
    "drafter": _drafter,
}


def check(kind: str, spec: str) -> Report:
    """Holds the part that `spec` names to the laws of its kind.

    Raises:
        LookupError: for an unknown kind or name.
    """
    if kind not in KINDS:
        raise LookupError(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
    torch.set_num_threads(1)
    with torch.inference_mode():
        return KINDS[kind](spec)
