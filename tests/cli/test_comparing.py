"""What `sparkit compose` calls its runs: in a grid no two that differ are called alike."""

from dataclasses import asdict, replace

from sparkit.cli.comparing import names_of
from sparkit.recipe import Recipe


def _rows(*recipes: Recipe) -> list[dict[str, object]]:
    return [{"recipe": asdict(recipe)} for recipe in recipes]


def test_a_grid_names_what_varies_and_nothing_else() -> None:
    """Kills: three tables of three temperatures under one title."""
    one = Recipe(drafter="dspark", head="rnn", scheduler="fixed", verifier="block")
    assert names_of(_rows(one, one)) == ["dspark-rnn fixed block"] * 2
    grid = _rows(one, replace(one, temperature=0.0), replace(one, temperature=0.0, gamma=4))
    assert names_of(grid) == [
        "dspark-rnn fixed block, gamma 7, temperature 1.0",
        "dspark-rnn fixed block, gamma 7, temperature 0.0",
        "dspark-rnn fixed block, gamma 4, temperature 0.0",
    ]


def test_what_only_differs_with_the_drafter_is_not_told() -> None:
    """Kills: the path of each drafter's own calibration in every title."""
    own = [Recipe(drafter=name, calibrator=f"sts:path=/a/long/path/{name}/sts.json") for name in ("dspark", "dflash")]
    assert names_of(_rows(*own)) == ["dspark greedy", "dflash greedy"]
    other = _rows(own[0], replace(own[0], calibrator="identity"))
    assert names_of(other) == ["dspark greedy, calibrator sts:path=sts.json", "dspark greedy, calibrator identity"]
