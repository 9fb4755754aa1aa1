"""Calibrators: exact ends, order kept, known distortions undone, and online learning that a cut cannot fool."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from sparkit import calibration
from sparkit.calibration import Provenance, warn_mismatch
from sparkit.calibrators.isotonic import Isotonic
from sparkit.calibrators.online import WHOLE_BLOCK, WINDOW, Online
from sparkit.calibrators.platt import Platt
from sparkit.calibrators.sts import Sts
from sparkit.decisions import AddressedSource
from sparkit.labels import Records, conditional_labels, hard_labels, records_of
from sparkit.metrics import ece, perfect_ece
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict
from sparkit.survival import survival_of
from sparkit.temperature_scaling import fit_temperatures, grid_ece

GAMMA = 4
FITTED = (Sts, Platt, Isotonic)


def records(
    num: int, *, temperature: float = 2.0, bias: float = 0.0, seed: int = 0, verify_len: int = GAMMA
) -> Records:
    """Rounds whose logits are the true ones, stretched by a temperature and shifted."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randn(num, GAMMA, generator=generator, dtype=torch.float64) * 1.2 + 1.0
    rate = torch.sigmoid(true)
    coins = torch.rand(num, GAMMA, generator=generator, dtype=torch.float64) < rate
    accepted = coins.long().cumprod(1).sum(1).clamp(max=verify_len)
    rate = torch.where(torch.arange(GAMMA) <= verify_len, rate, torch.nan)
    return Records(true * temperature + bias, accepted, torch.full((num,), verify_len), rate)


def error_above_floor(confidence: torch.Tensor, of: Records) -> float:
    survival, total = survival_of(confidence), 0.0
    for k in range(GAMMA):
        shown, floor = ece(survival[:, k], of.accepted > k), perfect_ece(survival[:, k])
        assert shown is not None
        assert floor is not None
        total += shown - floor
    return total / GAMMA


def made() -> list[Any]:
    fitted = [kind.fit(records(2_000))[0] for kind in FITTED]
    return [CALIBRATORS.create("identity"), *fitted, CALIBRATORS.create("online")]


# ---- what every calibrator keeps


@pytest.mark.parametrize("part", made(), ids=lambda part: type(part).__name__)
def test_ends_are_exact_and_order_is_kept(part: Any) -> None:
    """Kills: 0 * inf = nan at slope 0; nan confidences; a decreasing curve; a result outside [0, 1]."""
    steps = torch.linspace(-40, 40, 401, dtype=torch.float64)[:, None].expand(-1, GAMMA)
    confidence = part.calibrate(steps, part.start())
    assert bool(((confidence >= 0) & (confidence <= 1)).all())
    assert bool((confidence.diff(dim=0) >= 0).all())
    ends = torch.tensor([math.inf, -math.inf, math.nan], dtype=torch.float64)[:, None].expand(-1, GAMMA)
    assert part.calibrate(ends, part.start()).tolist() == [[1.0] * GAMMA, [0.0] * GAMMA, [0.0] * GAMMA]
    assert part.calibrate(steps.float(), part.start()).dtype == torch.float32
    assert part.calibrate(torch.zeros(0, GAMMA), part.start()).shape == (0, GAMMA)


@pytest.mark.parametrize("part", made(), ids=lambda part: type(part).__name__)
@given(seed=st.integers(0, 10_000))
def test_a_confidence_depends_on_its_own_logit_only(part: Any, seed: int) -> None:
    """Kills: a normalisation over positions or rows, which would read later tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, GAMMA, generator=generator, dtype=torch.float64)
    other = logits.clone()
    other[1:, :] = 5.0
    other[0, 2:] = -5.0
    memory = part.start()
    assert torch.equal(part.calibrate(logits, memory)[0, :2], part.calibrate(other, memory)[0, :2])


@pytest.mark.parametrize("kind", FITTED)
def test_a_known_distortion_is_undone(kind: Any) -> None:
    """Kills: T multiplied; the conditional ECE minimised in place of the cumulative one; labels off by one."""
    fitted, report = kind.fit(records(20_000))
    fresh = records(20_000, seed=1)
    assert error_above_floor(torch.sigmoid(fresh.logits), fresh) > 0.08
    assert error_above_floor(fitted.calibrate(fresh.logits, None), fresh) < 0.005
    assert [position.position for position in report] == [1, 2, 3, 4]
    assert all(position.ece_after < position.ece_before for position in report)
    assert all(position.num_rounds == 20_000 and position.note == "" for position in report)
    assert report[0].auc == pytest.approx(0.76, abs=0.03)


@pytest.mark.parametrize("kind", FITTED)
def test_files_round_trip_and_name_their_origin(kind: Any, tmp_path: Path) -> None:
    """Kills: a number lost; provenance dropped; a file of another calibrator accepted."""
    origin = Provenance("dspark", "bundled", "rejection", 1.0, 0, 1.0, 0.0, GAMMA)
    fitted, report = kind.fit(records(500), origin)
    path = tmp_path / "calibration.json"
    fitted.save(path, report)
    name = kind.__name__.lower()
    loaded = CALIBRATORS.create(name, path=str(path))
    logits = records(50).logits
    assert torch.equal(loaded.calibrate(logits, None), fitted.calibrate(logits, None))
    assert loaded.provenance == origin
    assert len(json.loads(path.read_text())["report"]) == GAMMA
    with pytest.raises(ValueError, match=f"fitted for calibrator '{name}', not"):
        CALIBRATORS.create("sts" if name != "sts" else "platt", path=str(path))


@pytest.mark.parametrize("kind", FITTED)
def test_longer_blocks_are_refused_and_shorter_ones_served(kind: Any) -> None:
    """Kills: a broadcast of one position over all; an index error from inside torch."""
    fitted, _ = kind.fit(records(200))
    with pytest.raises(ValueError, match="gamma=5"):
        fitted.calibrate(torch.zeros(2, 5), None)
    logits = records(5).logits
    shorter, whole = fitted.calibrate(logits[:, :2], None), fitted.calibrate(logits, None)[:, :2]
    assert torch.allclose(shorter, whole, rtol=4 * torch.finfo(whole.dtype).eps, atol=0)  # other vector lanes round exp


@pytest.mark.parametrize("kind", FITTED)
def test_one_sided_data(kind: Any) -> None:
    """No rejection anywhere, none at late positions, nothing verified late. Kills: infinite slopes; nan; a crash."""
    base = records(400)
    never = Records(base.logits, torch.full((400,), GAMMA), base.verify_len, base.accept_rate)
    always = Records(base.logits, torch.zeros(400, dtype=torch.int64), base.verify_len, base.accept_rate)
    short = Records(base.logits, base.accepted.clamp(max=2), torch.full((400,), 2), base.accept_rate)
    for data, notes in (
        (never, ["nothing was rejected here"] * 4),
        (always, ["nothing was accepted here", *["needed|verified here"] * 3]),
        (short, ["", "", "needed|verified here", "needed|verified here"]),
    ):
        fitted, report = kind.fit(data)
        confidence = fitted.calibrate(base.logits, None)
        assert bool(confidence.isfinite().all())
        for position, note in zip(report, notes, strict=True):
            assert any(part in position.note for part in note.split("|")) if note else position.note == ""
    few, report = kind.fit(base[:10])
    assert all("30 are needed" in position.note for position in report)
    assert torch.allclose(few.calibrate(base.logits, None), torch.sigmoid(base.logits))


def test_infinite_and_broken_logits_do_not_spoil_a_fit() -> None:
    """Kills: nan temperatures from one saturated head output."""
    base = records(2_000)
    logits = base.logits.clone()
    logits[:20] = math.inf
    logits[20:40] = -math.inf
    logits[40:50] = math.nan
    broken = Records(logits, base.accepted, base.verify_len, base.accept_rate)
    for kind in FITTED:
        fitted, report = kind.fit(broken)
        assert error_above_floor(fitted.calibrate(base.logits, None), base) < 0.05
        assert all(math.isfinite(position.ece_after) for position in report)


# ---- STS


def test_grid_error_is_the_ece() -> None:
    """Kills: |.| inside the sum of a bin; another binning than the one that is reported."""
    data = records(3_000)
    ones = torch.ones(3_000, dtype=torch.float64)
    found = grid_ece(
        data.logits[:, 0], ones, (data.accepted > 0).double(), ones, torch.tensor([0.5, 1.0, 3.0]).double()
    )
    expected = [ece(torch.sigmoid(data.logits[:, 0] / t), data.accepted > 0) for t in (0.5, 1.0, 3.0)]
    assert found.tolist() == pytest.approx(expected)


def test_temperatures_are_fitted_left_to_right() -> None:
    """Position 2 answers for the prefix, with position 1 as fitted. Kills: each position on its own."""
    data = records(20_000)
    logits = data.logits.clone()
    logits[:, 0] = 9.0  # says 0.9999 whatever T up to 10 leaves of it
    found = fit_temperatures(Records(logits, data.accepted, data.verify_len, data.accept_rate)).calibration_temperatures
    assert float(found[0]) > 5
    honest = fit_temperatures(data).calibration_temperatures
    assert honest.tolist() == pytest.approx([2.0] * GAMMA, rel=0.2)


def test_weights_let_old_rounds_fade() -> None:
    """Kills: weights ignored, or turned around."""
    old, new = records(2_000, temperature=0.5), records(2_000, temperature=3.0, seed=1)
    weight = 0.995 ** torch.arange(3_999, -1, -1, dtype=torch.float64)
    found = fit_temperatures(old.plus(new), weight).calibration_temperatures
    assert float(found[0]) == pytest.approx(3.0, rel=0.35)


# ---- Platt and isotonic


def test_platt_never_turns_the_order_around() -> None:
    """Kills: a negative slope."""
    data = records(2_000)
    flipped = Records(-data.logits, data.accepted, data.verify_len, data.accept_rate)
    fitted, report = Platt.fit(flipped)
    assert fitted.slopes.tolist() == [0.0] * GAMMA
    assert "slope 0" in report[0].note
    rate = float((data.accepted > 0).double().mean())
    assert float(fitted.calibrate(data.logits, None)[0, 0]) == pytest.approx(rate, abs=0.01)


def test_platt_finds_slope_and_bias() -> None:
    """Kills: a Newton step with the wrong sign; rounds behind a rejection counted."""
    fitted, _ = Platt.fit(records(30_000, temperature=2.0, bias=1.0))
    assert fitted.slopes.tolist() == pytest.approx([0.5] * GAMMA, abs=0.05)
    assert fitted.biases.tolist() == pytest.approx([-0.5] * GAMMA, abs=0.15)


def test_isotonic_interpolates_and_stays_level_outside() -> None:
    """Kills: extrapolation above 1; the wrong neighbour."""
    part = Isotonic(knots=(((0.0, 0.2), (2.0, 0.6)),))
    logits = torch.tensor([[-5.0], [0.0], [1.0], [2.0], [9.0]])
    assert part.calibrate(logits, None)[:, 0].tolist() == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.6])
    assert Isotonic(knots=(((0.0, 0.3),),)).calibrate(logits, None)[:, 0].tolist() == pytest.approx([0.3] * 5)


# ---- labels


def test_early_rejections_are_no_failures_of_later_positions() -> None:
    """Method section 5: 0.45 where the truth is 0.58. Kills: failures counted at positions never reached."""
    generator = torch.Generator().manual_seed(0)
    num = 100_000
    coins = torch.rand(num, 2, generator=generator) < torch.tensor([0.75, 0.58])
    verify_len = torch.where(torch.rand(num, generator=generator) < 0.5, 2, 1)
    accepted = torch.minimum(coins.long().cumprod(1).sum(1), verify_len)
    found = hard_labels(accepted, verify_len, 2)
    rates = found.label.sum(0) / found.is_known.sum(0)
    assert rates.tolist() == pytest.approx([0.75, 0.58], abs=0.01)


def step_of(
    logits: torch.Tensor, verify_len: list[int], accepted: list[int], rate: torch.Tensor | None = None
) -> Rounds:
    num, gamma = logits.shape
    tokens = torch.zeros(num, gamma, dtype=torch.int64)
    soft = torch.full_like(logits, math.nan) if rate is None else rate
    zeros = torch.zeros(num, dtype=torch.int64)
    return Rounds(
        1, tuple(range(num)), tokens[:, 0], Draft(tokens, torch.ones(num, gamma, 1)), logits,
        torch.sigmoid(logits), survival_of(torch.sigmoid(logits)), Limits(num, zeros, zeros + gamma),
        Plan(torch.tensor(verify_len)), Verdict(torch.tensor(accepted), tokens[:, 0], zeros.bool()), soft, 1.0,
    )  # fmt: skip


def test_soft_label_reaches_one_past_an_accepted_cut() -> None:
    """Kills: a soft label behind a rejection; one replacing a hard label."""
    rate = torch.tensor([[0.9, 0.8, math.nan], [0.9, 0.8, 0.7], [0.6, math.nan, math.nan]])
    label, known = conditional_labels(step_of(torch.zeros(3, 3), [1, 2, 0], [1, 1, 0], rate))
    assert known.tolist() == [[True, True, False], [True, True, False], [True, False, False]]
    assert torch.allclose(label, torch.tensor([[1, 0.8, 0], [1, 0, 0], [0.6, 0, 0]]))


def test_records_of_nothing_says_so() -> None:
    """Kills: an empty tensor without columns."""
    with pytest.raises(ValueError, match="no drafted round"):
        records_of([])


# ---- online


def feed(part: Online, memory: Any, data: Records, per_step: int = 10) -> Any:
    for first in range(0, len(data), per_step):
        rows = data[first : first + per_step]
        lengths, accepted = rows.verify_len.tolist(), rows.accepted.tolist()
        memory = part.observe(memory, step_of(rows.logits, lengths, accepted, rows.accept_rate))
    return memory


@pytest.mark.parametrize("labels", ["soft", "hard"])
def test_online_follows_a_shift_within_300_rounds(labels: Any) -> None:
    """Soft labels: at most the floor + 2.0%, over 1,000 rounds of another domain; hard ones have the noise of coins.

    Kills: no forgetting; a refit never made.
    """
    part = Online(labels=labels)
    memory = feed(part, part.start(), records(1_000, temperature=0.5))
    memory = feed(part, memory, records(300, temperature=2.0, seed=1))
    fresh = records(30_000, temperature=2.0, seed=2)
    before = error_above_floor(torch.sigmoid(fresh.logits), fresh)
    after = error_above_floor(part.calibrate(fresh.logits, memory), fresh)
    print(labels, before, after)
    assert before > 0.1
    assert after < (0.02 if labels == "soft" else before / 2)


def test_online_window_and_refits() -> None:
    """Kills: memory that grows for ever; a fit every step; unverified rounds in the window."""
    part = Online(refit_every=100)
    memory = feed(part, part.start(), records(90))
    assert memory.calibration_temperatures is None
    memory = feed(part, memory, records(10))
    assert memory.calibration_temperatures is not None
    memory = feed(part, memory, records(1_500), per_step=50)
    assert memory.records is not None
    assert len(memory.records) == WINDOW
    same = part.observe(memory, step_of(torch.zeros(3, GAMMA).double(), [0, 0, 0], [0, 0, 0]))
    assert same is memory


def test_online_keeps_what_the_cut_hides() -> None:
    """Kills: a deep position refitted on rounds that never verified it."""
    part = Online(labels="hard")
    memory = feed(part, part.start(), records(500, temperature=3.0))
    memory = feed(part, memory, records(780, temperature=3.0, seed=3, verify_len=2))
    deep = part.temperatures(memory, GAMMA)[2:].tolist()
    fresh = records(20_000, temperature=3.0, seed=5)
    assert error_above_floor(part.calibrate(fresh.logits, memory), fresh) < 0.04
    memory = feed(part, memory, records(600, temperature=1.0, seed=4, verify_len=2))
    assert part.temperatures(memory, GAMMA)[2:].tolist() == deep
    assert part.temperatures(memory, GAMMA)[:2].tolist() == pytest.approx([1.0, 1.0], rel=0.5)


def test_probes_are_one_in_32_and_addressed() -> None:
    """Kills: the batch deciding who is probed; 31 or 33; a floor of one draft."""
    part = CALIBRATORS.create("online")
    seeds, anchors = torch.arange(40_000), torch.arange(40_000) % 97
    floor = part.floor(part.start(), anchors, AddressedSource().at(seeds, anchors))
    assert set(floor.tolist()) == {0, WHOLE_BLOCK}
    share = float((floor > 0).double().mean())
    assert share == pytest.approx(1 / 32, abs=4 * math.sqrt(1 / 32 / 40_000))
    rows = torch.tensor([7, 39_000])
    alone = part.floor(part.start(), anchors[rows], AddressedSource().at(seeds[rows], anchors[rows]))
    assert torch.equal(alone, floor[rows])
    none = Online(probe_every=0).floor(part.start(), anchors, AddressedSource().at(seeds, anchors))
    assert int(none.sum()) == 0


def test_online_starts_from_a_file(tmp_path: Path) -> None:
    """Kills: the initial temperatures dropped before the first fit."""
    fitted, _ = Sts.fit(records(2_000))
    fitted.save(tmp_path / "sts.json")
    part = CALIBRATORS.create("online", path=str(tmp_path / "sts.json"))
    logits = records(20).logits
    assert torch.equal(part.calibrate(logits, part.start()), fitted.calibrate(logits, None))


def test_a_drafters_folder_holds_its_calibrations(tmp_path: Path) -> None:
    """Kills: a folder read as a file; a missing file that nobody names; online refusing to start without one."""
    assert Online(path=tmp_path).initial is None
    with pytest.raises(FileNotFoundError, match=r"sts\.json: there is no such calibration; fit one"):
        Sts(path=tmp_path)
    fitted, _ = Sts.fit(records(500))
    fitted.save(tmp_path / "sts.json")
    assert torch.equal(Sts(path=tmp_path).calibration_temperatures, fitted.calibration_temperatures)
    assert Online(path=tmp_path).initial is not None


# ---- wrong files, wrong numbers


def test_a_calibration_of_something_else_warns() -> None:
    """Kills: silence; a warning for what nobody said."""
    fitted = Provenance(drafter="dspark", target="bundled", temperature=1.0, gamma=7)
    with pytest.warns(UserWarning, match="drafter 'dspark', not 'dflash'; temperature 1.0, not 0.7"):
        warn_mismatch(fitted, Provenance(drafter="dflash", target="bundled", temperature=0.7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_mismatch(fitted, Provenance(drafter="dspark", verifier="block"))
        warn_mismatch(Provenance(), fitted)
        warn_mismatch(fitted, Provenance(gamma=4))
    with pytest.warns(UserWarning, match="gamma 7, not 8"):
        warn_mismatch(fitted, Provenance(gamma=8))


STS = '{"schema": "sparkit.calibration/1", "calibrator": "sts", %s}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected a JSON object of schema"),
        (STS % '"calibration_temperatures": []', "calibration_temperatures: expected"),
        (STS % '"calibration_temperatures": ["a"]', "calibration_temperatures: expected"),
        (STS % '"calibration_temperatures": [0.0]', "above 0"),
        (STS % '"calibration_temperatures": [1.0], "provenance": {"x": 1}', "provenance"),
        ("{", "not JSON"),
    ],
)
def test_broken_files_are_named(text: str, message: str, tmp_path: Path) -> None:
    """Kills: a traceback from inside; a broken number used."""
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        CALIBRATORS.create("sts", path=str(path))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sts", {}),
        ("platt", {}),
        ("isotonic", {}),
        ("online", {"refit_every": 0}),
        ("online", {"probe_every": -1}),
    ],
)
def test_missing_numbers_say_what_to_do(name: str, params: dict[str, Any]) -> None:
    """Kills: a calibrator without numbers that passes for identity."""
    with pytest.raises(ValueError, match=r"needs|expected"):
        CALIBRATORS.create(name, **params)
    with pytest.raises(ValueError, match="slopes >= 0"):
        Platt(slopes=(-1.0,), biases=(0.0,))
    with pytest.raises(ValueError, match="both ascending"):
        Isotonic(knots=(((0.0, 0.5), (1.0, 0.4)),))
    assert calibration.SCHEMA == "sparkit.calibration/1"
