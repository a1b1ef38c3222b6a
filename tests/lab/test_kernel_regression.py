"""Kernels as attention: their shapes, and a width that SGD finds as a grid does."""

import math

import pytest
import torch

from nmt.lab.kernel_regression import (
    AVERAGE,
    QUERIES,
    Kernel,
    KernelOptions,
    estimate,
    kernel_weights,
    run,
)


@pytest.mark.parametrize("seed", [1, 3])
def test_sgd_finds_the_width_that_the_grid_finds(seed: int) -> None:
    result = run(KernelOptions(seed=seed, draws=1))
    mean, fixed, learned = (result.estimates[name] for name in (AVERAGE, "fixed", "learned"))
    assert learned.rmse < 0.75 * fixed.rmse < 0.75 * mean.rmse
    assert learned.loss < fixed.loss < mean.loss
    torch.testing.assert_close(mean.curve, result.y.mean().expand_as(mean.curve))
    assert result.learned_width > 2
    assert learned.content()["points_used"] < 0.6 * fixed.content()["points_used"]
    assert learned.content()["largest_weight"] > 1.5 * fixed.content()["largest_weight"]
    assert learned.content()["change_of_slope"] > 2 * fixed.content()["change_of_slope"]
    widths = torch.logspace(-0.5, 1.5, 41).tolist()
    grid = {estimate(result.x, result.y, "gaussian", width).loss: width for width in widths}
    assert abs(math.log(result.learned_width / grid[min(grid)])) < math.log(1.3)
    assert learned.loss < 1.02 * min(grid)
    assert result.learning.losses[0] == pytest.approx(fixed.loss)
    assert result.learning.losses[-1] == pytest.approx(learned.loss)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("gaussian", [math.exp(-0.5 * (0.25 * i) ** 2) for i in range(6)]),
        ("boxcar", [1, 1, 1, 1, 0, 0]),
        ("epanechnikov", [1 - (0.25 * i) ** 2 for i in range(5)] + [0]),
        ("constant", [1] * 6),
    ],
)
def test_each_kernel_has_its_shape_and_sees_kept_keys(
    kernel: Kernel, expected: list[float]
) -> None:
    keys = torch.arange(6, dtype=torch.float64) / 8
    weights, n_isolated = kernel_weights(keys[:1], keys, torch.ones(1, 6).bool(), kernel, 2.0)
    shape = torch.tensor([expected], dtype=torch.float64)
    torch.testing.assert_close(weights, shape / shape.sum())
    assert n_isolated == 0
    keep = ~torch.eye(6, dtype=torch.bool)
    weights, _ = kernel_weights(8 * keys, 8 * keys, keep, kernel, 3.0)  # boxcar: the key itself
    assert torch.all(weights.diagonal() == 0)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("kernel", ["boxcar", "epanechnikov"])
def test_an_isolated_query_gets_the_mean_and_is_counted(kernel: Kernel) -> None:
    result = run(KernelOptions(kernel=kernel, width=40, epochs=1, draws=1))
    fixed = result.estimates["fixed"]
    far = (QUERIES[:, None] - result.x).abs().amin(dim=1) >= 1 / 40
    assert fixed.n_isolated == int(far.sum()) > 0
    assert torch.isfinite(fixed.curve).all()
    torch.testing.assert_close(fixed.curve[far], result.y.mean().expand(fixed.n_isolated))
