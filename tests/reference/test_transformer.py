"""Our transformer gives the numbers of the `transformers` library on the same weights: prefill, ragged cache, rollback.

The library is not honest in float64: its RMSNorm, softmax and rotary tables go through float32 by name. Here its
modules see a `torch` whose float32 is float64, and a rotary forward that does not call `.float()`; the arithmetic
stays the library's own. In float32 the library runs as it is.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM, modeling_rope_utils
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

from sparkit.protocols import Span
from sparkit.targets.loaders import load_target, save_model
from sparkit.targets.model import TransformerTarget

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

TOLERANCE = {torch.float64: 1e-9, torch.float32: 3e-4}
SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": 5,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CASES: dict[str, tuple[type, dict[str, Any]]] = {
    "llama": (LlamaForCausalLM, {}),
    "llama-tied": (LlamaForCausalLM, {"tie_word_embeddings": True}),
    "llama-biases-one-kv-head": (
        LlamaForCausalLM,
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1, "head_dim": 16},
    ),
    "llama-theta": (LlamaForCausalLM, {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}),
    "llama-linear": (LlamaForCausalLM, {"rope_parameters": {"rope_type": "linear", "rope_theta": 99.0, "factor": 3.0}}),
    "llama-llama3": (LlamaForCausalLM, {"rope_parameters": {**LLAMA3, "original_max_position_embeddings": 16}}),
    "llama-yarn": (
        LlamaForCausalLM,
        {
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
                "beta_fast": 2.0,
            },
        },
    ),
    "qwen3": (Qwen3ForCausalLM, {"head_dim": 16}),
    "qwen3-tied-bias": (Qwen3ForCausalLM, {"head_dim": 8, "tie_word_embeddings": True, "attention_bias": True}),
    "qwen3-window": (
        Qwen3ForCausalLM,
        {"head_dim": 8, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
}


class _Double:
    """`torch` with float64 under the names of float32."""

    float = float32 = torch.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _honest_rotary(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    angles = position_ids[..., None].double() * self.inv_freq.double()
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    if request.param == torch.float64:
        for module in (modeling_llama, modeling_qwen3, modeling_rope_utils):
            monkeypatch.setattr(module, "torch", _Double())
        monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", _honest_rotary)
        monkeypatch.setattr(modeling_qwen3.Qwen3RotaryEmbedding, "forward", _honest_rotary)
    return request.param  # type: ignore[no-any-return]


def _library_model(case: str, dtype: torch.dtype) -> Any:
    kind, options = CASES[case]
    config_type = LlamaConfig if kind is LlamaForCausalLM else Qwen3Config
    config = config_type(**{**SIZES, "tie_word_embeddings": False, **options}, attn_implementation="eager")
    generator = torch.Generator().manual_seed(7)
    model = kind(config).eval().to(dtype)
    for name, p in model.named_parameters():
        spread = 0.3 if p.ndim > 1 or name.endswith("bias") else 0.2
        p.data.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * spread + (p.ndim == 1) * 1.0)
    return model


@pytest.mark.parametrize("case", CASES)
def test_equals_the_library(case: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Kills: a wrong rotary layout or scaling, QK-norm after the rotation, a lost bias, a window off by one, a cache
    whose rolled-back rows are still seen."""
    model = _library_model(case, dtype)
    model.save_pretrained(tmp_path)
    target, _ = load_target(str(tmp_path), dtype=dtype, taps=(-1, 0, 1))
    texts = [torch.randint(0, 61, (n,), generator=torch.Generator().manual_seed(n)) for n in (34, 9, 17)]
    with torch.no_grad():
        wanted = [model(t[None], output_hidden_states=True) for t in texts]
    found = _ragged_with_rollback(target, texts)
    for want, (logits, features) in zip(wanted, found, strict=True):
        hidden = torch.cat([want.hidden_states[k + 1][0] for k in (-1, 0, 1)], dim=-1)
        assert (logits - want.logits[0]).abs().max() < TOLERANCE[dtype]
        assert (features - hidden).abs().max() < TOLERANCE[dtype]
        assert want.logits.abs().max() > 1  # zeros would agree too


def _ragged_with_rollback(target: Any, texts: list[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """All texts side by side in uneven steps; before each step some wrong tokens are processed and rolled back."""
    cache, slots = target.new_cache(5, 64), (3, 0, 2)
    parts: list[list[Any]] = [[] for _ in texts]
    for step in range(40):
        spans, rows, owners = [], [], []
        for i, (slot, text) in enumerate(zip(slots, texts, strict=True)):
            start = cache.lengths[slot]
            count = min((30, 1, 3, 8)[(step + i) % 4], len(text) - start)
            if count > 0:
                spans.append(Span(slot, start, count))
                rows.append(text[start : start + count])
                owners.append(i)
        if not spans:
            break
        target.forward((torch.cat(rows) + 1) % 61, spans, cache)
        for span in spans:
            cache.truncate(span.slot, span.start)
        out = target.forward(torch.cat(rows), spans, cache)
        counts = [span.count for span in spans]
        for i, logits, features in zip(owners, out.logits.split(counts), out.features.split(counts), strict=True):
            parts[i].append((logits, features))
    return [tuple(torch.cat(column) for column in zip(*part, strict=True)) for part in parts]  # type: ignore[misc]


@pytest.mark.parametrize("case", ["llama-tied", "llama-biases-one-kv-head", "llama-yarn", "qwen3-window"])
def test_library_reads_what_we_save(case: str, tmp_path: Path) -> None:
    """Kills: fused matrices cut in the wrong order, a config field lost on the way out."""
    model = _library_model(case, torch.float32)
    model.save_pretrained(tmp_path / "theirs")
    target, _ = load_target(str(tmp_path / "theirs"))
    assert isinstance(target, TransformerTarget)
    save_model(tmp_path / "ours", target.model)
    again = type(model).from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    tokens = torch.arange(40)[None]
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, model(tokens).logits)


@pytest.mark.parametrize("case", ["llama", "qwen3"])
def test_adapter_equals_the_library(case: str, tmp_path: Path) -> None:
    """Kills: `hf:` cropping the cache by one too many, positions that restart, features of the wrong layer."""
    from sparkit.targets.hf import LibraryTarget

    model = _library_model(case, torch.float32)
    texts = [torch.arange(n) % 61 for n in (20, 7, 12)]
    with torch.no_grad():
        wanted = [model(t[None], output_hidden_states=True) for t in texts]
    found = _ragged_with_rollback(LibraryTarget(model, taps=(-1, 0, 1)), texts)
    for want, (logits, features) in zip(wanted, found, strict=True):
        hidden = torch.cat([want.hidden_states[k + 1][0] for k in (-1, 0, 1)], dim=-1)
        assert (logits - want.logits[0]).abs().max() < 3e-4
        assert (features - hidden).abs().max() < 3e-4
    with pytest.raises(ValueError, match="already normalised"):
        LibraryTarget(model, taps=(2,))
