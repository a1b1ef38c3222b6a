"""Curves of runs over their updates: loss, metrics and other measurements."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.evaluation.metrics import METRICS
from nmt.explain.colours import BLUE, CYCLE, ORANGE
from nmt.explain.fonts import picture_label
from nmt.runs.metrics import MetricsLine, best_of, metrics_of, points
from nmt.types import LOWER_IS_BETTER

_PERPLEXITIES = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000)
_MIN_TICK_GAP = 0.06  # between two perplexities, as a share of the height
_PANEL_INCHES = (4.6, 3.4)
_MAX_PANELS = 24
_LINE_STYLES = ("-", "--", ":")  # the next one each time the colours are exhausted
_MAX_NAME_WIDTH, _MAX_TITLE_WIDTH = 40, 60
_OTHER_FIELDS = {"type", "step", "epoch", "seconds", "lr", "loss", "perplexity"}
"""Fields of a validation that `all_panels` draws elsewhere or not at all."""

Points = Float64[np.ndarray, "N 2"]


class Panel(NamedTuple):
    """Training and validation values as points (update, value). Either array may be empty."""

    title: str
    training: Points
    validation: Points


def loss_panel(lines: Sequence[MetricsLine]) -> Panel:
    """Return the panel of the training and validation losses, in nats per target token."""
    title = "Loss in nats per target token; right: perplexity"
    return Panel(title, points(lines, "train", "loss"), points(lines, "valid", "loss"))


def metric_panel(lines: Sequence[MetricsLine], metric: str) -> Panel:
    """Return the panel of a metric of the validations, with the best value in the title."""
    values = points(lines, "valid", metric)
    title = f"{METRICS[metric].title} of validations"
    if len(values):
        best = values[:, 1].min() if metric in LOWER_IS_BETTER else values[:, 1].max()
        title = f"{title}, best {best:.2f}"
    return Panel(title, points((), "train", metric), values)


def all_panels(lines: Sequence[MetricsLine]) -> Iterator[Panel]:
    """Yield panels of the loss, metrics, other validation measurements, learning rate and speed.

    The loss always has a panel. Any other panel is left out if it has no values. Metrics and
    validation measurements have at most _MAX_PANELS panels.
    """
    yield loss_panel(lines)
    keys = dict.fromkeys(key for line in lines if line.kind == "valid" for key in line.record)
    panels = [metric_panel(lines, name) for name in METRICS]
    panels += [
        Panel(key.replace("_", " "), points((), "train", key), points(lines, "valid", key))
        for key in keys
        if key not in _OTHER_FIELDS | METRICS.keys()
    ]
    yield from [panel for panel in panels if len(panel.validation)][:_MAX_PANELS]
    for key, title in (("lr", "Learning rate"), ("tokens_per_second", "Target tokens per second")):
        if len(values := points(lines, "train", key)):
            yield Panel(title, values, points((), "valid", key))


def draw_curve(run: Path, metric: str = "bleu") -> Figure:
    """Draw the loss of a run, and the `metric` of its validations if they include it.

    With the metric `loss`, the second panel is BLEU. Perplexity is the right-hand scale of the
    loss. The best validation by `metric` is marked. Raises CheckpointError if the run's
    metrics.jsonl has no training loss yet.
    """
    lines = metrics_of(run, require_loss=True)
    scores = metric_panel(lines, "bleu" if metric == "loss" else metric)
    panels = [loss_panel(lines), *([scores] if len(scores.validation) else [])]
    return draw_panels(panels, best_of(lines, metric))


def draw_curves(runs: Mapping[str, Path], metric: str = "bleu") -> Figure:
    """Draw the losses and the `metric` of several runs, with one colour per run.

    `runs` maps names to folders. With the metric `loss`, the second panel is BLEU. Thin lines are
    training losses. Raises CheckpointError as `draw_curve` does.
    """
    metric = "bleu" if metric == "loss" else metric
    lines = {name: metrics_of(path, require_loss=True) for name, path in runs.items()}
    losses = {name: loss_panel(rows) for name, rows in lines.items()}
    scores = {name: metric_panel(rows, metric) for name, rows in lines.items()}
    panels = {loss_panel(()).title: losses}
    if any(len(panel.validation) for panel in scores.values()):
        panels[metric_panel((), metric).title] = scores
    figure, row = _panel_row(len(panels))
    for axes, (title, by_run) in zip(row, panels.items(), strict=True):
        for i, (name, panel) in enumerate(by_run.items()):
            colour = CYCLE[i % len(CYCLE)]
            style = _LINE_STYLES[i // len(CYCLE) % len(_LINE_STYLES)]
            axes.plot(*panel.training.T, style, color=colour, linewidth=0.8, alpha=0.5)
            [line] = axes.plot(*panel.validation.T, f".{style}", color=colour, linewidth=1.3)
            line.set_label(picture_label(name, _MAX_NAME_WIDTH))
        _finish(axes, title)
    for text in row[0].legend(frameon=False).get_texts():
        text.set_parse_math(False)
    return figure


def draw_panels(panels: Sequence[Panel], best: tuple[float, int] | None) -> Figure:
    """Draw panels side by side, with a larger point for the validation `best` (value, update)."""
    figure, row = _panel_row(len(panels))
    best_step = None if best is None else best[1]
    for axes, (title, training, validation) in zip(row, panels, strict=True):
        if len(training):
            axes.plot(*training.T, color=BLUE, linewidth=1.3, label="training")
        if len(validation):
            axes.plot(*validation.T, ".-", color=ORANGE, linewidth=1.3, label="validation")
            axes.plot(*validation[validation[:, 0] == best_step].T, "o", color=ORANGE)
        _finish(axes, title)
        if "perplexity" in title:
            axes.legend(frameon=False)
    return figure


def _panel_row(n_panels: int) -> tuple[Figure, list[Axes]]:
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width * n_panels, height), layout="constrained")
    return figure, list(np.ravel(figure.subplots(1, n_panels, squeeze=False)))


def _finish(axes: Axes, title: str) -> None:
    """Add the title, the axes and, for a loss, the perplexity as the right-hand scale."""
    # parse_math=False keeps matplotlib from typesetting the text after a $ as a formula.
    axes.set_title(picture_label(title, _MAX_TITLE_WIDTH), fontsize=10, parse_math=False)
    axes.set(xlabel="updates", xlim=(0, None), ylim=(0, None))
    axes.spines["top"].set_visible(False)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if "perplexity" not in title:
        axes.spines["right"].set_visible(False)
        return
    right, top = axes.twinx(), axes.get_ylim()[1]
    heights: list[float] = []
    for perplexity in _PERPLEXITIES:
        height = math.log(perplexity)
        if height <= top and (not heights or height - heights[-1] > _MIN_TICK_GAP * top):
            heights.append(height)
    right.set_ylim(0, top)
    right.set_yticks(heights, [f"{math.exp(height):,.6g}" for height in heights])
    right.spines["top"].set_visible(False)
