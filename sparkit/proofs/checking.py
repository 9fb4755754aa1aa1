"""One part by kind and name, made small, and held to the laws of its kind (`sparkit check KIND NAME`)."""

from collections.abc import Callable

import torch

from sparkit.proofs import neural
from sparkit.proofs.choice import create
from sparkit.proofs.laws import Report, check_calibrator, check_confidence, check_drafter, check_head
from sparkit.proofs.laws import check_scheduler, check_verifier
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS

KINDS: dict[str, Callable[[str], Report]] = {
    "scheduler": lambda spec: check_scheduler(create(SCHEDULERS, spec)),
    "calibrator": lambda spec: check_calibrator(create(CALIBRATORS, spec)),
    "verifier": lambda spec: check_verifier(create(VERIFIERS, spec)),
    "confidence": lambda spec: check_confidence(
        neural.confidence(spec), vocab_size=5, hidden_size=neural.HIDDEN, rank=neural.RANK
    ),
    "head": lambda spec: check_head(neural.head(spec), neural.VOCAB, neural.HIDDEN),
    "drafter": lambda spec: check_drafter(lambda: neural.prepared(spec), neural.drafter(spec)),
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
