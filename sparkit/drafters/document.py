"""A drafter's config.json, ours or DeepSpec's, as a `DrafterConfig`; what does not fit together is refused by name.

DeepSpec's DFlash carries DSpark's class name (the Markov rank tells them apart), released rank-0 files leave the
confidence flag on, and the original DFlash counts one slot more than it drafts.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from sparkit.drafters.config import HEAD_NAMES, Algorithm, DrafterConfig
from sparkit.files import shown
from sparkit.targets.loaders.config_json import config_of
from sparkit.targets.loaders.fields import Fields
from sparkit.targets.loaders.folder import read_object


def drafter_config(document: dict[str, Any], where: str) -> DrafterConfig:
    """The config of a config.json, ours or DeepSpec's.

    Args:
        document: the parsed file.
        where: its name, for messages.

    Raises:
        ValueError: naming the field that is missing, of another type, or contradictory.
    """
    read = Fields(document, where)  # least=-1: DrafterConfig says better what is wrong with a number so small
    algorithm = _algorithm(document, where)
    from_anchor = read.flag("sample_from_anchor", default=True)
    is_block = algorithm in ("dflash", "dspark")
    rank = read.count("markov_rank", 0, least=-1) if is_block else 0
    gamma = read.count("block_size", least=-1) - (not from_anchor) if is_block else read.count("ttt_length", 7)
    try:
        return DrafterConfig(
            algorithm,
            replace(config_of({**document, "model_type": document.get("model_type", "qwen3")}, where), eos_ids=()),
            read.layers("target_layer_ids"),
            read.count("num_target_layers"),
            gamma,
            mask_token_id=read.count("mask_token_id", None, least=-1) if is_block else None,
            sample_from_anchor=from_anchor,
            head=_head(read.text("markov_head_type", "vanilla")) if rank else "none",
            rank=rank,
            has_confidence=read.flag("enable_confidence_head", default=False),
            confidence_with_markov=_with_markov(document, rank),
            draft_vocab_size=read.count("draft_vocab_size", None),
            target_name=read.text("target_model_name_or_path", ""),
        )
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


def _algorithm(document: dict[str, Any], where: str) -> Algorithm:
    """DeepSpec's DFlash carries the class name of DSpark; the Markov rank tells them apart."""
    names = document.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    if document.get("sparkit_algorithm") in get_args(Algorithm):
        return document["sparkit_algorithm"]  # type: ignore[no-any-return]
    for ending, algorithm in (("Eagle3Model", "eagle3"), ("MTPModel", "mtp")):
        if name.endswith(ending):
            return algorithm  # type: ignore[return-value]
    if name.endswith("DSparkModel"):
        return "dspark" if document.get("markov_rank") else "dflash"
    raise ValueError(f"{where}: architectures is {shown(names)}; expected a DSpark, DFlash, Eagle3 or MTP drafter")


def _head(theirs: str) -> str:
    return {value: key for key, value in HEAD_NAMES.items()}.get(theirs, theirs)


def _with_markov(document: dict[str, Any], rank: int) -> bool | None:
    """Released rank-0 configurations leave the flag on by default; without a confidence head nobody reads it."""
    value = document.get("confidence_head_with_markov")
    if value is None or bool(value) == (rank > 0) or (rank == 0 and not document.get("enable_confidence_head")):
        return None
    return bool(value)


def read_drafter_config(folder: Path) -> DrafterConfig:
    """The config of a drafter's folder.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is not a drafter's.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: no config.json; expected a drafter's folder (config.json, safetensors)")
    return drafter_config(read_object(path), str(path))
