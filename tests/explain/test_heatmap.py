"""Pictures of maps: what is drawn where, labels that can be read, looks, and file formats."""

import io
import itertools
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt.errors import ConfigError
from nmt.explain.heatmap import draw_heatmap, draw_translation, write_map
from nmt.explain.map_style import DPI, FORMATS, PLAIN, MapStyle
from nmt.translation.heads import MEAN, choose_heads
from nmt.translation.words import AttentionTable, attention_table

SIXTY = " ".join(f"gra|nd{number % 7}" for number in range(30))
NAMES = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2, 3)]
WHOLE = {
    "encoder": [f"encoder {name}" for name in NAMES],
    "decoder": [f"decoder {name}" for name in NAMES],
    "cross": NAMES,
}
WEIGHTS = np.array([[0.996, 0.004, 0.0], [0.004, 0.121, 0.875]], dtype=np.float32)
TABLE = AttentionTable(("un", "</s>"), ("a", "b", "</s>"), WEIGHTS)
STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def drawn(make_translation, source: str, wanted: str, style: MapStyle = PLAIN) -> Figure:
    """The figure of chosen heads of `source` over itself; every warning of drawing is an error."""
    translation = make_translation(source, [source], n_heads=6, n_self_heads=6)
    figure = draw_translation(translation, heads=choose_heads(wanted, WHOLE), style=style)
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    return figure


def maps_of(figure: Figure) -> list[Axes]:
    """The maps, without the colour bars."""
    return [axes for axes in figure.axes if axes.get_xlabel()]


def tick_labels(axes: Axes) -> tuple[list[str], list[str]]:
    rows, columns = axes.get_yticklabels(), axes.get_xticklabels()
    return [text.get_text() for text in rows], [text.get_text() for text in columns]


def test_target_runs_down_and_source_along_the_top(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s l' œuvre", "un chat|s"])
    axes = draw_translation(translation, 1, "word").axes[0]
    weights = attention_table(translation, 1, "word").weights
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    axes = draw_translation(translation).axes[0]
    rows, columns = tick_labels(axes)
    assert rows == ["_les", "_chat", "s", "_l'", "_œuvre", "</s>"]
    assert columns == ["_the", "_cat", "s", "</s>"]
    assert axes.yaxis_inverted()
    assert all(tick.label2.get_visible() for tick in axes.xaxis.get_major_ticks())
    weights = translation.hypotheses[0].hypothesis.attention
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert axes.get_title(loc="left") == "the cats\nles chats l' œuvre"
    assert not any(text.get_parse_math() for text in (*axes.get_xticklabels(), axes._left_title))


def test_a_bar_beside_each_row_is_the_share_of_the_source(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chat|s l' œuvre"], method="erasure")
    axes, bars, scale = draw_translation(translation).axes
    share = attention_table(translation).source_share
    np.testing.assert_allclose([bar.get_width() for bar in bars.patches], share)
    assert [bar.get_y() + bar.get_height() / 2 for bar in bars.patches] == list(range(len(share)))
    assert bars.get_ylim() == axes.get_ylim()
    places = [part.get_position() for part in (axes, bars, scale)]
    assert places[0].x1 < places[1].x0 < places[1].x1 < places[2].x0


def test_each_attention_is_a_grid_with_its_heading_and_colours(make_translation) -> None:
    translation = make_translation("the cat|s", ["les"], n_heads=6, n_self_heads=6)
    figure = draw_translation(translation, heads=choose_heads("all", WHOLE))
    maps = maps_of(figure)
    assert len(figure.axes) == 21  # a colour bar a grid
    assert [axes.get_xlabel() for axes in maps] == NAMES * 3
    hypothesis = translation.hypotheses[0].hypothesis
    kinds = {**hypothesis.self_heads, "cross": hypothesis.heads}
    for first, (kind, heads) in enumerate(kinds.items()):
        assert maps[6 * first].get_title(loc="left").split("\n")[-1].startswith(kind)
        end = np.ceil(heads.max() * 10) / 10
        for axes, weights in zip(maps[6 * first : 6 * first + 6], heads, strict=True):
            np.testing.assert_array_equal(axes.images[0].get_array(), weights)
            assert axes.images[0].get_clim() == pytest.approx((0, end))
    source, target = ["_the", "_cat", "s", "</s>"], ["_les", "</s>"]
    shown = [tick_labels(maps[i]) for i in (0, 6, 12, 13, 15)]
    both = (["<s>", "_les"],) * 2
    assert shown == [(source, source), both, (target, source), ([], source), (target, [])]


@pytest.mark.parametrize("source", ["hi", SIXTY])
def test_nothing_overlaps_and_all_can_be_read(source, make_translation) -> None:
    maps = maps_of(drawn(make_translation, source, "all"))
    for axes in maps[::6]:
        columns = [text.get_window_extent() for text in axes.get_xticklabels()]
        rows = [text.get_window_extent() for text in axes.get_yticklabels()]
        assert all(left.x1 <= right.x0 for left, right in itertools.pairwise(columns))
        assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(rows))
        labels = axes.get_xticklabels() + axes.get_yticklabels()
        assert {5 <= label.get_fontsize() <= 11 for label in labels} == {True}
    for above, axes in ((maps[3:6], maps[6]), (maps[9:12], maps[12])):
        heading = axes._left_title.get_window_extent()
        assert heading.y1 < min(panel.xaxis.get_label().get_window_extent().y0 for panel in above)
        assert heading.y0 >= max(text.get_window_extent().y1 for text in axes.get_xticklabels())


def test_a_picture_of_a_very_long_sentence_has_bounds(make_translation) -> None:
    """Labels that would be too small to read are left out, and those that are there say which."""
    translation = make_translation(" ".join(f"w{n}" for n in range(900)), ["oui"], n_heads=6)
    for heads in ([MEAN], choose_heads("cross", WHOLE)):
        figure = draw_translation(translation, heads=heads)
        assert max(figure.get_size_inches()) * DPI <= 6200
        labels = tick_labels(figure.axes[0])[1]
        step = round(900 / len(labels))
        assert step > 1
        assert labels[:3] == ["_w0", f"_w{step}", f"_w{2 * step}"]
        assert figure.axes[0].get_xticklabels()[0].get_fontsize() >= 5


@pytest.mark.parametrize("format", FORMATS)
def test_the_suffix_gives_the_format_and_bytes_are_reproducible(
    format: str, make_translation, tmp_path: Path
) -> None:
    translation = make_translation("the cat|s", ["les chat|s"], n_heads=2)
    before = dict(mpl.rcParams)
    heads = choose_heads("mean,all", {"cross": ["a", "b"]})
    contents = []
    for name, written_as in ((f"a.{format}", ()), (f"b.{format.upper()}", ()), ("x", (format,))):
        figure = draw_translation(translation, heads=heads, style=MapStyle(numbers=True))
        write_map(figure, tmp_path / name, *written_as)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1] == contents[2]
    assert contents[0].startswith(STARTS[format])
    assert not re.search(rb"20\d\d-\d\d-\d\d|D:20\d\d", contents[0])
    assert dict(mpl.rcParams) == before
    with pytest.raises(ConfigError, match=r"c\.x"):
        write_map(figure, tmp_path / "c.x")


def test_cells_show_their_weights_as_numbers_in_readable_colours() -> None:
    axes = draw_heatmap(TABLE, style=MapStyle(numbers=True, scale=1.0)).axes[0]
    numbers = {(text.get_position(), text.get_text(), text.get_color()) for text in axes.texts}
    white = {((0, 0), "1.0", "white"), ((2, 1), ".88", "white")}
    assert numbers == {*white, ((1, 1), ".12", "black")}
    plain = draw_heatmap(TABLE, "mot " * 50).axes[0]
    assert (len(plain.texts), plain.images[0].get_clim()) == (0, (0, 1))
    assert len(plain.get_title(loc="left")) <= 60  # cut at the width of the picture


def test_a_number_fits_its_cell_or_is_refused() -> None:
    def numbered(n_pieces: int) -> Figure:
        labels = tuple(map(str, range(n_pieces)))
        table = AttentionTable(labels, labels, np.eye(n_pieces, dtype=np.float32) * 0.88)
        return draw_heatmap(table, style=MapStyle(numbers=True))

    figure = numbered(40)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    box = axes.texts[1].get_window_extent()
    assert max(box.width, box.height) < 0.95 * axes.get_window_extent().width / 40
    with pytest.raises(ConfigError, match=r"`numbers`: got .* 167 cells .* at most 166"):
        numbered(167)


def test_a_scale_holds_for_every_map(make_translation) -> None:
    figure = drawn(make_translation, "the cat|s", "cross", MapStyle(scale=0.5))
    assert {axes.images[0].get_clim() for axes in maps_of(figure)} == {(0.0, 0.5)}
    for scale in (0.0, 1.5, float("nan")):
        with pytest.raises(ConfigError, match=f"`scale`: got {scale:g}"):
            MapStyle(scale=scale)
