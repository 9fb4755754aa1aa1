"""Eagle3: one decoder layer drafts token by token on projected target features [Li 2026; method section 3].

    feature = fc [H^(l1); ...; H^(lm)],   attention reads [norm(embedding) ; norm(feature)] (width 2d)

The residual stream is the feature, and the layer's output is the next step's feature.

    drafter = DRAFTERS.create("eagle3", target=target, path=Path("drafters/eagle3"))
"""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparkit.drafters.chain import ChainDrafter
from sparkit.drafters.config import DrafterConfig, decoder_for, default_taps
from sparkit.drafters.layout import fresh_net, load_net
from sparkit.drafters.link import ChainNet, Entry
from sparkit.protocols import DRAFTERS, Target
from sparkit.targets.transformer import Attention, RMSNorm, SwiGLU


class Eagle3Link(nn.Module):
    """See `sparkit.drafters.link.Link`."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        decoder = config.decoder
        size, eps = decoder.hidden_size, decoder.norm_eps
        self.fc = nn.Linear(len(config.feature_layers) * size, size, bias=False)
        self.embed_norm, self.hidden_norm = RMSNorm(size, eps), RMSNorm(size, eps)
        self.attention = Attention(decoder, input_size=2 * size)
        self.mlp_norm, self.mlp = RMSNorm(size, eps), SwiGLU(decoder)
        self.norm = RMSNorm(size, eps)

    def project(self, taps: Float[Tensor, "B taps_d"]) -> Float[Tensor, "B d"]:
        """Concatenated taps to one feature."""
        feature: Tensor = self.fc(taps)
        return feature

    def enter(self, feature: Float[Tensor, "B d"], embedded: Float[Tensor, "B d"]) -> Entry:
        """The pair side by side; a chain enters step by step, so nothing here goes through a module's call."""
        both = self.embed_norm.forward(embedded), self.hidden_norm.forward(feature)
        return Entry(feature, torch.cat(both, dim=-1))


def build(config: DrafterConfig) -> ChainNet:
    """The net of a config."""
    return ChainNet(config, Eagle3Link(config))


@DRAFTERS.register("eagle3", summary="autoregressive: one layer on target features, its output fed back")
def eagle3(
    target: Target,
    path: Path | None = None,
    gamma: int | None = None,
    taps: tuple[int, ...] | None = None,
    seed: int = 0,
) -> ChainDrafter:
    """A drafter read from a folder, or an untrained one.

    Args:
        target: lends embedding and LM head.
        path: the folder; None makes an untrained drafter from the options that follow.
        gamma: longest block; None: as trained (7 when untrained).
        taps: target layers it reads; None spreads four over the depth.
        seed: of the untrained weights.
    """
    if path is not None:
        config, net = load_net(path, target, build)
        return ChainDrafter(config, net, target, gamma)
    config = DrafterConfig(
        "eagle3",
        decoder_for(target, 1),
        default_taps(target.num_layers) if taps is None else tuple(taps),
        target.num_layers,
        gamma or 7,
    )
    return ChainDrafter(config, fresh_net(config, target, build, seed), target)
