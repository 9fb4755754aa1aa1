"""Whatever drafts, schedules and verifies, the text is plain decoding's (`identity.py`)."""

from tests.untyped import assert_passes


def test_every_combination_says_what_the_target_says() -> None:
    """Float64 at temperature 0, float32 up to near ties, batch independence at temperature 1, addresses used once."""
    assert_passes("tests/exact/identity.py", at_least=70)
