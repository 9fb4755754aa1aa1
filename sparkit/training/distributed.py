"""Data parallel by sums: every rank adds up its loss and its weight, and gradients are divided by the GLOBAL weight.

Averaging per-rank means would weigh a rank with three anchors like one with three hundred, and a rank with none would
stall the others; sums do neither. Started by `torchrun` (gloo on CPU, nccl on GPUs); one process needs nothing.

>>> world = World(); world.size
1
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class World:
    """This process among all."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0


def join() -> World:
    """Enters the process group that `torchrun` describes in the environment, if it does."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return World(dist.get_rank(), size)


def leave(*, waits: bool = False) -> None:
    """Leaves the process group.

    Args:
        waits: for the others first: who is gone while another still talks to it may be aborted at its exit. Not after
            an error: the others may never come.
    """
    if dist.is_initialized():
        if waits:
            dist.barrier()
        dist.destroy_process_group()


def share_gradients(parameters: Iterable[nn.Parameter], loss_sum: Tensor, weight: Tensor, world: World) -> Tensor:
    """Turns gradients of the local sum into gradients of the global mean; returns the global mean loss.

    Every rank calls this once a step, with or without data, so nobody waits for a rank that skipped.
    """
    parameters = list(parameters)
    totals = torch.stack((loss_sum.detach(), weight.detach())).double()
    if world.size > 1:
        dist.all_reduce(totals)
        _sum_gradients(parameters, world)
    divisor = totals[1].clamp(min=1e-12)
    for p in parameters:
        if p.grad is not None:
            p.grad.div_(divisor.to(p.grad.dtype))
    return totals[0] / divisor


def _sum_gradients(parameters: list[nn.Parameter], world: World) -> None:
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    for p, total in zip(parameters, add_up(gradients, world), strict=True):
        p.grad = total.clone()


def add_up(tensors: list[Tensor], world: World) -> list[Tensor]:
    """The sum over ranks of every tensor, in one message."""
    if world.size == 1:
        return tensors
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    return [piece.view_as(t) for t, piece in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True)]


def broadcast(parameters: Iterable[nn.Parameter], world: World) -> None:
    """Gives every rank the weights of rank 0."""
    if world.size > 1:
        for p in parameters:
            dist.broadcast(p.data, src=0)


def agree(seconds: float, world: World) -> float:
    """Rank 0's clock for everybody: ranks that disagree on progress would take other rates and stop apart."""
    if world.size == 1:
        return seconds
    clock = torch.tensor([seconds], dtype=torch.float64)
    dist.broadcast(clock, src=0)
    return float(clock)
