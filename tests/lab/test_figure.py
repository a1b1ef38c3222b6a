"""The house style: the user's matplotlib is neither used nor changed."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

from nmt.lab.figure import DPI, heat, house_style, new_figure, write_png


def picture(path: Path) -> bytes:
    with house_style():
        figure = new_figure(4.0, 3.0)
        heat(figure.subplots(), np.eye(3))
        write_png(figure, path)
    return path.read_bytes()


def test_a_picture_has_its_size_and_does_not_hang_on_the_users_settings(tmp_path: Path) -> None:
    first = picture(tmp_path / "a.png")
    assert imread(tmp_path / "a.png").shape[:2] == (3 * DPI, 4 * DPI)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black", "savefig.dpi": 10}):
        assert picture(tmp_path / "b.png") == first
        assert mpl.rcParams["font.size"] == 30


def test_no_part_of_a_picture_is_left_after_a_fault(tmp_path: Path) -> None:
    figure = new_figure(1.0, 1.0)
    figure.text(0, 0, "$\\nonsense$")
    with pytest.raises(ValueError, match="nonsense"):
        write_png(figure, tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []
