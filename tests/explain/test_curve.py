"""The learning curve shows what metrics.jsonl says, and nothing that no training wrote."""

import json
from pathlib import Path

import numpy as np
import pytest

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
    assert "7.25" in bleu.get_title()
    for tick, label in zip(perplexity.get_yticks(), perplexity.get_yticklabels(), strict=True):
        assert np.exp(tick) == pytest.approx(float(label.get_text()))


def test_the_metric_that_chooses_the_best_is_drawn(tmp_path: Path) -> None:
    _write(tmp_path, *TRAIN, {**VALID[0], "chrf": 33.5}, {**VALID[0], "step": 150, "loss": 2.0})
    _, chrf, _ = draw_curve(tmp_path, "chrf").axes
    assert chrf.get_title() == "chrF2 of validations, best 33.50"
    loss, bleu, _ = draw_curve(tmp_path, "loss").axes
    assert bleu.get_title() == "BLEU of validations, best 7.25"
    np.testing.assert_array_equal(loss.lines[2].get_xydata(), [(150, 2.0)])


def test_damaged_and_altered_lines_are_left_out(tmp_path: Path) -> None:
    odd = [{"type": "train", "step": step, "loss": 1.0} for step in (-1, 10**400, "x", 1.5, None)]
    odd += [
        {"type": "train", "step": 1, "loss": loss} for loss in (1e300, -1.0, "x", None, 10**400)
    ]
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
