"""Kind 3, stopping, budgets, streaming: nothing past a stop or a limit is emitted, counted, or looked up.

The cure of the kind: one function cuts a round's tokens (`sparkit.engine.stops`), whoever drew them, and the plan's
ceiling is what the request may still emit, so no position beyond the context is ever processed.
"""

from collections.abc import Sequence

import pytest
from torch import Tensor

from sparkit.engine import Engine, Request
from sparkit.engine.requests import Finished
from sparkit.protocols import DRAFTERS, Span
from sparkit.rounds import Round
from sparkit.sampling import SamplingParams
from tests.parts import ScriptedDrafter, parts_of, perfect, shake, tiny_target
from tests.worlds import chain_target

GREEDY = SamplingParams(temperature=0.0)
FOLLOWS = {1: 5, 5: 6, 6: 2, 2: 7, 7: 8, 8: 3, 3: 4}
TEXT = (1, 5, 6, 2, 7, 8, 3, 4, 5, 6, 2, 7, 8, 3, 4)
STOPS = frozenset({2, 11})


def decoded(drafter: object, prompt: Sequence[int] = (1,), gamma: int = 5, **options: object):
    """One request on the chain 1 5 6 2 7 8 3 4 5 ...: what was finished, and its rounds."""
    engine = Engine(parts_of(chain_target(12, FOLLOWS), drafter), gamma=gamma, num_slots=1)
    engine.add(Request(tuple(prompt), 0, params=GREEDY, **options))
    rounds = list(engine.stream())
    return engine.finished[0], rounds


def streamed(rounds: Sequence[Round]) -> list[int]:
    return [token.id for one in rounds for token in one.tokens]


def perfect_drafter() -> ScriptedDrafter:
    return perfect([TEXT], 12)


# ---------------------------------------------------------------------------------------------------------- B09
def test_b09_a_stop_inside_a_block_ends_the_text() -> None:
    """Kills: a check of the last token of a block only; a stream that shows what the result does not hold."""
    done, rounds = decoded(perfect_drafter(), max_new_tokens=10, stop_tokens=STOPS)
    assert (list(done.token_ids), done.stop_reason) == ([5, 6, 2], "stop")
    assert streamed(rounds) == [5, 6, 2]
    assert [one.stop_reason for one in rounds] == [None, "stop"]
    assert rounds[-1].accepted == 5  # the verifier kept more than was emitted


def test_b09_stop_as_bonus_as_correction_and_as_first_token() -> None:
    """Kills: a check of drafts only, or of the bonus only, or none after the prefill."""
    done, rounds = decoded(perfect_drafter(), gamma=1, max_new_tokens=10, stop_tokens=STOPS)
    assert (list(done.token_ids), rounds[-1].origin) == ([5, 6, 2], "bonus")
    wrong = ScriptedDrafter(lambda context, gamma: [6] + [9] * (gamma - 1), 12)
    done, rounds = decoded(wrong, max_new_tokens=10, stop_tokens=STOPS)
    assert (list(done.token_ids), rounds[-1].origin) == ([5, 6, 2], "correction")
    done, rounds = decoded(perfect_drafter(), prompt=(1, 5, 6), max_new_tokens=10, stop_tokens=STOPS)
    assert (list(done.token_ids), [one.kind for one in rounds]) == ([2], ["prefill"])


def test_b09_without_stops_it_goes_on() -> None:
    """The control: ignore-EOS is a request without stop tokens."""
    done, _ = decoded(perfect_drafter(), max_new_tokens=10)
    assert list(done.token_ids) == list(TEXT[1:11])
    assert done.stop_reason == "length"


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
@pytest.mark.parametrize("stop", ["62", "2", "278", "562783"])
def test_b09_stop_strings_over_rounds(gamma: int, stop: str) -> None:
    """Wherever the rounds fall, the text ends with the token that completes the string. Kills: a per-round search."""
    drafter = perfect_drafter()
    engine = Engine(
        parts_of(chain_target(12, FOLLOWS), drafter),
        gamma=gamma, num_slots=1, decode=lambda ids: "".join(map(str, ids)),
    )  # fmt: skip
    engine.add(Request((1,), 0, 14, GREEDY, stop_strings=(stop,)))
    rounds = list(engine.stream())
    text = "".join(map(str, streamed(rounds)))
    whole = "".join(map(str, TEXT[1:]))
    assert text == whole[: whole.index(stop) + len(stop)]
    assert rounds[-1].stop_reason == "stop"


def test_b09_stop_strings_need_a_tokenizer() -> None:
    """Kills: an option that is silently ignored."""
    with pytest.raises(ValueError, match="stop strings need a tokenizer"):
        decoded(perfect_drafter(), max_new_tokens=3, stop_strings=("x",))


# ---------------------------------------------------------------------------------------------------------- B10
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7])
def test_b10_exactly_as_many_as_asked(limit: int) -> None:
    """Kills: a budget checked once a round; a decode call for a limit of 0."""
    done, rounds = decoded(perfect_drafter(), max_new_tokens=limit)
    assert list(done.token_ids) == list(TEXT[1 : 1 + limit])
    assert done.stop_reason == "length"
    assert streamed(rounds) == list(done.token_ids)
    assert (rounds == []) == (limit == 0)


class Guarded:
    """A target that refuses positions at or past the context's end, and notes the last one it saw."""

    def __init__(self, target: object) -> None:
        self._target, self.last = target, -1

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)

    def forward(self, tokens: Tensor, spans: Sequence[Span], cache: object, rows: Tensor | None = None) -> object:
        self.last = max(self.last, *(span.start + span.count - 1 for span in spans))
        return self._target.forward(tokens, spans, cache, rows)


@pytest.mark.parametrize("name", ["dflash", "dspark", "eagle3", "mtp"])
@pytest.mark.parametrize("prompt_len", [12, 15])
def test_b10_the_context_is_never_left(name: str, prompt_len: int) -> None:
    """Context 16, prompt 12, no limit: 4 tokens, and no position past 15 is looked up by target or drafter.

    Kills: a block at the end of the context that reads past the rotary table (torch would raise, or read nonsense).
    """
    target = tiny_target(max_positions=16)
    drafter = DRAFTERS.create(name, target=target, gamma=5)
    shake(drafter.net, 3, 0.2)
    guarded = Guarded(target.with_taps(drafter.feature_layers))
    engine = Engine(parts_of(guarded, drafter), gamma=5, num_slots=1)
    engine.add(Request(tuple(range(prompt_len)), 4))
    list(engine.stream())
    done: Finished = engine.finished[0]
    assert (len(done.text), done.stop_reason) == (16 - prompt_len, "length")
    assert guarded.last <= 15


@pytest.mark.parametrize("length", [16, 17])
def test_b10_a_full_prompt_is_refused(length: int) -> None:
    """Kills: an index error steps later, or a silent empty answer."""
    engine = Engine(parts_of(tiny_target(max_positions=16), None), gamma=1, num_slots=1)
    with pytest.raises(ValueError, match=rf"the prompt has {length} tokens and the context limit is 16; shorten"):
        engine.add(Request((1,) * length, 0))


def test_b10_bad_limits_and_prompts_are_named() -> None:
    """Kills: a negative limit that never ends, an empty prompt that crashes in the middle of a batch."""
    with pytest.raises(ValueError, match=r"max_new_tokens=-1\): expected 0 or more"):
        Request((1,), 0, -1)
    with pytest.raises(ValueError, match="the prompt is empty"):
        Request((), 0)
    engine = Engine(parts_of(tiny_target(), None), gamma=1, num_slots=1)
    with pytest.raises(ValueError, match=r"a token outside 0\.\.31"):
        engine.add(Request((1, 32), 0))
