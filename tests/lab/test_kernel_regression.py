"""What the experiment on kernel regression says is so."""

import math

import pytest
import torch

from nmt.lab.kernel_regression import AVERAGE, KernelOptions, KernelResult, places, run, truth
from nmt.lab.kernels import Kernel, kernel_weights


@pytest.fixture(scope="module", params=[1, 2, 3])
def result(request: pytest.FixtureRequest) -> KernelResult:
    return run(KernelOptions(seed=request.param, draws=1))


def test_each_way_is_nearer_the_truth_than_the_one_before(result: KernelResult) -> None:
    mean, fixed, learned = (result.estimates[name] for name in (AVERAGE, "fixed", "learned"))
    assert learned.rmse < 0.75 * fixed.rmse < 0.75 * mean.rmse
    assert learned.loss < fixed.loss < mean.loss
    assert learned.rmse < 0.6


def test_the_learned_kernel_is_narrower_and_its_curve_bends_more(result: KernelResult) -> None:
    fixed, learned = (result.estimates[name].numbers() for name in ("fixed", "learned"))
    assert result.learned_width > 2
    assert learned["points_used"] < 0.6 * fixed["points_used"]
    assert learned["largest_weight"] > 1.5 * fixed["largest_weight"]
    assert learned["change_of_slope"] > 2 * fixed["change_of_slope"]


def test_sgd_finds_the_width_that_the_grid_finds(result: KernelResult) -> None:
    best = result.numbers()["best_width_leaving_one_out"]
    assert abs(math.log(result.learned_width / best)) < math.log(1.3)
    least = min(result.errors_by_width()[0])
    assert result.estimates["learned"].loss < 1.02 * least


def test_the_loss_falls_over_the_epochs_and_ends_at_that_of_the_learned_width(
    result: KernelResult,
) -> None:
    learning = result.learning
    assert len(learning.losses) == len(learning.widths) == result.options.epochs + 1
    assert learning.widths[0] == result.options.width
    assert learning.losses[0] == pytest.approx(result.estimates["fixed"].loss)
    assert learning.losses[-1] == pytest.approx(result.estimates["learned"].loss)
    assert learning.losses[-1] < 1.01 * min(learning.losses) < 0.8 * learning.losses[0]
    assert f"epoch 0: {learning.losses[0]:.4f}" in "\n".join(result.summary())


def test_the_range_is_over_the_first_seeds_and_does_not_depend_on_the_one_shown() -> None:
    shown = [run(KernelOptions(seed=seed, epochs=3, draws=2)) for seed in (2, 5)]
    ranges = [result.numbers()["rmse_of_draws"] for result in shown]
    assert ranges[0] == ranges[1]
    assert shown[0].estimates["learned"].rmse == shown[0].draws["learned"][1].rmse
    spread = ranges[0]["learned"]
    assert spread["least"] < spread["median"] < spread["greatest"]


def test_average_pooling_is_the_mean_everywhere(result: KernelResult) -> None:
    curve = result.estimates[AVERAGE].curve
    torch.testing.assert_close(curve, result.y.mean().expand_as(curve))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("gaussian", [math.exp(-0.5 * (0.25 * i) ** 2) for i in range(6)]),
        ("boxcar", [1, 1, 1, 1, 0, 0]),
        ("epanechnikov", [1 - (0.25 * i) ** 2 for i in range(5)] + [0]),
        ("constant", [1] * 6),
    ],
)
def test_each_kernel_has_its_shape(kernel: Kernel, expected: list[float]) -> None:
    keys = torch.arange(6, dtype=torch.float64) / 8
    keep = torch.ones(1, 6, dtype=torch.bool)
    weights, lonely = kernel_weights(keys[:1], keys, keep, kernel, 2.0)
    shape = torch.tensor([expected], dtype=torch.float64)
    torch.testing.assert_close(weights, shape / shape.sum())
    assert lonely == 0


@pytest.mark.parametrize("kernel", ["boxcar", "epanechnikov"])
def test_a_place_without_neighbours_gets_the_mean_and_is_counted(kernel: Kernel) -> None:
    found = run(KernelOptions(kernel=kernel, width=40, epochs=1, draws=1))
    fixed = found.estimates["fixed"]
    far = (places()[:, None] - found.x).abs().amin(dim=1) >= 1 / 40
    assert fixed.lonely == int(far.sum()) > 0
    assert torch.isfinite(fixed.curve).all()
    torch.testing.assert_close(fixed.curve[far], found.y.mean().expand(fixed.lonely))
    assert f"at {fixed.lonely} of 100 places" in found.summary()[-1]


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov", "constant"])
def test_what_may_not_be_seen_has_no_weight(kernel: Kernel) -> None:
    keys = torch.arange(5, dtype=torch.float64)
    keep = ~torch.eye(5, dtype=torch.bool)
    weights, _ = kernel_weights(keys, keys, keep, kernel, 3.0)  # boxcar: the key itself alone
    assert torch.all(weights.diagonal() == 0)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(5, dtype=torch.float64))


def test_without_noise_many_points_give_the_truth() -> None:
    found = run(KernelOptions(points=400, noise=0.0, width=40.0, epochs=1, draws=1))
    inner = (places() > 0.1) & (places() < 4.9)
    gap = (found.estimates["fixed"].curve - truth(places())).abs()[inner]
    assert float(gap.max()) < 0.1
