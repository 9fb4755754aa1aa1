"""What a model folder says about its tokenizer: the table, the special tokens, the chat template, the byte alphabet.

>>> spelled("Ġthe", is_added=False)
b' the'
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkit.files import read_json, shown

MAX_TOKENIZER_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Special:
    """What tokenizer_config.json adds to the tables."""

    bos_token: str | None = None
    eos_token: str | None = None
    add_bos: bool = False
    chat_template: str | None = None


def backend_of(text: str, where: str) -> Any:
    """The `tokenizers.Tokenizer` of a tokenizer.json's text; a `ValueError` that names `where` if it is none."""
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_str(text)
    except BaseException as error:  # a Rust panic is no Exception; it is caught here and nowhere else
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise ValueError(f"{where}: not a tokenizer: {shown(str(error), 200)}") from error


def special_of(folder: Path) -> Special:
    """What tokenizer_config.json and chat_template.jinja of a folder say; without them, nothing."""
    path, template = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    settings = read_json(path) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(settings).__name__}")
    chat = template.read_text("utf-8") if template.is_file() else _named(settings.get("chat_template"), "default")
    return Special(
        bos_token=_token(settings.get("bos_token")),
        eos_token=_token(settings.get("eos_token")),
        add_bos=settings.get("add_bos_token") is True,
        chat_template=chat,
    )


def _token(value: object) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _named(value: object, name: str) -> str | None:
    """A template, or the one called `name` of a list of {name, template}."""
    if isinstance(value, list):
        found = [x.get("template") for x in value if isinstance(x, dict) and x.get("name") == name]
        value = found[0] if found else None
    return value if isinstance(value, str) else None


def _alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


ALPHABET = _alphabet()


def spelled(token: str, is_added: bool) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for; an added token stands for its own letters."""
    if is_added or any(character not in ALPHABET for character in token):
        return token.encode()
    return bytes(ALPHABET[character] for character in token)
