"""One layer on the target's own features, its output fed back (Eagle3, MTP): the weights and their training form.

    pair (feature of position i, embedding of token i + 1) at rotary position i; the chain goes on with its own output

In training the chain is unrolled on its own outputs at many anchors at once (training-time test), over keys made of
the TARGET's features. A document's first token has no feature before it and is no anchor. Not done here: decoding
(`sparkit.drafters.chain`), the layer itself (`eagle3`, `mtp`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sparkit.drafters.backbone import Embed, Forward, positions_of, previous_tokens
from sparkit.drafters.blockwise import Blocks, attend_blocks, lay_out
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.rotary import Rotary, keys_and_values
from sparkit.targets.plain import Plain, lay_input_major
from sparkit.targets.transformer import Attention, Mix, RMSNorm, Rope, SwiGLU


class Entry(NamedTuple):
    """A pair on its way into the layer."""

    residual: Float[Tensor, "B d"]
    attended: Float[Tensor, "B size"]  # what queries, keys and values are made of


@runtime_checkable
class Link(Protocol):
    """The one layer of a chain; an `nn.Module` as well."""

    attention: Attention
    mlp_norm: RMSNorm
    mlp: SwiGLU
    norm: RMSNorm  # before the LM head

    def project(self, taps: Float[Tensor, "B taps_d"]) -> Float[Tensor, "B d"]:
        """Target taps as a feature."""
        ...

    def enter(self, feature: Float[Tensor, "B d"], embedded: Float[Tensor, "B d"]) -> Entry:
        """Feature of position i and embedding of token i + 1."""
        ...


class ChainNet(nn.Module):
    """Everything of a chain drafter that is trained; with a reduced vocabulary a head of its own and its id map."""

    d2t: Tensor | None

    def __init__(self, config: DrafterConfig, link: Any) -> None:
        super().__init__()
        decoder, size = config.decoder, config.draft_vocab_size
        self.config, self.rotary = config, Rotary(decoder)
        self.link: Any = link  # a `Link` that is a module
        self.lm_head = None if size is None else nn.Linear(decoder.hidden_size, size, bias=False)
        self.register_buffer("d2t", None if size is None else torch.zeros(size, dtype=torch.int64))

    def step(self, feature: Tensor, embedded: Tensor, rope: Rope, mix: Mix) -> Float[Tensor, "B d"]:
        """One link of the chain."""
        entry = self.link.enter(feature, embedded)
        x = entry.residual + self.link.attention(entry.attended, rope, 0, mix)
        out: Tensor = x + self.link.mlp(self.link.mlp_norm(x))
        return out

    def plain(self) -> Plain:
        """The layer as decoding runs it; what stands around it comes to lie as few rows read it best."""
        lay_input_major(self)
        return Plain(self.link.attention, self.link.mlp_norm, self.link.mlp)

    def keys(
        self, feature: Tensor, embedded: Tensor, positions: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B kv e"], Float[Tensor, "B kv e"]]:
        """Keys and values of pairs."""
        entry = self.link.enter(feature, embedded)
        return keys_and_values(self.link.attention, entry.attended, self.rotary(positions, feature))

    def forward(
        self,
        features: Float[Tensor, "L taps_d"],
        tokens: Int[Tensor, " L"],
        lengths: Sequence[int],
        anchors: Int[Tensor, " A"],
        embed: Embed,
    ) -> Forward:
        """The training form; see `ChainDrafter.forward_blocks`."""
        blocks = lay_out(lengths, anchors, owed=1)
        if bool((blocks.positions < 1).any()):
            raise ValueError("anchors: the first token of a document has no feature before it and is no anchor")
        feature = self.link.project(features)
        following = torch.cat((tokens[1:], tokens[-1:]))  # a document's last row has no pair; nothing ever sees it
        context = self.keys(feature, embed(following), positions_of(lengths, tokens.device))
        previous = previous_tokens(tokens, anchors, self.config.gamma)
        state, hidden, mix = feature[anchors - 1], [], _training_mix(blocks, context)
        for k, embedded in enumerate(embed(previous).unbind(1)):
            state = self.step(state, embedded, self.rotary(blocks.positions - 1 + k, state), mix)
            hidden.append(self.link.norm(state))
        return Forward(torch.stack(hidden, dim=1), previous)


def _training_mix(blocks: Blocks, context: tuple[Tensor, Tensor]) -> Mix:
    keys: list[Tensor] = []
    values: list[Tensor] = []

    def mix(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys.append(k)
        values.append(v)
        own = (torch.stack(keys, dim=1), torch.stack(values, dim=1))
        return attend_blocks(blocks, q[:, None], own, context)[:, 0]

    return mix
