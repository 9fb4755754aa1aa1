"""Names become objects here and nowhere else: a `Recipe` is assembled into parts, tokenizer and engine.

Every part gets from its context what its factory asks for by name (target, gamma, path, device, ...). Defaults: the
trained confidence head of the drafter where there is one, else `position`; the fitted sts of the drafter where there
is one, else `identity`.

    composition = assemble(Recipe(drafter="dspark", scheduler="greedy"))
    engine = composition.engine(num_slots=1)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sparkit import calibration
from sparkit.calibration import Provenance, warn_mismatch
from sparkit.capacity import flat
from sparkit.curves import capacity_of
from sparkit.engine import Engine, Parts, Request
from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, HEADS, SCHEDULERS, VERIFIERS, Target
from sparkit.recipe import Recipe
from sparkit.registry import Registry, parse_spec
from sparkit.targets.loaders import load_target
from sparkit.targets.tokenizer import Tokenizer

ASSETS = Path(__file__).parent / "assets"
DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "bfloat16", "float16")}
PLAIN = "plain"
"""The drafter's name that stands for no drafter: plain decoding through the same engine."""

_targets: dict[tuple[str, str, str], tuple[Any, Tokenizer | None]] = {}  # loaded once a process


@dataclass(frozen=True, slots=True)
class Composition:
    """A recipe made real."""

    recipe: Recipe
    parts: Parts
    tokenizer: Tokenizer | None
    names: dict[str, str]  # the part of each kind, defaults filled in

    def engine(self, *, num_slots: int | None = None, max_len: int | None = None, top_tokens: int = 0) -> Engine:
        """A fresh engine (drafters hold slots: one engine at a time for one composition)."""
        return Engine(
            self.parts,
            gamma=self.recipe.gamma,
            num_slots=num_slots or self.recipe.batch,
            max_len=max_len,
            token_budget=self.recipe.token_budget,
            top_tokens=top_tokens,
            decode=None if self.tokenizer is None else self.tokenizer.decode,
        )

    def request(self, prompt: Sequence[int], seed: int, label: str = "") -> Request:
        """A request with the recipe's sampling and stops; the target's own end tokens stop it unless ignored."""
        recipe = self.recipe
        ends = () if recipe.ignore_eos else self.parts.target.eos_ids
        stops = frozenset((*ends, *recipe.stop_tokens))
        return Request(tuple(prompt), seed, recipe.max_new_tokens, recipe.sampling(), stops, recipe.stop, label)

    def encode(self, text: str) -> list[int]:
        """A user's message as the target wants it: through its chat template where it has one.

        Raises:
            ValueError: for an empty prompt, or a target without a tokenizer.
        """
        if not text.strip():
            raise ValueError("the prompt is empty; give some text")
        if self.tokenizer is None:
            raise ValueError(f"target {self.recipe.target!r} has no tokenizer; it takes no text prompts")
        if self.tokenizer.special.chat_template is None:
            return self.tokenizer.encode_prompt(text)
        return self.tokenizer.chat([{"role": "user", "content": text}])

    def plain(self) -> "Composition":
        """Plain decoding of the same target, same sampling, same verifier noise."""
        parts = replace(self.parts, drafter=None, capacity=flat())
        return Composition(replace(self.recipe, drafter=PLAIN), parts, self.tokenizer, {**self.names, "drafter": PLAIN})


def assemble(recipe: Recipe, *, measure: bool = True) -> Composition:
    """Loads and connects every part.

    Args:
        recipe: names and numbers.
        measure: take the capacity curve now when the recipe says `measured` and none is cached.

    Raises:
        LookupError: for an unknown name, with the closest ones.
        ValueError, FileNotFoundError: for parts that do not fit each other, or weights that are not there.
    """
    target, tokenizer = _target(recipe)
    folder = drafter_folder(recipe)
    drafter = _drafter(recipe, target, folder, tokenizer)
    if drafter is not None:
        target = target.with_taps(drafter.feature_layers)
    context = _context(recipe, target, folder)
    has_head = folder is not None and drafter is not None and drafter.kind != "lookup"
    confidence = recipe.confidence or ("head" if has_head else "table" if recipe.drafter == "table" else "position")
    calibrator = recipe.calibrator or default_calibrator(recipe, folder)
    parts = Parts(
        target,
        drafter,
        make(CONFIDENCES, confidence, context),
        make(CALIBRATORS, calibrator, context),
        make(SCHEDULERS, recipe.scheduler, context),
        make(VERIFIERS, recipe.verifier, context),
        flat(),
    )
    _warn(replace(recipe, confidence=confidence), parts, calibrator)
    parts = replace(parts, capacity=capacity_of(recipe, parts, measure=measure))
    names = {"confidence": confidence, "calibrator": calibrator, "head": recipe.head or _head_name(drafter)}
    chosen = {"drafter": recipe.drafter, "scheduler": recipe.scheduler, "verifier": recipe.verifier}
    return Composition(recipe, parts, tokenizer, {**chosen, **names})


def make(registry: Registry[Any], spec: str, context: dict[str, Any]) -> Any:
    """A part by name and options; what its factory asks for beyond that comes from the context."""
    name, params = parse_spec(spec)
    part = registry.part(name)
    return part.create(**{k: v for k, v in context.items() if k in part.parameters and k not in params}, **params)


def _context(recipe: Recipe, target: Target, folder: Path | None) -> dict[str, Any]:
    context = {"target": target, "gamma": recipe.gamma, "hidden_size": target.hidden_size, "seed": recipe.seed}
    context |= {"dtype": target.dtype, "device": target.device, "vocab_size": target.vocab_size}
    # Soft labels 1 - TV are the acceptance of token-wise rejection and of no other rule.
    context["labels"] = "soft" if parse_spec(recipe.verifier)[0] == "rejection" else "hard"
    return context if folder is None else {**context, "path": folder}


def _target(recipe: Recipe) -> tuple[Any, Tokenizer | None]:
    key = (recipe.target, recipe.device, recipe.dtype)
    if key not in _targets:
        _targets[key] = load_target(recipe.target, device=recipe.device, dtype=DTYPES[recipe.dtype])
    return _targets[key]


def drafter_folder(recipe: Recipe) -> Path | None:
    """Where a drafter's weights lie: its own `path`, or among those that come with the bundled target."""
    name, params = parse_spec(recipe.drafter)
    if "path" in params:
        return Path(str(params["path"]))
    if recipe.target != "bundled":
        return None
    folder = ASSETS / "bundled" / "drafters"
    names = [f"{name}-{recipe.head or 'markov'}"] if name == "dspark" else [name]
    return next((folder / each for each in names if (folder / each).is_dir()), None)


def _drafter(recipe: Recipe, target: Any, folder: Path | None, tokenizer: Tokenizer | None) -> Any:
    name, params = parse_spec(recipe.drafter)
    if name == PLAIN:
        return None
    part = DRAFTERS.part(name)
    is_neural = "path" in part.parameters
    if is_neural and recipe.head is not None:
        HEADS.part(recipe.head)  # a name that is none is told from a head without weights
    if is_neural and folder is None and not params:
        with_head = "" if recipe.head is None else f" with head {recipe.head!r}"
        raise ValueError(
            f"no trained {name}{with_head} for target {recipe.target!r}; give its folder as "
            f"--drafter {name}:path=FOLDER, train one (sparkit train drafter), or use a drafter without weights: "
            "ngram, small_lm"
        )
    context = {"target": target, "gamma": recipe.gamma, "tokenizer": tokenizer}
    if is_neural:
        context |= {"path": folder, **({} if recipe.head is None else {"head": recipe.head})}
    elif recipe.head is not None:
        raise ValueError(f"head={recipe.head!r}: drafter {name!r} has no serial head")
    return make(DRAFTERS, recipe.drafter, context)


def _head_name(drafter: Any) -> str:
    return str(getattr(getattr(drafter, "config", None), "head", "none"))


def default_calibrator(recipe: Recipe, folder: Path | None) -> str:
    """The temperatures fitted to a trained confidence, beside its weights; for the default verifier, temperature 1."""
    file = None if folder is None else folder / sts_file(parse_spec(recipe.confidence or "head")[0])
    fits = recipe.verifier == "rejection" and recipe.temperature == 1
    if file is None or not file.is_file() or not fits:
        return "identity"
    _, fitted = calibration.load(file, "sts")
    return f"sts:path={file}" if recipe.gamma <= (fitted.gamma or 0) else "identity"


def sts_file(confidence: str) -> str:
    """What the fitted temperatures of a trained confidence are called in a drafter's folder."""
    return "sts.json" if confidence == "head" else f"sts-{confidence}.json"


def _warn(recipe: Recipe, parts: Parts, calibrator: str) -> None:
    provenance = getattr(parts.calibrator, "provenance", None)
    if isinstance(provenance, Provenance) and "path" in parse_spec(calibrator)[1]:
        running = Provenance.of({name: getattr(recipe, name) for name in recipe.__slots__})
        warn_mismatch(provenance, replace(running, drafter=provenance.drafter))
