"""The bundled lane: weights that load, decode, agree with plain decoding and are worth having."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

from sparkit.compose import PLAIN, assemble
from sparkit.decisions import request_seed
from sparkit.prompts import DOMAINS, bundled
from sparkit.recipe import Recipe
from sparkit.rounds import Round
from sparkit.targets.tokenizer import Tokenizer

DRAFTERS = (
    ("dflash", None), ("eagle3", None), ("mtp", None), ("dspark", "markov"), ("dspark", "gated"), ("dspark", "rnn"),
)  # fmt: skip
ASSETS = Path(__file__).parents[2] / "sparkit" / "assets" / "bundled"
FIELDS = {
    "recipe", "domain", "batch", "num_prompts", "num_rounds", "num_new_tokens", "undrafted_share", "tau",
    "tau_interval", "accepted", "num_at_position", "conditional_acceptance", "prefix_acceptance",
    "verified_acceptance", "mean_verify_len", "ece", "auc", "tokens_per_second", "plain_tokens_per_second",
    "speedup", "draft_seconds", "schedule_seconds", "verify_seconds", "overhead_seconds", "seconds_per_token",
    "capacity", "lossless", "log_e_value",
}  # fmt: skip


def decoded(recipe: Recipe, num_prompts: int = 1) -> tuple[list[list[int]], list[Round]]:
    """Token ids of some prompts of every domain, and the rounds."""
    composition = assemble(recipe)
    engine = composition.engine()
    with torch.inference_mode():
        for index, prompt in enumerate(bundled("all", num_prompts)):
            engine.add(composition.request(composition.encode(prompt.text), request_seed(recipe.seed, index, 0)))
        rounds = list(engine.stream())
    return [list(one.token_ids) for one in engine.results()], rounds


@cache
def greedy_text() -> list[list[int]]:
    return decoded(Recipe(drafter=PLAIN, capacity="flat", temperature=0.0, dtype="float64", max_new_tokens=32))[0]


@pytest.mark.parametrize(("drafter", "head"), DRAFTERS)
def test_temperature_zero_is_plain_decoding(drafter: str, head: str | None) -> None:
    """Kills: any round that commits what the target would not have said (float64, batch 3)."""
    recipe = Recipe(
        drafter=drafter, head=head, capacity="staircase", temperature=0.0, dtype="float64", max_new_tokens=32, batch=3
    )
    assert decoded(recipe)[0] == greedy_text()


@pytest.mark.parametrize(("drafter", "head"), DRAFTERS)
def test_trained_drafters_are_worth_verifying(drafter: str, head: str | None) -> None:
    """Kills: weights that were not saved, taps that are one layer off, a feature that is one position off."""
    recipe = Recipe(drafter=drafter, head=head, capacity="flat", scheduler="fixed", max_new_tokens=48, batch=3)
    rounds = [one for one in decoded(recipe)[1] if one.kind == "drafted"]
    assert sum(one.tau for one in rounds) / len(rounds) > 1.4


def test_every_drafter_has_its_confidence_head_and_temperatures() -> None:
    """Kills: a folder without a head or without fitted temperatures."""
    for drafter, head in DRAFTERS:
        names = assemble(Recipe(drafter=drafter, head=head, capacity="flat")).names
        assert names["confidence"] == "head"
        assert names["calibrator"].startswith("sts:path=")


def test_prompts_are_held_out_and_enough() -> None:
    """Kills: fewer than 64 prompts a domain, a prompt twice, a prompt that leaves no room for 128 tokens."""
    tokenizer = Tokenizer.from_folder(ASSETS)
    for domain in DOMAINS:
        texts = [prompt.text for prompt in bundled(domain)]
        assert len(set(texts)) == len(texts) >= 64
        assert all(len(tokenizer.chat([{"role": "user", "content": text}])) <= 512 - 129 for text in texts)


def test_weights_stay_small() -> None:
    """Kills: a second set of weights, or one saved in float32."""
    assert sum(file.stat().st_size for file in ASSETS.rglob("*") if file.is_file()) < 40e6
    assert not [file for file in ASSETS.rglob("*") if file.suffix in (".pt", ".bin", ".pkl")]


def test_compose_writes_the_document(sparkit_cli: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    """Kills: a field of the design that is missing, a macro row that is not there, a run without its plain twin."""
    out = tmp_path / "out.json"
    options = ["--drafter", "dspark", "--drafter", "ngram", "--capacity", "roofline", "--num-prompts", "1"]
    done = sparkit_cli("compose", *options, "--max-new-tokens", "16", "--json", str(out))
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(out.read_text())
    assert document["schema"] == "sparkit.compose/1"
    assert [row["domain"] for row in document["runs"]] == [*DOMAINS, "macro"] * 2
    assert all(set(row) >= FIELDS for row in document["runs"])
    assert all(row["plain_tokens_per_second"] > 0 and row["speedup"] > 0 for row in document["runs"])
    tokens = [token for text in document["texts"] for token in text["tokens"]]
    assert {token["origin"] for token in tokens} <= {"draft", "correction", "bonus", "plain"}


def test_compose_tells_origins_apart(sparkit_cli: Callable[..., CompletedProcess[str]]) -> None:
    """Kills: a text that is not printed."""
    done = sparkit_cli("compose", "--prompt", "Tom has 3 apples.", "--capacity", "roofline", "--max-new-tokens", "12")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "accepted draft" in done.stdout
    assert "Tom has 3 apples." in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--drafter", "dsprak"), "did you mean dspark"),
        (("--scheduler", "gredy"), "did you mean greedy"),
        (("--gamma", "0"), "expected 1 or more"),
        (("--gamma", "-3"), "expected 1 or more"),
        (("--gamma", "9"), "trained for 1..7"),
        (("--prompt", "  "), "empty"),
        (("--prompt", "word " * 3000), "context"),
        (("--temperature", "-1"), "temperature"),
        (("--device", "cuda:9"), "is not there"),
        (("--target", "/nowhere/model"), "no such folder"),
        (("--trace", "/nowhere/t.jsonl"), "does not exist"),
        (("--drafter", "dspark:path=/nowhere"), "/nowhere"),
        (("--num-prompts", "100000"), "held-out prompts"),
        (("--logit-bias", "x"), "TOKEN_ID=BIAS"),
    ],
)
def test_bad_input_is_one_clear_line(
    options: tuple[str, ...], said: str, sparkit_cli: Callable[..., CompletedProcess[str]]
) -> None:
    """Kills: a traceback, an exit code other than 2, a message without a way out."""
    done = sparkit_cli("compose", "--capacity", "roofline", "--max-new-tokens", "4", *options)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_broken_prompts_file_names_the_line(sparkit_cli: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    """Kills: an error that does not say which line."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "fine"}\n{"prompt": \n')
    done = sparkit_cli("compose", "--prompts", str(path))
    assert done.returncode == 2
    assert "line 2" in done.stderr
