"""The comparison in pictures: BLEU of each kind, and one sentence's maps."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from comparison.results import Result
from nmt.explain.colours import BLUE, GREY, PALE
from nmt.explain.heatmap import draw_grids
from nmt.explain.map_style import map_grid
from nmt.lab.figure import new_figure
from nmt.translation.words import attention_table
from nmt.types import Translation

_MAPS_ACROSS = 3
"""Maps in a line: on a page with more, no label could be read."""


def draw_bleu(results: Sequence[Result]) -> Figure:
    """A row for each kind: its mean, a dot for each run, and the baseline as a line.

    The bar is the interval of the difference to the baseline, drawn around the kind's own mean.
    """
    ordered = sorted(results, key=lambda result: result.bleu)
    figure = new_figure(7.0, 0.6 + 0.28 * len(ordered))
    axes = figure.subplots()
    base = results[0]
    axes.axvline(base.bleu, color=PALE, linewidth=1.0, zorder=0)
    for place, result in enumerate(ordered):
        colour = BLUE if result is base else GREY
        ends = [result.bleu] * 2
        if result.difference is not None:
            start = result.bleu - result.difference.mean
            ends = [start + result.difference.low, start + result.difference.high]
            axes.plot(ends, [place, place], color=PALE, linewidth=4.0, solid_capstyle="butt")
        axes.plot([*result.bleus.values()], [place] * len(result.bleus), ".", color=colour)
        axes.plot([result.bleu], [place], "|", color=colour, markersize=11, markeredgewidth=2)
        axes.annotate(
            f"{result.bleu:.1f}",
            (max(*result.bleus.values(), ends[1]), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="0.3",
        )
    axes.set_yticks(range(len(ordered)), [result.name for result in ordered])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.09)
    axes.set_xlabel("BLEU on the test set")
    return figure


def draw_maps(forced: Mapping[str, Translation]) -> Figure:
    """The map of the same pair of sentences by each kind, in one grid."""
    some = next(iter(forced.values()))
    maps = [(attention_table(translation), kind) for kind, translation in forced.items()]
    title = f"{some.src_text}\n{some.hypotheses[0].text}"
    return draw_grids([map_grid(maps, across=_MAPS_ACROSS)], title)
