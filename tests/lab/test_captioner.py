"""An encoder of anything and the decoder that translates; curves told in words by it."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.decoding.search_config import SearchConfig
from nmt.lab.captioner import (
    CaptionBatch,
    Captioner,
    FeatureEncoder,
    Features,
    annotate,
    describe,
    train,
)
from nmt.lab.curve_stories import KINDS, Curve, draw_curve, features_of, places_of, split
from nmt.lab.curves import CurvesOptions, CurvesResult, Told, draw, look, run
from nmt.lab.numbers import NOT_MEASURED
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

PAGE = Path(__file__).parents[2] / "docs" / "features.md"
V = 11


def model_of() -> Captioner:
    torch.manual_seed(0)
    config = RecurrentConfig(embedding=5, hidden=7, attention=AdditiveConfig(size=3), dropout=0.0)
    return Captioner(FeatureEncoder(13, 17), config, 17, V).eval()


def features(*lengths: int) -> Features:
    torch.manual_seed(5)
    return Features.padded([torch.rand(length, 13) for length in lengths])


def test_the_page_of_features_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    loss, shares = capsys.readouterr().out.splitlines()
    assert float(loss.split()[0]) < 0.1
    right, looked = (int(number) for number in re.findall(r"(\d+) (?:of|times)", shares))
    assert min(right, looked) > 90


@torch.inference_mode()
def test_steps_equal_the_teacher_forced_pass_and_rows_are_apart() -> None:
    model, rows = model_of(), torch.tensor([1, 1, 0])
    tgt_in = torch.randint(4, V, (3, 4))
    output = model(features(3, 5), rows, tgt_in, with_weights=True)
    assert output.weights is not None
    for i, row in enumerate(rows.tolist()):
        alone = model(features(3, 5), torch.tensor([row]), tgt_in[i : i + 1]).logits
        torch.testing.assert_close(output.logits[i : i + 1], alone)
    output = model(features(3, 5, 2), torch.arange(3), tgt_in, with_weights=True)
    state = model.init_state(annotate(model, features(3, 5, 2)))
    for t in range(4):
        step = model.step(tgt_in[:, t], state)
        torch.testing.assert_close(step.logits, output.logits[:, t])
        torch.testing.assert_close(step.weights, output.weights[:, t])
        state = step.state


def test_masked_places_are_invisible_wherever_they_are() -> None:
    """The search gives the same with and without them, and gives them no attention."""
    model, values = model_of(), features(4, 4).values
    holes = torch.tensor([[True, False, True, True], [False, True, True, False]])
    config = SearchConfig(beam=3, max_length_factor=0, max_length_extra=6)
    firsts = torch.full((2,), BOS_ID)
    for row, masked in enumerate(
        describe(model, annotate(model, Features(values, holes)), firsts, config)
    ):
        shorter = Features.padded([values[row, holes[row]]])
        [alone] = describe(model, annotate(model, shorter), firsts[:1], config)
        assert masked.ids == alone.ids
        assert masked.score == pytest.approx(alone.score, abs=1e-5)
        assert masked.attention[:, holes[row].numpy()] == pytest.approx(alone.attention, abs=1e-5)
        assert not masked.attention[:, ~holes[row].numpy()].any()
        assert masked.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_padding_is_invisible_to_the_encoder() -> None:
    encoder, lengths = model_of().encoder, (3, 11)
    together = encoder(features(*lengths))
    for i, n in enumerate(lengths):
        alone = encoder(Features.padded([features(*lengths).values[i, :n]]))
        torch.testing.assert_close(together.values[i, :n], alone.values[0])
        torch.testing.assert_close(together.final[i], alone.final[0])
        assert together.keep[i].tolist() == [True] * n + [False] * (11 - n)
    assert not together.values[0, 3:].any()


def test_a_batch_reads_the_first_piece_and_ends_with_eos() -> None:
    ids = [[BOS_ID, 7, EOS_ID], [BOS_ID, 5, 6, EOS_ID]]
    batch = CaptionBatch.of(features(3, 2), [1, 0], ids)
    assert batch.tgt_in.tolist() == [[BOS_ID, 7, PAD_ID], [BOS_ID, 5, 6]]
    assert batch.tgt_out.tolist() == [[7, EOS_ID, PAD_ID], [5, 6, EOS_ID]]
    assert batch.n_tokens == 5
    assert batch.rows.tolist() == [1, 0]


def test_training_takes_no_more_batches_than_updates() -> None:
    batches: list[CaptionBatch] = []

    def endless() -> Iterator[CaptionBatch]:
        while True:
            batches.append(CaptionBatch.of(features(3), [0], [[BOS_ID, 7, 8, EOS_ID]]))
            yield batches[-1]

    model = model_of()
    losses = list(train(model, endless(), 12, 0.02))
    assert len(losses) == len(batches) == 12
    assert losses[-1] < 0.7 * losses[0]
    assert model.training


# ---- curves


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
    rows, at = features_of(curve), places_of(curve)
    window = curve.samples[4:12]
    np.testing.assert_allclose(rows[1, :8], window - window.mean(), atol=1e-6)
    assert at.shape == (2, len(rows))
    assert (at.sum(axis=0) == 1).all()
    first = int(at[1].argmax())
    assert (curve.pieces[4 * first], curve.pieces[4 * first + 4]) == (0, 1)


def test_looks_are_measured_on_the_piece_meant() -> None:
    curve = curve_of("rises slowly", "oscillates")
    at = places_of(curve)
    weights = np.full((5, at.shape[1]), 1 / at.shape[1], np.float32)
    even = look([Told(curve, tuple(curve.words), weights)], first=True)
    assert even.on_piece == pytest.approx(even.chance)
    weights = weights.copy()
    weights[1] = at[0] / at[0].sum()  # "slowly"
    sharp = Told(curve, tuple(curve.words), weights)
    assert look([sharp], first=False).on_piece == pytest.approx(1)
    assert (look([sharp], first=False).n_words, look([sharp], first=True).n_words) == (1, 2)
    wrong = Told(curve, ("rises",), weights)
    assert look([wrong], first=True).n_words == 0  # only right ones count
    summary = CurvesResult((wrong,), np.ones(20), 1, 1, 1.0).summary()
    table = [line for line in summary if " words" in line]
    assert [line.count(NOT_MEASURED) for line in table] == [2, 2]


def test_equal_options_tell_equal_curves() -> None:
    options, before = CurvesOptions(updates=4, batch=4, asked=30), torch.get_rng_state()
    first, again = run(options), run(options)
    assert torch.equal(torch.get_rng_state(), before)
    numbers = [{**result.numbers(), "seconds_of_training": 0} for result in (first, again)]
    assert numbers[0] == numbers[1]
    assert [told.said for told in first.told] == [told.said for told in again.told]
    other = run(options.model_copy(update={"seed": 2}))
    assert [told.said for told in first.told] != [told.said for told in other.told]
    for told in first.told:
        assert told.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)  # none on padding
    assert draw(first).axes


@pytest.mark.slow
def test_curves_of_unseen_sequences_are_told() -> None:
    result = run(CurvesOptions())
    assert np.mean([told.right for told in result.told]) > 0.85
    first, second = result.looks["first"], result.looks["second"]
    assert first.on_piece > 2.5 * first.chance
    assert second.on_piece > 2 * second.chance
