"""One field of a config.json at a time: its type and range are checked where it is read, and errors name it.

>>> Fields({"num_hidden_layers": 7}, "config.json").count("num_hidden_layers")
7
>>> Fields({"num_hidden_layers": "7"}, "config.json").count("num_hidden_layers")
Traceback (most recent call last):
ValueError: config.json: num_hidden_layers is '7'; expected a whole number from 1 to 16777216
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkit.files import shown

MAX_SIZE = 1 << 24  # of any one axis
MAX_TEXT = 500  # characters
MAX_ITEMS = 64


class Fields(NamedTuple):
    """A parsed object and its name for messages; a default stands for a field that is absent or null."""

    document: Mapping[str, Any]
    where: str

    def count(self, name: str, default: Any = ..., *, least: int = 1, most: int = MAX_SIZE) -> Any:
        """A whole number; with default None it may be absent."""
        value = self._value(name, default)
        if value is None and default is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise self._refusal(name, value, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self._value(name, default)
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise self._refusal(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self._refusal(name, value, "true or false")
        return value

    def text(self, name: str, default: str) -> str:
        """A short text."""
        value = self._value(name, default)
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise self._refusal(name, value, f"a text of at most {MAX_TEXT} characters")
        return value

    def layers(self, name: str) -> tuple[int, ...]:
        """A list of layer numbers."""
        value = self._value(name, ...)
        if not isinstance(value, list) or any(type(item) is not int for item in value) or len(value) > MAX_ITEMS:
            raise self._refusal(name, value, "a list of layer numbers")
        return tuple(value)

    def _value(self, name: str, default: Any) -> Any:
        value = self.document.get(name)
        return default if value is None and default is not ... else value

    def _refusal(self, name: str, value: object, expected: str) -> ValueError:
        return ValueError(f"{self.where}: {name} is {shown(value)}; expected {expected}")
