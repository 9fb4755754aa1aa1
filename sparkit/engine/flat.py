"""A step as the target sees it: one flat row of tokens, the rows whose logits are asked, and whose laws those are."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from sparkit.engine.requests import Sequence
from sparkit.protocols import Span

if TYPE_CHECKING:
    from sparkit.engine.engine import Engine
    from sparkit.engine.steps import Step


def asked_rows(step: "Step") -> Int[Tensor, " N"] | None:
    """Every decoding row, and the last row of each prompt that is complete; None when that is all rows."""
    if not step.chunks:
        return None
    first = sum(1 + n for n in step.verify_len) + len(step.resting)
    rows = list(range(first))
    for sequence, span in step.chunks:
        first += span.count
        if completes(sequence, span):
            rows.append(first - 1)
    return torch.tensor(rows, dtype=torch.int64)


def completes(sequence: Sequence, span: Span) -> bool:
    """Whether a chunk is the last of its prompt."""
    return span.start + span.count == len(sequence.request.prompt)


def plain_rows(step: "Step") -> list[Sequence]:
    """Whose tokens are drawn without a draft: the resting, then the prompts that are complete."""
    return [*step.resting, *(s for s, span in step.chunks if completes(s, span))]


def flat_tokens(engine: "Engine", step: "Step") -> Int[Tensor, " B"]:
    """Anchors with their admitted drafts, the anchors of the resting, then the chunks of prompts."""
    device = engine.device
    others = [s.tokens[-1] for s in step.resting]
    others += [t for s, x in step.chunks for t in s.tokens[x.start : x.start + x.count]]
    if step.draft is None:
        return torch.tensor(others, dtype=torch.int64, device=device)
    anchors = [s.tokens[-1] for s in step.drafting]
    width = step.draft.tokens.shape[1] + 1
    picks = [r * width + j for r, n in enumerate(step.verify_len) for j in range(1 + n)]
    column = torch.tensor(anchors, dtype=torch.int64, device=device)[:, None]
    flat = torch.cat((column, step.draft.tokens), dim=1).flatten()[torch.tensor(picks, device=device)]
    return torch.cat((flat, torch.tensor(others, dtype=torch.int64, device=device))) if others else flat


def judged(step: "Step") -> tuple[list[Sequence], list[list[int]]]:
    """Whose laws the asked rows are, and the drafts before each (their ids are read back only for a penalty)."""
    plain = plain_rows(step)
    drafts = [[0] * n for n in step.verify_len]
    if step.draft is not None and any(s.request.params.penalises for s in step.drafting):
        drafts = [ids[:n] for ids, n in zip(step.draft.tokens.tolist(), step.verify_len, strict=True)]
    return [*step.drafting, *plain], [*drafts, *([] for _ in plain)]
