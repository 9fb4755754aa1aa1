"""A confidence ignores its own token and all later ones: replacing x_j for j >= k leaves c_k unchanged.

What is made from a token moves with it: p_draft, hidden and the previous token's embedding at the positions behind it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sparkit.proofs.freezing import freeze
from sparkit.proofs.laws.keeping import Report, hold
from sparkit.protocols import Confidence
from sparkit.rounds import Draft


def check_confidence(
    part: Confidence, *, gamma: int = 3, vocab_size: int = 5, hidden_size: int = 4, rank: int = 3, seed: int = 0
) -> Report:
    """Holds a confidence to its laws.

    Args:
        part: the confidence; its weights must be float64.
        gamma: draft positions.
        vocab_size: V.
        hidden_size: of the drafts shown to it.
        rank: of the previous token's embedding shown to it; 0 for none.
        seed: of the drafts.
    """
    generator = torch.Generator().manual_seed(seed)
    drafts = [random_draft(generator, 4, gamma, vocab_size, hidden_size, rank) for _ in range(6)]
    memory = part.start()
    return hold(
        "confidence",
        part,
        {
            "c_k ignores x_k and everything after it": lambda: _blind(part, memory, drafts, generator),
            "one logit a position, none of them nan": lambda: _shape(part, memory, drafts),
            "float64 stays float64": lambda: _precision(part, memory, drafts),
            "asking is pure": lambda: _purity(part, memory, drafts),
        },
    )


def random_draft(generator: torch.Generator, R: int, gamma: int, V: int, d: int, rank: int) -> Draft:
    """A draft with every field a confidence may read."""
    law = torch.rand(R, gamma, V, generator=generator, dtype=torch.float64) + 0.01
    embedding = torch.randn(R, gamma, rank, generator=generator, dtype=torch.float64) if rank else None
    return Draft(
        torch.randint(V, (R, gamma), generator=generator),
        law / law.sum(-1, keepdim=True),
        hidden=torch.randn(R, gamma, d, generator=generator, dtype=torch.float64),
        previous_embedding=embedding,
    )


def _swap(mine: Tensor | None, other: Tensor | None, start: int) -> Tensor | None:
    return None if mine is None or other is None else torch.cat((mine[:, :start], other[:, start:]), dim=1)


def with_other_tokens(draft: Draft, other: Draft, k: int) -> Draft:
    """The draft with x_j, j >= k (0-based), and all that follows from them, taken from another."""
    p_draft, tokens = _swap(draft.p_draft, other.p_draft, k + 1), _swap(draft.tokens, other.tokens, k)
    assert p_draft is not None and tokens is not None
    hidden = _swap(draft.hidden, other.hidden, k + 1)
    embedding = _swap(draft.previous_embedding, other.previous_embedding, k + 1)
    return replace(draft, tokens=tokens, p_draft=p_draft, hidden=hidden, previous_embedding=embedding)


def _blind(part: Confidence, memory: Any, drafts: list[Draft], generator: torch.Generator) -> Iterator[str]:
    for draft in drafts:
        logits = part.logits(draft, memory)
        R, gamma, V = draft.p_draft.shape
        for k in range(gamma):
            d, rank = (0 if x is None else x.shape[2] for x in (draft.hidden, draft.previous_embedding))
            other = random_draft(generator, R, gamma, V, d, rank)
            tokens = draft.tokens.clone()
            tokens[:, k:] = (tokens[:, k:] + 1 + other.tokens[:, k:] % (V - 1)) % V  # really another token
            changed = with_other_tokens(draft, replace(other, tokens=tokens), k)
            again = part.logits(changed, memory)
            moved = (again[:, k] - logits[:, k]).nan_to_num(nan=0.0).abs()
            if float(moved.max()) > 0:
                row = int(moved.argmax())
                yield (
                    f"position {k + 1}: logit {float(logits[row, k]):.6g} after drawing {draft.tokens[row].tolist()}, "
                    f"{float(again[row, k]):.6g} after {changed.tokens[row].tolist()}"
                )


def _shape(part: Confidence, memory: Any, drafts: list[Draft]) -> Iterator[str]:
    for draft in drafts:
        logits = part.logits(draft, memory)
        if logits.shape != draft.tokens.shape:
            yield f"logits of shape {tuple(logits.shape)} for tokens of shape {tuple(draft.tokens.shape)}"
        elif bool(logits.isnan().any()):
            yield f"nan among the logits {logits.tolist()}"


def _precision(part: Confidence, memory: Any, drafts: list[Draft]) -> Iterator[str]:
    logits = part.logits(drafts[0], memory)
    if logits.dtype != torch.float64:
        yield f"logits came out as {logits.dtype}"


def _purity(part: Confidence, memory: Any, drafts: list[Draft]) -> Iterator[str]:
    before = freeze(memory)
    for draft in drafts:
        if freeze(part.logits(draft, memory)) != freeze(part.logits(draft, memory)):
            yield "asked twice, it gave two answers"
    if freeze(memory) != before:
        yield "logits changed its memory"
