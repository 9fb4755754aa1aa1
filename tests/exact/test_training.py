"""The training loop, packing and checkpoints on tiny models."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sparkit.targets.loaders import save_model
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer, TransformerConfig
from sparkit.training import pipeline
from sparkit.training.checkpoint import FILE, Note, load_checkpoint, save_checkpoint
from sparkit.training.distributed import World
from sparkit.training.loop import Optimisation, Training, optimizer_of, run
from sparkit.training.packing import causal_mix, pack_documents
from sparkit.training.pipeline import fresh_target, fresh_trainee
from sparkit.training.presets import ABLATIONS, DRAFTERS, PRESETS
from sparkit.training.target import choose, initialise, objective, token_losses

CONFIG = TransformerConfig(32, 16, 24, 2, 4, 2, max_positions=32, eos_ids=(3,))


def model(seed: int = 0) -> Transformer:
    fresh = Transformer(CONFIG)
    initialise(fresh, torch.Generator().manual_seed(seed))
    return fresh


def documents(num: int = 6) -> dict[str, list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return {d: [torch.randint(5, 32, (4 + i,), generator=generator) for i in range(num)] for d in ("math", "chat")}


def test_packed_documents_do_not_see_each_other():
    """Catches attention over the border and positions that go on: a pack equals each document alone."""
    net, docs = model().double(), documents()["math"]
    pack = pack_documents(docs, num_groups=2)
    hidden, _ = net.hidden(pack.tokens, pack.positions, causal_mix(pack))
    for place, original in enumerate(pack.order):
        alone = pack_documents([docs[original]])
        expected, _ = net.hidden(alone.tokens, alone.positions, causal_mix(alone))
        start = int(pack.starts[place])
        torch.testing.assert_close(hidden[start : start + len(expected)], expected, rtol=0, atol=1e-12)


def test_no_position_predicts_the_next_document():
    """Catches a loss across the border: one loss fewer than tokens in every document."""
    docs = documents()["math"]
    assert len(token_losses(model(), pack_documents(docs))) == sum(len(d) - 1 for d in docs)


def test_an_empty_document_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        pack_documents([torch.zeros(0, dtype=torch.int64)])


def test_domains_share_the_tokens_of_a_step():
    """Catches sampling by document count: long documents would take over."""
    short, long = [torch.zeros(4, dtype=torch.int64)] * 3, [torch.zeros(40, dtype=torch.int64)] * 3
    chosen = choose({"short": short, "long": long}, 800, seed=0, step=3)
    tokens = [sum(len(d) for d in chosen if len(d) == n) for n in (4, 40)]
    assert tokens == [400, 400]


def test_batches_are_functions_of_seed_and_step():
    """Catches a generator that carries state from step to step: resuming would see other batches."""
    docs = documents()
    first, again = choose(docs, 30, 7, 5), choose(docs, 30, 7, 5)
    assert [d.tolist() for d in first] == [d.tolist() for d in again]
    assert [d.tolist() for d in first] != [d.tolist() for d in choose(docs, 30, 7, 6)]


def test_rate_warms_up_and_ends_low():
    """Catches a cosine over the wrong share."""
    plan = Optimisation(peak_rate=1.0, steps=100, warmup_share=0.1, final_share=0.05)
    assert plan.rate(0.0) < 0.02
    assert plan.rate(0.1) == pytest.approx(1.0)
    assert plan.rate(0.55) == pytest.approx(0.05 + 0.95 / 2)
    assert plan.rate(1.0) == pytest.approx(0.05)


def test_a_budget_of_minutes_drives_the_schedule():
    """Catches progress by steps when minutes were planned."""
    assert Optimisation(1.0, minutes=2.0).progress(step=999, seconds=60.0) == 0.5


@pytest.mark.parametrize("budget", [{}, {"steps": 1, "minutes": 1.0}, {"steps": 0}, {"minutes": -1.0}])
def test_one_positive_budget_is_needed(budget: dict[str, float]):
    with pytest.raises(ValueError, match="Optimisation"):
        Optimisation(1.0, **budget)  # type: ignore[arg-type]


def test_vectors_do_not_decay():
    """Catches weight decay on norms."""
    groups = optimizer_of(model(), Optimisation(1.0, steps=1)).param_groups
    assert [g["weight_decay"] for g in groups] == [0.1, 0.0]
    assert all(p.ndim == 1 for p in groups[1]["params"])


def test_training_learns_and_logs(tmp_path: Path):
    """Catches a sign error, and a log with anything but numbers."""
    net = model()
    training = Training(net, Optimisation(peak_rate=1e-2, steps=40), tmp_path)
    run(training, objective(net, documents(), 60, seed=0), log_steps=5)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(lines) == 8
    assert lines[0]["loss"] > math.log(32) * 0.8 > lines[-1]["loss"]


def test_a_damaged_checkpoint_says_what_to_do(tmp_path: Path):
    net = model()
    save_checkpoint(tmp_path, net, optimizer_of(net, Optimisation(1.0, steps=1)), Note(1, 0.0, 1))
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:100])
    with pytest.raises(ValueError, match="delete it to start afresh"):
        load_checkpoint(tmp_path, net, optimizer_of(net, Optimisation(1.0, steps=1)))


def test_a_checkpoint_of_another_module_is_refused(tmp_path: Path):
    net, other = model(), Transformer(TransformerConfig(32, 8, 24, 2, 4, 2))
    save_checkpoint(tmp_path, net, optimizer_of(net, Optimisation(1.0, steps=1)), Note(1, 0.0, 1))
    with pytest.raises(ValueError, match="another module"):
        load_checkpoint(tmp_path, other, optimizer_of(other, Optimisation(1.0, steps=1)))


def test_the_exported_folder_loads_in_transformers(tmp_path: Path):
    """Catches a wrong cut of the fused rows: the library computes the same logits."""
    llama = pytest.importorskip("transformers").LlamaForCausalLM
    net = model()
    net.load_state_dict({k: v.half().float() for k, v in net.state_dict().items()})
    save_model(tmp_path, net, dtype=torch.float16)
    theirs = llama.from_pretrained(tmp_path, dtype=torch.float32)
    document = documents()["math"][5]
    pack = pack_documents([document])
    with torch.inference_mode():
        hidden, _ = net.hidden(pack.tokens, pack.positions, causal_mix(pack))
        torch.testing.assert_close(theirs(document[None]).logits[0], net.logits(hidden), rtol=0, atol=1e-4)


def test_steps_that_are_asked_for_count_for_every_drafter():
    """Kills: a drafter that is trained longer by its preset and shrugs at --steps; one that is not trained longer."""
    preset = replace(PRESETS["smoke"], drafter_steps={"dspark-rnn": 30})
    assert [preset.plan_of(name).steps for name in ("dspark-rnn", "dflash")] == [30, 10]
    asked = preset.with_drafter_steps(4)
    assert [asked.plan_of(name).steps for name in ("dspark-rnn", "dflash")] == [4, 4]


def test_a_drafter_is_trained_for_its_own_steps_and_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Kills: a preset that says how long a drafter is trained or its blocks are, and a training that never asks."""
    steps, gammas = [], []
    monkeypatch.setattr(pipeline, "run", lambda training, objective: steps.append(training.plan.steps))
    monkeypatch.setattr(pipeline, "material", lambda preset, folder, world, gamma: gammas.append(gamma))
    monkeypatch.setattr(pipeline, "drafter_objective", lambda *args: None)
    preset = replace(PRESETS["smoke"], drafter_steps={"dspark-rnn": 30}, drafter_gammas={"dspark-rnn": 9})
    target = TransformerTarget(fresh_target(preset), name="smoke")
    for name in ("dspark-rnn", "dflash"):
        made = pipeline.train_drafter(preset, name, target, tmp_path / "work", tmp_path / name, World())
        gammas.append(made.drafter.gamma)
    assert steps == [30, 10]
    assert gammas == [9, 9, 7, 7]


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_drafters_can_be_made_and_read_what_its_answers_hold(name: str):
    """Catches a target whose heads no drafter can share, and a layer that is read but not kept."""
    preset = PRESETS[name]
    target = TransformerTarget(fresh_target(preset), name=name)
    assert preset.taps[-1] == target.num_layers - 1
    for drafter in (*DRAFTERS, *ABLATIONS):
        trainee = fresh_trainee(preset, drafter, target)
        assert set(trainee.drafter.feature_layers) <= set(preset.taps)
