"""Every random decision has an address; its uniform is a hash of that address and of nothing else.

Address = (request seed, anchor position, offset in the block, purpose). The same address gives the same value alone or
in any batch, on any device, in any order; streams of different purposes never meet (design section 2). The anchor
grows every round, so within a request no address serves two decisions. Addressing by a token's own position alone
would give a redrafted position its old noise back, and everything that remembers the old draft would be anticipating.

`Coupled` is the exception by design: its noise belongs to the absolute position, which is what makes the text of a
seed independent of drafter and schedule (Daliri et al. 2024).

>>> AddressedSource().at(torch.tensor([7]), torch.tensor([3])).draw(torch.tensor([[0.5, 0.5]]), Purpose.PLAIN, 1)
tensor([1])
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.sampling import draw


class Purpose(IntEnum):
    """What a uniform decides."""

    DRAFT = 1
    ACCEPT = 2
    NEXT = 3  # correction or bonus
    PLAIN = 4  # undrafted steps and the prefill's own token
    PROBE = 5
    GUMBEL = 6


Until = Literal["all", "first_false", "last_true"]
"""Which coins matter: every one; those up to the first failure; those down to the first success from the end."""


@runtime_checkable
class Decisions(Protocol):
    """The decisions of one step, row r of everything belonging to request r."""

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """One token a row, from the row's law."""
        ...

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """Independent coins at offsets 1..K; true with the given probability (strictly: u < prob).

        A source that enumerates may answer False for coins that `until` says nobody will look at.
        """
        ...


@runtime_checkable
class DecisionSource(Protocol):
    """Where decisions come from: hashes in production, every branch under proof."""

    def at(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> Decisions:
        """Binds the rows of one step: request seeds and anchor positions."""
        ...


_GOLDEN, _MIX1, _MIX2 = -7046029254386353131, -4658895280553007687, -7723592293110705685


W = TypeVar("W", Tensor, np.ndarray)
"""64-bit words, int64 whatever holds them: hashing is made of operators, which both kinds have."""


def _mix(x: W) -> W:
    """One splitmix64 output step [Steele 2014] in wrapping int64; >> is arithmetic, so the sign bits are masked."""
    x = x + _GOLDEN
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * _MIX1
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * _MIX2
    mixed: W = x ^ ((x >> 31) & 0x1FFFFFFFF)
    return mixed


def hash_address(*words: W) -> W:
    """A 64-bit hash of the words, in order; they broadcast."""
    state = _mix(words[0])
    for word in words[1:]:
        state = _mix(state ^ word)
    return state


def to_uniform(bits: Int[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """The top 53 bits as a float64 in [0, 1)."""
    return ((bits >> 11) & 0x1FFFFFFFFFFFFF).double() * 2.0**-53


def request_seed(run_seed: int, prompt_index: int, sample_index: int) -> int:
    """The seed of a request: never its slot or its arrival, which change from run to run."""
    words = [torch.tensor(w, dtype=torch.int64) for w in (run_seed, prompt_index, sample_index)]
    return int(hash_address(*words))


def _on_host(words: Tensor) -> bool:
    """Whether a look at them makes nobody wait."""
    return words.device.type == "cpu"


def _outer(seeds: W, anchors: W, kinds: W, offsets: W) -> W:
    """Every purpose and offset of every row, [kinds, R, offsets]."""
    return hash_address(hash_address(seeds, anchors)[None, :, None], kinds[:, None, None], offsets[None, None])


class Addressed:
    """Uniforms of one step; those of a block are hashed in one go, when the first of them is asked for.

    A step without a draft asks for one a row, under a purpose of its own: that one is hashed alone.
    """

    _WIDTH = 16

    def __init__(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> None:
        self._address = seeds, anchors
        self._columns: dict[Purpose, tuple[Tensor, ...]] = {}  # of the table: a block asks token by token

    @cached_property
    def _table(self) -> Float[Tensor, "purposes R K"]:
        return self._uniforms(self._WIDTH)

    def _uniforms(self, most: int) -> Float[Tensor, "purposes R K"]:
        """Of every purpose, at offsets 0..most."""
        return self._hashed(range(int(Purpose.GUMBEL)), range(most + 1))

    def _hashed(self, kinds: range, offsets: range) -> Float[Tensor, "kinds R offsets"]:
        """On the CPU as arrays, where all of it takes a third of the time."""
        seeds, anchors = self._address
        if not _on_host(seeds):
            words = (torch.arange(x.start, x.stop, device=seeds.device) for x in (kinds, offsets))
            return to_uniform(_outer(seeds, anchors, *words))
        arrays = (np.arange(x.start, x.stop, dtype=np.int64) for x in (kinds, offsets))
        return to_uniform(torch.from_numpy(_outer(seeds.numpy(), anchors.numpy(), *arrays)))

    def uniform(self, purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Float[Tensor, " R"]:
        """The uniforms of one decision a row."""
        if isinstance(offset, int):
            if purpose is Purpose.PLAIN or offset > self._WIDTH:
                return self._hashed(range(purpose, purpose + 1), range(offset, offset + 1))[0, :, 0]
            if purpose not in self._columns:
                self._columns[purpose] = self._table[purpose].unbind(1)
            return self._columns[purpose][offset]
        if not _on_host(offset):
            return to_uniform(hash_address(hash_address(*self._address), torch.full_like(offset, int(purpose)), offset))
        most = int(offset.max())  # looking is cheaper than hashing here, elsewhere it would wait for the device
        table = self._table if most <= self._WIDTH else self._uniforms(most)
        return table[purpose].gather(1, offset[:, None])[:, 0]

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """See `Decisions`."""
        return draw(p, self.uniform(purpose, offset))

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """See `Decisions`; hashing is cheap, so every coin is thrown."""
        num = prob.shape[1]
        table = self._table if num <= self._WIDTH else self._uniforms(num)
        uniform = table[purpose, :, 1 : num + 1]
        return (uniform < prob.to(uniform.device)).to(prob.device)


class AddressedSource:
    """Production's decisions."""

    def at(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> Addressed:
        """See `DecisionSource`."""
        return Addressed(seeds, anchors)


class Coupled:
    """Every token, whoever asks, is argmax(log p + Gumbel noise of its absolute position)."""

    def __init__(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> None:
        self._seeds, self._anchors = seeds, anchors

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """The token at position anchor + offset; `purpose` plays no part."""
        tokens = torch.arange(p.shape[1], device=p.device)[None]
        kind = torch.full_like(self._seeds, int(Purpose.GUMBEL))
        bits = hash_address(hash_address(self._seeds, kind, self._anchors + offset)[:, None], tokens)
        uniform = to_uniform(bits) + 2.0**-54  # open interval: -log(-log(0)) is not a number to add
        gumbel = -torch.log(-torch.log(uniform))
        return (torch.log(p.double()) + gumbel).argmax(-1)

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """Never asked for tokens; probes keep their own address."""
        return Addressed(self._seeds, self._anchors).coins(prob, purpose, until)


class CoupledSource:
    """Decisions whose noise belongs to the absolute position (verifier `coupled`)."""

    def at(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> Coupled:
        """See `DecisionSource`."""
        return Coupled(seeds, anchors)


def plain_seeds(run_seed: int, num: int) -> Sequence[int]:
    """Seeds of `num` prompts with one sample each."""
    return [request_seed(run_seed, index, 0) for index in range(num)]
