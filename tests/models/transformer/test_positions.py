"""Positions: the formula, the rotation, and a table that ends where it ends."""

import math

import pytest
import torch

from nmt.errors import ConfigError, DataError
from nmt.models.transformer.positions import (
    LearnedConfig,
    NoPositionsConfig,
    SinusoidalConfig,
    rotation,
    sinusoids,
)

T, D = 13, 22


def test_sinusoids_are_the_formula() -> None:
    table = sinusoids(T, D)
    assert table.shape == (T, D)
    for i in range(T):
        for j in range(D // 2):
            angle = i / 10_000 ** (2 * j / D)
            assert table[i, 2 * j].item() == pytest.approx(math.sin(angle), abs=1e-14)
            assert table[i, 2 * j + 1].item() == pytest.approx(math.cos(angle), abs=1e-14)


def test_sinusoids_may_begin_anywhere_and_have_no_last_position() -> None:
    assert torch.equal(sinusoids(T, D)[5:], sinusoids(T - 5, D, first=5))
    far = sinusoids(2, D, first=1_000_000)
    assert far[1, 0].item() == pytest.approx(math.sin(1_000_001), abs=1e-12)


@pytest.mark.parametrize("offset", [0, 1, 7, 1000, -3])
def test_a_shift_is_one_rotation_whatever_the_position(offset: int) -> None:
    turn = rotation(offset, D)
    identity = torch.eye(D, dtype=turn.dtype)
    torch.testing.assert_close(turn @ turn.T, identity, rtol=0, atol=1e-12)
    for i in (3, 4, 500):
        shifted = torch.tensor(
            [
                wave((i + offset) / 10_000 ** (2 * j / D))
                for j in range(D // 2)
                for wave in (math.sin, math.cos)
            ],
            dtype=torch.float64,
        )
        torch.testing.assert_close(sinusoids(1, D, first=i)[0] @ turn, shifted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("size", [7, 0, -2])
def test_a_sine_without_its_cosine_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=f"got size {size}, allowed: an even number"):
        sinusoids(3, size)
    with pytest.raises(ConfigError, match="an even number"):
        rotation(1, size)


@pytest.mark.parametrize("config", [SinusoidalConfig(), LearnedConfig(max_length=T)])
def test_positions_are_added_the_same_for_a_whole_and_its_parts(
    config: SinusoidalConfig | LearnedConfig,
) -> None:
    torch.manual_seed(1)
    positions = config.build(D)
    x = torch.randn(3, T, D)
    whole = positions(x)
    assert not torch.allclose(whole[:, 1:] - x[:, 1:], (whole - x)[:, :-1], atol=1e-3)
    torch.testing.assert_close((whole - x)[0], (whole - x)[2], rtol=0, atol=1e-6)
    parts = [positions(x[:, i : i + 1], first=i) for i in range(T)]
    assert torch.equal(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_precision_of_the_input_is_kept(dtype: torch.dtype) -> None:
    x = torch.zeros(1, T, D, dtype=dtype)
    positions = SinusoidalConfig().build(D)(x)
    assert torch.equal(positions[0], sinusoids(T, D).to(dtype))


def test_a_learned_table_refuses_what_is_beyond_it() -> None:
    positions = LearnedConfig(max_length=T).build(D)
    assert positions(torch.zeros(1, T, D)).shape == (1, T, D)
    expected = f"^got a sequence of {T + 1} pieces, allowed: at most {T}, .*max_length$"
    with pytest.raises(DataError, match=expected):
        positions(torch.zeros(1, T + 1, D))
    with pytest.raises(DataError, match=expected):
        positions(torch.zeros(1, 1, D), first=T)


def test_a_learned_table_learns_the_rows_it_used() -> None:
    positions = LearnedConfig(max_length=T).build(D)
    positions(torch.zeros(2, 3, D), first=4).sum().backward()
    (table,) = positions.parameters()
    assert table.grad is not None
    assert table.grad.sum(1).nonzero().flatten().tolist() == [4, 5, 6]


def test_no_positions_change_nothing() -> None:
    x = torch.randn(2, 3, 7)
    assert torch.equal(NoPositionsConfig().build(7)(x, first=5), x)
