"""Curves of metrics.jsonl and of BLEU by length: what was measured, and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest

from nmt.evaluation.evaluate import Bucket
from nmt.explain.by_length import draw_by_length
from nmt.explain.colours import CYCLE, PALE
from nmt.explain.curve import draw_curve, draw_curves

TRAIN = [{"type": "train", "step": step, "loss": loss} for step, loss in ((50, 3.5), (100, 2.25))]
VALID = [{"type": "valid", "step": 100, "loss": 2.5, "perplexity": 12.2, "bleu": 7.25}]


def _write(folder: Path, *lines: object) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")


def test_the_points_are_those_of_the_records(tmp_path: Path) -> None:
    _write(tmp_path, *TRAIN, *VALID)
    loss, bleu, perplexity = draw_curve(tmp_path).axes
    training, *validation = (line.get_xydata() for line in loss.lines)
    np.testing.assert_array_equal(training, [(50, 3.5), (100, 2.25)])
    np.testing.assert_array_equal(validation, [[(100, 2.5)]] * 2)  # the best has a larger point
    np.testing.assert_array_equal(bleu.lines[0].get_xydata(), [(100, 7.25)])
    for tick, label in zip(perplexity.get_yticks(), perplexity.get_yticklabels(), strict=True):
        assert np.exp(tick) == pytest.approx(float(label.get_text()))

    _write(tmp_path, *TRAIN, {**VALID[0], "chrf": 33.5}, {**VALID[0], "step": 150, "loss": 2.0})
    assert "33.50" in draw_curve(tmp_path, "chrf").axes[1].get_title()
    loss, bleu, _ = draw_curve(tmp_path, "loss").axes
    assert "7.25" in bleu.get_title()
    np.testing.assert_array_equal(loss.lines[2].get_xydata(), [(150, 2.0)])


def test_damaged_and_altered_lines_are_left_out(tmp_path: Path) -> None:
    odd = [{**TRAIN[0], "step": step} for step in (-1, 10**400, "x", 1.5, None)]
    odd += [{**TRAIN[0], "loss": loss} for loss in (1e300, -1.0, "x", None, 10**400)]
    _write(tmp_path, *odd, [], 7, *TRAIN, {"type": [], "step": 3})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"type": "train", "step": 2, "loss": NaN}\n\xff\n{"type": "tr')
    assert len(draw_curve(tmp_path).axes[0].lines[0].get_xydata()) == 2


def test_several_runs_share_a_picture_each_in_its_colour(tmp_path: Path) -> None:
    runs = {name: tmp_path / name for name in ("one", "$two$", "unvalidated")}
    for i, path in enumerate(runs.values()):
        path.mkdir()
        rows = [{**row, "loss": row["loss"] + i} for row in (*TRAIN, *VALID)]
        _write(path, *(row for row in rows if i < 2 or row["type"] == "train"))
    loss, bleu, _ = draw_curves(runs, "loss").axes
    assert [text.get_text() for text in loss.get_legend().get_texts()] == list(runs)
    for i, (training, validation) in enumerate(zip(*[iter(loss.lines)] * 2, strict=True)):
        np.testing.assert_array_equal(training.get_xydata(), [(50, 3.5 + i), (100, 2.25 + i)])
        assert len(validation.get_xydata()) == (i < 2)
        assert training.get_color() == validation.get_color()
    assert len({line.get_color() for line in loss.lines}) == 3
    np.testing.assert_array_equal(bleu.lines[1].get_xydata(), [(100, 7.25)])
    assert len(draw_curves({"unvalidated": runs["unvalidated"]}).axes) == 2  # loss, perplexity


def buckets(*bleus: float) -> tuple[Bucket, ...]:
    edges = ((0, 5), (6, 10), (11, None))
    return tuple(Bucket(*edge, 1700, float(bleu)) for edge, bleu in zip(edges, bleus, strict=True))


def test_each_system_is_a_line_by_length_with_its_name() -> None:
    systems = {"runs/a": buckets(30, 20, 10), "b_$1$": buckets(31, 25, 10.1), "c": buckets(5, 5, 5)}
    [axes] = draw_by_length(systems).axes
    curves = [list(line.get_ydata()) for line in axes.lines]
    assert curves == [[30, 20, 10], [31, 25, 10.1], [5, 5, 5]]
    assert [line.get_color() for line in axes.lines] == list(CYCLE[:3])
    names = {text.get_text(): text.get_color() for text in axes.texts}
    assert names == dict(zip(systems, CYCLE, strict=False))
    heights = sorted(text.xy[1] for text in axes.texts)
    assert heights[2] - heights[1] > 1  # 10 and 10.1 would overlap
    [axes] = draw_by_length(systems, ["c"]).axes  # the others are grey
    assert [line.get_color() for line in axes.lines].count(PALE) == 2
    assert [text.get_text() for text in axes.texts] == ["c"]
