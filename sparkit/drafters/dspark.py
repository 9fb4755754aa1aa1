"""DSpark: the parallel backbone with a serial head that reads the token before [DSpark sections 3 and 4, eq. 4].

The net is `sparkit.drafters.backbone` with a head of `sparkit.heads`.

    drafter = DRAFTERS.create("dspark", target=target, path=Path("drafters/dspark-markov"))
"""

from pathlib import Path

from sparkit.drafters.backbone import BlockNet
from sparkit.drafters.block import BlockDrafter
from sparkit.drafters.config import DrafterConfig, decoder_for, default_taps
from sparkit.drafters.layout import fresh_net, load_net
from sparkit.protocols import DRAFTERS, Target


@DRAFTERS.register("dspark", summary="semi-autoregressive: parallel backbone, serial head (markov, gated, rnn)")
def dspark(
    target: Target,
    path: Path | None = None,
    gamma: int | None = None,
    head: str | None = None,
    rank: int = 64,
    num_layers: int = 2,
    num_kv_heads: int | None = None,
    taps: tuple[int, ...] | None = None,
    mask_token_id: int = 0,
    seed: int = 0,
) -> BlockDrafter:
    """A drafter read from a folder, or an untrained one.

    Args:
        target: lends embedding and LM head.
        path: the folder; None makes an untrained drafter from the options that follow.
        gamma: longest block; None: as trained (7 when untrained).
        head: a registered serial head; None: the folder's own (markov when untrained).
        rank: of the head's table; 0 for the head "none".
        num_layers: draft layers.
        num_kv_heads: key and value heads of a draft layer, all that the target's features pass through; None: the
            target's own count.
        taps: target layers it reads; None spreads four over the depth.
        mask_token_id: a target token that stands for "to be predicted".
        seed: of the untrained weights.

    Raises:
        ValueError: if the folder's drafter has another head than the one asked for.
    """
    if path is not None:
        config, net = load_net(path, target, BlockNet)
        if head not in (None, config.head):
            raise ValueError(f"head={head!r}: the drafter in {path} was trained with head {config.head!r}")
        return BlockDrafter(config, net, target, gamma)
    head = "markov" if head is None else head
    config = DrafterConfig(
        "dspark",
        decoder_for(target, num_layers, num_kv_heads),
        default_taps(target.num_layers) if taps is None else tuple(taps),
        target.num_layers,
        gamma or 7,
        mask_token_id=mask_token_id,
        head=head,
        rank=0 if head == "none" else rank,
    )
    return BlockDrafter(config, fresh_net(config, target, BlockNet, seed), target)
