"""A ragged step equals its requests one by one, a text in chunks equals the whole, and the order of a batch is free."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sparkit.protocols import Span
from sparkit.targets import plain
from sparkit.targets.cache import SlotCache
from sparkit.targets.marker import CALL, LONG_SPAN, mark
from sparkit.targets.model import TransformerTarget
from sparkit.targets.ragged import attend, store
from sparkit.targets.transformer import Transformer, TransformerConfig

MAX_LEN = 48
TAPS = (-1, 0, 2)


def _target(**options: object) -> TransformerTarget:
    sizes = {"vocab_size": 19, "hidden_size": 16, "intermediate_size": 24, "num_layers": 3, "num_heads": 4}
    config = TransformerConfig(**{**sizes, "max_positions": MAX_LEN, **options})  # type: ignore[arg-type]
    model = Transformer(config).double()
    generator = torch.Generator().manual_seed(3)
    for p in model.parameters():
        spread = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        p.data.copy_(spread * 0.4 if p.ndim > 1 else 1 + spread * 0.2)
    return TransformerTarget(model, taps=TAPS)


TARGETS = {
    "grouped": _target(num_kv_heads=2),
    "one-key-head": _target(num_kv_heads=1, attention_bias=True, mlp_bias=True),
    "qk-norm": _target(num_kv_heads=4, qk_norm=True, head_dim=6, tie_embeddings=False),
    "window": _target(num_kv_heads=2, sliding_window=4, sliding_layers=(0, 2)),
}


def _text(length: int, seed: int) -> Tensor:
    return torch.randint(0, 19, (length,), generator=torch.Generator().manual_seed(seed))


def _whole(target: TransformerTarget, text: Tensor) -> tuple[Tensor, Tensor]:
    return target.forward(text, [Span(0, 0, len(text))], target.new_cache(1, MAX_LEN))


def _close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() < 1e-11)


def _naive(model: Transformer, text: Tensor, tokens_seen: Tensor) -> Tensor:
    """Dense causal attention by the module path, nothing ragged."""
    config = model.config
    share = config.num_heads // config.kv_heads

    def mix(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        scores = torch.einsum("qhe,khe->hqk", q, k) * config.head_size**-0.5
        seen = tokens_seen[layer]
        return torch.einsum("hqk,khe->qhe", scores.masked_fill(~seen, -torch.inf).softmax(-1), v)

    hidden, _ = model.hidden(text, torch.arange(len(text)), mix)
    return model.logits(hidden)


@pytest.mark.parametrize("many", [1, sys.maxsize])
@pytest.mark.parametrize("length", [1, 8])
@pytest.mark.parametrize("name", TARGETS)
def test_decoder_equals_modules(name: str, length: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: the plain-call decoder drifting from the modules that are trained (order of q, k, v; a dropped bias).

    Gate and up taken either way, whatever this processor's maker lets them be.
    """
    monkeypatch.setattr(plain, "MANY_TOKENS", many)
    target, text = TransformerTarget(TARGETS[name].model, taps=TAPS), _text(length, 5)
    config = target.model.config
    age = torch.arange(length)[:, None] - torch.arange(length)[None]
    near = (age >= 0) & (age < (config.sliding_window or 99))
    seen = torch.stack([near if i in config.sliding_layers else age >= 0 for i in range(3)])
    assert _close(_whole(target, text)[0], _naive(target.model, text, seen))


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
def test_ragged_equals_one_by_one(name: str, data: st.DataObject) -> None:
    """Kills: keys of a neighbour seen, a row scattered to the wrong request, a long span that shifts the short ones."""
    target = TARGETS[name]
    slots = data.draw(st.permutations(range(6)))[: data.draw(st.integers(1, 4))]
    texts = [_text(data.draw(st.integers(1, MAX_LEN)), seed) for seed in range(len(slots))]
    cache, parts = target.new_cache(6, MAX_LEN), [[] for _ in slots]  # type: ignore[var-annotated]
    while remaining := [i for i, s in enumerate(slots) if cache.lengths[s] < len(texts[i])]:
        chosen = data.draw(st.lists(st.sampled_from(remaining), min_size=1, unique=True))
        spans = []
        for i in chosen:
            room = len(texts[i]) - cache.lengths[slots[i]]
            count = data.draw(st.sampled_from([1, 2, 8, LONG_SPAN, LONG_SPAN + 1, MAX_LEN]))
            spans.append(Span(slots[i], cache.lengths[slots[i]], min(count, room)))
        tokens = torch.cat([texts[i][s.start : s.start + s.count] for i, s in zip(chosen, spans, strict=True)])
        out = target.forward(tokens, spans, cache)
        counts = [span.count for span in spans]
        for i, logits, features in zip(chosen, out.logits.split(counts), out.features.split(counts), strict=True):
            parts[i].append((logits, features))
    for text, part in zip(texts, parts, strict=True):
        logits, features = _whole(target, text)
        assert _close(torch.cat([x for x, _ in part]), logits)
        assert _close(torch.cat([x for _, x in part]), features)


@given(order=st.permutations(range(4)), long=st.booleans())
def test_order_of_the_batch_is_free(order: list[int], long: bool) -> None:
    """Kills: an assumption that spans come by slot (group views without a scatter)."""
    target, counts = TARGETS["grouped"], (3, 40 if long else 1, 7, 2)
    texts = [_text(count, count) for count in counts]
    cache = target.new_cache(4, MAX_LEN)
    out = target.forward(torch.cat([texts[i] for i in order]), [Span(i, 0, counts[i]) for i in order], cache)
    for i, logits in zip(order, out.logits.split([counts[i] for i in order]), strict=True):
        assert _close(logits, _whole(target, texts[i])[0])


@pytest.mark.parametrize("short", [(6, 1), (1, 6)])
@given(num=st.integers(1, 40))
def test_one_short_prompt_beside_many_single_tokens(short: tuple[int, int], num: int) -> None:
    """Kills: everybody padded to the prompt of one, whether it comes first or last."""
    counts = [short[0]] + [1] * num if short[0] > 1 else [1] * num + [short[1]]
    groups = mark([Span(slot, 5, count) for slot, count in enumerate(counts)]).groups
    padded = sum((group.hi - group.lo) * group.width for group in groups)
    assert padded + CALL * (len(groups) - 1) <= min(6 * (num + 1), num + 6 + CALL)


def test_many_single_tokens_behind_longer_spans_attend_apart() -> None:
    """Kills: the group of those that rest cut one span off, or given the rows or slots of the others."""
    target, num = TARGETS["grouped"], 14
    texts = [_text(4 + i, i) for i in range(num)]
    cache = target.new_cache(num, MAX_LEN)
    order = [2, 0, 5, *(i for i in range(num) if i not in (2, 0, 5))]  # slots of the two groups interleave
    counts = [3, 4, 3, *([1] * 11)]
    target.forward(
        torch.cat([texts[i][:-n] for i, n in zip(order, counts, strict=True) if len(texts[i]) > n]),
        [Span(i, 0, len(texts[i]) - n) for i, n in zip(order, counts, strict=True) if len(texts[i]) > n],
        cache,
    )
    spans = [Span(i, cache.lengths[i], n) for i, n in zip(order, counts, strict=True)]
    assert [group.width for group in mark(spans).groups] == [4, 1]
    assert [group.width for group in mark(spans[:5]).groups] == [4]  # two of them are padded: that is cheaper
    out = target.forward(torch.cat([texts[s.slot][s.start :] for s in spans]), spans, cache)
    for span, logits in zip(spans, out.logits.split(counts), strict=True):
        assert _close(logits, _whole(target, texts[span.slot])[0][span.start :])


def test_rolled_back_rows_are_never_seen() -> None:
    """Kills: keys past a slot's length taking part after a rejection (cases.md B14)."""
    target, text = TARGETS["grouped"], _text(20, 1)
    cache = target.new_cache(2, MAX_LEN)
    target.forward(text[:9], [Span(1, 0, 9)], cache)
    target.forward(_text(8, 99), [Span(1, 9, 8)], cache)
    cache.truncate(1, 11)
    target.forward(_text(1, 98), [Span(1, 11, 1)], cache)
    cache.truncate(1, 9)
    out = target.forward(text[9:], [Span(1, 9, 11)], cache)
    assert _close(out.logits, _whole(target, text)[0][9:])
    assert cache.lengths == [0, 20]


def test_asked_rows_only() -> None:
    """Kills: `rows` applied to the features too, or read in cache order."""
    target, text = TARGETS["grouped"], _text(7, 2)
    out = target.forward(text, [Span(0, 0, 7)], target.new_cache(1, MAX_LEN), torch.tensor([6, 0]))
    whole = _whole(target, text)
    assert _close(out.logits, whole[0][[6, 0]])
    assert out.features.shape == (7, 3 * 16)
    none = target.with_taps(()).forward(text, [Span(0, 0, 7)], target.new_cache(1, MAX_LEN), torch.tensor([6]))
    assert none.features.shape == (7, 0)
    assert none.logits.shape == (1, 19)


@given(data=st.data())
def test_block_attention_is_bidirectional(data: st.DataObject) -> None:
    """Kills: a draft block whose slots cannot see later slots, or see another request's, or lose their context."""
    starts = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    generator = torch.Generator().manual_seed(sum(starts))
    gamma, slots = data.draw(st.integers(1, 4)), data.draw(st.permutations(range(5)))
    cache = SlotCache.empty(1, 5, 2, 16, 4, dtype=torch.float64)
    cache.stack.normal_(generator=generator)
    context = cache.clone()
    q, k, v = (torch.randn(len(starts) * gamma, n, 4, generator=generator, dtype=torch.float64) for n in (4, 2, 2))
    spans = [Span(slot, start, gamma) for slot, start in zip(slots, starts, strict=False)]
    marker = mark(spans, bidirectional=True)
    store(cache, 0, marker, k, v)
    out = attend(cache, 0, marker, q).split(gamma)
    for i, (slot, start, _) in enumerate(spans):
        part = slice(i * gamma, (i + 1) * gamma)
        keys = torch.cat((context.stack[0, 0, slot, :start], k[part])).repeat_interleave(2, 1)
        values = torch.cat((context.stack[0, 1, slot, :start], v[part])).repeat_interleave(2, 1)
        weights = (torch.einsum("qhe,khe->hqk", q[part], keys) / 2).softmax(-1)
        assert _close(out[i], torch.einsum("hqk,khe->qhe", weights, values))


def test_clone_is_independent() -> None:
    """Kills: a snapshot that shares its tensors with the running cache."""
    target, text = TARGETS["grouped"], _text(9, 4)
    cache = target.new_cache(1, MAX_LEN)
    target.forward(text[:5], [Span(0, 0, 5)], cache)
    saved = cache.clone()
    cache.truncate(0, 0)
    target.forward(_text(9, 77), [Span(0, 0, 9)], cache)  # over the very positions that the copy holds
    assert saved.lengths == [5]
    assert _close(target.forward(text[5:], [Span(0, 5, 4)], saved).logits, _whole(target, text)[0][5:])


def test_wrong_spans_are_refused() -> None:
    """Kills: a gap or an overlap silently decoded; a write past the end of a slot."""
    target = TARGETS["grouped"]
    cache = target.new_cache(2, 8)
    with pytest.raises(ValueError, match=r"slot=0, start=1, count=2.*holds 0 of at most 8"):
        target.forward(_text(2, 0), [Span(0, 1, 2)], cache)
    with pytest.raises(ValueError, match="at most 8 positions"):
        target.forward(_text(9, 0), [Span(0, 0, 9)], cache)
    longer = target.new_cache(1, MAX_LEN + 8)  # than the model has positions
    with pytest.raises(ValueError, match=f"at most {MAX_LEN} positions"):
        target.forward(_text(MAX_LEN + 1, 0), [Span(0, 0, MAX_LEN + 1)], longer)
    with pytest.raises(ValueError, match="two spans share a slot"):
        mark([Span(0, 0, 1), Span(0, 1, 1)])
    with pytest.raises(ValueError, match="every count >= 1"):
        mark([Span(0, 0, 0)])
    with pytest.raises(ValueError, match="the slot holds 0 positions"):
        cache.truncate(0, 1)


def test_other_taps_share_what_was_laid_out_and_leave_the_first_alone() -> None:
    """Kills: matrices laid out once a composition (SmolLM2: 0.2 GB each), taps changed for everybody."""
    target, text = TARGETS["one-key-head"], _text(7, 5)
    other = target.with_taps((1,))
    assert other.decoder is target.decoder
    assert (target.feature_layers, other.feature_layers) == (TAPS, (1,))
    (logits, features), (wanted, _) = _whole(other, text), _whole(target, text)
    assert torch.equal(logits, wanted)
    assert torch.equal(features, _whole(target.with_taps((0, 1, 2)), text)[1][:, 16:32])
    with pytest.raises(ValueError, match="feature layer 3"):
        target.with_taps((3,))
