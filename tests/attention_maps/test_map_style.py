"""The looks of a picture of maps: colours, scale, numbers, title; and its file formats."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from nmt.attention_maps.heads import choose_heads
from nmt.attention_maps.heatmap import (
    draw_grids,
    draw_heatmap,
    draw_translation,
    write_heatmap,
    write_map,
)
from nmt.attention_maps.map_grid import map_grid
from nmt.attention_maps.map_style import FORMATS, MapStyle, picture
from nmt.attention_maps.words import AttentionTable
from nmt.errors import ConfigError

WEIGHTS = np.array([[0.996, 0.004, 0.0], [0.004, 0.121, 0.875]], dtype=np.float32)
TABLE = AttentionTable(("un", "</s>"), ("a", "b", "</s>"), WEIGHTS)
STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_is_that_of_the_suffix_and_its_bytes_are_always_the_same(
    format: str, make_translation, tmp_path: Path
) -> None:
    translation = make_translation("the cat|s", ["les chat|s"])
    before = dict(mpl.rcParams)
    for name in (f"a.{format}", f"b.{format.upper()}"):
        write_heatmap(translation, tmp_path / name, style=MapStyle(numbers=True))
    content = (tmp_path / f"a.{format}").read_bytes()
    assert content.startswith(STARTS[format])
    assert content == (tmp_path / f"b.{format.upper()}").read_bytes()
    assert dict(mpl.rcParams) == before
    assert not re.search(rb"20\d\d-\d\d-\d\d|D:20\d\d", content)


def test_a_format_has_precedence_over_the_suffix(tmp_path: Path) -> None:
    figure = draw_heatmap(TABLE)
    for name, format in (("a.png", "svg"), ("b", "pdf")):
        write_map(figure, tmp_path / name, format)
        assert (tmp_path / name).read_bytes().startswith(STARTS[format])
    with pytest.raises(ConfigError, match=r"c\.x"):
        write_map(figure, tmp_path / "c.x")
    assert not (tmp_path / "c.x").exists()


def test_an_svg_is_xml_of_the_size_of_the_png(tmp_path: Path) -> None:
    figure = draw_heatmap(TABLE, "title")
    root = ElementTree.fromstring(picture(figure, "svg"))
    (tmp_path / "a.png").write_bytes(picture(figure, "png"))
    height, width, _ = imread(tmp_path / "a.png").shape
    points = [float(root.attrib[name].removesuffix("pt")) for name in ("width", "height")]
    assert [round(150 / 72 * each) for each in points] == pytest.approx([width, height], abs=2)


def test_cells_have_the_numbers_of_their_weights_in_a_colour_to_be_read() -> None:
    axes = draw_heatmap(TABLE, style=MapStyle(numbers=True, scale=1.0)).axes[0]
    written = {(text.get_position(), text.get_text(), text.get_color()) for text in axes.texts}
    assert written == {
        ((0, 0), "1.0", "white"),
        ((1, 1), ".12", "black"),
        ((2, 1), ".88", "white"),
    }
    assert not draw_heatmap(TABLE).axes[0].texts


@pytest.mark.parametrize("n_pieces", [2, 25, 70])
def test_a_number_fits_its_cell(n_pieces: int) -> None:
    labels = tuple(map(str, range(n_pieces)))
    table = AttentionTable(labels, labels, np.eye(n_pieces, dtype=np.float32) * 0.88)
    style = MapStyle(numbers=True)
    for figure in (
        draw_heatmap(table, style=style),
        draw_grids([map_grid([(table, "x")])], "", style),
    ):
        figure.draw_without_rendering()
        axes = figure.axes[0]
        side = axes.get_window_extent().width / n_pieces
        box = axes.texts[n_pieces // 2].get_window_extent()
        assert box.width < 0.95 * side
        assert box.height < 0.95 * side
        assert axes.texts[0].get_fontsize() >= 5


def test_numbers_need_room() -> None:
    labels = tuple(map(str, range(167)))
    table = AttentionTable(labels, labels, np.eye(167, dtype=np.float32))
    with pytest.raises(ConfigError, match="numbers`: got maps of 167 cells on a side, allowed: at"):
        draw_heatmap(table, style=MapStyle(numbers=True))


def test_scale_colours_and_title(make_translation) -> None:
    translation = make_translation("the cat|s", ["les chats"], n_heads=2)
    style = MapStyle(colours="viridis", scale=0.5, title="mine")
    heads = choose_heads("all", {"cross": ["one", "two"]})
    for shown in (
        draw_translation(translation, style=style),
        draw_translation(translation, heads=heads, style=style),
    ):
        maps = [axes for axes in shown.axes if axes.images]
        assert {axes.images[0].get_clim() for axes in maps} == {(0.0, 0.5)}
        assert {axes.images[0].get_cmap().name for axes in maps} == {"viridis"}
        assert shown.axes[0].get_title(loc="left") == "mine"
    without = draw_translation(translation, heads=heads[:1], style=MapStyle(title=""))
    assert without.axes[0].get_title(loc="left") == "one"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"colours": "virdis"}, r"`colours`: got 'virdis', .* did you mean 'viridis'\?"),
        ({"scale": 0.0}, "`scale`: got 0, allowed: above 0, at most 1"),
        ({"scale": 1.5}, "`scale`: got 1.5"),
        ({"scale": float("nan")}, "`scale`: got nan"),
    ],
)
def test_looks_that_there_are_not(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        MapStyle(**options)


def test_maps_of_one_line_each_are_wrapped_at_the_given_number() -> None:
    maps = [(TABLE, f"kind {number}") for number in range(16)]
    assert [len(line) for line in map_grid(maps, across=3).lines] == [3, 3, 3, 3, 3, 1]
    layers = [(TABLE, f"layer {layer} head {head}") for layer in (1, 2) for head in (1, 2, 3, 4)]
    assert [len(line) for line in map_grid(layers, across=3).lines] == [3, 3, 2]
