"""A request is what a user asked for; a sequence is how far the engine has come with it."""

from collections.abc import Sequence as Row
from dataclasses import dataclass, field, replace

from sparkit.rounds import Token
from sparkit.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue."""

    prompt: tuple[int, ...]
    seed: int  # of its decisions: see `sparkit.decisions.request_seed`
    max_new_tokens: int | None = None  # None: up to the context limit
    params: SamplingParams = field(default_factory=SamplingParams)
    stop_tokens: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    label: str = ""  # domain or class, for readers

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("Request(prompt=()): the prompt is empty; give at least one token")
        if self.max_new_tokens is not None and self.max_new_tokens < 0:
            raise ValueError(f"Request(max_new_tokens={self.max_new_tokens}): expected 0 or more, or None")
        if any(not text for text in self.stop_strings):
            raise ValueError("Request(stop_strings): an empty stop string would stop before the first token")


@dataclass(slots=True)
class Sequence:
    """A request in a slot. `committed` counts prompt and text; the last committed token is the anchor."""

    id: int
    request: Request
    slot: int
    limit: int  # most tokens it may generate: max_new_tokens and context room
    tokens: list[int]
    text: list[Token] = field(default_factory=list)
    stop_reason: str | None = None

    @property
    def is_prefilled(self) -> bool:
        """Whether the first token exists, so that there is an anchor to decode from."""
        return bool(self.text)

    @property
    def remaining(self) -> int:
        """Tokens it may still generate."""
        return self.limit - len(self.text)

    @property
    def anchor_position(self) -> int:
        """Absolute position of the last committed token."""
        return len(self.tokens) - 1

    def copy(self) -> "Sequence":
        """An independent copy."""
        return replace(self, tokens=list(self.tokens), text=list(self.text))


@dataclass(frozen=True, slots=True)
class Finished:
    """What a request came to."""

    id: int
    request: Request
    text: tuple[Token, ...]
    stop_reason: str  # "stop" (token or string), "length", "cancelled"

    @property
    def token_ids(self) -> Row[int]:
        """The generated token ids."""
        return [token.id for token in self.text]
