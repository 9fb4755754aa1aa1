"""Where a round's tokens are cut: at a stop token, at the token that completes a stop string, at the length limit.

Nothing after the stop is emitted or counted. A stop string may straddle tokens, rounds and the bytes of a character,
so the tail of the text is decoded again after every token when a request has stop strings (and only then).
"""

from collections.abc import Callable, Sequence

from sparkit.engine.requests import Request
from sparkit.rounds import Token

Decode = Callable[[Sequence[int]], str]


def cut(
    candidates: Sequence[Token], text: Sequence[Token], request: Request, remaining: int, decode: Decode | None
) -> tuple[tuple[Token, ...], str | None]:
    """The tokens of a round that are emitted, and why the request ends with them (None: it goes on)."""
    emitted: list[Token] = []
    for token in candidates[:remaining]:
        emitted.append(token)
        if token.id in request.stop_tokens or (
            request.stop_strings and _completes_stop_string(text, emitted, request, decode)
        ):
            return tuple(emitted), "stop"
    return tuple(emitted), "length" if len(emitted) >= remaining else None


def _completes_stop_string(
    text: Sequence[Token], emitted: Sequence[Token], request: Request, decode: Decode | None
) -> bool:
    assert decode is not None, "Engine.add refuses stop strings without it"
    ids = [token.id for token in (*text, *emitted)]
    tail = _tail(ids, max(map(len, request.stop_strings)), decode)
    return any(stop in tail for stop in request.stop_strings)


def _tail(ids: Sequence[int], longest: int, decode: Decode) -> str:
    """The text's end, long enough for a stop string that the last token completes; some tokens have no text."""
    enough, count = longest + 4 + len(decode(ids[-1:])), 4 * longest + 4  # 4: a character cut in two at the front
    while len(tail := decode(ids[-count:])) < enough and count < len(ids):
        count *= 2
    return tail


def trim(text: str, stop_strings: Sequence[str]) -> str:
    """The text before the first stop string."""
    ends = [text.find(stop) for stop in stop_strings if stop in text]
    return text[: min(ends)] if ends else text
