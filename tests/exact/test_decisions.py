"""Addresses give the same uniform anywhere, and different addresses different ones."""

import pytest
import torch

from sparkit import decisions
from sparkit.decisions import AddressedSource, CoupledSource, Purpose, hash_address, request_seed, to_uniform
from tests.statistics import assert_law

SEEDS, ANCHORS = torch.tensor([3, 2**62, -7, 11]), torch.tensor([0, 5, 5, 900])


def test_alone_or_in_a_batch() -> None:
    """Kills: a uniform that depends on the row, on its neighbours or on the order."""
    together = AddressedSource().at(SEEDS, ANCHORS)
    for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.NEXT, Purpose.PLAIN, Purpose.PROBE):
        for offset in (0, 1, 7, 16, 17, 40):
            values = together.uniform(purpose, offset)
            for r in range(len(SEEDS)):
                alone = AddressedSource().at(SEEDS[r : r + 1], ANCHORS[r : r + 1]).uniform(purpose, offset)
                assert float(alone) == float(values[r])
            flipped = AddressedSource().at(SEEDS.flip(0), ANCHORS.flip(0)).uniform(purpose, offset)
            assert torch.equal(flipped.flip(0), values)


def test_an_offset_a_row_is_the_same_address() -> None:
    """Kills: two ways to ask with two answers (the corrected token's offset differs from row to row)."""
    rows = AddressedSource().at(SEEDS, ANCHORS)
    offsets = torch.tensor([1, 2, 17, 4])
    mixed = rows.uniform(Purpose.NEXT, offsets)
    assert mixed.tolist() == [float(rows.uniform(Purpose.NEXT, int(k))[r]) for r, k in enumerate(offsets)]


def test_the_host_and_a_device_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: arrays that wrap, shift or round otherwise than tensors; a table asked at another place than the hash."""
    offsets = torch.tensor([1, 8, 17, 40])

    def everything() -> torch.Tensor:
        found = []
        for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.NEXT, Purpose.PLAIN, Purpose.PROBE):
            rows = AddressedSource().at(SEEDS, ANCHORS)
            found += [rows.uniform(purpose, offset) for offset in (0, 1, 16, 17, 40, offsets, offsets.clamp(max=16))]
        return torch.stack(found)

    on_host = everything()
    monkeypatch.setattr(decisions, "_on_host", lambda words: False)
    assert torch.equal(everything(), on_host)


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 16, 17])
def test_a_plain_draw_has_the_uniform_of_its_address(
    monkeypatch: pytest.MonkeyPatch, offset: int, on_host: bool
) -> None:
    """Kills: the one uniform of an undrafted step hashed from another purpose or offset than a block's would be."""
    monkeypatch.setattr(decisions, "_on_host", lambda words: on_host)
    words = (torch.full_like(SEEDS, int(Purpose.PLAIN)), torch.full_like(SEEDS, offset))
    wanted = decisions.to_uniform(decisions.hash_address(decisions.hash_address(SEEDS, ANCHORS), *words))
    assert torch.equal(AddressedSource().at(SEEDS, ANCHORS).uniform(Purpose.PLAIN, offset), wanted)


def test_no_two_addresses_share_a_value() -> None:
    """Kills: a purpose, offset, anchor or seed left out of the hash."""
    seen: set[float] = set()
    num = 0
    for seed in range(12):
        for anchor in range(12):
            rows = AddressedSource().at(torch.tensor([seed]), torch.tensor([anchor]))
            for purpose in (Purpose.DRAFT, Purpose.ACCEPT, Purpose.NEXT, Purpose.PLAIN, Purpose.PROBE):
                for offset in range(10):
                    seen.add(float(rows.uniform(purpose, offset)))
                    num += 1
    assert len(seen) == num


def test_uniforms_are_uniform_and_lie_in_the_half_open_interval() -> None:
    """Kills: arithmetic shifts that keep the sign; a value of exactly 1."""
    uniform = AddressedSource().at(torch.arange(50_000), torch.full((50_000,), 3)).uniform(Purpose.DRAFT, 1)
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    assert_law(torch.bincount((uniform * 16).long(), minlength=16).tolist(), [1 / 16] * 16)
    assert float(to_uniform(torch.tensor(-1))) == 1 - 2.0**-53


def test_coins_are_draws_of_the_same_uniforms() -> None:
    """Kills: `u <= p`, which accepts what has probability 0."""
    rows = AddressedSource().at(SEEDS, ANCHORS)
    prob = torch.tensor([[0.0, 1.0, 0.5]], dtype=torch.float64).expand(4, -1)
    coins = rows.coins(prob, Purpose.ACCEPT)
    assert coins[:, 0].tolist() == [False] * 4
    assert coins[:, 1].tolist() == [True] * 4
    assert coins[:, 2].tolist() == (rows.uniform(Purpose.ACCEPT, 3) < 0.5).tolist()


def test_the_hash_is_splitmix64() -> None:
    """Kills: any change of the hash, which would change every recorded text; a sign bit shifted in.

    First output for state 0 [Steele 2014], and the generator's first five for seed 1234567.
    """
    assert int(hash_address(torch.tensor(0))) & (2**64 - 1) == 0xE220A8397B1DCDAF
    states = torch.tensor(1234567) + torch.arange(5) * -7046029254386353131
    found = [int(bits) & (2**64 - 1) for bits in hash_address(states)]
    assert found == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_request_seeds_depend_on_run_prompt_and_sample() -> None:
    """Kills: seeds by slot or arrival."""
    seeds = {request_seed(run, prompt, sample) for run in range(4) for prompt in range(8) for sample in range(4)}
    assert len(seeds) == 128


@pytest.mark.parametrize("purpose", [Purpose.DRAFT, Purpose.NEXT, Purpose.PLAIN])
def test_coupled_noise_belongs_to_the_position(purpose: Purpose) -> None:
    """Kills: an anchor, an offset or a purpose inside the coupled hash."""
    law = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64).expand(200, -1)
    seeds = torch.arange(200)
    reference = CoupledSource().at(seeds, torch.full((200,), 9)).draw(law, Purpose.PLAIN, 1)
    for anchor, offset in ((9, 1), (8, 2), (3, 7)):
        drawn = CoupledSource().at(seeds, torch.full((200,), anchor)).draw(law, purpose, offset)
        assert torch.equal(drawn, reference)
