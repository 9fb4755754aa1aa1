"""DFlash: a parallel drafter, the whole block in one forward, every position on its own [Chen 2026; method section 3].

The net is `sparkit.drafters.backbone` without a serial head.

    drafter = DRAFTERS.create("dflash", target=target, path=Path("drafters/dflash"))
"""

from pathlib import Path

from sparkit.drafters.backbone import BlockNet
from sparkit.drafters.block import BlockDrafter
from sparkit.drafters.config import DrafterConfig, decoder_for, default_taps
from sparkit.drafters.layout import fresh_net, load_net
from sparkit.protocols import DRAFTERS, Target


@DRAFTERS.register("dflash", summary="parallel: a block in one forward, injected target features")
def dflash(
    target: Target,
    path: Path | None = None,
    gamma: int | None = None,
    num_layers: int = 2,
    num_kv_heads: int | None = None,
    taps: tuple[int, ...] | None = None,
    mask_token_id: int = 0,
    sample_from_anchor: bool = True,
    seed: int = 0,
) -> BlockDrafter:
    """A drafter read from a folder, or an untrained one.

    Args:
        target: lends embedding and LM head.
        path: the folder; None makes an untrained drafter from the options that follow.
        gamma: longest block; None: as trained (7 when untrained).
        num_layers: draft layers.
        num_kv_heads: key and value heads of a draft layer, all that the target's features pass through; None: the
            target's own count.
        taps: target layers it reads; None spreads four over the depth.
        mask_token_id: a target token that stands for "to be predicted".
        sample_from_anchor: False predicts at the masks only (the original DFlash).
        seed: of the untrained weights.
    """
    if path is not None:
        config, net = load_net(path, target, BlockNet)
        return BlockDrafter(config, net, target, gamma)
    config = DrafterConfig(
        "dflash",
        decoder_for(target, num_layers, num_kv_heads),
        default_taps(target.num_layers) if taps is None else tuple(taps),
        target.num_layers,
        gamma or 7,
        mask_token_id=mask_token_id,
        sample_from_anchor=sample_from_anchor,
    )
    return BlockDrafter(config, fresh_net(config, target, BlockNet, seed), target)
