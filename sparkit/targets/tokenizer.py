"""Text to token ids and back: decode(encode(s)) = s, BOS is added once, a stream never cuts a character.

Read from tokenizer.json (the `tokenizers` library) with the names of special tokens from tokenizer_config.json. Which
id means which text is summed up in a fingerprint, so that a drafter of another vocabulary is refused at load.

Not done here: what the files say (`sparkit.targets.tokenizer_files`).

    tokenizer = Tokenizer.from_folder(Path("sparkit/assets/bundled/target"))
    tokenizer.decode(tokenizer.encode("of course"))
    # 'of course'
"""

import codecs
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkit.files import read_json, shown
from sparkit.targets.chat import render
from sparkit.targets.tokenizer_files import MAX_TOKENIZER_BYTES, Special, backend_of, special_of, spelled

MAX_HELD_TOKENS = 4  # a character has at most four bytes, so longer incomplete tails are not characters


class Tokenizer:
    """A vocabulary with its rules.

    Args:
        backend: `tokenizers.Tokenizer`.
        special: names of the special tokens, and the chat template.
        name: what it is called in messages.
    """

    def __init__(self, backend: Any, special: Special | None = None, name: str = "tokenizer") -> None:
        self.backend, self.special, self.name = backend, special or Special(), name
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.bos_id = self._id(self.special.bos_token)
        self.eos_id = self._id(self.special.eos_token)
        self._bytes: dict[int, bytes] | None = None

    @classmethod
    def from_file(cls, path: Path, special: Special | None = None) -> "Tokenizer":
        """Reads a tokenizer.json.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is larger than 64 MB, nested too deep, or not a tokenizer.
        """
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; a model folder needs its tokenizer.json")
        document = read_json(path, max_bytes=MAX_TOKENIZER_BYTES)
        return cls(backend_of(json.dumps(document, ensure_ascii=False), str(path)), special, str(path))

    @classmethod
    def from_folder(cls, folder: Path) -> "Tokenizer":
        """Reads tokenizer.json, tokenizer_config.json and chat_template.jinja of a model folder."""
        return cls.from_file(folder / "tokenizer.json", special_of(folder))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, nothing added."""
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        return ids

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a prompt: the beginning-of-text token first where the model wants one, and only once."""
        ids = self.encode(text)
        if not self.special.add_bos or self.bos_id is None or ids[:1] == [self.bos_id]:
            return ids
        return [self.bos_id, *ids]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The ids of a conversation up to the assistant's next turn.

        Raises:
            ValueError: if the tokenizer has no chat template, or the template fails.
        """
        if self.special.chat_template is None:
            raise ValueError(f"{self.name} has no chat template; give the prompt as plain text")
        names = {"bos_token": self.special.bos_token or "", "eos_token": self.special.eos_token or ""}
        return self.encode_prompt(render(self.special.chat_template, messages, tokens=names))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens spelled out; ids past the vocabulary (padding rows) have no text."""
        text: str = self.backend.decode([i for i in ids if 0 <= i < self.vocab_size], skip_special_tokens=False)
        return text

    def stream(self) -> "TextStream":
        """A decoder that is fed token by token."""
        return TextStream(self)

    def fingerprint(self) -> str:
        """A digest of which id means which text."""
        table = sorted((number, token) for token, number in self.backend.get_vocab(with_added_tokens=True).items())
        rules = None if self.backend.decoder is None else type(self.backend.decoder).__name__
        return hashlib.sha256(json.dumps([rules, table]).encode()).hexdigest()[:16]

    def bytes_of(self, number: int) -> bytes:
        """What a token of a byte-level vocabulary spells; b"" past the vocabulary."""
        if self._bytes is None:
            self._bytes = {}
        if number not in self._bytes:
            token = self.backend.id_to_token(number)
            self._bytes[number] = b"" if token is None else spelled(token, number in self._added)
        return self._bytes[number]

    @property
    def is_byte_level(self) -> bool:
        """Whether every token is a run of bytes."""
        return type(self.backend.decoder).__name__ == "ByteLevel"

    @property
    def _added(self) -> dict[int, Any]:
        added: dict[int, Any] = self.backend.get_added_tokens_decoder()
        return added

    def _id(self, token: str | None) -> int | None:
        if token is None:
            return None
        number: int | None = self.backend.token_to_id(token)
        if number is None:
            raise ValueError(f"{self.name}: special token {shown(token)} is not in the vocabulary")
        return number


class TextStream:
    """Text as tokens arrive; bytes of an unfinished character are held back until it is complete.

    What `push` and `finish` return, joined, is `decode` of all tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if tokenizer.is_byte_level else None
        self._ids: list[int] = []  # without byte tables: since the last safe point
        self._shown = ""

    def push(self, *ids: int) -> str:
        """The text that became certain with these tokens."""
        if self._decoder is not None:
            return self._decoder.decode(b"".join(map(self._tokenizer.bytes_of, ids)))
        return "".join(map(self._push_one, ids))

    def finish(self) -> str:
        """Whatever is still held back; an unfinished character becomes U+FFFD."""
        if self._decoder is not None:
            return self._decoder.decode(b"", final=True)
        return self._tokenizer.decode(self._ids)[len(self._shown) :]

    def _push_one(self, number: int) -> str:
        self._ids.append(number)
        text = self._tokenizer.decode(self._ids)
        held = len(text) - len(text.rstrip("�"))
        if 0 < held <= MAX_HELD_TOKENS or not text.startswith(self._shown):
            return ""
        new, self._shown = text[len(self._shown) :], text
        return new


def require_same_vocabulary(target: Tokenizer, drafter: Tokenizer | str, name: str = "drafter") -> None:
    """A `ValueError` when ids do not mean the same texts in both.

    Args:
        target: the target's tokenizer.
        drafter: the drafter's, or the fingerprint that it was saved with.
        name: the drafter, for the message.
    """
    theirs = drafter if isinstance(drafter, str) else drafter.fingerprint()
    if (ours := target.fingerprint()) == theirs:
        return
    raise ValueError(
        f"{name} has another vocabulary than {target.name}{_first_difference(target, drafter)} (fingerprints {theirs} "
        f"and {ours}); use a drafter that was trained for this target"
    )


def _first_difference(target: Tokenizer, drafter: Tokenizer | str) -> str:
    if isinstance(drafter, str):
        return ""
    for number in range(max(target.vocab_size, drafter.vocab_size)):
        ours, theirs = target.backend.id_to_token(number), drafter.backend.id_to_token(number)
        if ours != theirs:
            return f": id {number} is {theirs!r} there and {ours!r} here"
    return ""
