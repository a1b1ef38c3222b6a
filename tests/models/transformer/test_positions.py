"""Positions: the formula, the rotation, and a table that ends where it ends."""

import math

import pytest
import torch

from nmt.errors import ConfigError, DataError
from nmt.models.transformer.positions import LearnedConfig, rotation, sinusoids

T, D = 13, 22


def _waves(place: float) -> list[float]:
    angles = [place / 10_000 ** (2 * j / D) for j in range(D // 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def test_sinusoids_are_the_formula_and_may_begin_anywhere() -> None:
    table = sinusoids(T, D)
    assert table.shape == (T, D)
    for i in range(T):
        assert table[i].tolist() == pytest.approx(_waves(i), abs=1e-14)
    assert torch.equal(table[5:], sinusoids(T - 5, D, first=5))
    far = sinusoids(2, D, first=1_000_000)
    assert far[1, 0].item() == pytest.approx(math.sin(1_000_001), abs=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 1000, -3])
def test_a_shift_is_one_rotation_whatever_the_position(offset: int) -> None:
    turn = rotation(offset, D)
    identity = torch.eye(D, dtype=turn.dtype)
    torch.testing.assert_close(turn @ turn.T, identity, rtol=0, atol=1e-12)
    for i in (3, 4, 500):
        turned = sinusoids(1, D, first=i)[0] @ turn
        assert turned.tolist() == pytest.approx(_waves(i + offset), abs=1e-11)


@pytest.mark.parametrize("size", [7, 0, -2])
def test_a_sine_without_its_cosine_is_refused(size: int) -> None:
    for refusing in (lambda: sinusoids(3, size), lambda: rotation(1, size)):
        with pytest.raises(ConfigError, match=f"got size {size}, allowed: an even number"):
            refusing()


def test_a_learned_table_learns_rows_it_used_and_refuses_others() -> None:
    positions = LearnedConfig(max_length=T).build(D)
    expected = f"^got a sequence of {T + 1} pieces, allowed: at most {T}, .*max_length$"
    with pytest.raises(DataError, match=expected):
        positions(torch.zeros(1, T + 1, D))
    with pytest.raises(DataError, match=expected):
        positions(torch.zeros(1, 1, D), first=T)
    positions(torch.zeros(2, 3, D), first=4).sum().backward()
    (table,) = positions.parameters()
    assert table.grad.sum(1).nonzero().flatten().tolist() == [4, 5, 6]
