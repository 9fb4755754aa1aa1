"""MTP: one block reads the target's last hidden state and the next token's embedding [DeepSeek-V3 2024].

    x = M [norm(embedding of token i + 1) ; norm(h_i)],   one decoder layer,   the target's LM head

gamma = 1 in the production baseline; chained on its own output for MTP-3 / MTP-5.

    drafter = DRAFTERS.create("mtp", target=target, path=Path("drafters/mtp"))
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.drafters.chain import ChainDrafter
from sparkit.drafters.config import DrafterConfig, decoder_for
from sparkit.drafters.layout import fresh_net, load_net
from sparkit.drafters.link import ChainNet, Entry
from sparkit.protocols import DRAFTERS, Target
from sparkit.targets.transformer import Attention, RMSNorm, SwiGLU


class MtpLink(nn.Module):
    """See `sparkit.drafters.link.Link`; names of the two norms and the projection as in DeepSeek-V3."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        decoder = config.decoder
        size, eps = decoder.hidden_size, decoder.norm_eps
        self.enorm, self.hnorm = RMSNorm(size, eps), RMSNorm(size, eps)
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.attention_norm, self.attention = RMSNorm(size, eps), Attention(decoder)
        self.mlp_norm, self.mlp = RMSNorm(size, eps), SwiGLU(decoder)
        self.norm = RMSNorm(size, eps)

    def project(self, taps: Float[Tensor, "B taps_d"]) -> Float[Tensor, "B d"]:
        """The last hidden state is the feature."""
        return taps

    def enter(self, feature: Float[Tensor, "B d"], embedded: Float[Tensor, "B d"]) -> Entry:
        """The pair, projected to one stream; a chain enters step by step: nothing here goes through a module's call."""
        both = torch.cat((self.enorm.forward(embedded), self.hnorm.forward(feature)), dim=-1)
        x = F.linear(both, self.eh_proj.weight)
        return Entry(x, self.attention_norm.forward(x))


def build(config: DrafterConfig) -> ChainNet:
    """The net of a config."""
    return ChainNet(config, MtpLink(config))


@DRAFTERS.register("mtp", summary="autoregressive: DeepSeek-V3's block on the target's last hidden state")
def mtp(target: Target, path: Path | None = None, gamma: int | None = None, seed: int = 0) -> ChainDrafter:
    """A drafter read from a folder, or an untrained one.

    Args:
        target: lends embedding and LM head.
        path: the folder; None makes an untrained drafter.
        gamma: longest block; None: as trained (7 when untrained).
        seed: of the untrained weights.
    """
    if path is not None:
        config, net = load_net(path, target, build)
        return ChainDrafter(config, net, target, gamma)
    last = (target.num_layers - 1,)
    config = DrafterConfig("mtp", decoder_for(target, 1), last, target.num_layers, gamma or 7)
    return ChainDrafter(config, fresh_net(config, target, build, seed), target)
