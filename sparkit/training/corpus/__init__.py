"""The corpus of the bundled lane: math, code and chat that anyone can regenerate, and their tokenizer.

>>> documents("math", "train", num=1, seed=0)[0].domain
'math'
"""

from sparkit.training.corpus.documents import (
    ASSISTANT,
    CHAT_TEMPLATE,
    DOMAINS,
    END,
    MASK,
    PAD,
    SPECIAL_TOKENS,
    USER,
    Document,
    Domain,
    Split,
    render,
)
from sparkit.training.corpus.draw import documents
from sparkit.training.corpus.prompts import heldout_prompts, write_prompts
from sparkit.training.corpus.stream import TokenStream, token_stream
from sparkit.training.corpus.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer

__all__ = [
    "ASSISTANT",
    "CHAT_TEMPLATE",
    "DOMAINS",
    "END",
    "MASK",
    "PAD",
    "SPECIAL_TOKENS",
    "USER",
    "Document",
    "Domain",
    "Split",
    "TokenStream",
    "documents",
    "heldout_prompts",
    "load_tokenizer",
    "render",
    "save_tokenizer",
    "token_stream",
    "train_tokenizer",
    "write_prompts",
]
