"""Values become hashable twins, so that two memories, states or questions can be found equal.

>>> freeze(torch.zeros(1)) == freeze(torch.zeros(1))
True
"""

from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

SCALARS = (type(None), int, float, str, bool, bytes, frozenset)


def freeze(value: Any) -> Any:
    """A hashable twin of a memory: equal values freeze equal."""
    if type(value) in SCALARS:
        return repr(value)
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple([freeze(getattr(value, f.name)) for f in fields(value)])
    if isinstance(value, dict):
        return tuple(sorted((repr(k), freeze(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple([freeze(v) for v in value])
    return id(value), object()  # unknown: never merged


class Numbering:
    """Equal values get equal numbers; a value seen before is not looked at again, so it must not change."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, int]] = {}  # the value is kept, or its id could be given to another
        self._by_value: dict[Hashable, int] = {}

    def __call__(self, value: Any) -> int:
        """The number of a value."""
        known = self._by_id.get(id(value))
        if known is None:
            number = self._by_value.setdefault(freeze(value), len(self._by_value))
            known = self._by_id[id(value)] = (value, number)
        return known[1]
