"""Attention before neural networks: kernel regression, with a fixed and with a learned width.

y = 2 sin x + x^0.8 + noise is predicted at new x by an average of the training y, weighted by the
distance of their x from the new x (Nadaraya 1964, Watson 1964). The new x are queries, the training
x are keys, and the training y are values. Average pooling has no query: every y has the same
weight. The width is learned as in d2l.ai, section 11.2.
"""

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch
from jaxtyping import Bool, Float64, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor

from nmt.explain.colours import BLUE, GREEN, ORANGE
from nmt.lab.experiment import Experiment, Options, Result
from nmt.lab.figure import heat_map, new_figure
from nmt.models.attention.base import Attention
from nmt.models.attention.scores import GaussianAttention, GaussianConfig
from nmt.training.step import DivergedError

Kernel = Literal["gaussian", "boxcar", "epanechnikov", "constant"]
_END = 5.0
_PLACES = 100
AVERAGE = "average pooling"
_COLOURS = {AVERAGE: GREEN, "fixed": ORANGE, "learned": BLUE}


class KernelOptions(Options):
    """Settings of the data, of the fixed kernel, and of learning the width."""

    seed: int = Field(
        default=16, ge=0, lt=2**48, description="random seed of the points in the picture"
    )
    draws: int = Field(
        default=20, gt=0, le=1000, description="the range of errors is over the seeds 1 to `draws`"
    )
    points: int = Field(default=50, ge=5, le=1000, description="training points in [0, 5)")
    noise: float = Field(default=0.5, ge=0, description="standard deviation of the noise on y")
    kernel: Kernel = Field(
        default="gaussian",
        description="the fixed kernel: gaussian, boxcar, epanechnikov or constant",
    )
    width: float = Field(
        default=1.0, gt=0, description="w in K(w |x - x_i|), fixed or as the initial value of SGD"
    )
    epochs: int = Field(default=40, gt=0, description="passes over the points to learn w")
    batch: int = Field(default=10, gt=0, description="points in an update")
    lr: float = Field(default=0.25, gt=0, description="learning rate of SGD, falling linearly to 0")


@dataclass(frozen=True)
class Estimate:
    """The predictions of a kernel at the queries (`curve`), their weights, and their errors.

    `rmse` is the error against the true function. `loss` is the leave-one-out mean squared error at
    the noisy points. `lonely` counts the queries without a point in the range of the kernel.
    """

    weights: Float64[Tensor, "Q S"]
    curve: Float64[Tensor, " Q"]
    rmse: float
    loss: float
    lonely: int

    def numbers(self) -> dict[str, object]:
        """Return the errors, the sharpness of the weights, and the changes of the curve's slope.

        `points_used` is the effective number: exp(entropy of the weights), averaged over queries.
        """
        entropy = -torch.xlogy(self.weights, self.weights).sum(dim=1)
        return {
            "rmse": self.rmse,
            "leave_one_out_loss": self.loss,
            "largest_weight": float(self.weights.amax(dim=1).mean()),
            "points_used": float(entropy.exp().mean()),
            "change_of_slope": float(self.curve.diff(n=2).abs().sum()) * _PLACES / _END,
            "places_without_neighbour": self.lonely,
            "curve": self.curve.numpy(),
        }


@dataclass(frozen=True)
class Learning:
    """The width w and its leave-one-out loss, before SGD and after each epoch."""

    widths: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class KernelResult(Result):
    """The points, the three estimates by name, and the course of learning the width.

    `draws` holds the estimates for other seeds, by name.
    """

    options: KernelOptions
    x: Float64[Tensor, " S"]
    y: Float64[Tensor, " S"]
    estimates: dict[str, Estimate]
    learning: Learning
    draws: dict[str, tuple[Estimate, ...]]

    @property
    def learned_width(self) -> float:
        """w after the last epoch."""
        return self.learning.widths[-1]

    def numbers(self) -> dict[str, object]:
        return {
            "learned_width": self.learned_width,
            "width_per_epoch": self.learning.widths,
            "loss_per_epoch": self.learning.losses,
            **{name: estimate.numbers() for name, estimate in self.estimates.items()},
            "rmse_of_draws": {name: _spread(fit) for name, fit in self.draws.items()},
            "x": self.x.numpy(),
            "y": self.y.numpy(),
            "places": places().numpy(),
            "truth": truth(places()).numpy(),
        }


def places() -> Float64[Tensor, " Q"]:
    """Return the queries: the x at which y is predicted."""
    return torch.arange(_PLACES, dtype=torch.float64) * _END / _PLACES


def truth(x: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Return the true function, 2 sin x + x^0.8."""
    return 2 * x.sin() + x**0.8


def _spread(estimates: tuple[Estimate, ...]) -> dict[str, float]:
    """Return the least, the median and the greatest error against the true function."""
    errors = sorted(fit.rmse for fit in estimates)
    return {"least": errors[0], "median": median(errors), "greatest": errors[-1]}


def run(options: KernelOptions) -> KernelResult:
    """Draw random points, predict in three ways, and measure the errors."""
    x, y, learning, estimates = _estimates(options)
    seeds = [options.model_copy(update={"seed": seed + 1}) for seed in range(options.draws)]
    others = [_estimates(variant)[-1] for variant in seeds]
    return KernelResult(
        options=options,
        x=x,
        y=y,
        estimates=estimates,
        learning=learning,
        draws={name: tuple(variant[name] for variant in others) for name in estimates},
    )


def _estimates(
    options: KernelOptions,
) -> tuple[Float64[Tensor, " S"], Float64[Tensor, " S"], Learning, dict[str, Estimate]]:
    """Return x and y of random points, the learned width, and the three estimates."""
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
    x: Float64[Tensor, " S"],
    y: Float64[Tensor, " S"],
    options: KernelOptions,
    generator: torch.Generator,
) -> Learning:
    """Learn the width of a Gaussian kernel by SGD on the leave-one-out loss.

    If points could attend to themselves, the narrowest kernel would have the smallest loss. Raises
    DivergedError if the learned w is not positive and finite.
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
        for rows in torch.split(torch.randperm(len(x), generator=generator), options.batch):
            optimizer.zero_grad()
            loss_of(rows).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        widths.append(attention.width.item())
        losses.append(loss_of(indices).item())
    if not 0 < widths[-1] < math.inf:
        raise DivergedError(
            f"SGD diverged to the width {widths[-1]:g}; take a smaller lr, or less noise"
        )
    return Learning(tuple(widths), tuple(losses))


def estimate(
    x: Float64[Tensor, " S"], y: Float64[Tensor, " S"], kernel: Kernel, width: float
) -> Estimate:
    """Predict y at the queries with a kernel of this width, and measure the errors."""
    all_kept = torch.ones(_PLACES, len(x), dtype=torch.bool)
    weights, lonely = kernel_weights(places(), x, all_kept, kernel, width)
    others = ~torch.eye(len(x), dtype=torch.bool)
    curve = weights @ y
    rmse = float((curve - truth(places())).square().mean().sqrt())
    loss = float((kernel_weights(x, x, others, kernel, width)[0] @ y - y).square().mean())
    return Estimate(weights, curve, rmse, loss, lonely)


def kernel_weights(
    queries: Float64[Tensor, " Q"],
    keys: Float64[Tensor, " S"],
    keep: Bool[Tensor, "Q S"],
    kernel: Kernel,
    width: float,
) -> tuple[Float64[Tensor, "Q S"], int]:
    """Return the weights K(w |q - k|), normalised over the keys that `keep` marks as True.

    Also returns the number of queries without a key in the range of the kernel. The weights of
    these queries are uniform.
    """
    if kernel == "gaussian":
        gaussian = GaussianConfig(width=width).build(1, 1).double()
        return _attend(gaussian, queries, keys, keep).detach(), 0
    u = width * (queries[:, None] - keys).abs()
    shapes = {
        "boxcar": (u < 1).double(),
        "epanechnikov": (1 - u.square()).clamp(min=0),
        "constant": torch.ones_like(u),
    }
    values = shapes[kernel] * keep
    lonely = values.sum(dim=1) == 0
    values = torch.where(lonely[:, None], keep.double(), values)
    return values / values.sum(dim=1, keepdim=True), int(lonely.sum())


def _attend(
    attention: Attention,
    queries: Float64[Tensor, " Q"],
    keys: Float64[Tensor, " S"],
    keep: Bool[Tensor, "Q S"],
) -> Float64[Tensor, "Q S"]:
    """Return the weights of an attention of nmt.models, over keys shared by all queries."""
    rows = keys.view(1, -1, 1).expand(len(queries), -1, -1)
    return attention.attend(queries.view(-1, 1, 1), rows, rows, keep).weights.squeeze(1)


def draw(result: KernelResult) -> Figure:
    """Draw the curves, the loss per epoch, and the weights for both widths."""
    figure = new_figure(11.0, 7.4)
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.03).flat
    curves, losses = above.subplots(1, 2, width_ratios=[1.6, 1])
    _draw_curves(curves, result)
    losses.plot(result.learning.losses, color=BLUE)
    title = f"Loss per epoch, w from {result.options.width:g} to {result.learned_width:.2f}"
    losses.set(title=title, xlabel="epoch", ylabel="leave-one-out loss")
    losses.set_ylim(0, None)
    panels = below.subplots(1, 2)
    both = [result.estimates[name].weights.numpy() for name in ("fixed", "learned")]
    top = max(float(weights.max()) for weights in both)
    for axes, weights, name in zip(panels, both, ("fixed", "learned"), strict=True):
        image = heat_map(axes, weights, top)
        axes.set(
            title=f"Weights, {name} width",
            xlabel="points seen, in the order of x",
            ylabel="place x",
        )
        axes.set_yticks([0, 20, 40, 60, 80], [0, 1, 2, 3, 4])
    below.colorbar(image, ax=list(panels), pad=0.01, label="attention weight")
    return figure


def _draw_curves(axes: Axes, result: KernelResult) -> None:
    at = places().numpy()
    axes.plot(result.x, result.y, "o", color="0.6", markersize=4, label="points seen")
    axes.plot(at, truth(places()), "--", color="0.2", linewidth=1.2, label="truth")
    for name, fit in result.estimates.items():
        label = f"{name}: error {fit.rmse:.2f}"
        axes.plot(at, fit.curve, color=_COLOURS[name], label=label)
    axes.set(title="2 sin x + x^0.8, from noisy points", xlabel="x", ylabel="y")
    axes.set_ylim(float(result.y.min()) - 1.7, None)
    axes.legend(loc="lower center", ncols=2)


EXPERIMENT = Experiment(KernelOptions, run, draw)
