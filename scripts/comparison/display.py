"""The comparison in Markdown and in pictures: BLEU of each kind, and one sentence's maps."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from measuring import markdown_table

from comparison.measures import Result
from comparison.speed import Speed
from nmt.explain.colours import BLUE, GREY, PALE
from nmt.explain.heatmap import draw_grids
from nmt.explain.map_style import map_grid
from nmt.lab.figure import new_figure
from nmt.translation.words import attention_table
from nmt.types import Translation

_MAPS_ACROSS = 3
"""Maps in a line: on a page with more, no label could be read."""


def markdown(results: Sequence[Result], speeds: Mapping[str, Speed]) -> str:
    """Tables of quality, of where attention looks, of BLEU by length, and of cost."""
    parts = [_quality(results), _looks(results), _by_length(results)]
    return "\n\n".join([*parts, *([_cost(results, speeds)] if speeds else [])]) + "\n"


def _quality(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        against = ["", "", ""]
        if (d := result.difference) is not None:
            against = [f"{d.mean:+.2f}", f"{d.low:+.2f} to {d.high:+.2f}", f"{d.p_value:.3f}"]
        spread = "" if result.spread is None else f"{result.spread:.2f}"
        row = [result.name, str(len(result.bleus)), f"{result.bleu:.2f}", spread, *against]
        size = f"{result.n_parameters / 1e6:.2f} M"
        rows.append([*row, f"{result.length:.2f}", f"{math.exp(result.loss):.2f}", size])
    titles = ["kind", "runs", "BLEU", "s.d.", f"against {results[0].name}", "95 % interval", "p"]
    return markdown_table([*titles, "length", "perplexity", "parameters"], rows)


def _looks(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        looks = result.looks
        head = "" if looks.n_heads == 1 else f"{looks.head_entropy:.2f}"
        share = f"{100 * looks.share:.0f} %"
        rows.append([result.name, f"{looks.entropy:.2f}", share, f"{looks.largest:.2f}", head])
    titles = ["kind", "entropy (nats)", "share of the maximum", "largest weight"]
    return markdown_table([*titles, "entropy of a head"], rows)


def _by_length(results: Sequence[Result]) -> str:
    titles = [
        f"{b.lowest or 1}{'+' if b.highest is None else f'-{b.highest}'} ({b.n_sentences})"
        for b in results[0].by_length
    ]
    rows = [[result.name, *(f"{b.bleu:.1f}" for b in result.by_length)] for result in results]
    return markdown_table(["source words (sentences)", *titles], rows)


def _cost(results: Sequence[Result], speeds: Mapping[str, Speed]) -> str:
    rows = []
    names = [result.name for result in results if result.name in speeds]
    for name in dict.fromkeys([*names, *speeds]):
        speed, row = speeds[name], [name]
        for timed in (speed.training, speed.greedy, speed.beam):
            rate = f"{timed.rate:,.0f}" if timed.rate >= 100 else f"{timed.rate:.1f}"
            row += [f"{rate} ({100 * timed.spread:.0f} %)", f"{timed.ratio:.2f}"]
        memory = speed.memory_bytes
        rows.append([*row, "" if memory is None else f"{memory / 2**20:,.0f}"])
    titles = ["kind", "training, tokens/s", "ratio", "greedy, sentences/s", "ratio"]
    return markdown_table([*titles, "beam, sentences/s", "ratio", "memory of an update, MiB"], rows)


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
    some, *_ = forced.values()
    maps = [(attention_table(translation), kind) for kind, translation in forced.items()]
    title = f"{some.src_text}\n{some.hypotheses[0].text}"
    return draw_grids([map_grid(maps, across=_MAPS_ACROSS)], title)
