"""`hf:NAME_OR_PATH` makes any causal LM of `transformers` a target: one forward a request, a `DynamicCache` a slot.

Slower than our own transformer (every request of a step is its own forward) and exact for whatever the library
computes. Features come from `output_hidden_states`: layer k is hidden_states[k + 1]; the last layer is refused, since
the library returns it after the final norm. `transformers` is imported on first use only.

    target, tokenizer = load_hf("gpt2")
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.protocols import TARGETS, Span, TargetOutput
from sparkit.targets.model import require_continuing, require_taps
from sparkit.targets.tokenizer import Tokenizer
from sparkit.targets.tokenizer_files import Special


@dataclass(slots=True)
class LibraryCache:
    """One library cache a slot; a slot that was rolled back is cropped at its next forward."""

    slots: list[Any]
    max_len: int
    lengths: list[int] = field(default_factory=list)

    def truncate(self, slot: int, length: int) -> None:
        """Keeps the first `length` positions of a slot."""
        if not 0 <= length <= self.lengths[slot]:
            raise ValueError(f"truncate(slot={slot}, length={length}): the slot holds {self.lengths[slot]} positions")
        self.lengths[slot] = length

    def clone(self) -> "LibraryCache":
        """An independent copy."""
        import copy

        return LibraryCache(copy.deepcopy(self.slots), self.max_len, list(self.lengths))


class LibraryTarget:
    """See `sparkit.protocols.Target`.

    Args:
        model: a causal LM of `transformers`, in the precision and on the device it runs in.
        taps: decoder layers whose outputs are wanted, the last one excluded.
        name: what it is called in messages.
    """

    def __init__(self, model: Any, *, taps: Sequence[int] = (), name: str = "hf") -> None:
        config = model.config.get_text_config()
        require_taps(taps, config.num_hidden_layers, name)
        if config.num_hidden_layers - 1 in taps:
            raise ValueError(
                f"feature layer {config.num_hidden_layers - 1}: the last hidden state of transformers is already "
                f"normalised; choose layers 0..{config.num_hidden_layers - 2} of {name}"
            )
        self.model, self.name = model.eval().requires_grad_(False), name
        self.num_layers, self.hidden_size = config.num_hidden_layers, config.hidden_size
        self.vocab_size = model.get_output_embeddings().weight.shape[0]
        self.max_positions = int(getattr(config, "max_position_embeddings", None) or 2048)
        self.eos_ids = _eos_ids(model)
        self.feature_layers = tuple(taps)
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype

    def with_taps(self, taps: Sequence[int]) -> "LibraryTarget":
        """The same weights with other features."""
        return LibraryTarget(self.model, taps=taps, name=self.name)

    def embed(self, tokens: Int[Tensor, "*N"]) -> Float[Tensor, "*N d"]:
        """Token embeddings."""
        embedded: Tensor = self.model.get_input_embeddings()(tokens)
        return embedded

    def lm_head(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """The output matrix alone."""
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    def new_cache(self, num_slots: int, max_len: int) -> LibraryCache:
        """Empty slots; they grow as they fill."""
        return LibraryCache([None] * num_slots, max_len, [0] * num_slots)

    @torch.no_grad()
    def forward(
        self,
        tokens: Int[Tensor, " B"],
        spans: Sequence[Span],
        cache: LibraryCache,
        rows: Int[Tensor, " N"] | None = None,
    ) -> TargetOutput:
        """Processes the spans one after the other and moves the cache lengths on."""
        require_continuing(spans, cache.lengths, cache.max_len)
        counts = [span.count for span in spans]
        parts = [self._one(part, span, cache) for part, span in zip(torch.split(tokens, counts), spans, strict=True)]
        logits = torch.cat([logits for logits, _ in parts])
        features = torch.cat([features for _, features in parts])
        return TargetOutput(logits if rows is None else logits[rows], features)

    def _one(self, tokens: Int[Tensor, " n"], span: Span, cache: LibraryCache) -> tuple[Tensor, Tensor]:
        past = _cropped(cache.slots[span.slot], span.start)
        positions = torch.arange(span.start, span.start + span.count, device=self.device)[None]
        out = self.model(
            tokens[None],
            position_ids=positions,
            past_key_values=past,
            use_cache=True,
            output_hidden_states=bool(self.feature_layers),
        )
        cache.slots[span.slot], cache.lengths[span.slot] = out.past_key_values, span.start + span.count
        if not self.feature_layers:
            return out.logits[0], out.logits[0, :, :0]
        return out.logits[0], torch.cat([out.hidden_states[k + 1][0] for k in self.feature_layers], dim=-1)


def _cropped(past: Any, length: int) -> Any:
    """The slot's cache at `length` positions; without a config it keeps every position, so that it can be cropped."""
    from transformers import DynamicCache

    if past is None or length == 0:
        return DynamicCache()
    if (excess := past.get_seq_length() - length) > 0:
        past.crop(-excess)  # negative means "so many fewer" in every version; positive has changed its meaning
    return past


def _eos_ids(model: Any) -> tuple[int, ...]:
    generation = getattr(model, "generation_config", None)
    value = getattr(generation, "eos_token_id", None)
    value = model.config.eos_token_id if value is None else value
    return tuple(value) if isinstance(value, list | tuple) else () if value is None else (int(value),)


@TARGETS.register("hf", summary="any causal LM of the transformers library, by name or path (slower)")
def load_hf(
    source: str,
    *,
    device: torch.device = torch.device("cpu"),
    dtype: torch.dtype = torch.float32,
    taps: Sequence[int] = (),
) -> tuple[LibraryTarget, Tokenizer]:
    """A model of the library, loaded by the library; only safetensors are opened.

    Raises:
        ValueError: if `transformers` is missing, or cannot load `source`.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ValueError("hf targets need the transformers library: pip install 'sparkit[hf]'") from error
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=dtype, use_safetensors=True)
        fast = transformers.AutoTokenizer.from_pretrained(source, use_fast=True)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"hf:{source}: transformers cannot load it: {reason}") from error
    special = Special(
        bos_token=fast.bos_token,
        eos_token=fast.eos_token,
        add_bos=getattr(fast, "add_bos_token", False) is True,
        chat_template=fast.chat_template if isinstance(fast.chat_template, str) else None,
    )
    target = LibraryTarget(model.to(device), taps=taps, name=f"hf:{source}")
    return target, Tokenizer(fast.backend_tokenizer, special, name=f"hf:{source}")
