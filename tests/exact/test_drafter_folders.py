"""Drafter folders: DeepSpec's names, what must fit, what is refused; draft vocabularies (B17, B19)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sparkit.drafters.config import DrafterConfig, default_taps
from sparkit.drafters.document import drafter_config
from sparkit.drafters.layout import load_drafter, save_drafter
from sparkit.drafters.vocabulary import fitted, is_kept, offsets_of, spread, target_ids
from sparkit.protocols import DRAFTERS, Span
from sparkit.targets.transformer import TransformerConfig
from tests.parts import addressed, anchors_at, features_of, random_tokens, shake, tiny_target

VARIANTS = [
    ("dflash", {}),
    ("dflash", {"sample_from_anchor": False}),
    ("dspark", {"rank": 4}),
    ("dspark", {"rank": 4, "head": "gated"}),
    ("dspark", {"rank": 4, "head": "rnn"}),
    ("eagle3", {}),
    ("mtp", {}),
]
LAYER = ["input_layernorm", "post_attention_layernorm", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj"]
LAYER += [f"self_attn.{x}" for x in ("q_proj", "k_proj", "v_proj", "o_proj")]


def folder_of(path: Path, name: str = "dspark", **params: object) -> Path:
    save_drafter(path, DRAFTERS.create(name, target=tiny_target(), gamma=3, **params), dtype=torch.float64)
    return path


def edited(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))


@pytest.mark.parametrize(("name", "params"), VARIANTS)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_folders_come_back(tmp_path: Path, name: str, params: dict[str, object], qk_norm: bool):
    """Catches fused rows cut at the wrong place, a head's layer under another name, a config field that is lost."""
    target = tiny_target(qk_norm=qk_norm)
    drafter = DRAFTERS.create(name, target=target, gamma=3, **params)
    shake(drafter.net, 3, 0.2)
    config = save_drafter(tmp_path, drafter, dtype=torch.float64)
    back = load_drafter(tmp_path, target)
    assert back.config == config == drafter.config
    for ours, p in drafter.net.named_parameters():
        assert torch.equal(back.net.get_parameter(ours), p), ours
        assert not back.net.get_parameter(ours).requires_grad
    assert load_drafter(tmp_path, target, gamma=2).gamma == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("name", "params", "num_layers", "extra"),
    [
        ("dflash", {}, 2, ["fc", "hidden_norm", "norm"]),
        ("dspark", {"rank": 4}, 2, ["fc", "hidden_norm", "norm", "markov_head.markov_w1", "markov_head.markov_w2"]),
        ("eagle3", {}, 1, ["fc", "norm", "layers.0.hidden_norm"]),
    ],
)
def test_names_are_deepspecs(tmp_path: Path, name: str, params: dict[str, object], num_layers: int, extra: list[str]):
    """checkpoints.md section 1, tensor by tensor."""
    folder_of(tmp_path, name, **params)
    layers = [f"layers.{i}.{part}" for i in range(num_layers) for part in LAYER]
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert sorted(file.keys()) == sorted(f"{x}.weight" for x in layers + extra)
        if name == "dspark":
            assert file.get_tensor("markov_head.markov_w2.weight").shape == (32, 4)
        if name == "eagle3":
            assert file.get_tensor("layers.0.self_attn.q_proj.weight").shape == (16, 32)


def test_halves_on_disk_are_the_targets_precision_in_memory(tmp_path: Path):
    target = tiny_target()
    save_drafter(tmp_path, DRAFTERS.create("dspark", target=target, rank=4))
    assert all(t.dtype == torch.float16 for t in load_file(tmp_path / "model.safetensors").values())
    assert all(p.dtype == torch.float64 for p in load_drafter(tmp_path, target).net.parameters())


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def without(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        del tensors[name]
        save_file(tensors, folder / "model.safetensors")

    return change


def with_shape(name: str, *shape: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        save_file({**tensors, name: torch.zeros(shape)}, folder / "model.safetensors")

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "truncated or damaged"),
        (without("fc.weight"), r"'fc.weight' \[16, 48\], which config.json asks for, is missing"),
        (with_shape("norm.weight", 8), r"'norm.weight' has shape \[8\], config.json says \[16\]"),
        (with_shape("stranger.weight", 2), "'stranger.weight' .* is none of the"),
        (with_shape("embed_tokens.weight", 31, 16), r"'embed_tokens.weight' has shape \[31, 16\], expected \[32, 16\]"),
        (lambda f: edited(f, markov_rank=5), r"'markov_head.markov_w1.weight' has shape \[32, 4\]"),
        (lambda f: edited(f, mask_token_id=...), "mask_token_id=None: expected a row of the target's embedding, 0..31"),
        (lambda f: edited(f, mask_token_id=-1), "mask_token_id=-1: expected a row"),
        (lambda f: edited(f, mask_token_id=32), "mask_token_id=32: expected a row"),
        (lambda f: edited(f, target_layer_ids=[0, 3]), "a block drafter never reads the target's last layer"),
        (lambda f: edited(f, target_layer_ids=[0, 9]), "expected layers from -1"),
        (lambda f: edited(f, target_layer_ids="all"), "expected a list of layer numbers"),
        (lambda f: edited(f, block_size=0), "gamma=0"),
        (lambda f: edited(f, block_size=...), "block_size is None; expected a whole number"),
        (lambda f: edited(f, architectures=["LlamaForCausalLM"], sparkit_algorithm=...), "expected a DSpark, DFlash"),
        (lambda f: edited(f, vocab_size=33), "vocabulary|'markov_head.markov_w1.weight' has shape"),
        (lambda f: edited(f, num_target_layers=5), "number of target layers 5, the target has 4"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, damage: Callable[[Path], None], message: str):
    folder_of(tmp_path, rank=4)
    damage(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_drafter(tmp_path, tiny_target())


def test_frozen_copies_of_the_target_are_ignored(tmp_path: Path):
    """DeepSpec writes embed_tokens and lm_head; ours are the target's. Kills: a drafter that reads the copies."""
    folder_of(tmp_path, rank=4)
    own = load_drafter(tmp_path, tiny_target())
    for name in ("embed_tokens.weight", "lm_head.weight"):
        with_shape(name, 32, 16)(tmp_path)
    read = load_drafter(tmp_path, tiny_target())
    hidden, previous = torch.ones(1, read.gamma, 16, dtype=torch.float64), torch.ones(1, read.gamma, dtype=torch.int64)
    torch.testing.assert_close(read.block_logits(hidden, previous), own.block_logits(hidden, previous), rtol=0, atol=0)


def test_another_head_than_the_trained_one_is_refused(tmp_path: Path):
    folder_of(tmp_path, rank=4)
    with pytest.raises(ValueError, match=r"head='rnn': the drafter in .* was trained with head 'markov'"):
        DRAFTERS.create("dspark", target=tiny_target(), path=tmp_path, head="rnn")


def test_missing_folders_are_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"no config.json; expected a drafter's folder"):
        load_drafter(tmp_path, tiny_target())


QWEN = {
    "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728,
    "num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "rms_norm_eps": 1e-6, "rope_theta": 1000000, "max_position_embeddings": 40960, "hidden_act": "silu",
    "tie_word_embeddings": False, "num_target_layers": 36, "target_layer_ids": [1, 9, 17, 25, 33],
    "layer_types": ["full_attention"] * 5,
}  # fmt: skip
BLOCK = {"architectures": ["Qwen3DSparkModel"], "block_size": 7, "mask_token_id": 151669, "num_anchors": 512}
SPARK = {"markov_rank": 256, "markov_head_type": "vanilla", "enable_confidence_head": True}


def test_released_configs_are_understood():
    """checkpoints.md section 1. Catches DFlash taken for DSpark (it carries its class name), gamma = block_size - 1."""
    spark = drafter_config({**QWEN, **BLOCK, **SPARK, "confidence_head_with_markov": True}, "config.json")
    assert (spark.algorithm, spark.gamma, spark.head, spark.rank, spark.confidence_rank) == (
        "dspark",
        7,
        "markov",
        256,
        256,
    )
    assert (spark.decoder.qk_norm, spark.decoder.num_layers) == (True, 5)
    flash = drafter_config({**QWEN, **BLOCK, "markov_rank": 0, "enable_confidence_head": False}, "config.json")
    assert (flash.algorithm, flash.gamma, flash.head, flash.has_confidence) == ("dflash", 7, "none", False)
    eagle = {
        "architectures": ["Qwen3Eagle3Model"],
        "num_hidden_layers": 1,
        "ttt_length": 7,
        "layer_types": ["full_attention"],
    }
    assert drafter_config({**QWEN, **eagle}, "config.json").algorithm == "eagle3"
    masks = drafter_config({**QWEN, **BLOCK, **SPARK, "sample_from_anchor": False}, "config.json")
    assert (masks.gamma, masks.num_slots) == (6, 7)


@pytest.mark.parametrize("value", [["vanilla"] * 10_000, "v" * 10_000, 3])
def test_a_head_is_named_by_a_short_text(value: object):
    """Kills: a list taken for a name, and a message as long as the file."""
    with pytest.raises(
        ValueError, match=r"config.json: markov_head_type is .*; expected a text of at most 500 char"
    ) as caught:
        drafter_config({**QWEN, **BLOCK, **SPARK, "markov_head_type": value}, "config.json")
    assert len(str(caught.value)) < 300


def test_b26_rank_zero_and_the_confidence_flag():
    """Unset with rank 0: width d. Set with rank 0: refused when the config is made."""
    off = {"markov_rank": 0, "enable_confidence_head": True}
    assert drafter_config({**QWEN, **BLOCK, **off}, "config.json").confidence_rank == 0
    with pytest.raises(ValueError, match="confidence_with_markov=True with rank=0"):
        drafter_config({**QWEN, **BLOCK, **off, "confidence_head_with_markov": True}, "config.json")
    with pytest.raises(ValueError, match="rank=-1"):
        drafter_config({**QWEN, **BLOCK, "markov_rank": -1}, "config.json")


def test_default_taps():
    assert default_taps(12) == (1, 4, 7, 10)
    assert [default_taps(n) for n in (1, 2, 4)] == [(-1,), (0,), (0, 1, 2)]


# -------------------------------------------------------------------------------------------- draft vocabularies
def test_b17_the_map_holds_offsets():
    """V = 10, kept [1, 4, 5, 9] -> d2t [1, 3, 3, 6]; draft 2 -> 5. Catches d2t read as target ids."""
    ids = torch.tensor([1, 4, 5, 9])
    assert offsets_of(ids).tolist() == [1, 3, 3, 6]
    assert torch.equal(target_ids(offsets_of(ids), 10), ids)
    assert is_kept(ids, 10).nonzero()[:, 0].tolist() == [1, 4, 5, 9]
    law = spread(torch.zeros(1, 4), ids, 10).softmax(-1)
    assert law[0].tolist() == [0, 0.25, 0, 0, 0.25, 0.25, 0, 0, 0, 0.25]
    assert target_ids(None, 10, 10).tolist() == list(range(10))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([1, 0, 3, 6], "strictly increasing"),  # 1, 1
        ([3, 1, 3, 6], "strictly increasing"),  # 3, 2
        ([1, 3, 3, 7], "strictly increasing ids in 0..9"),  # 10
        ([-1, 3, 3, 6], "strictly increasing ids in 0..9"),
    ],
)
def test_b17_bad_maps(offsets: list[int], message: str):
    with pytest.raises(ValueError, match=message):
        target_ids(torch.tensor(offsets), 10)
    with pytest.raises(ValueError, match="draft vocabulary 4, target vocabulary 10 and no d2t map"):
        target_ids(None, 10, 4)


def test_b19_heads_of_another_width():
    """Width 12 over a target of 10 with the padded ids at +50: never proposed, renormalised. Width 8: zeros."""
    logits = torch.zeros(1, 12)
    logits[:, 10:] = 50
    assert fitted(logits, 10).softmax(-1).tolist() == [pytest.approx([0.1] * 10)]
    assert fitted(torch.zeros(1, 8), 10).softmax(-1).tolist() == [pytest.approx([0.125] * 8 + [0, 0])]


def reduced(target: object) -> object:
    """An eagle3 drafter that knows five tokens."""
    from dataclasses import replace

    from sparkit.drafters.chain import ChainDrafter
    from sparkit.drafters.eagle3 import build

    config: DrafterConfig = replace(DRAFTERS.create("eagle3", target=target, gamma=3).config, draft_vocab_size=5)
    net = build(config).double()
    net.d2t = offsets_of(torch.tensor([2, 3, 11, 20, 31]))
    return ChainDrafter(config, net, target)


def test_b17_reduced_vocabulary_travels(tmp_path: Path):
    """d2t and t2d are saved and read; other tokens have draft probability exactly 0. Catches a map left behind."""
    target = tiny_target()
    save_drafter(tmp_path, reduced(target), dtype=torch.float64)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["t2d"].nonzero()[:, 0].tolist() == [2, 3, 11, 20, 31]
    back = load_drafter(tmp_path, target)
    back.prepare(1, 20)
    tokens = random_tokens(6, seed=1)
    back.absorb(features_of(target.with_taps(back.feature_layers), tokens)[:5], tokens[:5], [Span(0, 0, 5)])
    anchors = anchors_at([int(tokens[5])], [Span(0, 5, 3)])
    law = back.propose(anchors, addressed(anchors)).p_draft
    assert (law > 0).any(0).any(0).nonzero()[:, 0].tolist() == [2, 3, 11, 20, 31]
    torch.testing.assert_close(law.sum(-1), torch.ones(1, 3, dtype=torch.float64))
    without("d2t")(tmp_path)
    with pytest.raises(ValueError, match="without a tensor 'd2t'"):
        load_drafter(tmp_path, target)


def test_block_drafters_take_no_reduced_vocabulary():
    decoder = TransformerConfig(8, 4, 8, 1, 1)
    with pytest.raises(ValueError, match="only eagle3 drafts from a reduced vocabulary"):
        DrafterConfig("dflash", decoder, (0,), 2, gamma=3, mask_token_id=0, draft_vocab_size=4)
