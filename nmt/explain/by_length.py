"""A figure of BLEU by source length, with a line per system (Bahdanau et al. 2015, figure 2)."""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.figure import Figure

from nmt.evaluation.evaluate import Bucket
from nmt.explain.colours import CYCLE, PALE
from nmt.explain.fonts import picture_label

_MIN_GAP = 0.042  # vertical distance between two names, as a share of the axis
_MAX_NAME_WIDTH = 40


def draw_by_length(
    systems: Mapping[str, Sequence[Bucket]], names: Collection[str] | None = None
) -> Figure:
    """Draw the BLEU of each system by source length. All systems must have the same buckets.

    Systems in `names`, by default all, have coloured lines with their names to the right. Names
    that would overlap are moved up. All other lines are grey.
    """
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    coloured_names = [name for name in systems if names is None or name in names]
    for name, buckets in systems.items():
        if name not in coloured_names:
            axes.plot([b.bleu for b in buckets], color=PALE, linewidth=1.0, zorder=0)
    colours = {name: CYCLE[i % len(CYCLE)] for i, name in enumerate(coloured_names)}
    for name, colour in colours.items():
        axes.plot([b.bleu for b in systems[name]], "o-", color=colour, markersize=4, linewidth=1.6)
    buckets = next(iter(systems.values()))
    axes.set_xticks(range(len(buckets)), [f"{b.label}\n{b.n_sentences:,}" for b in buckets])
    axes.set_xlabel("words of the source, and number of sentences")
    axes.set_ylabel("BLEU")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    gap = _MIN_GAP * (axes.get_ylim()[1] - axes.get_ylim()[0])
    y = float("-inf")
    for name in sorted(coloured_names, key=lambda name: systems[name][-1].bleu):
        y = max(systems[name][-1].bleu, y + gap)
        axes.annotate(
            picture_label(name, _MAX_NAME_WIDTH),
            (len(buckets) - 1, y),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colours[name],
            annotation_clip=False,
            parse_math=False,
        )
    if n_grey := len(systems) - len(coloured_names):
        axes.set_title(f"grey: all others ({n_grey})", color="0.4", fontsize=9, loc="left")
    return figure
