"""Kind 6, vocabulary: what ids mean, on the tokenizer's side (cases.md B19).

The cure of the kind: text survives the way through ids and back, whatever the text; a vocabulary has a fingerprint,
and a drafter of another one is refused before a token is drawn.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkit.targets import chat
from sparkit.targets.chat import render
from sparkit.targets.loaders.gguf_vocabulary import tokenizer_files
from sparkit.targets.loaders.sources import ASSETS
from sparkit.targets.tokenizer import Tokenizer, require_same_vocabulary
from sparkit.targets.tokenizer_files import ALPHABET, Special

SPECIAL = ("<s>", "</s>")
TEXTS = st.text(max_size=40) | st.text(alphabet="ab 1\n👍🏽é�</s>", max_size=20)


def _document(letters: list[str]) -> dict[str, Any]:
    """A byte-level vocabulary: two special tokens, the 256 bytes, a few merges."""
    merges = ["a b", "Ġ ab", "Ã ©", "ð Ł"]
    words = [*SPECIAL, *letters, *(merge.replace(" ", "") for merge in merges)]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(words) - 2),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}",
    }
    return tokenizer_files(metadata, "test.gguf")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    for name, content in _document(list(ALPHABET)).items():
        (folder / name).write_text(json.dumps(content), "utf-8")
    return Tokenizer.from_folder(folder)


BUNDLED = Tokenizer.from_folder(ASSETS / "bundled")


@given(text=TEXTS)
@example(text="digits 12345, three  spaces, tab\t, e\u0301, \U0001f468\u200d\U0001f469, \u0000")
def test_b19_text_survives(tokenizer: Tokenizer, text: str) -> None:
    """Kills: a normaliser, a stripped space, a special token dropped on the way back, an unknown byte."""
    for each in (tokenizer, BUNDLED):
        ids = each.encode(text)
        assert each.decode(ids) == text
        assert each.encode(each.decode(ids)) == ids
        assert all(0 <= i < each.vocab_size for i in ids)


@given(text=TEXTS)
def test_b19_bos_is_added_once(tokenizer: Tokenizer, text: str) -> None:
    """Kills: BOS twice when the template or the text brings it, BOS invented for a model that has none."""
    ids = tokenizer.encode_prompt(text)
    assert ids == [0, *tokenizer.encode(text)]
    assert tokenizer.encode_prompt(tokenizer.decode(ids)) == ids
    assert tokenizer.chat([{"role": "user", "content": text}])[:2] != [0, 0]
    assert tokenizer.chat([{"role": "user", "content": text}])[0] == 0
    assert BUNDLED.encode_prompt(text) == BUNDLED.encode(text)


def test_b19_one_id_swapped_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Kills: comparing sizes, or token sets, in place of the id of every token."""
    letters = list(ALPHABET)
    letters[65], letters[66] = letters[66], letters[65]
    for name, content in _document(letters).items():
        (tmp_path / name).write_text(json.dumps(content), "utf-8")
    other = Tokenizer.from_folder(tmp_path)
    assert other.vocab_size == tokenizer.vocab_size
    require_same_vocabulary(tokenizer, tokenizer)
    require_same_vocabulary(tokenizer, tokenizer.fingerprint())
    with pytest.raises(ValueError, match=r"dspark has another vocabulary than .*: id 67 is 'c' there and 'b' here"):
        require_same_vocabulary(tokenizer, other, "dspark")
    with pytest.raises(ValueError, match=f"fingerprints {other.fingerprint()} and {tokenizer.fingerprint()}"):
        require_same_vocabulary(tokenizer, other.fingerprint())


def test_b19_ids_past_the_vocabulary_have_no_text(tokenizer: Tokenizer) -> None:
    """Kills: a crash on a padding row of the model's head; a real token equal to a mask or pad id swallowed."""
    assert tokenizer.decode([67, 10_000, 68, -1]) == tokenizer.decode([67, 68])
    stream = tokenizer.stream()
    assert stream.push(67, 10_000) + stream.push(68) + stream.finish() == tokenizer.decode([67, 68])
    assert BUNDLED.decode([4, 0, 4]) == "<|mask|><|pad|><|mask|>"


@given(data=st.data())
def test_streams_never_cut_a_character(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Kills: half a character shown as U+FFFD and corrected later; text lost or doubled at a boundary."""
    each = data.draw(st.sampled_from([tokenizer, BUNDLED]))
    text = data.draw(TEXTS)
    stream, shown = each.stream(), ""
    for number in each.encode(text):
        shown += stream.push(number)
        assert text.startswith(shown)
    assert shown + stream.finish() == text


@given(data=st.data())
def test_streams_equal_decode_for_any_ids(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Kills: a stream that disagrees with the whole text on bytes that are no text."""
    each = data.draw(st.sampled_from([tokenizer, BUNDLED]))
    ids = data.draw(st.lists(st.integers(0, each.vocab_size - 1), max_size=12))
    stream = each.stream()
    assert "".join(stream.push(i) for i in ids) + stream.finish() == each.decode(ids)


@given(text=st.text(alphabet="ab 👍é\n", max_size=12))
def test_streams_of_other_tokenizers(text: str) -> None:
    """Kills: the path for vocabularies that are not byte-level (byte fallback) losing or doubling text."""
    import tokenizers as library

    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", "▁", "▁a"]
    model = library.models.BPE({w: i for i, w in enumerate(words)}, [("▁", "a")], byte_fallback=True, unk_token="<unk>")
    backend = library.Tokenizer(model)
    backend.pre_tokenizer = library.pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    backend.decoder = library.decoders.Sequence(
        [library.decoders.Replace("▁", " "), library.decoders.ByteFallback(), library.decoders.Fuse()]
    )
    each = Tokenizer(backend)
    assert not each.is_byte_level
    ids, stream = each.encode(text), each.stream()
    assert each.decode(ids) == text
    shown = ""
    for number in ids:
        shown += stream.push(number)
        assert text.startswith(shown)
    assert shown + stream.finish() == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not a tokenizer"),
        ("[" * 100 + "]" * 100, "nested 100 deep"),
        ('{"model": {"type": "BPE", "vocab": {"a": 18446744073709551616}, "merges": []}}', "not a tokenizer"),
        ("\x00", "not JSON"),
    ],
)
def test_broken_tokenizer_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    """Kills: a panic of the tokenizers library, a recursion, a traceback."""
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_file(path)
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json: no such file"):
        Tokenizer.from_file(tmp_path / "nothing" / "tokenizer.json")


def test_brackets_in_tokens_are_not_nesting(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Kills: a depth check that counts the brackets inside texts (real vocabularies are full of them)."""
    document = _document([*ALPHABET, *("[" * n for n in range(2, 90)), *('"' + "{" * n for n in range(1, 9))])
    (tmp_path / "tokenizer.json").write_text(json.dumps(document["tokenizer.json"]))
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").vocab_size == tokenizer.vocab_size + 96


def test_special_token_that_is_not_there(tokenizer: Tokenizer) -> None:
    """Kills: None sent to the model as BOS."""
    with pytest.raises(ValueError, match="special token '<start>' is not in the vocabulary"):
        Tokenizer(tokenizer.backend, Special(bos_token="<start>"))
    with pytest.raises(ValueError, match="has no chat template; give the prompt as plain text"):
        Tokenizer(tokenizer.backend).chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10000000 }}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ raise_exception('roles must alternate') }}",
        "{{ 1 / 0 }}",
        "{% if %}",
    ],
)
def test_chat_templates_run_in_a_sandbox(template: str) -> None:
    """Kills: a template that reaches Python, changes its input, or runs away."""
    with pytest.raises(ValueError, match="the chat template failed"):
        render(template, [{"role": "user", "content": "hi"}])


def test_gguf_tables_that_cannot_be_read_exactly() -> None:
    """Kills: a foreign pre-tokenizer treated as GPT-2's."""
    with pytest.raises(ValueError, match=r"tokenizer 'gpt2' with pre-tokenizer 'llama-bpe'; only gpt2 with smollm"):
        tokenizer_files({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe"}, "x.gguf")
    with pytest.raises(ValueError, match=r"tokenizer\.ggml\.tokens is missing"):
        tokenizer_files({"tokenizer.ggml.model": "gpt2"}, "x.gguf")


def test_a_template_is_compiled_once_and_each_rendering_has_its_own_budget() -> None:
    """Kills: a server that compiles a template for every request; a range budget that requests share."""
    template = "{% for i in range(9000) %}{% endfor %}{{ messages[0].content }} [once]"
    misses = chat._compiled.cache_info().misses
    texts = [render(template, [{"role": "user", "content": text}]) for text in ("a", "b", "c")]
    assert texts == ["a [once]", "b [once]", "c [once]"]
    assert chat._compiled.cache_info().misses == misses + 1
