"""A dialogue is a scenario (topic, goal, two slots) asked about and answered in freely varying words.

Several continuations compete at many places ("Of course" / "No problem" / "Sure thing"), and a continuation, once
begun, runs to its end. That is what a parallel drafter cannot know and a serial head can. The topics are in
`topics.py`. The split follows the hash of topic, goal and slots: a held-out scenario never occurs in training.
"""

import random
from collections.abc import Iterator

from sparkit.training.corpus.documents import Document, Split, split_of
from sparkit.training.corpus.phrases import expand
from sparkit.training.corpus.topics import TOPICS, Topic

_ASK = (
    "[|||Hi! |Hello! |Hey, |Good morning. ][[Can|Could] you help me {goal}?|I [want|would like] to {goal}.|I am trying "
    "to {goal}.|[My friend|My sister] told me to ask you how to {goal}.|What is the best way to {goal}?|How do I {goal}?]"
    " [I [do not have|have not got] [much time|much experience|any idea where to start].|I have never done [this|"
    "anything like it] before.|What should I [do first|keep in mind|watch out for]?|Do you have [any tips|any advice|a "
    "few ideas] for me?|I would be [happy|grateful] for [any advice|a few ideas].]"
)
_OPEN = (
    "[Of course[!|, I am happy to help.|, let me help you with that.]|No problem[!| at all.|, that is easy to do.]|Sure "
    "thing[!|, here is what I would do.|, let us take a look.]|Absolutely[!|, I would love to help.]|Great question[!|, "
    "many people ask about this.]|Happy to help[!| with {thing}.]|Good idea[!|, and thank you for asking.]|I [would be "
    "glad to|can certainly] help [with that|you with {thing}].|That is [easier than it sounds|a good plan][.|, so let "
    "us begin.]]"
)
_FIRST = "[ | First of all, here is one thing. | Here are a few ideas. | I would do it like this. | Let me think. ]"
_THEN = "[ | | One more thing: | And this may help: | Something else: ]"
_CLOSE = (
    " [[Let me know|Just tell me|Write to me] if you [need anything else|have [any|more] questions|want [more ideas|more "
    "details|another idea]].|[I hope|Hopefully] [this helps|that helps you][!|, and [good luck|have fun]!]|[Good luck|"
    "Have fun][!|, and take your time.| with {thing}!]|[Would you like|Do you want] [me to [write this down|make a list|"
    "explain more]|some more ideas|a few more tips]?|Does that [sound good|help|work for you]?]"
)


def documents(split: Split, rng: random.Random) -> Iterator[Document]:
    """Dialogues of `split`, without end."""
    while True:
        topic = rng.choice(TOPICS)
        goal, one, two = rng.choice(topic.goals), rng.choice(topic.one), rng.choice(topic.two)
        if split_of("|".join((topic.name, goal, one, two))) == split:
            yield _write(topic, goal.format(one=one, two=two), {"one": one, "two": two}, rng)


def _write(topic: Topic, goal: str, slots: dict[str, str], rng: random.Random) -> Document:
    slots = {**slots, "goal": goal, "thing": topic.thing}
    first, *others = rng.sample(topic.tips, rng.choice((3, 3, 4)))
    answer = _OPEN + _FIRST + first + "".join(_THEN + tip for tip in others) + _CLOSE
    return Document("chat", expand(_ASK, rng, slots), expand(answer, rng, slots))
