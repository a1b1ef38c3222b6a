"""The captioner, of any features and of drawn shapes: captions, and where words look."""

import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.lab import captioner as lab
from nmt.lab.captioning import evaluation, scenes
from nmt.lab.captioning.evaluation import GRID, GeneratedCaption
from nmt.lab.captioning.scenes import SIDE, Arrangement, PlacedThing, Thing
from nmt.lab.captioning.words import LANGUAGES, CaptionVocabulary, Language, caption
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID, UNK_ID

RED_CIRCLE, BLUE_STAR = Thing("circle", "red", True), Thing("star", "blue", False)


def texts(arrangement: Arrangement, language: Language) -> list[str]:
    return [word.text for word in caption(arrangement, language)]


CAPTIONS = """
a small blue star
une petite étoile bleue
a big red circle above a small blue star
un grand cercle rouge au-dessus d'une petite étoile bleue
a big orange square between two small purple crosses
un grand carré orange entre deux petites croix violettes
"""


def test_captions() -> None:
    square, cross = Thing("square", "orange", True), Thing("cross", "purple", False)
    star, above = Arrangement("alone", (BLUE_STAR,)), Arrangement("above", (RED_CIRCLE, BLUE_STAR))
    arrangements = star, above, Arrangement("between", (square, cross))
    captions = [" ".join(texts(scene, lang)) for scene in arrangements for lang in ("en", "fr")]
    assert captions == CAPTIONS.strip().split("\n")


def test_unseen_arrangements_are_new_and_made_of_what_is_known() -> None:
    parts, vocabulary = scenes.split(random.Random("split 1")), CaptionVocabulary()
    everything = [*parts.seen, *parts.unseen, *parts.new_kinds]
    assert len(everything) == 8988
    seen, unseen = ({a.things for a in part} for part in (parts.seen, parts.unseen))
    assert all(len(things) == 1 for things in seen & unseen)
    assert not {*parts.seen} & {*parts.unseen}
    things = {*itertools.chain(*seen)}
    assert {*itertools.chain(*unseen)} <= things
    known = {(thing.shape, thing.colour) for thing in things}
    assert [{*names} for names in zip(*known, strict=True)] == [{*scenes.SHAPES}, {*scenes.COLOURS}]
    assert len(known) == len(scenes.SHAPES) * len(scenes.COLOURS) - 4
    assert vocabulary.first_id("en") != vocabulary.first_id("fr")
    for language in LANGUAGES:
        assert len({tuple(texts(arrangement, language)) for arrangement in everything}) == 8988
        for arrangement in everything[::99]:
            first, *ids = vocabulary.ids(arrangement, language)
            assert (first, ids[-1]) == (vocabulary.first_id(language), EOS_ID)
            assert UNK_ID not in ids
            assert vocabulary.texts(ids) == texts(arrangement, language)


def test_looks_of_right_captions_are_measured_on_the_thing_meant() -> None:
    things = Thing("square", "red", True), Thing("square", "blue", False)
    arrangement = Arrangement("between", things)
    scene = (
        PlacedThing(things[0], 32.0, 32.0, 10.0, 0.0),  # 7 pixels each way, on four cells
        PlacedThing(things[1], 12.0, 12.0, 5.0, 0.0),  # 3.5 pixels each way
        PlacedThing(things[1], 52.0, 52.0, 5.0, 0.0),
    )
    cells = evaluation.occupied_cells(scene, arrangement).reshape(2, GRID, GRID)
    assert np.argwhere(cells[0]).tolist() == [[3, 3], [3, 4], [4, 3], [4, 4]]
    assert np.argwhere(cells[1]).tolist() == [[1, 1], [6, 6]]
    words, picture = tuple(texts(arrangement, "en")), np.zeros((SIDE, SIDE, 3), np.uint8)
    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    right, *wrong = (
        GeneratedCaption(arrangement, scene, picture, "en", text, weights)
        for text in (words, (*words, "star"), words[:-1])
    )
    assert evaluation.accuracy([right, *wrong]) == pytest.approx(1 / 3)
    even = evaluation.attention_shares([right, *wrong], "colour")
    assert even.n_words == 2
    assert even.on_thing == even.on_other == even.uniform == 3 / GRID**2
    assert evaluation.attention_shares(wrong, "colour") is None
    weights[:] = 0
    weights[:, 3 * GRID + 3] = 1  # "red" and "blue", both at a cell of the big square
    half = evaluation.attention_shares([right], "colour")
    assert (half.on_thing, half.on_other) == (0.5, 0.5)


PAGE = Path(__file__).parents[2] / "docs" / "features.md"
V = 11


def model_of() -> lab.Captioner:
    config = RecurrentConfig(embedding=5, hidden=7, attention=AdditiveConfig(size=3), dropout=0.0)
    return lab.Captioner(lab.FeatureEncoder(13, 17), config, 17, V).eval()


def features(*lengths: int) -> lab.Features:
    return lab.Features.from_sequences([torch.rand(length, 13) for length in lengths])


def test_the_page_of_features_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec("\n".join(blocks), {})
    loss, shares = capsys.readouterr().out.splitlines()
    assert float(loss.split()[0]) < 0.1
    right, looked = (int(number) for number in re.findall(r"(\d+) (?:of|times)", shares))
    assert min(right, looked) > 90


@torch.inference_mode()
def test_steps_equal_the_teacher_forced_pass_and_rows_are_apart() -> None:
    model, rows, inputs = model_of(), torch.tensor([1, 1, 0]), features(3, 5)
    tgt_in = torch.randint(4, V, (3, 4))
    output = model(inputs, rows, tgt_in, with_weights=True)
    for i in range(3):
        alone = model(inputs, rows[i : i + 1], tgt_in[i : i + 1]).logits
        torch.testing.assert_close(output.logits[i : i + 1], alone)
    state = model.decoder.init_state(lab.annotate(model, inputs).select(rows))
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
    results = lab.describe(model, lab.annotate(model, lab.Features(values, holes)), firsts, config)
    for masked, places, keep in zip(results, values, holes, strict=True):
        memory = lab.annotate(model, lab.Features.from_sequences([places[keep]]))
        [alone] = lab.describe(model, memory, firsts[:1], config)
        assert masked.ids == alone.ids
        assert masked.score == pytest.approx(alone.score, abs=1e-5)
        attention = np.zeros_like(masked.attention)
        attention[:, keep.numpy()] = alone.attention
        np.testing.assert_allclose(masked.attention, attention, atol=1e-5)
        np.testing.assert_allclose(attention.sum(axis=1), 1, atol=1e-5)
