"""Muon: the momentum of a matrix is orthogonalised before it is used; everything else is AdamW's.

    M = mu M + (1 - mu) G,   update = U V^T of (1 - mu) G + mu M,   W = W - rate * 0.2 sqrt(max(rows, cols)) * update

[Jordan et al. 2024, "Muon"; the scale is Liu et al. 2025, "Muon is scalable for LLM training", section 2.2: the update
then has AdamW's usual root mean square, so one learning rate serves both.] U V^T comes from five Newton-Schulz steps,
which leave every singular value near 1. Tables of tokens (embeddings, LM heads) and vectors are not maps between
hidden states and stay with AdamW. (`torch.optim.Muon` came with torch 2.9; sparkit runs from 2.6 on.)

>>> torch.linalg.svdvals(orthogonal(torch.tensor([[3.0, 0.0], [0.0, 0.5]]))).round(decimals=0).tolist()
[1.0, 1.0]
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparkit.training.distributed import World, add_up

TABLES = ("embedding", "to_logits", "lm_head")
"""Modules whose weight has a row for each token of the vocabulary."""
_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic that grows small singular values fastest


def orthogonal(matrix: Float[Tensor, "rows cols"], steps: int = 5) -> Float[Tensor, "rows cols"]:
    """U V^T of a matrix, roughly: singular values end between 0.7 and 1.2."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT.contiguous() if is_tall else matrix
    x = x / (torch.linalg.matrix_norm(x) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = torch.addmm(x, torch.addmm(square, square, square, beta=_B, alpha=_C), x, beta=_A)
    return x.mT if is_tall else x


def is_hidden_map(name: str, parameter: nn.Parameter) -> bool:
    """Whether a named parameter maps hidden states to hidden states."""
    owner = name.rpartition(".")[0].rpartition(".")[2]
    return parameter.ndim == 2 and min(parameter.shape) > 1 and owner not in TABLES


class Muon(torch.optim.Optimizer):
    """Groups with `is_map` are orthogonalised; the others are AdamW's.

    Args:
        groups: dicts with `params`, `is_map` and `weight_decay`.
        lr: of all groups.
        momentum: mu.
        betas: AdamW's.
        eps: AdamW's.
        world: the ranks share the orthogonalising out; their gradients must be the same.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        world: World = World(),
    ) -> None:
        self.world = world
        super().__init__(list(groups), {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps, "is_map": False})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all groups; a parameter without a gradient stays."""
        if closure is not None:
            raise ValueError("Muon.step(closure=...): not supported; compute the gradients before")
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            (self._turn if group["is_map"] else self._adapt)(parameters, group)

    def _turn(self, parameters: Sequence[Tensor], group: dict[str, Any]) -> None:
        momenta = [self._momentum(p, group["momentum"]) for p in parameters]
        mine = [i % self.world.size == self.world.rank for i in range(len(momenta))]
        updates = [orthogonal(m) if own else torch.zeros_like(m) for m, own in zip(momenta, mine, strict=True)]
        for p, update in zip(parameters, add_up(updates, self.world), strict=True):
            size = 0.2 * math.sqrt(max(p.shape))
            p.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"] * size)

    def _momentum(self, p: Tensor, mu: float) -> Tensor:
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        assert p.grad is not None
        kept: Tensor = state["momentum"].lerp_(p.grad, 1 - mu)
        return p.grad.lerp(kept, mu)

    def _adapt(self, parameters: Sequence[Tensor], group: dict[str, Any]) -> None:
        first, second = group["betas"]
        for p in parameters:
            state = self.state[p]
            if not state:
                state.update(step=torch.zeros(()), mean=torch.zeros_like(p), square=torch.zeros_like(p))
            assert p.grad is not None
            state["step"] += 1
            state["mean"].lerp_(p.grad, 1 - first)
            state["square"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
            count = float(state["step"])
            root = (state["square"] / (1 - second**count)).sqrt_().add_(group["eps"])
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.addcdiv_(state["mean"], root, value=-group["lr"] / (1 - first**count))
