"""Attention before neural networks: kernel regression with a fixed and a learned width.

y = 2 sin x + x^0.8 + noise is predicted at new x (queries) as a mean of the training y (values).
Its weights are K(w |x - x_i|), where x_i are the training x (keys). SGD learns w (d2l.ai, 11.2).
"""

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
from jaxtyping import Bool, Float64, Int
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor

from nmt.explain.colours import BLUE, GREEN, ORANGE
from nmt.lab.experiment import Experiment, Options, Result, update
from nmt.lab.figure import heat_map, new_figure
from nmt.models.attention.base import Attention
from nmt.models.attention.scores import GaussianAttention, GaussianConfig
from nmt.training.step import DivergedError

Kernel = Literal["gaussian", "boxcar", "epanechnikov", "constant"]
_END = 5.0
_N_QUERIES = 100
Points = Float64[Tensor, " S"]
QUERIES = torch.arange(_N_QUERIES, dtype=torch.float64) * _END / _N_QUERIES
"""The x at which y is predicted."""
AVERAGE = "average pooling"
_COLOURS = {AVERAGE: GREEN, "fixed": ORANGE, "learned": BLUE}


class KernelOptions(Options):
    """Options of the data, of the fixed kernel, and of learning the width."""

    seed: int = Field(default=16, ge=0, lt=2**48, description="seed of the points in the picture")
    draws: int = Field(
        default=20, gt=0, le=1000, description="number of seeds, from 1, for the range of errors"
    )
    points: int = Field(default=50, ge=5, le=1000, description="training points in [0, 5)")
    noise: float = Field(default=0.5, ge=0, description="standard deviation of the noise on y")
    kernel: Kernel = Field(
        default="gaussian", description="fixed kernel: gaussian, boxcar, epanechnikov or constant"
    )
    width: float = Field(default=1.0, gt=0, description="w in K(w |x - x_i|); SGD starts from it")
    epochs: int = Field(default=40, gt=0, description="passes over the points to learn w")
    batch: int = Field(default=10, gt=0, description="points per update")
    lr: float = Field(default=0.25, gt=0, description="learning rate of SGD, falling linearly to 0")


@dataclass(frozen=True)
class Estimate:
    """The weights and the predictions (`curve`) of a kernel at QUERIES, and their errors.

    `rmse` is the error against the true function. `loss` is the leave-one-out mean squared error at
    the training points. `n_isolated` counts the queries without a point in the kernel's range.
    """

    weights: Float64[Tensor, "Q S"]
    curve: Float64[Tensor, " Q"]
    rmse: float
    loss: float
    n_isolated: int

    def content(self) -> dict[str, object]:
        """Return the results: errors, statistics of the weights, total change of slope, curve.

        `points_used` is the effective number of points: the mean of exp(entropy of the weights).
        """
        entropy = -torch.xlogy(self.weights, self.weights).sum(dim=1)
        return {
            "rmse": self.rmse,
            "leave_one_out_loss": self.loss,
            "largest_weight": float(self.weights.amax(dim=1).mean()),
            "points_used": float(entropy.exp().mean()),
            "change_of_slope": float(self.curve.diff(n=2).abs().sum()) * _N_QUERIES / _END,
            "isolated_queries": self.n_isolated,
            "curve": self.curve.numpy(),
        }


@dataclass(frozen=True)
class LearningCurve:
    """The width w and its leave-one-out loss, before SGD and after each epoch."""

    widths: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class KernelResult(Result):
    """The training points (x, y), the three estimates by name, and the curve of `learning`.

    They belong to `options.seed`. `draws` has each estimate's `rmse` for the seeds 1 to
    `options.draws`.
    """

    options: KernelOptions
    x: Points
    y: Points
    estimates: dict[str, Estimate]
    learning: LearningCurve
    draws: dict[str, list[float]]

    @property
    def learned_width(self) -> float:
        """The width after the last epoch."""
        return self.learning.widths[-1]

    def content(self) -> dict[str, object]:
        return {
            "learned_width": self.learned_width,
            "width_per_epoch": self.learning.widths,
            "loss_per_epoch": self.learning.losses,
            **{name: estimate.content() for name, estimate in self.estimates.items()},
            "rmse_of_draws": {
                name: {"min": min(errors), "median": median(errors), "max": max(errors)}
                for name, errors in self.draws.items()
            },
            "x": self.x.numpy(),
            "y": self.y.numpy(),
            "queries": QUERIES.numpy(),
            "truth": truth(QUERIES).numpy(),
        }


def truth(x: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Return the true function, 2 sin x + x^0.8."""
    return 2 * x.sin() + x**0.8


def run(options: KernelOptions) -> KernelResult:
    """Draw random points for each seed, predict y in three ways, and measure the errors."""
    x, y, learning, estimates = _estimates(options)
    seeds = range(1, options.draws + 1)
    draws = [_estimates(options.model_copy(update={"seed": seed}))[-1] for seed in seeds]
    errors = {name: [draw[name].rmse for draw in draws] for name in estimates}
    return KernelResult(options, x, y, estimates, learning, errors)


def _estimates(options: KernelOptions) -> tuple[Points, Points, LearningCurve, dict[str, Estimate]]:
    """Return x and y of random points, the learning curve, and the three estimates."""
    generator = torch.Generator().manual_seed(options.seed)
    x = (torch.rand(options.points, generator=generator, dtype=torch.float64) * _END).sort().values
    noise = torch.randn(options.points, generator=generator, dtype=torch.float64)
    y = truth(x) + options.noise * noise
    learning = learn_width(x, y, options, generator)
    estimates = {
        AVERAGE: estimate(x, y, "constant", 1.0),
        "fixed": estimate(x, y, options.kernel, options.width),
        "learned": estimate(x, y, "gaussian", learning.widths[-1]),
    }
    return x, y, learning, estimates


def learn_width(
    x: Points, y: Points, options: KernelOptions, rng: torch.Generator
) -> LearningCurve:
    """Learn the width of a Gaussian kernel by SGD on the leave-one-out loss.

    A point does not attend to itself; otherwise, the narrowest kernel would have the smallest loss.
    Raises DivergedError if the learned width is not positive and finite.
    """
    attention = GaussianConfig(width=options.width).build(1, 1).double()
    assert isinstance(attention, GaussianAttention)
    optimizer = torch.optim.SGD(attention.parameters(), lr=options.lr)
    indices = torch.arange(len(x))

    def loss_of(rows: Int[Tensor, " B"]) -> Float64[Tensor, ""]:
        weights = _attend(attention, x[rows], x, rows[:, None] != indices)
        return (weights @ y - y[rows]).square().mean()

    widths, losses = [attention.width.item()], [loss_of(indices).item()]
    for epoch in range(options.epochs):
        for group in optimizer.param_groups:
            group["lr"] = options.lr * (1 - epoch / options.epochs)
        for rows in torch.split(torch.randperm(len(x), generator=rng), options.batch):
            update(optimizer, loss_of(rows))
        widths.append(attention.width.item())
        losses.append(loss_of(indices).item())
    if not 0 < widths[-1] < math.inf:
        raise DivergedError(f"SGD diverged to the width {widths[-1]:g}; set a smaller lr or noise")
    return LearningCurve(tuple(widths), tuple(losses))


def estimate(x: Points, y: Points, kernel: Kernel, width: float) -> Estimate:
    """Predict y at QUERIES with a kernel of this width, and measure the errors."""
    no_mask = torch.ones(_N_QUERIES, len(x), dtype=torch.bool)
    weights, n_isolated = kernel_weights(QUERIES, x, no_mask, kernel, width)
    others = ~torch.eye(len(x), dtype=torch.bool)
    curve = weights @ y
    rmse = float((curve - truth(QUERIES)).square().mean().sqrt())
    loss = float((kernel_weights(x, x, others, kernel, width)[0] @ y - y).square().mean())
    return Estimate(weights, curve, rmse, loss, n_isolated)


def kernel_weights(
    queries: Float64[Tensor, " Q"],
    keys: Points,
    keep: Bool[Tensor, "Q S"],
    kernel: Kernel,
    width: float,
) -> tuple[Float64[Tensor, "Q S"], int]:
    """Return the weights K(w |q - k|), normalised over the keys where `keep` is True.

    Also return the number of queries without a key in range. Their weights are uniform.
    """
    if kernel == "gaussian":
        gaussian = GaussianConfig(width=width).build(1, 1).double()
        return _attend(gaussian, queries, keys, keep).detach(), 0
    u = width * (queries[:, None] - keys).abs()
    epanechnikov, ones = (1 - u.square()).clamp(min=0), torch.ones_like(u)
    shapes = {"boxcar": (u < 1).double(), "epanechnikov": epanechnikov, "constant": ones}
    values = shapes[kernel] * keep
    is_isolated = values.sum(dim=1) == 0
    values = torch.where(is_isolated[:, None], keep.double(), values)
    return values / values.sum(dim=1, keepdim=True), int(is_isolated.sum())


def _attend(
    attention: Attention, queries: Float64[Tensor, " Q"], keys: Points, keep: Bool[Tensor, "Q S"]
) -> Float64[Tensor, "Q S"]:
    """Return the attention weights of queries that all attend to the same keys."""
    memory = keys.view(1, -1, 1).expand(len(queries), -1, -1)
    return attention.attend(queries.view(-1, 1, 1), memory, memory, keep).weights.squeeze(1)


def draw(result: KernelResult) -> Figure:
    """Draw the curves, the loss per epoch, and the weights for the fixed and the learned width."""
    figure = new_figure(11.0, 7.4)
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.03).flat
    curves, losses = above.subplots(1, 2, width_ratios=[1.6, 1])
    curves.plot(result.x, result.y, "o", color="0.6", markersize=4, label="training points")
    curves.plot(QUERIES, truth(QUERIES), "--", color="0.2", linewidth=1.2, label="truth")
    for name, estimate in result.estimates.items():
        label = f"{name}: error {estimate.rmse:.2f}"
        curves.plot(QUERIES, estimate.curve, color=_COLOURS[name], label=label)
    curves.set(title="2 sin x + x^0.8, from noisy points", xlabel="x", ylabel="y")
    curves.set_ylim(float(result.y.min()) - 1.7, None)
    curves.legend(loc="lower center", ncols=2)
    losses.plot(result.learning.losses, color=BLUE)
    title = f"Loss per epoch, w from {result.options.width:g} to {result.learned_width:.2f}"
    losses.set(title=title, xlabel="epoch", ylabel="leave-one-out loss", ylim=(0, None))
    panels = below.subplots(1, 2)
    weights = {name: result.estimates[name].weights for name in ("fixed", "learned")}
    limit = max(float(table.max()) for table in weights.values())
    for axes, (name, table) in zip(panels, weights.items(), strict=True):
        image = heat_map(axes, table.numpy(), limit)
        axes.set(title=f"Weights, {name} width", xlabel="training points, by x", ylabel="query x")
        axes.set_yticks([0, 20, 40, 60, 80], [0, 1, 2, 3, 4])
    below.colorbar(image, ax=list(panels), pad=0.01, label="attention weight")
    return figure


EXPERIMENT = Experiment(KernelOptions, run, draw)
