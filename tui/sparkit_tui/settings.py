"""What a user can set; free of torch, so that the controls are on screen before the models are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

HOT = ("confidence", "calibrator", "scheduler", "verifier", "capacity", "temperature")  # swapped between two rounds
AUTO = "auto"  # the part that `compose` would choose


@dataclass(frozen=True, slots=True)
class Settings:
    """One composition and the texts it runs on; names as in `sparkit compose`."""

    target: str = "bundled"
    drafter: str = "dspark"
    head: str = AUTO
    confidence: str = AUTO
    calibrator: str = AUTO
    scheduler: str = "greedy"
    verifier: str = "rejection"
    capacity: str = "measured"
    gamma: int = 7
    temperature: float = 1.0
    domain: str = "all"
    prompt: str = ""  # typed by the user; "" takes the held-out prompts of the domain
    batch: int = 4
    seed: int = 0
    max_new_tokens: int = 160

    def changed(self, **values: object) -> Settings:
        """A copy with some fields set."""
        return replace(self, **values)  # type: ignore[arg-type]

    def differences(self, other: Settings) -> tuple[str, ...]:
        """Names of the fields in which two settings differ."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name))

    def restarts(self, other: Settings) -> bool:
        """Whether going to `other` starts the texts again."""
        return any(name not in HOT for name in self.differences(other))


def parse(text: str, name: str, like: object) -> object:
    """A typed value of the field `name`; a mistake says what is wanted."""
    wanted = {int: "a whole number", float: "a number"}.get(type(like), "text")
    kind: Callable[[str], object] = int if isinstance(like, int) else float if isinstance(like, float) else str
    try:
        value = kind(text.strip())
    except ValueError as error:
        raise ValueError(f"{name}={text!r}: expected {wanted}") from error
    least = {"gamma": 1, "batch": 1, "temperature": 0, "max_new_tokens": 1}.get(name)
    if least is not None and isinstance(value, int | float) and not least <= value < float("inf"):
        raise ValueError(f"{name}={text!r}: expected {least} or more")
    return value
