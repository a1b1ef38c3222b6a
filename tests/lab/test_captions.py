"""The captioner of drawn shapes: pictures, captions, what is unseen, where words look."""

import itertools
import random

import numpy as np
import pytest
import torch

from nmt.lab.captioning import evaluation, scenes
from nmt.lab.captioning.evaluation import GRID, GeneratedCaption
from nmt.lab.captioning.scenes import PAIR, SIDE, Arrangement, PlacedThing, Relation, Thing
from nmt.lab.captioning.words import LANGUAGES, CaptionVocabulary, Language, caption
from nmt.text.vocabulary import EOS_ID, UNK_ID

RED_CIRCLE, BLUE_STAR = Thing("circle", "red", True), Thing("star", "blue", False)


def texts(arrangement: Arrangement, language: Language) -> list[str]:
    return [word.text for word in caption(arrangement, language)]


@pytest.mark.parametrize("relation", ["alone", "alike", *PAIR])
def test_everything_is_in_the_picture_and_apart(relation: Relation) -> None:
    rng = random.Random(5)
    things = (RED_CIRCLE, BLUE_STAR) if relation in PAIR else (RED_CIRCLE,)
    for _ in range(30):
        scene = scenes.draw_scene(Arrangement(relation, things), rng)
        assert len(scene) == {"alone": 1, "between": 3}.get(relation, 2)
        for placed in scene:
            assert placed.radius <= min(placed.x, placed.y)
            assert max(placed.x, placed.y) <= SIDE - placed.radius
        for one, other in itertools.combinations(scene, 2):
            assert np.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius + 1.9
        if relation in PAIR[:-1]:
            down, right = scene[1].y - scene[0].y, scene[1].x - scene[0].x
            toward, across = (down, right) if relation in ("above", "below") else (right, down)
            assert (toward > 0) == (relation in ("above", "left"))
            assert abs(toward) > 2 * abs(across)


AREAS = {
    "circle": np.pi * 0.92**2,
    "square": 1.4**2,
    "triangle": 0.75 * np.sqrt(3),
    "cross": 2 * 1.84 * 0.6 - 0.6**2,
    "star": 5 * 0.42 * np.sin(np.pi / 5),  # ten triangles around its centre
}
"""By geometry, in squares of the radius."""


@pytest.mark.parametrize(
    ("shape", "colour"), [*zip(scenes.SHAPES, itertools.cycle(scenes.COLOURS), strict=False)]
)
def test_a_thing_is_drawn_in_its_colour_where_it_is(shape: str, colour: str) -> None:
    arrangement = Arrangement("alone", (Thing(shape, colour, True),))
    [placed] = scene = scenes.draw_scene(arrangement, random.Random(shape))
    [inside], [picture] = scenes.coverage(scene), scenes.paint([scene], random.Random(0))
    gaps = torch.tensor([*scenes.COLOURS.values()]) - picture[:, inside == 1].mean(1)
    assert [*scenes.COLOURS][int(gaps.norm(dim=1).argmin())] == colour
    paper = picture[:, inside == 0]
    assert torch.equal(paper, paper[:1, :1].expand_as(paper))
    pixels = torch.arange(SIDE) + 0.5
    reach = torch.hypot(pixels - placed.x, pixels.unsqueeze(1) - placed.y)
    assert float(inside[reach > placed.radius + 1].sum()) < 0.5  # a point's soft end
    area = float(inside.sum()) / placed.radius**2
    assert area == pytest.approx(AREAS.get(shape, area), rel=0.03)


def test_captions() -> None:
    square, cross = Thing("square", "orange", True), Thing("cross", "purple", False)
    for arrangement, english, french in (
        (Arrangement("alone", (BLUE_STAR,)), "a small blue star", "une petite étoile bleue"),
        (
            Arrangement("above", (RED_CIRCLE, BLUE_STAR)),
            "a big red circle above a small blue star",
            "un grand cercle rouge au-dessus d'une petite étoile bleue",
        ),
        (
            Arrangement("between", (square, cross)),
            "a big orange square between two small purple crosses",
            "un grand carré orange entre deux petites croix violettes",
        ),
    ):
        assert texts(arrangement, "en") == english.split()
        assert texts(arrangement, "fr") == french.split()


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
    assert {shape for shape, _ in known} == scenes.SHAPES.keys()
    assert {colour for _, colour in known} == scenes.COLOURS.keys()
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
    words = tuple(texts(arrangement, "en"))
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)

    def answer(weights: np.ndarray, words: tuple[str, ...] = words) -> GeneratedCaption:
        return GeneratedCaption(arrangement, scene, picture, "en", words, weights)

    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    even = evaluation.attention_shares([answer(weights)], "colour")
    assert even.n_words == 2
    assert even.on_thing == even.on_other == even.uniform == 3 / GRID**2
    answers = [answer(weights, text) for text in (words, (*words, "star"), words[:-1])]
    assert evaluation.accuracy(answers) == pytest.approx(1 / 3)
    weights = np.zeros_like(weights)
    weights[:, 3 * GRID + 3] = 1  # "red" and "blue", both at a cell of the big square
    half = evaluation.attention_shares([answer(weights)], "colour")
    assert (half.on_thing, half.on_other) == (0.5, 0.5)
    assert evaluation.attention_shares([answer(weights, ("a", "big"))], "colour") is None
