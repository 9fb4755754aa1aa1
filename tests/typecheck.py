"""Type checks under pytest at a third of their price: one pass of beartype around the function itself.

jaxtyping's import hook binds every call's arguments to a signature and checks them three times over: before the call,
after it, and in a copy of the function for each. Here beartype wraps the function, so each argument is checked before
the body runs and the result after it, and the axis sizes of one call share one memo, as in jaxtyping. An annotation
that nothing could resolve is not checked, and a violation is jaxtyping's `TypeCheckError`: both as before.

Not here: generators, coroutines and f-string axes; jaxtyping itself does those.

    install()    # before the first import of sparkit
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import beartype
import jaxtyping
from jaxtyping import _decorator as decorator
from jaxtyping._storage import pop_shape_memo, push_shape_memo

ORIGINAL = decorator.jaxtyped
CHECK = beartype.BeartypeConf(violation_type=jaxtyping.TypeCheckError)
Function = Callable[..., Any]


def install() -> None:
    """Makes jaxtyping's hook use `jaxtyped` below, for functions in classes and dataclasses too."""
    jaxtyping.jaxtyped = decorator.jaxtyped = jaxtyped


def jaxtyped(fn: Any = None, *, typechecker: Any = None) -> Any:
    """As `jaxtyping.jaxtyped`."""
    if fn is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if getattr(fn, "is_checked", False):  # the __init__ that a class inherits
        return fn
    return (
        checked(fn, typechecker) if is_plain(fn) and typechecker is not None else ORIGINAL(fn, typechecker=typechecker)
    )


def is_plain(fn: Any) -> bool:
    """Whether calling it runs its body to the end."""
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    is_exempt = getattr(fn, "__no_type_check__", False)
    return isinstance(fn, types.FunctionType) and not is_exempt and not any(kind(fn) for kind in kinds)


def checked(fn: types.FunctionType, typechecker: Function) -> Function:
    """The function with its arguments and its result checked."""
    hints = {name: resolved(hint, fn.__globals__) for name, hint in fn.__annotations__.items()}
    arrays = [array for hint in hints.values() for array in arrays_in(hint)]
    if any("{" in array.dim_str for array in arrays):
        return ORIGINAL(fn, typechecker=typechecker)  # type: ignore[no-any-return]
    strict = typechecker(copied(fn, hints), conf=CHECK)
    if not arrays:
        wrapped = strict
    else:

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            push_shape_memo({})
            try:
                return strict(*args, **kwargs)
            finally:
                pop_shape_memo()

    functools.update_wrapper(wrapped, fn)
    wrapped.is_checked = True  # type: ignore[attr-defined]
    return wrapped


def copied(fn: types.FunctionType, hints: dict[str, Any]) -> Function:
    """The same function with other annotations, so that the one that was given keeps its own."""
    twin = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    functools.update_wrapper(twin, fn)
    twin.__kwdefaults__, twin.__annotations__ = fn.__kwdefaults__, hints
    del twin.__wrapped__  # beartype would look through it
    return twin


def resolved(hint: Any, names: dict[str, Any]) -> Any:
    """A hint without strings; `Any` where a name is not there, such as one imported for mypy alone."""

    def holder() -> None: ...

    holder.__annotations__ = {"value": hint}
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:  # whatever a name does when it is looked up
        return Any


def arrays_in(hint: Any) -> list[Any]:
    """The jaxtyping annotations inside a hint."""
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return [hint]
    return [array for inner in typing.get_args(hint) for array in arrays_in(inner)]
