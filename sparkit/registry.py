"""A registry turns the names that people type into parts, and says what it knows when a name is wrong.

One registry a kind of part (design, section 2: "registry only at the edge"). Parts come from three places: the
built-in package of the kind, imported at first use; entry points of installed packages; the decorator itself.
Engine code never sees a name: only `compose` does.

>>> greetings = Registry("greeting")
>>> @greetings.register("hello", summary="says hello")
... def hello(times: int = 1) -> str:
...     return "hello " * times
>>> greetings.create("hello", times=2)
'hello hello '
"""

import difflib
import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkit.spec import conform, parse_spec

__all__ = ["Part", "Registry", "parse_spec"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """One registered part: how to make it, and what it says of itself."""

    kind: str  # "scheduler", "drafter", ...
    name: str  # what people type
    factory: Callable[..., T]  # a class or function; its keyword parameters are the part's options
    summary: str  # one line for `sparkit list`
    lossless: bool  # declared: the output law stays the target's
    source: str  # "package.module:attribute" that registered it

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The options that the factory takes, by name, with their annotations evaluated."""
        try:
            return inspect.signature(self.factory, eval_str=True).parameters
        except NameError:  # a plug-in whose annotations exist only for type checkers
            return inspect.signature(self.factory).parameters

    def create(self, **params: object) -> T:
        """Make the part; a parameter of the wrong name or type is a `ValueError` that says what is taken."""
        return self.factory(**self._checked(params))

    def _checked(self, params: Mapping[str, object]) -> dict[str, object]:
        accepted = self.parameters
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted.values()):
            return dict(params)
        if unknown := [name for name in params if name not in accepted]:
            raise ValueError(f"{self.kind} {self.name!r} takes no {unknown[0]!r}; it takes {_signature(accepted)}")
        if missing := [name for name, parameter in accepted.items() if name not in params and _is_required(parameter)]:
            raise ValueError(f"{self.kind} {self.name!r} needs {missing[0]!r}; it takes {_signature(accepted)}")
        where = f"{self.kind} {self.name!r}"
        return {name: conform(where, name, value, accepted[name].annotation) for name, value in params.items()}


class Registry(Generic[T]):
    """The parts of one kind, by name.

    Args:
        kind: the noun used in messages, "scheduler".
        package: the package whose import registers the built-in parts, "sparkit.schedulers"; None starts empty.
        group: the entry-point group of third parties; "sparkit.<kind>s" unless given.
    """

    def __init__(self, kind: str, package: str | None = None, group: str | None = None) -> None:
        self.kind = kind
        self.package = package
        self.group = group or f"sparkit.{kind}s"
        self._parts: dict[str, Part[T]] = {}

    def register(self, name: str, *, lossless: bool = True, summary: str) -> Callable[[F], F]:
        """Register the decorated class or function as `name`; a name taken by another source is a `ValueError`."""

        def decorate(factory: F) -> F:
            self._agree(name, lossless, getattr(factory, "lossless", None))
            source = f"{factory.__module__}:{getattr(factory, '__qualname__', type(factory).__name__)}"
            self._add(Part(self.kind, name, factory, summary, lossless, source))  # type: ignore[arg-type]
            return factory

        return decorate

    def create(self, name: str, /, **params: object) -> T:
        """Make the part called `name` with `params`."""
        return self.part(name).create(**params)

    def part(self, name: str) -> Part[T]:
        """The entry of `name`; an unknown name is a `LookupError` with the closest matches and the whole list."""
        self._load_builtin()
        if name not in self._parts and name in (plugins := self._plugins()):
            self._load_plugin(plugins[name])
        if name not in self._parts:
            raise LookupError(self._unknown(name))
        return self._parts[name]

    def names(self) -> tuple[str, ...]:
        """All names, sorted; entry points are listed without being imported."""
        self._load_builtin()
        return tuple(sorted({*self._parts, *self._plugins()}))

    def parts(self) -> tuple[Part[T], ...]:
        """All entries in the order of their names; imports every plug-in."""
        return tuple(self.part(name) for name in self.names())

    def _agree(self, name: str, lossless: bool, declared: object) -> None:
        """The list must not say otherwise than the part itself."""
        if isinstance(declared, bool) and declared != lossless:
            raise ValueError(
                f"{self.kind} {name!r} is registered with lossless={lossless} but its class says lossless = {declared}"
                f"; write @register({name!r}, lossless={declared}, ...)"
            )

    def _add(self, part: Part[T]) -> None:
        known = self._parts.get(part.name)
        if known is not None and known.source != part.source:
            raise ValueError(
                f"{self.kind} name {part.name!r} is taken twice: by {known.source} and by {part.source}; rename one"
            )
        self._parts[part.name] = part

    def _load_builtin(self) -> None:
        if self.package is not None:
            importlib.import_module(self.package)  # a dictionary look-up after the first time

    def _plugins(self) -> dict[str, importlib.metadata.EntryPoint]:
        """Entry points by name; a name that two packages, or a package and a built-in part, claim is an error."""
        plugins: dict[str, importlib.metadata.EntryPoint] = {}
        for plugin in importlib.metadata.entry_points(group=self.group):
            claims = [entry.value for entry in (plugins.get(plugin.name),) if entry is not None]
            claims += [part.source for part in (self._parts.get(plugin.name),) if part is not None]
            if any(_module(claim) != _module(plugin.value) for claim in claims):
                raise ValueError(
                    f"{self.kind} name {plugin.name!r} is taken twice: by {claims[0]} and by the entry point "
                    f"{plugin.value} of {_distribution(plugin)}; uninstall or rename one"
                )
            plugins[plugin.name] = plugin
        return plugins

    def _load_plugin(self, plugin: importlib.metadata.EntryPoint) -> None:
        origin = f"entry point {plugin.name} = {plugin.value!r} of {_distribution(plugin)} (group {self.group})"
        try:
            plugin.load()
        except (ImportError, AttributeError) as error:
            raise LookupError(f"{self.kind} {plugin.name!r} cannot be loaded: {origin}: {error}") from error
        if plugin.name not in self._parts:
            raise LookupError(
                f"{origin} was imported but registered no {self.kind} called {plugin.name!r}; "
                f"decorate the factory with @register({plugin.name!r}, summary=...)"
            )

    def _unknown(self, name: str) -> str:
        known = self.names()
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else ";"
        return f"unknown {self.kind} {name!r}{hint} known: {', '.join(known) or 'none'}"


def _module(source: str) -> str:
    return source.partition(":")[0]


def _distribution(plugin: importlib.metadata.EntryPoint) -> str:
    return plugin.dist.name if plugin.dist is not None else "an unknown package"


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and not variadic


def _signature(parameters: Mapping[str, inspect.Parameter]) -> str:
    return ", ".join(str(parameter) for parameter in parameters.values()) or "no parameters"
