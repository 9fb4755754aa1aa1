"""Kind 14: device. B39 (no impossible index), and the named error for nan laws where kernels do not raise (B04 d)."""

import sys
from typing import Any

import pytest
import torch

from sparkit.engine import Engine, Request, laws
from sparkit.sampling import draw
from tests.parts import ScriptedDrafter, parts_of, tiny_target

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
LAST = 1 - 2.0**-24


@pytest.mark.parametrize("device", DEVICES)
def test_b39_a_token_without_mass_is_never_drawn(device: str) -> None:
    """A million rows [0, 1], ten million uniforms on a law with a hole. Kills: float32 sums, `<=`, u rounded to 1."""
    certain = torch.tensor([[0.0, 1.0]], device=device).expand(1_000_000, 2)
    uniform = torch.linspace(0, LAST, 1_000_000, dtype=torch.float64, device=device)
    assert bool((draw(certain, uniform) == 1).all())
    holed = torch.tensor([[0.33, 0.34, 0.0, 0.33]], device=device)
    fine = torch.linspace(0, LAST, 2_000_000, dtype=torch.float64, device=device)
    for _ in range(5):  # ten million, two at a time
        fine = (fine + 0.1234567 * 2**-21) % 1
        assert not bool((draw(holed.expand(len(fine), 4), fine) == 2).any())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("uniform", [0.0, 0.5, LAST, 1 - 2.0**-53])
def test_b39_the_ends_of_the_cumulative_sum(device: str, uniform: float) -> None:
    """Kills: u = 0 giving a leading token without mass; a sum ending below u giving V."""
    u = torch.tensor([uniform], dtype=torch.float64, device=device)
    wide = torch.zeros(1, 131_072, device=device)
    wide[0, 70_001] = 1.0
    assert draw(wide, u).item() == 70_001
    assert draw(torch.tensor([[0.0, 1.0]], device=device), u).item() == 1
    short = torch.tensor([[0.5, 0.4999999, 0.0]], device=device)
    assert draw(short, u).item() < 2


def test_b39_generation_with_cuda_hidden(plain_python: Any) -> None:
    """The whole path on device "cpu" where CUDA is hidden. Kills: a device looked up at import."""
    code = (
        "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
        "from sparkit.compose import assemble\n"
        "from sparkit.recipe import Recipe\n"
        "made = assemble(Recipe(device='cpu', capacity='flat', max_new_tokens=4))\n"
        "engine = made.engine()\n"
        "engine.add(made.request(made.encode('2 + 2'), 0))\n"
        "list(engine.stream()); print(len(engine.results()[0].text))\n"
    )
    done = plain_python(code)
    assert done.stdout.strip() in ("1", "2", "3", "4"), done.stderr


@pytest.mark.parametrize("when", ["prefill", "block", "bonus"])
def test_b04_a_nan_row_is_named_at_the_read_back(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """As on a device whose kernels do not raise: the check beside the law is off. Kills: a token drawn from nan."""
    target = tiny_target()
    forward, calls, blame = target.forward, [], laws.blame
    call, row = {"prefill": (1, 0), "block": (2, 3), "bonus": (2, 5)}[when]

    def poisoned(tokens: Any, spans: Any, cache: Any, rows: Any = None) -> Any:
        out = forward(tokens, spans, cache, rows)
        calls.append(1)
        if len(calls) == call:
            out.logits[row] = torch.nan
        return out

    def at_read_back(*args: Any) -> None:
        if sys._getframe(1).f_code.co_name != "row_laws":
            blame(*args)

    target.forward = poisoned  # type: ignore[method-assign]
    monkeypatch.setattr(laws, "blame", at_read_back)
    drafter = ScriptedDrafter(lambda c, n: [1] * n, 32)
    verifier = "coupled" if when == "block" else "rejection"  # rejection looks at ratios on the CPU
    engine = Engine(parts_of(target, drafter, verifier=verifier), gamma=2, num_slots=2)
    for seed in range(2):
        engine.add(Request((1, 2), seed, 9))
    named = {"prefill": "request 0: .* row 0 of 1", "block": "request 1: .* row 0 of 3", "bonus": "request 1: .* row 2"}
    with pytest.raises(ValueError, match=named[when]):
        list(engine.stream())
