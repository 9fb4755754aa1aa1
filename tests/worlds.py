"""Small table targets that tests decode: certain chains of tokens, one law for every context, and scripts for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from sparkit.targets.table import Tables, TableTarget


def chain_target(vocab_size: int, follows: Mapping[int, int] | None = None, eos: Sequence[int] = ()) -> TableTarget:
    """Token t is always followed by follows[t], else by t + 1 (the last by 0)."""
    one_hot = {
        (t,): tuple(float(v == (follows or {}).get(t, (t + 1) % vocab_size)) for v in range(vocab_size))
        for t in range(vocab_size)
    }
    target = TableTarget(_tables(vocab_size, one_hot))
    target.eos_ids = tuple(eos)
    return target


def law_target(law: Sequence[float]) -> TableTarget:
    """One law after every context."""
    return TableTarget(_tables(len(law), {(): tuple(law)}))


def _tables(vocab_size: int, target: Mapping[tuple[int, ...], tuple[float, ...]]) -> Tables:
    flat = {(): (1 / vocab_size,) * vocab_size}
    return Tables(tuple(f"t{i}" for i in range(vocab_size)), target, (flat,), ({(): 0.5},), {1: 1.0})


def right_then_wrong(vocab_size: int, accepted: Iterator[int]) -> Callable[[Sequence[int], int], list[int]]:
    """A script over a t + 1 chain: each call gets the next number of tokens right and the others wrong."""

    def script(context: Sequence[int], gamma: int) -> list[int]:
        num = next(accepted, gamma)
        right = [(context[-1] + 1 + k) % vocab_size for k in range(gamma)]
        return [t if k < num else (t + 1) % vocab_size for k, t in enumerate(right)]

    return script
