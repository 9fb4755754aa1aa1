"""The tokenizer is a byte-level BPE of 1024 ids, trained on as much text of each domain.

Digits stand alone, so that a sum is learned digit by digit. Any Unicode text survives encode and decode, because all
256 bytes are in the alphabet. The ids 0..4 are the special tokens in the order of `SPECIAL_TOKENS`.

>>> tokenizer = load_tokenizer(); tokenizer.decode(tokenizer.encode("7 * 8 = 56").ids)
'7 * 8 = 56'
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from sparkit.training.corpus.documents import ASSISTANT, CHAT_TEMPLATE, DOMAINS, END, MASK, PAD, SPECIAL_TOKENS, USER
from sparkit.training.corpus.draw import documents

VOCAB_SIZE = 1024
BUNDLED = Path(__file__).parents[2] / "assets" / "bundled"

# A newline takes the indentation behind it along; a word takes one space; each digit is alone.
_SPLIT = r"\n *|\d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def train_tokenizer(chars_per_domain: int = 1_500_000, seed: int = 0) -> Tokenizer:
    """A tokenizer learned from the train split; the same arguments give the same tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_SPLIT), "isolated")
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(chars_per_domain, seed), trainer)
    return tokenizer


def _texts(chars_per_domain: int, seed: int) -> Iterator[str]:
    for domain in DOMAINS:
        left = chars_per_domain
        for document in documents(domain, "train", chars_per_domain // 300, seed):
            text = document.prompt + "\n" + document.response
            left -= len(text)
            yield text
            if left <= 0:
                break


def save_tokenizer(tokenizer: Tokenizer, folder: Path = BUNDLED) -> None:
    """Writes tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END,
        "pad_token": PAD,
        "mask_token": MASK,
        "additional_special_tokens": [USER, ASSISTANT],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(folder: Path = BUNDLED) -> Tokenizer:
    """The saved tokenizer."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise LookupError(f"folder={str(folder)!r} has no tokenizer.json; make one with save_tokenizer.")
    return Tokenizer.from_file(str(path))
