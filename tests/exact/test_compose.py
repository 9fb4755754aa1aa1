"""Names become parts at one door, which says in one line what does not fit; a recipe on disk is data."""

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.calibrators.sts import Sts
from sparkit.compose import ASSETS, PLAIN, assemble, default_calibrator, drafter_folder
from sparkit.drafters.layout import save_drafter
from sparkit.protocols import DRAFTERS
from sparkit.recipe import Recipe
from sparkit.sampling import SamplingParams
from tests.parts import tiny_target

TOY = Recipe(target="table:appendix-a", drafter="table", scheduler="fixed", gamma=2, capacity="flat", dtype="float64")
BUNDLED = Recipe(capacity="flat", drafter="ngram", scheduler="fixed")


def refused(recipe: Recipe, kind: type[Exception] = ValueError) -> str:
    """The one line that assembling a recipe ends in."""
    with pytest.raises(kind) as caught:
        assemble(recipe)
    line = str(caught.value.args[0] if kind is LookupError else caught.value)
    assert "\n" not in line
    return line


# ------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("field", "name", "close"),
    [
        ("drafter", "tabel", "table"),
        ("drafter", "dspak", "dspark"),
        ("scheduler", "gredy", "greedy"),
        ("verifier", "rejecton", "rejection"),
        ("confidence", "positon", "position"),
        ("calibrator", "identiy", "identity"),
        ("target", "bundeld", "bundled"),
    ],
)
def test_unknown_names_show_the_closest(field: str, name: str, close: str) -> None:
    """Kills: a KeyError from a table, an unknown part replaced by a default."""
    line = refused(replace(TOY, **{field: name}), LookupError)
    assert line.startswith(f"unknown {field} {name!r}; did you mean {close}")
    assert "known: " in line


def test_unknown_capacities_are_listed() -> None:
    """Kills: a capacity path with a typing error taken for a curve."""
    assert refused(replace(TOY, capacity="measurd"), LookupError).startswith(
        "unknown capacity 'measurd'; known: measured, flat, roofline, staircase"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"scheduler": "threshold:valu=0.6"}, "scheduler 'threshold' takes no 'valu'; it takes value"),
        ({"scheduler": "threshold:value=much"}, "scheduler 'threshold' wants value as float"),
        ({"scheduler": "threshold:value=1.5"}, "threshold value=1.5: expected a confidence from 0 to 1"),
        ({"scheduler": "threshold:"}, "nothing after the colon in 'threshold:'"),
        ({"calibrator": "sts"}, "sts needs path=FILE"),
        ({"gamma": 3}, "gamma=3: the tables draft 1..2 tokens"),
        ({"drafter": "dspark"}, "no trained dspark for target 'table:appendix-a'; give its folder as --drafter"),
        ({"head": "markov"}, "head='markov': drafter 'table' has no serial head"),
        ({"device": "cuda:9"}, "cuda"),
    ],
)
def test_options_that_do_not_fit(changes: dict[str, Any], line: str) -> None:
    """Kills: an option that is dropped, a part that fails rounds later."""
    assert line in refused(replace(TOY, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"drafter": "table"},
        {"confidence": "table"},
        {"drafter": "dspark", "gamma": 99},
        {"drafter": "dspark", "head": "none"},
        {"drafter": "dspark:path=/no/such/folder"},
    ],
)
def test_parts_of_another_world(changes: dict[str, Any]) -> None:
    """Kills: shapes that only torch complains of."""
    expected = {
        "table": "table",
        "dspark": "gamma=99: this dspark drafter was trained for 1..7"
        if "gamma" in changes
        else "dspark with head 'none'",
    }
    kind = (ValueError, FileNotFoundError, LookupError)
    with pytest.raises(kind) as caught:
        assemble(replace(BUNDLED, **changes))
    line = str(caught.value)
    assert expected.get(str(changes.get("drafter", "table")), "/no/such/folder") in line
    assert "\n" not in line


def test_a_mistyped_head_is_told_as_such() -> None:
    """Kills: "no trained dspark", which sends a reader to train what is there."""
    with pytest.raises(LookupError, match="unknown head 'rnd'; did you mean rnn"):
        assemble(replace(BUNDLED, drafter="dspark", head="rnd"))


# ------------------------------------------------------------------------------------------- drafters of others
def test_a_drafter_of_another_target_is_refused(tmp_path: Path) -> None:
    """Kills: a drafter whose logits are another vocabulary's (acceptance collapses, nothing says why)."""
    save_drafter(tmp_path, DRAFTERS.create("dflash", target=tiny_target(), gamma=3), dtype=torch.float32)
    line = refused(replace(BUNDLED, drafter=f"dflash:path={tmp_path}", gamma=3))
    assert "32" in line
    assert "vocabulary" in line


def test_missing_and_truncated_weights(tmp_path: Path) -> None:
    """Kills: a folder without weights assembled from fresh ones; half a file read as a whole one."""
    source = ASSETS / "bundled" / "drafters" / "dflash"
    shutil.copytree(source, tmp_path / "d")
    weights = tmp_path / "d" / "model.safetensors"
    recipe = replace(BUNDLED, drafter=f"dflash:path={tmp_path / 'd'}")
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert str(weights) in refused(recipe)
    weights.unlink()
    assert str(tmp_path / "d") in refused(recipe, FileNotFoundError)


def test_a_small_model_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """B19 at the door: two ids swapped. Kills: drafts that are random text, lossless and useless."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(ASSETS / "bundled" / "target" / name, tmp_path)
    shutil.copy(ASSETS / "bundled" / "tokenizer_config.json", tmp_path)
    document = json.loads((ASSETS / "bundled" / "tokenizer.json").read_text())
    target = tmp_path / "tokenizer.json"
    target.write_text(json.dumps(document))
    recipe = replace(BUNDLED, drafter=f"small_lm:model={tmp_path}")
    assert assemble(recipe).parts.drafter is not None
    vocabulary = document["model"]["vocab"]
    first, second = sorted(vocabulary, key=vocabulary.get)[300:302]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    target.write_text(json.dumps(document))
    line = refused(recipe)
    assert "has another vocabulary than" in line
    assert "id 300 is" in line or "id 301 is" in line


# ------------------------------------------------------------------------------------------- what comes out
def test_defaults_are_named() -> None:
    """The trained head and the fitted sts of a bundled drafter; position and identity without. Kills: silent None."""
    neural = assemble(replace(BUNDLED, drafter="dspark"))
    assert neural.names["confidence"] == "head"
    assert neural.names["head"] == "markov"
    assert neural.names["calibrator"].startswith("sts:path=")
    assert neural.parts.is_lossless
    lookup = assemble(BUNDLED)
    assert (lookup.names["confidence"], lookup.names["calibrator"]) == ("position", "identity")
    assert (lookup.names["drafter"], lookup.names["scheduler"]) == ("ngram", "fixed")


@pytest.mark.filterwarnings("error")
def test_shorter_blocks_keep_the_fitted_temperatures() -> None:
    """Without a warning: a position is the same in them. Kills: temperatures for the longest only, or for all."""
    short = assemble(replace(BUNDLED, drafter="dspark", gamma=4))
    assert short.names["calibrator"].startswith("sts:path=")
    long = replace(BUNDLED, drafter="dspark", gamma=8)  # its temperatures are seven
    assert default_calibrator(long, drafter_folder(long)) == "identity"


@pytest.mark.parametrize("folder", sorted((ASSETS / "bundled" / "drafters").iterdir()), ids=lambda folder: folder.name)
def test_every_position_that_a_bundled_drafter_drafts_has_its_temperatures(folder: Path) -> None:
    """Kills: a drafter trained for longer blocks whose calibration was left behind."""
    kind, _, head = folder.name.partition("-")
    gamma = assemble(replace(BUNDLED, drafter=f"{kind}:path={folder}", head=head or None)).parts.drafter.config.gamma
    for file in folder.glob("sts*.json"):
        assert len(Sts(path=file).calibration_temperatures) == gamma, file


def test_a_composition_decodes_and_has_its_plain_twin() -> None:
    """Kills: a table's own capacity ignored, the plain twin drafting, noise of another verifier."""
    toy = assemble(replace(TOY, capacity="measured", verifier="coupled"))
    assert toy.parts.capacity.rounds_per_second(1, 2) == 0.5
    plain = toy.plain()
    assert plain.parts.drafter is None
    assert plain.names["drafter"] == plain.recipe.drafter == PLAIN
    assert plain.parts.verifier is toy.parts.verifier
    texts = []
    for composition in (toy, plain):
        engine = composition.engine(num_slots=1)
        engine.add(composition.request((0,), seed=5))
        list(engine.stream())
        texts.append(engine.finished[0].token_ids)
    assert texts[0] == texts[1]
    assert len(texts[0]) == toy.recipe.max_new_tokens


def test_prompts_that_cannot_be_read() -> None:
    """Kills: an empty text as a chat of nothing; text for a target without words."""
    with pytest.raises(ValueError, match="the prompt is empty"):
        assemble(BUNDLED).encode("  \n")
    with pytest.raises(ValueError, match="has no tokenizer; it takes no text prompts"):
        assemble(TOY).encode("A B")


def test_stops_of_the_target_unless_ignored() -> None:
    """Kills: ignore_eos that is not handed on; stop tokens that replace the target's own."""
    composition = assemble(replace(BUNDLED, stop_tokens=(7,)))
    ends = set(composition.parts.target.eos_ids)
    assert ends
    assert composition.request((1,), 0).stop_tokens == ends | {7}
    quiet = assemble(replace(BUNDLED, stop_tokens=(7,), ignore_eos=True))
    assert quiet.request((1,), 0).stop_tokens == {7}


# ------------------------------------------------------------------------------------------- recipes on disk
recipes = st.builds(
    Recipe,
    target=st.text(max_size=9), drafter=st.text(max_size=9), head=st.none() | st.text(max_size=9),
    scheduler=st.text(max_size=9), gamma=st.integers(1, 99), temperature=st.floats(0, 9),
    logit_bias=st.lists(st.tuples(st.integers(0, 99), st.floats(-9, 9)), max_size=2).map(tuple),
    stop=st.lists(st.text(min_size=1, max_size=4), max_size=2).map(tuple),
    stop_tokens=st.lists(st.integers(0, 99), max_size=2).map(tuple), ignore_eos=st.booleans(),
    token_budget=st.none() | st.integers(1, 99), seed=st.integers(-(2**63), 2**63 - 1),
)  # fmt: skip


@given(recipe=recipes)
def test_recipes_come_back(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kills: a tuple that comes back as a list, a text that TOML would bend, a None written as text."""
    path = tmp_path_factory.mktemp("recipe") / "r.toml"
    recipe.save(path)
    assert Recipe.load(path) == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gamma = ", "not a TOML recipe"),
        ("gama = 7", "unknown field 'gama'; a recipe has target, drafter"),
        ("gamma = '7'", "gamma: expected int, found '7'"),
        ("gamma = true", "gamma: expected int, found True"),
        ("gamma = 0", "gamma=0: expected 1 or more"),
        ("temperature = -1.0", "temperature=-1.0"),
        ("stop = 'x'", "stop: expected a list"),
        ("dtype = 'int8'", "dtype='int8'"),
        ("token_budget = 0", "token_budget=0"),
        ("schema = 'sparkit.trace/1'", "expected schema 'sparkit.recipe/1'"),
    ],
)
def test_broken_recipes_name_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    """Kills: a field with a typing error ignored; an error that does not say which file."""
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r".") as caught:
        Recipe.load(path)
    assert message in str(caught.value)


def test_every_sampling_parameter_has_a_field() -> None:
    """Kills: a parameter that `compose` cannot reach (`banned` is written as a bias of -inf)."""
    missing = {f.name for f in fields(SamplingParams)} - {f.name for f in fields(Recipe)}
    assert missing == {"banned"}
