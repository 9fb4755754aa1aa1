"""The corpus: right answers, splits that never meet, a lossless tokenizer, a stream that is what it says."""

import functools
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkit.training.corpus import DOMAINS, SPECIAL_TOKENS, documents, load_tokenizer, math, render, token_stream
from sparkit.training.corpus.code import cut, repetition
from sparkit.training.corpus.documents import CHAT_TEMPLATE, Document, split_of
from sparkit.training.corpus.math import draw_problem
from sparkit.training.corpus.phrases import expand
from sparkit.training.corpus.tokenizer import BUNDLED, train_tokenizer
from sparkit.training.corpus.topics import TOPICS

_EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
_RESULT = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}


@functools.cache
def trained(domain: str) -> frozenset[str]:
    """Prompts that training would see; two tests ask for them, and code takes seconds to cut."""
    return frozenset(document.prompt for document in documents(domain, "train", 1200, seed=0))


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_every_equation_holds_and_the_last_result_is_the_answer(split: str) -> None:
    """Mutation: swapping the operands of `give`, or answering with the number before the question."""
    for document in documents("math", split, 150, seed=1):
        equations = _EQUATION.findall(document.response)
        assert equations
        assert all(_RESULT[sign](int(a), int(b)) == int(c) for a, sign, b, c in equations), document.response
        assert document.response.endswith(f"\nThe answer is {equations[-1][3]}.")


def test_a_step_starts_from_the_number_the_last_one_made() -> None:
    """Mutation: drawing all numbers from the start's."""
    rng = random.Random(2)
    for _ in range(300):
        numbers = draw_problem(rng).numbers
        assert [n["now"] for n in numbers[1:]] == [n["after"] for n in numbers[:-1]]


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_heldout_prompt_stands_in_training(domain: str) -> None:
    """Mutation: code that keeps a prompt common to two modules, or takes both splits from one pool."""
    held = {document.prompt for document in documents(domain, "heldout", 120, seed=0)}
    assert held
    assert trained(domain).isdisjoint(held)


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_a_problem_is_on_the_side_of_its_events_and_numbers(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: `documents` of math that does not ask for the split of the key."""
    keys: list[str] = []
    write = math.write

    def record(problem: math.Problem, rng: random.Random) -> Document:
        keys.append(problem.key)
        return write(problem, rng)

    monkeypatch.setattr(math, "write", record)
    documents("math", split, 100, seed=0)
    assert len(keys) == 100
    assert {split_of(key) for key in keys} == {split}


def test_no_heldout_wish_is_asked_in_training() -> None:
    """Mutation: `documents` of chat that does not ask for the split of the scenario."""
    side = {
        goal.format(one=one, two=two): split_of("|".join((topic.name, goal, one, two)))
        for topic in TOPICS
        for goal in topic.goals
        for one in topic.one
        for two in topic.two
    }
    for split in ("train", "heldout"):
        for document in documents("chat", split, 100, seed=0):
            wish = max((wish for wish in side if wish in document.prompt), key=len)  # a wish may hold a shorter one
            assert side[wish] == split


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_same_seed_gives_the_same_documents_and_another_one_others(domain: str) -> None:
    """Mutation: a draw from the global generator."""
    first = documents(domain, "train", 40, seed=5)
    assert documents(domain, "train", 40, seed=5) == first
    assert documents(domain, "train", 20, seed=5) == first[:20]
    assert documents(domain, "train", 40, seed=6) != first


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    """Mutation: falling back to the first domain."""
    with pytest.raises(LookupError, match=r"domain='prose' is unknown; choose one of math, code, chat"):
        documents("prose", "train", 1, seed=0)
    with pytest.raises(LookupError, match=r"split='test' is unknown; choose one of train, heldout"):
        documents("math", "test", 1, seed=0)


def test_about_one_key_in_twelve_is_held_out() -> None:
    """Mutation: `% heldout_share != 0`."""
    held = sum(split_of(str(i)) == "heldout" for i in range(12_000))
    assert 850 < held < 1150


def test_pieces_of_a_module_are_its_own_text() -> None:
    """Mutation: dropping the line between prompt and response."""
    source = Path(random.__file__).read_text(encoding="utf-8")
    lines = [line.strip() for line in source.split("\n")]
    pieces = list(cut(source))
    assert len(pieces) > 10
    for piece in pieces:
        text = [line.strip() for line in (piece.prompt + piece.response).split("\n")]
        assert any(lines[i : i + len(text)] == text for i in range(len(lines)))


def test_repetition_is_one_for_a_copy_and_zero_without_any() -> None:
    """Mutation: counting grams of the prompt as repeated, or not seeding with it."""
    assert repetition(Document("code", "a=b;c", "d.e,f")) == 0.0
    assert repetition(Document("code", "x = y\n" * 9, "x = y\n" * 9)) == 1.0


def test_phrases_take_one_branch_whole() -> None:
    """Mutation: joining all alternatives."""
    texts = {expand("[a[1|2]|b] {x}", random.Random(i), {"x": "!"}) for i in range(50)}
    assert texts == {"a1 !", "a2 !", "b !"}
    with pytest.raises(ValueError, match="never opened"):
        expand("a]", random.Random(0), {})
    with pytest.raises(ValueError, match="open bracket"):
        expand("[a", random.Random(0), {})


@given(st.text())
def test_any_text_survives_the_tokenizer(text: str) -> None:
    """Mutation: a prefix space, a normaliser, or an alphabet without all bytes."""
    tokenizer = load_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_the_vocabulary_is_1024_ids_with_the_special_ones_first() -> None:
    """Mutation: special tokens added after training."""
    tokenizer = load_tokenizer()
    assert tokenizer.get_vocab_size() == 1024
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert len(tokenizer.encode("1234567").ids) == 7


def test_training_the_tokenizer_twice_gives_the_same_one() -> None:
    """Mutation: an unordered set of texts."""
    assert train_tokenizer(20_000).to_str() == train_tokenizer(20_000).to_str()


def test_the_chat_template_gives_the_prompt_part() -> None:
    """Mutation: a newline in the template."""
    jinja2 = pytest.importorskip("jinja2")
    saved = json.loads((BUNDLED / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert saved["chat_template"] == CHAT_TEMPLATE
    text = jinja2.Template(CHAT_TEMPLATE).render(
        messages=[{"role": "user", "content": "Hi {x}"}], add_generation_prompt=True
    )
    assert text == render(Document("chat", "Hi {x}", "Hello."))[0]


def test_a_stream_holds_whole_rendered_documents_a_third_of_each_domain(tmp_path: Path) -> None:
    """Mutation: a response start that is off by one, or a cache that forgets the seed."""
    stream = token_stream("train", 30_000, seed=4, cache=tmp_path)
    tokenizer = load_tokenizer()
    for name in DOMAINS:
        tokens = sum(map(len, stream.of_domain(name)))
        assert 10_000 <= tokens < 10_700
        expected = "".join(render(documents(name, "train", 1, seed=4)[0]))
        assert tokenizer.decode(stream.of_domain(name)[0].tolist(), skip_special_tokens=False) == expected
    assert (stream.ids[stream.starts[1:] - 1] == 3).all()
    assert (stream.ids[stream.response_starts - 1] == 2).all()
    again = token_stream("train", 30_000, seed=4, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert np.array_equal(stream.ids, again.ids)
    assert not np.array_equal(token_stream("train", 30_000, seed=5, cache=tmp_path).ids, stream.ids)


def test_the_prompts_file_is_held_out_and_of_the_right_length() -> None:
    """Mutation: prompts of the train split, or a prompt written twice."""
    rows = [json.loads(line) for line in (BUNDLED / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]
    tokenizer = load_tokenizer()
    for domain in DOMAINS:
        prompts = [row["prompt"] for row in rows if row["domain"] == domain]
        assert len(set(prompts)) == 96
        assert all(20 <= len(tokenizer.encode(prompt).ids) <= 90 for prompt in prompts)
        assert trained(domain).isdisjoint(prompts)


@pytest.mark.slow
def test_the_bundled_tokenizer_is_what_training_makes() -> None:
    """Kills: a tokenizer of another corpus than today's; `train all` would build weights that do not fit it."""
    assert json.loads(train_tokenizer().to_str()) == json.loads(load_tokenizer().to_str())
