"""The target's law at every row of a step, shaped by each request's sampling parameters.

Penalties look at what stands before a row: the committed text and the drafts in front of it in the block, exactly as
plain decoding would see them if those drafts are accepted.
"""

from collections.abc import Sequence as Row

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.engine.requests import Sequence
from sparkit.sampling import History, SamplingParams, history_of, probs


def history(sequences: Row[Sequence], vocab_size: int, device: torch.device) -> History | None:
    """One row a sequence, at its anchor; None when nobody penalises."""
    if not any(s.request.params.penalises for s in sequences):
        return None
    rows = [history_of(s.request.prompt, [t.id for t in s.text], vocab_size) for s in sequences]
    return History(torch.cat([r.seen for r in rows]).to(device), torch.cat([r.counts for r in rows]).to(device))


def row_laws(logits: Float[Tensor, "B V"], sequences: Row[Sequence], drafted: Row[Row[int]]) -> Float[Tensor, "B V"]:
    """p_target for 1 + len(drafted[r]) rows of each sequence r.

    Raises:
        ValueError: naming request and row, when the target's logits are nan (checked on the CPU; on other
            devices at the step's read-back, `sparkit.engine.outcome`).
    """
    if not sequences:
        return logits
    counts = [1 + len(tokens) for tokens in drafted]
    params = [s.request.params for s in sequences]
    per_row: SamplingParams | list[SamplingParams]
    if all(p == params[0] for p in params):
        per_row = params[0]
    else:
        per_row = [p for p, count in zip(params, counts, strict=True) for _ in range(count)]
    law = probs(logits, per_row, _row_history(sequences, drafted, logits))
    if law.device.type == "cpu" and bool(law[:, 0].isnan().any()):  # one nan logit makes its whole row nan
        blame(law, sequences, counts)
    return law


def _row_history(sequences: Row[Sequence], drafted: Row[Row[int]], logits: Tensor) -> History | None:
    if not any(s.request.params.penalises for s in sequences):
        return None
    rows = [
        history_of(s.request.prompt, [*(t.id for t in s.text), *tokens[:j]], logits.shape[1])
        for s, tokens in zip(sequences, drafted, strict=True)
        for j in range(len(tokens) + 1)
    ]
    return History(torch.cat([r.seen for r in rows]), torch.cat([r.counts for r in rows]))


def blame(law: Tensor, sequences: Row[Sequence], counts: Row[int]) -> None:
    """The error for a law that holds nan: whose it is, and which of its rows."""
    bad = int(law[:, 0].isnan().nonzero()[0, 0])
    for sequence, count in zip(sequences, counts, strict=True):
        if bad < count:
            raise ValueError(
                f"request {sequence.id}: the target's logits at row {bad} of {count} are nan or all -inf; "
                "check the weights, the dtype, and that not every token is banned"
            )
        bad -= count
