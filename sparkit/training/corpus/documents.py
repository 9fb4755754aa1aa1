"""One document is a user prompt and an assistant response, and one chat format renders all domains.

    <|user|>PROMPT<|assistant|>RESPONSE<|end|>

`split_of` decides the split from a *key* that names what the prompt is about (the numbers of a problem, the module
of a piece of code, the scenario of a dialogue), so the same problem can never stand on both sides.

>>> render(Document("chat", "Hi!", "Hello."))
('<|user|>Hi!<|assistant|>', 'Hello.<|end|>')
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

Domain = Literal["math", "code", "chat"]
Split = Literal["train", "heldout"]

DOMAINS: tuple[Domain, ...] = ("math", "code", "chat")
SPLITS: tuple[Split, ...] = ("train", "heldout")

PAD, USER, ASSISTANT, END, MASK = "<|pad|>", "<|user|>", "<|assistant|>", "<|end|>", "<|mask|>"
SPECIAL_TOKENS = (PAD, USER, ASSISTANT, END, MASK)  # their ids are 0..4, in this order

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Document:
    """A prompt and the response that continues it.

    Attributes:
        domain: One of `DOMAINS`.
        prompt: What the user writes.
        response: What the assistant answers, without the end marker.
    """

    domain: Domain
    prompt: str
    response: str


def render(document: Document) -> tuple[str, str]:
    """The prompt part, up to and with the assistant marker, and the response part with its end marker."""
    return f"{USER}{document.prompt}{ASSISTANT}", f"{document.response}{END}"


def split_of(key: str, heldout_share: int = 12) -> Split:
    """The split that owns `key`: one key in `heldout_share` is held out, the same on every machine."""
    digest = hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest()
    return "heldout" if int.from_bytes(digest, "big") % heldout_share == 0 else "train"
