"""One zygote for all tests of this folder: importing everything costs seconds, forking nothing."""

from collections.abc import Iterator

import pytest

from tests.robustness.zygote import Zygote, zygote


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with zygote(tmp_path_factory.mktemp("z")) as running:
        yield running
