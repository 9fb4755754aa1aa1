"""Values become hashable twins, so that two memories, states or questions can be found equal.

>>> freeze(torch.zeros(1)) == freeze(torch.zeros(1))
True
"""

from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor


def freeze(value: Any) -> Any:
    """A hashable twin of a memory: equal values freeze equal."""
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(freeze(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, dict):
        return tuple(sorted((repr(k), freeze(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(freeze(v) for v in value)
    if value is None or isinstance(value, (int, float, str, bool, bytes, frozenset)):
        return repr(value)
    return id(value), object()  # unknown: never merged
