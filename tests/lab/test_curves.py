"""Curves told in words: what is drawn, what is said, where words look, and that it learns."""

import random

import numpy as np
import pytest
import torch

from nmt.lab.captioner import FeatureEncoder, Features
from nmt.lab.curve_stories import KINDS, Curve, draw_curve, features_of, places_of, split
from nmt.lab.curves import CurvesOptions, CurvesResult, Told, draw, look, run
from nmt.lab.numbers import NOT_MEASURED


def curve_of(*story: str, noise: float = 0.0) -> Curve:
    return draw_curve(story, noise, np.random.default_rng(3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_is_of_its_kind(kind: str) -> None:
    """Before and after a level piece, without noise."""
    curve = curve_of("stays level", kind) if kind != "stays level" else curve_of(kind)
    steps = np.diff(curve.samples)[np.diff(curve.pieces, prepend=-1)[1:] == 0]
    steps = steps[-(16 - 1) :]  # a piece has 16 samples or more
    sign = {"rises": 1, "falls": -1}.get(kind.split()[0], 0)
    if kind == "oscillates":
        assert (np.diff(np.sign(steps)) != 0).sum() >= 3
    elif sign == 0:
        assert np.abs(steps).max() < 1e-6
    else:
        assert (np.sign(steps) == sign).all()
        assert steps == pytest.approx(steps[0], abs=1e-5)
        assert (abs(steps[0]) > 0.05) == kind.endswith("steeply")


def test_a_curve_has_no_jumps_and_its_noise_is_of_its_size() -> None:
    story = ("rises steeply", "oscillates", "falls slowly", "stays level")
    plain, noisy = curve_of(*story), curve_of(*story, noise=0.05)
    assert np.abs(np.diff(plain.samples)).max() < 0.5
    assert len(np.unique(plain.pieces)) == 4
    level = noisy.samples[noisy.pieces == 3]
    assert float(level.std()) == pytest.approx(0.05, rel=0.5)


def test_words_and_the_pieces_they_mean() -> None:
    curve = curve_of("rises slowly", "oscillates", "stays level")
    assert " ".join(curve.words) == "rises slowly then oscillates then stays level"
    assert curve.meant == [0, 0, None, 1, None, 2, 2]


def test_unseen_sequences_are_of_known_pieces() -> None:
    seen, unseen = split(random.Random(1))
    assert len(seen) + len(unseen) == 6 + 6 * 5 + 6 * 5**2 + 6 * 5**3
    assert len(unseen) == (len(seen) + len(unseen) - 6) // 6
    assert not set(seen) & set(unseen)
    assert {story for story in seen if len(story) == 1} == {(kind,) for kind in KINDS}


def test_a_place_holds_the_samples_of_its_window() -> None:
    curve = curve_of("rises slowly", "falls steeply")
    features = features_of(curve)
    own = curve.samples[4:12]
    np.testing.assert_allclose(features[1, :8], own - own.mean(), atol=1e-6)
    at = places_of(curve)
    assert at.shape == (2, len(features))
    assert (at.sum(axis=0) == 1).all()
    first_of_second = int(at[1].argmax())
    assert curve.pieces[4 * first_of_second + 4] == 1
    assert curve.pieces[4 * (first_of_second - 1) + 4] == 0


def test_looks_are_measured_on_the_piece_meant() -> None:
    curve = curve_of("rises slowly", "oscillates")
    at = places_of(curve)
    weights = np.full((5, at.shape[1]), 1 / at.shape[1], np.float32)
    even = Told(curve, tuple(curve.words), weights)
    assert look([even], first=True).on_piece == pytest.approx(look([even], first=True).chance)
    weights = weights.copy()
    weights[1] = at[0] / at[0].sum()  # "slowly"
    sharp = Told(curve, tuple(curve.words), weights)
    assert look([sharp], first=False).on_piece == pytest.approx(1)
    assert (look([sharp], first=False).n_words, look([sharp], first=True).n_words) == (1, 2)
    assert look([Told(curve, ("rises",), weights)], first=True).n_words == 0  # wrong: not counted


# ---- features of different numbers of places


def test_padding_is_invisible_to_the_encoder() -> None:
    torch.manual_seed(0)
    encoder = FeatureEncoder(7, 5).eval()
    rows = [torch.rand(3, 7), torch.rand(11, 7)]
    together = encoder(Features.padded(rows))
    for i, row in enumerate(rows):
        alone = encoder(Features.padded([row]))
        torch.testing.assert_close(together.values[i, : len(row)], alone.values[0])
        torch.testing.assert_close(together.final[i], alone.final[0])
        assert together.keep[i].tolist() == [True] * len(row) + [False] * (11 - len(row))
    assert not together.values[0, 3:].any()


# ---- the experiment


SMALL = CurvesOptions(updates=4, batch=4, asked=30)


def test_equal_options_give_equal_results() -> None:
    before = torch.get_rng_state()
    first, again = run(SMALL), run(SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    numbers = [{**each.numbers(), "seconds_of_training": 0} for each in (first, again)]
    assert numbers[0] == numbers[1]
    assert [each.said for each in first.told] == [each.said for each in again.told]
    other = run(SMALL.model_copy(update={"seed": 2}))
    assert [each.said for each in first.told] != [each.said for each in other.told]
    for each in first.told:
        assert each.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)  # none on padding
    assert len(draw(first).axes) >= 3
    assert "told right" in "\n".join(first.summary())


def test_a_mean_over_no_word_is_not_measured() -> None:
    curve = curve_of("rises slowly")
    wrong = Told(curve, ("falls",), np.ones((1, 16), np.float32))
    lines = CurvesResult((wrong,), np.ones(20), 1, 1, 1.0).summary()
    table = [line for line in lines if " words" in line]
    assert [line.count(NOT_MEASURED) for line in table] == [2, 2]


def test_the_picture_has_a_row_for_each_word() -> None:
    told = []
    for story in (("rises slowly", "oscillates"), ("falls slowly",), ("oscillates",)):
        curve = curve_of(*story)
        weights = np.zeros((len(curve.words) + 1, places_of(curve).shape[1]), np.float32)
        weights[:, 1] = 0.5
        told.append(Told(curve, tuple(curve.words), weights))
    result = run(SMALL)
    figure = draw(type(result)(tuple(told), result.losses, 1, 1, 0.0))
    figure.canvas.draw()
    tables = [axes for axes in figure.axes if axes.images]
    labels = [[label.get_text() for label in axes.get_yticklabels()] for axes in tables]
    assert sorted(labels) == sorted(each.curve.words for each in told)
    left, right, *_ = tables[0].images[0].get_extent()
    assert left == 2  # the first window's middle is at 4, and the next one's at 8
    assert (right - left) % 4 == 0


@pytest.mark.slow
def test_curves_of_unseen_sequences_are_told() -> None:
    """The figure of docs/lab/curves.md."""
    result = run(CurvesOptions())
    assert np.mean([each.right for each in result.told]) > 0.85
    first, second = result.looks["first"], result.looks["second"]
    assert first.on_piece > 2.5 * first.chance
    assert second.on_piece > 2 * second.chance
