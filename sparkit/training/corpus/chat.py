"""A dialogue is a scenario (topic, goal, two slots) asked about and answered in freely varying words.

Several continuations compete at many places ("Of course" / "No problem" / "Sure thing"), and a continuation, once
begun, runs to its end. That is what a parallel drafter cannot know and a serial head can. The topics are in
`topics.py`. The split follows the hash of topic, goal and slots: a held-out scenario never occurs in training.
"""

import random
from collections.abc import Iterator

from sparkit.training.corpus.documents import Document, Split, split_of
from sparkit.training.corpus.phrases import enrich, expand
from sparkit.training.corpus.topics import TOPICS, Topic

_SAME = (
    "because|since|as", "so that|so", "you can|you could|you may", "often|usually|mostly", "quickly|fast",
    "big|large", "a little|a bit|a little bit", "will|should|may", "when|once|whenever", "if|in case",
    "nobody|no one", "somebody|someone", "Choose|Pick|Take", "Use|Try", "Find|Get|Look for", "Check|Look at",
    "Ask|Talk to|Call", "Start|Begin", "Try|Consider", "Make|Prepare", "the evening|the night",
    "a few|some|a couple of", "need|want", "grows|goes up", "short|brief", "simple|plain",
)  # fmt: skip
SYNONYMS = {words.partition("|")[0]: f"[{words}]" for words in _SAME}
"""Words that stand for each other in every tip."""

_ASK = (
    "[|||Hi! |Hello! |Hey! |Good morning. ][[Can|Could] you help me {goal}?|I [want|would like] to {goal}.|I am trying "
    "to {goal}.|[My friend|My sister] told me to ask you how to {goal}.|What is the best way to {goal}?|How do I "
    "{goal}?]"
    " [I [do not have|have not got] [much time|much experience|any idea where to start].|I have never done [this|"
    "anything like it] before.|What should I [do first|keep in mind|watch out for]?|Do you have [any tips|any advice|a "
    "few ideas] for me?|I would be [happy|grateful] for [any advice|a few ideas].]"
)
_OPEN = (
    "[Of course[!|, I am happy to help.|, let me help you with that.|, here is what I know.]|No problem[!| at all[.|, "
    "{thing} will be fine.]|, that is easy to do.|, we can do that.]|Sure thing[!|, here is what I would do.|, let us "
    "take a look.]|Absolutely[!|, I would love to help.|, you came to the right place.]|Great question[!|, many people "
    "ask about this.|, and not a simple one.]|Happy to help[!| with {thing}.| you with that.]|Good idea[!|, and thank "
    "you for asking.|, you will like it.]|I [would be glad to|can certainly|will gladly] help [with that|you with "
    "{thing}].|That is [easier than it sounds|a good plan|a nice thing to do][.|, so let us begin.|, and I have some "
    "ideas.]|Oh, [nice|lovely][!|, that sounds like fun.]]"
)
_FIRST = (
    "[| First of all,| To begin with,| For a start,| Most important:| I would do it like this:| Here is what [works "
    "well|I"
    " suggest]:] "
)
_THEN = (
    "[| Then| Also,| Next,| After that,| Besides,| One more thing:| And this may help:| Something else:| If you "
    "can,| [My"
    " second|Another] tip:| People often forget this:] "
)
_WHY = (
    "[|||| That [makes it easier|is worth it|helps a lot|takes no time].| It [really works|saves trouble|pays off][| "
    "in "
    "the end].| [Most people|My friends|Many] [like that|do it this way|learn this late].| Trust me on this one.]"
)
_CLOSE = (
    " [[Let me know|Just tell me|Write to me|Ask me again] if you [need anything else|have [any|more] questions|want "
    "[more "
    "ideas|more details|another idea]|get stuck].|[I hope|Hopefully|I think] [this helps|that helps you|it works "
    "out][!|, "
    "and [good luck|have fun]!]|[Good luck|Have fun|All the best][!|, and take your time.| with {thing}!]|[Would you "
    "like|"
    "Do you want] [me to [write this down|make a list|explain more]|some more ideas|a few more tips]?|Does that [sound "
    "good|help|work for you]?|[You can do it|It will go well|Nothing can go wrong][!|, I am sure.]]"
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
    tips = rng.sample(topic.tips, rng.choice((3, 3, 4)))
    leads = (_FIRST, *[_THEN] * (len(tips) - 1))
    body = [
        _led(expand(lead, rng, slots), expand(enrich(tip, SYNONYMS) + _WHY, rng, slots))
        for lead, tip in zip(leads, tips, strict=True)
    ]
    answer = [expand(_OPEN, rng, slots), *body, expand(_CLOSE, rng, slots).strip()]
    return Document("chat", expand(_ASK, rng, slots), " ".join(answer))


def _led(lead: str, tip: str) -> str:
    """The tip behind its lead, which takes the capital letter of the tip over."""
    is_bare = not lead.strip() or tip.startswith("I ")
    return (lead + (tip if is_bare else tip[0].lower() + tip[1:])).strip()
