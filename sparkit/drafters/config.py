"""What a neural drafter is made of: one frozen record, written as DeepSpec's config.json and read back from it.

The decoder fields are those of a `transformers` config (vocabulary and width are the target's, layers the draft's own);
"target_layer_ids", "block_size", "mask_token_id", "markov_rank", "markov_head_type" say the rest. "block_size"
counts input slots: gamma when the anchor is itself a prediction position, gamma + 1 in the original DFlash.

>>> DrafterConfig("dflash", TransformerConfig(8, 4, 8, 1, 1), (0,), 2, gamma=3, mask_token_id=0).num_slots
3
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from sparkit.protocols import Target
from sparkit.targets.loaders.config_json import document_of
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import TransformerConfig

Algorithm = Literal["dflash", "dspark", "eagle3", "mtp"]
_CLASSES = {"dflash": "DSparkModel", "dspark": "DSparkModel", "eagle3": "Eagle3Model", "mtp": "MTPModel"}
HEAD_NAMES = {"markov": "vanilla"}  # our name -> DeepSpec's, where they differ


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """Sizes and variants of one drafter."""

    algorithm: Algorithm
    decoder: TransformerConfig  # of the draft layers
    feature_layers: tuple[int, ...]  # the target taps it reads
    num_target_layers: int
    gamma: int  # draft tokens it was trained for
    mask_token_id: int | None = None  # the target's embedding row that stands for "to be predicted"
    sample_from_anchor: bool = True  # False: the original DFlash, anchor + gamma masks
    head: str = "none"
    rank: int = 0
    has_confidence: bool = False
    confidence_with_markov: bool | None = None  # None: whenever there is a Markov table
    draft_vocab_size: int | None = None  # None: the target's
    target_name: str = ""

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            raise ValueError(f"algorithm={self.algorithm!r}: expected one of {', '.join(get_args(Algorithm))}")
        if self.gamma < 1 or self.rank < 0:
            raise ValueError(f"gamma={self.gamma}, rank={self.rank}: expected gamma >= 1 and rank >= 0")
        if (self.head == "none") != (self.rank == 0):
            raise ValueError(f"head={self.head!r} with rank={self.rank}: head 'none' has rank 0, the others at least 1")
        if self.confidence_with_markov and self.rank == 0:
            raise ValueError("confidence_with_markov=True with rank=0: there is no Markov table; leave it unset")
        self._check_taps()
        if self.is_block:
            self._check_block()
        elif self.head != "none":
            raise ValueError(f"head={self.head!r}: {self.algorithm} draws token by token and takes no serial head")

    def _check_taps(self) -> None:
        if not self.feature_layers or any(not -1 <= tap < self.num_target_layers for tap in self.feature_layers):
            raise ValueError(
                f"feature_layers={list(self.feature_layers)}: expected layers from -1 (embedding) to "
                f"{self.num_target_layers - 1} of the target"
            )
        if self.algorithm == "mtp" and len(self.feature_layers) != 1:
            raise ValueError(f"feature_layers={list(self.feature_layers)}: mtp reads exactly one layer, the last")

    def _check_block(self) -> None:
        if self.num_target_layers - 1 in self.feature_layers:
            raise ValueError(
                f"feature_layers={list(self.feature_layers)}: a block drafter never reads the target's last layer "
                f"({self.num_target_layers - 1}), whose meaning differs between libraries"
            )
        mask, vocab = self.mask_token_id, self.decoder.vocab_size
        if mask is None or not 0 <= mask < vocab:
            raise ValueError(f"mask_token_id={mask!r}: expected a row of the target's embedding, 0..{vocab - 1}")
        if self.draft_vocab_size is not None:
            raise ValueError(f"draft_vocab_size={self.draft_vocab_size}: only eagle3 drafts from a reduced vocabulary")

    @property
    def is_block(self) -> bool:
        """Drafts a whole block in one forward."""
        return self.algorithm in ("dflash", "dspark")

    @property
    def mask_id(self) -> int:
        """The mask token of a block drafter, which `__post_init__` has made sure of."""
        assert self.mask_token_id is not None
        return self.mask_token_id

    @property
    def num_slots(self) -> int:
        """Inputs of a block."""
        return self.gamma if self.sample_from_anchor else self.gamma + 1

    @property
    def confidence_rank(self) -> int:
        """Width of the previous token's embedding in the confidence head's input."""
        return 0 if self.confidence_with_markov is False else self.rank

    def document(self, dtype: str = "float16") -> dict[str, Any]:
        """The config.json of this drafter."""
        base = document_of(self.decoder, dtype)
        family = {"qwen3": "Qwen3", "llama": "Llama"}[base["model_type"]]
        return {
            **base,
            "architectures": [family + _CLASSES[self.algorithm]],
            "tie_word_embeddings": False,
            "sparkit_algorithm": self.algorithm,
            "num_target_layers": self.num_target_layers,
            "target_layer_ids": list(self.feature_layers),
            "target_model_name_or_path": self.target_name,
            "enable_confidence_head": self.has_confidence,
            "confidence_head_with_markov": self.confidence_rank > 0,
            **(self._block_fields() if self.is_block else {"ttt_length": self.gamma}),
            **({} if self.draft_vocab_size is None else {"draft_vocab_size": self.draft_vocab_size}),
        }

    def _block_fields(self) -> dict[str, Any]:
        return {
            "block_size": self.num_slots,
            "sample_from_anchor": self.sample_from_anchor,
            "mask_token_id": self.mask_token_id,
            "markov_rank": self.rank,
            "markov_head_type": HEAD_NAMES.get(self.head, self.head),
        }


def decoder_for(target: Target, num_layers: int, num_kv_heads: int | None = None) -> TransformerConfig:
    """Draft layers shaped like the target's own, full attention; `num_kv_heads` None keeps the target's count too."""
    if isinstance(target, TransformerTarget):
        plain = replace(target.model.config, sliding_window=None, sliding_layers=(), eos_ids=())
        explicit = replace(plain, num_kv_heads=plain.kv_heads, head_dim=plain.head_size)
        shaped = replace(explicit, num_layers=num_layers, tie_embeddings=False)
        return shaped if num_kv_heads is None else replace(shaped, num_kv_heads=num_kv_heads)
    heads = max(target.hidden_size // 64, 1)
    head_dim = -(-target.hidden_size // heads // 2) * 2  # rotary embeddings want it even
    kv = num_kv_heads or heads
    sizes = (target.vocab_size, target.hidden_size, 3 * target.hidden_size, num_layers, heads, kv, head_dim)
    return TransformerConfig(*sizes, max_positions=target.max_positions, tie_embeddings=False)


def default_taps(num_layers: int, num_taps: int = 4) -> tuple[int, ...]:
    """Layers spread over the target's depth, the last one excluded: 1, 4, 7, 10 of 12."""
    if num_layers <= num_taps:
        return tuple(range(num_layers - 1)) or (-1,)
    step = (num_layers - 3) / (num_taps - 1)
    return tuple(dict.fromkeys(1 + round(i * step) for i in range(num_taps)))
