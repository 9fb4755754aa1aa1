"""The fitted calibration of a trained drafter: full-verification rounds on held-out prompts, then STS.

The prompts come from the held-out split with a seed of their own and without the evaluation prompts, so that the
temperatures are judged on rounds they were not fitted on. The file lies beside the weights: DRAFTER/sts.json.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sparkit.calibration import Provenance
from sparkit.calibrators.sts import Sts
from sparkit.compose import assemble, sts_file
from sparkit.experiments import Run, decode
from sparkit.labels import records_of
from sparkit.prompts import Prompt, bundled
from sparkit.recipe import Recipe
from sparkit.training.corpus import DOMAINS, load_tokenizer
from sparkit.training.corpus.prompts import heldout_prompts

SEED = 7  # of the held-out prompts; the evaluation prompts have another


def fitting_prompts(num: int) -> list[Prompt]:
    """`num` held-out prompts a domain that are not among the evaluation prompts."""
    taken, tokenizer = {prompt.text for prompt in bundled("all")}, load_tokenizer()
    rows = []
    for domain in DOMAINS:
        found = heldout_prompts(domain, num + len(taken) // len(DOMAINS), SEED, tokenizer)
        fresh = [text for text in found if text not in taken][:num]
        rows += [Prompt(f"{domain}-fit-{i}", domain, text) for i, text in enumerate(fresh)]
    return rows


def fit_temperatures(
    name: str, folder: Path, prompts: Sequence[Prompt], *, target: str = "bundled", confidence: str = "head",
    batch: int = 16, gamma: int = 7,
) -> Path:  # fmt: skip
    """Decodes with everything verified, fits, and writes `folder`/sts.json (sts-CONFIDENCE.json for another one).

    Args:
        name: a bundled drafter, such as dspark-markov.
        folder: where its weights lie.
        prompts: what to decode.
        target: the target it was trained for: bundled, or a folder.
        confidence: the trained confidence that is calibrated.
        batch: requests at once.
        gamma: draft positions.

    Raises:
        KeyboardInterrupt: when stopped; nothing is written then.
    """
    part, _, head = name.partition("-")
    recipe = Recipe(
        target=target, drafter=f"{part}:path={folder}", head=head or None, scheduler="fixed", calibrator="identity",
        confidence=confidence, capacity="roofline", gamma=gamma, batch=batch, ignore_eos=False,
    )  # fmt: skip
    run = Run.of(assemble(recipe))
    if not decode([run], prompts):
        raise KeyboardInterrupt
    provenance = Provenance.of(asdict(replace(recipe, drafter=part)))
    fitted, report = Sts.fit(records_of(run.rounds), provenance)
    file = folder / sts_file(confidence)
    fitted.save(file, report)
    return file
