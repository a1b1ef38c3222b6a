"""Maps of several models: beside one another where their labels agree, on one scale."""

import numpy as np

from nmt.explain.heatmap import draw_side_by_side
from nmt.explain.map_style import MapStyle


def test_equal_labels_stand_side_by_side_others_below(make_translation) -> None:
    even, sharp = np.full((3, 3), 1 / 3, np.float32), np.eye(3, dtype=np.float32)
    translations = {
        "even": make_translation("the cat", ["le chat"], even),
        "sharp": make_translation("the cat", ["le chat"], sharp),
        "other": make_translation("the cat", ["un chat"], even),
    }
    figure = draw_side_by_side(translations)
    maps = {axes.get_xlabel(): axes for axes in figure.axes if axes.get_xlabel()}
    assert list(maps) == list(translations)
    even_box, sharp_box, other_box = (axes.get_position() for axes in maps.values())
    assert even_box.y0 == sharp_box.y0
    assert even_box.x1 < sharp_box.x0
    assert other_box.y1 < even_box.y0
    assert maps["even"].get_title(loc="left") == "the cat\nle chat"
    assert maps["other"].get_title(loc="left") == "un chat"
    assert {axes.images[0].get_clim() for axes in maps.values()} == {(0.0, 1.0)}
    figure = draw_side_by_side({"even": translations["even"]}, style=MapStyle(scale=0.5))
    assert figure.axes[0].images[0].get_clim() == (0.0, 0.5)
