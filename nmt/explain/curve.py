"""The learning curve of a run: loss, perplexity and BLEU over updates, as a picture."""

import math
from itertools import chain
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from nmt.evaluation.metrics import METRICS
from nmt.runs.metrics import metrics_of, points
from nmt.storage.output import csv_line, write_lines
from nmt.types import LOWER_IS_BETTER

_TRAINING, _VALIDATION = "#2a6fbb", "#d9772b"
_PERPLEXITIES = (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000)
_TICK_GAP = 0.06  # of the height, between two perplexities
_HEIGHT_INCHES, _PANEL_INCHES = 3.4, 4.6


def draw_curve(run: Path, metric: str = "bleu") -> Figure:
    """Training and validation loss in nats per target token, and the BLEU of the validations.

    Another `metric`, which chooses the best checkpoint, is drawn instead of BLEU; where it is the
    loss, the lowest one is marked.
    Perplexity is the right-hand scale of the loss. Without validations there is no second panel.
    Raises CheckpointError where the run's metrics.jsonl has no training loss yet.
    """
    lines = metrics_of(run, trained=True)
    training, validation = (points(lines, kind, "loss") for kind in ("train", "valid"))
    score_name: str = "bleu" if metric == "loss" else metric
    scores = points(lines, "valid", score_name)
    n_panels = 2 if len(scores) else 1
    figure = Figure(figsize=(_PANEL_INCHES * n_panels, _HEIGHT_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    first, *others = np.ravel(figure.subplots(1, n_panels, squeeze=False))
    first.plot(*training.T, color=_TRAINING, linewidth=1.3, label="training")
    if len(validation):
        first.plot(*validation.T, ".-", color=_VALIDATION, linewidth=1.3, label="validation")
        if metric == "loss":
            first.plot(*validation[validation[:, 1].argmin()], "o", color=_VALIDATION)
    first.set(title="Loss in nats per target token; right: perplexity", ylim=(0, None))
    first.legend(frameon=False)
    _add_perplexity(first)
    for axes in others:
        values = scores[:, 1]
        best = scores[values.argmin() if score_name in LOWER_IS_BETTER else values.argmax()]
        axes.plot(*scores.T, ".-", color=_VALIDATION, linewidth=1.3)
        axes.plot(*best, "o", color=_VALIDATION)
        axes.set(
            title=f"{METRICS[score_name].title} of validations, best {best[1]:.2f}", ylim=(0, None)
        )
    for axes in (first, *others):
        axes.set(xlabel="updates", xlim=(0, None))
        axes.spines["top"].set_visible(False)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def write_table(run: Path, path: Path, force: bool = False) -> None:
    """Write metrics.jsonl as CSV: a line a record, a column a value, empty where there is none.

    `path` must be new unless `force`. Raises CheckpointError where the run's metrics.jsonl has no
    training loss yet.
    """
    records = [line.record for line in metrics_of(run, trained=True)]
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = (csv_line([record.get(name) for name in names]) for record in records)
    write_lines(chain([csv_line(names)], rows), path, force)


def _add_perplexity(axes: Axes) -> None:
    """A scale at the right: the exponential of the loss."""
    right, top = axes.twinx(), axes.get_ylim()[1]
    heights: list[float] = []
    for perplexity in _PERPLEXITIES:
        height = math.log(perplexity)
        if height <= top and (not heights or height - heights[-1] > _TICK_GAP * top):
            heights.append(height)
    right.set_ylim(0, top)
    right.set_yticks(heights, [f"{math.exp(height):,.6g}" for height in heights])
    right.spines["top"].set_visible(False)
