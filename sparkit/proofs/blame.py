"""An exception inside a part becomes a `PartError`: which part, which method, and the input that did it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor


class PartError(ValueError):
    """A part raised; the message says which, in which method, and on what input."""


@contextmanager
def blaming(part: object, method: str, **given: object) -> Iterator[None]:
    """Turns any exception inside into a `PartError` of this part."""
    try:
        yield
    except PartError:
        raise
    except Exception as error:
        shown = ", ".join(f"{name}={spell(value)}" for name, value in given.items())
        raise PartError(
            f"{type(part).__name__}.{method} raised {type(error).__name__}: {error}; its input: {shown}"
        ) from error


def spell(value: object) -> str:
    """A value as a person reads it: tensors as lists, data by field."""
    if isinstance(value, Tensor):
        return f"{value.tolist()}" if value.numel() <= 64 else f"tensor of shape {tuple(value.shape)}"
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        inside = ", ".join(f"{name}={spell(getattr(value, name))}" for name in fields)
        return f"{type(value).__name__}({inside})"
    return repr(value)
