"""A law looks for a breach and tells it; a report says which laws a part keeps.

A law is a function that yields a sentence for every breach it finds; the first is reported, with the input that did
it. A part that raises breaks the law that was asked, and its error is the sentence.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Law = Callable[[], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that a part does not keep."""

    law: str
    detail: str  # the first breach, with its input


@dataclass(frozen=True, slots=True)
class Report:
    """What one part was held to."""

    kind: str
    name: str  # class name
    declared_lossless: bool
    kept: tuple[str, ...]
    broken: tuple[Broken, ...]

    @property
    def is_kept(self) -> bool:
        """Whether every law is kept."""
        return not self.broken

    def require(self) -> None:
        """For tests.

        Raises:
            AssertionError: with every broken law and its breach.
        """
        if self.broken:
            lines = [f"{one.law}: {one.detail}" for one in self.broken]
            raise AssertionError(f"{self.kind} {self.name} breaks {len(lines)} laws\n" + "\n".join(lines))


def hold(kind: str, part: object, laws: dict[str, Law]) -> Report:
    """Asks every law."""
    kept, broken = [], []
    for name, law in laws.items():
        breach = _first_breach(law)
        if breach is None:
            kept.append(name)
        else:
            broken.append(Broken(name, breach))
    return Report(kind, type(part).__name__, bool(getattr(part, "lossless", True)), tuple(kept), tuple(broken))


def _first_breach(law: Law) -> str | None:
    try:
        return next(iter(law()), None)
    except Exception as error:  # the part's fault, whatever it is: reported, never swallowed
        return f"raised {type(error).__name__}: {error}"
