"""The checks of types and shapes that every test runs under: as strict as jaxtyping's own."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import beartype
import pytest
import torch
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

from sparkit.rounds import Plan
from sparkit.survival import survival_of
from tests import typecheck

OURS = typecheck.jaxtyped(typechecker=beartype.beartype)
THEIRS = typecheck.ORIGINAL(typechecker=beartype.beartype)
Decorate = Callable[[Any], Any]


def _add(x: Float[Tensor, "R V"], y: Float[Tensor, " V"], *, times: int = 1) -> Float[Tensor, "R V"]:
    return (x + y) * times


def _rows(x: Float[Tensor, "R V"], num: int) -> Int[Tensor, " R"]:
    return torch.arange(num)


def _longer(x: Float[Tensor, " V"]) -> Float[Tensor, " V+1"]:
    return torch.cat([x, x[:1]]) if len(x) > 1 else x


def _maybe(x: Float[Tensor, " V"] | None, pairs: list[tuple[int, Float[Tensor, " V"]]]) -> int:
    return len(pairs)


def _named(x: "str", later: "Nowhere") -> "int":  # type: ignore[name-defined]  # noqa: F821
    return x  # type: ignore[return-value]


def _numbers(n: int) -> Iterator[int]:
    yield from range(n)


def _spelled(n: int, x: Float[Tensor, " {n}"]) -> int:
    return n


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair:
    x: Float[Tensor, "R V"]
    y: Float[Tensor, "R V"]
    names: tuple[str, ...] = ()


def _keeps(decorate: Decorate) -> Callable[..., int]:
    """A call inside a call: the axes of one are not those of the other."""
    inner = decorate(_add)

    @decorate
    def outer(x: Float[Tensor, "V R"]) -> int:
        return int(inner(x, x[0]).shape[0])

    return outer  # type: ignore[no-any-return]


class _Holder:
    def __init__(self, num: int) -> None:
        self._num = num

    def num(self) -> str:
        return self._num  # type: ignore[return-value]


X, Y = torch.zeros(2, 3), torch.zeros(3)
CASES: list[tuple[str, Callable[[Decorate], Any], tuple[Any, ...], bool]] = [
    ("good", lambda d: d(_add), (X, Y), True),
    ("an axis of two arguments", lambda d: d(_add), (X, torch.zeros(2)), False),
    ("a rank", lambda d: d(_add), (Y, Y), False),
    ("a dtype", lambda d: d(_add), (X.long(), Y), False),
    ("no tensor", lambda d: d(_add), ([[0.0]], Y), False),
    ("too few", lambda d: d(_add), (X,), False),
    ("good result", lambda d: d(_rows), (X, 2), True),
    ("an axis of the result", lambda d: d(_rows), (X, 3), False),
    ("a plain argument", lambda d: d(_rows), (X, "2"), False),
    ("a computed axis", lambda d: d(_longer), (Y,), True),
    ("a computed axis of the result", lambda d: d(_longer), (torch.zeros(1),), False),
    ("none", lambda d: d(_maybe), (None, [(1, Y)]), True),
    ("inside a list", lambda d: d(_maybe), (X[:, 0], [(1, Y)]), False),
    ("a name", lambda d: d(_named), (1, None), False),
    ("the result of a name", lambda d: d(_named), ("1", None), False),
    ("a generator", lambda d: lambda n: list(d(_numbers)(n)), (2,), True),
    ("a generator's argument", lambda d: d(_numbers), ("2",), False),
    ("a spelled axis", lambda d: d(_spelled), (3, Y), True),
    ("another spelled axis", lambda d: d(_spelled), (2, Y), False),
    ("nested", _keeps, (X,), True),
    ("a class method's result", lambda d: lambda: d(_Holder.num)(_Holder(1)), (), False),
]


def outcome(call: Callable[[], Any]) -> object:
    """What came back, or the kind of error."""
    try:
        return repr(call())
    except TypeError as error:
        return type(error)


@pytest.mark.parametrize(("build", "args", "is_good"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_both_say_the_same(build: Callable[[Decorate], Any], args: tuple[Any, ...], is_good: bool) -> None:
    """Kills: an argument or a result that is no longer looked at, axes that are not shared, or shared too far."""
    ours, theirs = (outcome(lambda d=decorate: build(d)(*args)) for decorate in (OURS, THEIRS))
    assert ours == theirs
    assert isinstance(ours, str) == is_good


def test_fields_of_a_dataclass_are_checked_together() -> None:
    """Kills: records that hold anything."""
    pair = OURS(_Pair)
    assert pair(X, X, ("a",)).x is X
    for wrong in ((X, X.T, ()), (X, X, (1,)), (X, None, ())):
        with pytest.raises(TypeCheckError):
            pair(*wrong)


def test_the_library_is_checked_in_this_run() -> None:
    """Kills: a hook that was never installed."""
    with pytest.raises(TypeCheckError):
        Plan(torch.zeros(2))
    with pytest.raises(TypeCheckError):
        survival_of(torch.zeros(2, 3, dtype=torch.int64))
    assert survival_of.is_checked  # type: ignore[attr-defined]
    assert Plan.__init__.is_checked  # type: ignore[attr-defined]
