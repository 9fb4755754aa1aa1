"""What Linux says of the processor is read as it stands there, and nothing is made up where it says nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkit.targets import processor

AMD = (
    "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC: 7B13\n\nprocessor\t: 1\nvendor_id\t: Another\n"
)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    processor.fact.cache_clear()
    yield
    processor.fact.cache_clear()


def test_facts_of_the_first_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: the last core's line; a value cut at a second colon; a name that only begins alike."""
    (tmp_path / "cpuinfo").write_text(AMD)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.fact("vendor_id") == "AuthenticAMD"
    assert processor.fact("model name") == "AMD EPYC: 7B13"
    assert processor.fact("model") is None
    assert not processor.is_intel()


def test_intel_is_told_by_its_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: the model name asked, which a virtual machine may change."""
    (tmp_path / "cpuinfo").write_text("vendor_id : GenuineIntel\nmodel name : QEMU Virtual CPU\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.is_intel()


def test_elsewhere_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a start that fails without Linux."""
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "nothing")
    assert processor.fact("vendor_id") is None
    assert not processor.is_intel()
