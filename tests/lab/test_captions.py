"""The captioner of drawn shapes: pictures, captions, what is unseen, where words look."""

import itertools
import random

import numpy as np
import pytest
import torch

from nmt.lab.captioning.evaluation import (
    GRID,
    GeneratedCaption,
    accuracy,
    attention_shares,
    occupied_cells,
)
from nmt.lab.captioning.scenes import (
    COLOURS,
    PAIR,
    SHAPES,
    SIDE,
    Arrangement,
    PlacedThing,
    Relation,
    Thing,
    coverage,
    draw_scene,
    paint,
    split,
)
from nmt.lab.captioning.words import LANGUAGES, CaptionVocabulary, Language, caption
from nmt.text.vocabulary import EOS_ID, UNK_ID

RED_CIRCLE, BLUE_STAR = Thing("circle", "red", True), Thing("star", "blue", False)


def caption_of(relation: Relation, things: tuple[Thing, ...], language: Language) -> str:
    return " ".join(word.text for word in caption(Arrangement(relation, things), language))


@pytest.mark.parametrize("relation", ["alone", "alike", *PAIR])
def test_everything_is_in_the_picture_and_apart(relation: Relation) -> None:
    rng = random.Random(5)
    things = (RED_CIRCLE, BLUE_STAR) if relation in PAIR else (RED_CIRCLE,)
    for _ in range(100):
        scene = draw_scene(Arrangement(relation, things), rng)
        assert len(scene) == {"alone": 1, "between": 3}.get(relation, 2)
        for placed in scene:
            for centre in (placed.x, placed.y):
                assert placed.radius <= centre <= SIDE - placed.radius
        for one, other in itertools.pairwise(sorted(scene, key=lambda p: (p.x, p.y))):
            assert np.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius + 1.9
        if relation in PAIR[:-1]:
            [other] = scene[1:]
            down, right = other.y - scene[0].y, other.x - scene[0].x
            toward, across = (down, right) if relation in ("above", "below") else (right, down)
            assert (toward > 0) == (relation in ("above", "left"))
            assert abs(toward) > 2 * abs(across)


def test_a_thing_is_drawn_in_its_colour_where_it_is() -> None:
    for shape, colour in zip(SHAPES, itertools.cycle(COLOURS), strict=False):
        scene = draw_scene(
            Arrangement("alone", (Thing(shape, colour, True),)), random.Random(shape)
        )
        [inside], [picture] = coverage(scene), paint([scene], random.Random(0))
        gaps = torch.tensor(list(COLOURS.values())) - picture[:, inside == 1].mean(1)
        assert list(COLOURS)[int(gaps.norm(dim=1).argmin())] == colour
        paper = picture[:, inside == 0]
        assert torch.equal(paper, paper[:1, :1].expand_as(paper))
        pixels = torch.arange(SIDE) + 0.5
        reach = torch.hypot(pixels - scene[0].x, pixels.unsqueeze(1) - scene[0].y)
        assert float((inside * (reach > scene[0].radius + 1)).sum()) < 0.5  # a point's soft end


def test_shapes_have_their_areas() -> None:
    """In squares of the radius, by geometry; a star is ten triangles around its centre."""
    areas = {
        "circle": np.pi * 0.92**2,
        "square": 1.4**2,
        "triangle": 0.75 * np.sqrt(3),
        "cross": 2 * 1.84 * 0.6 - 0.6**2,
        "star": 5 * 0.42 * np.sin(np.pi / 5),
    }
    for shape, area in areas.items():
        inside = coverage([PlacedThing(Thing(shape, "red", True), SIDE / 2, SIDE / 2, 30.0, 0.0)])
        assert float(inside.sum()) / 30**2 == pytest.approx(area, rel=0.02)


@pytest.mark.parametrize(
    ("relation", "things", "english", "french"),
    [
        ("alone", (BLUE_STAR,), "a small blue star", "une petite étoile bleue"),
        (
            "above",
            (RED_CIRCLE, BLUE_STAR),
            "a big red circle above a small blue star",
            "un grand cercle rouge au-dessus d'une petite étoile bleue",
        ),
        (
            "between",
            (Thing("square", "orange", True), Thing("cross", "purple", False)),
            "a big orange square between two small purple crosses",
            "un grand carré orange entre deux petites croix violettes",
        ),
    ],
)
def test_captions(relation: Relation, things: tuple[Thing, ...], english: str, french: str) -> None:
    assert caption_of(relation, things, "en") == english
    assert caption_of(relation, things, "fr") == french


def test_unseen_arrangements_are_new_and_made_of_what_is_known() -> None:
    parts, vocabulary = split(random.Random("split 1")), CaptionVocabulary()
    everything = [*parts.seen, *parts.unseen, *parts.new_kinds]
    assert len(everything) == 8988
    assert not {a.things for a in parts.seen if len(a.things) == 2} & {
        a.things for a in parts.unseen
    }
    assert not {*parts.seen} & {*parts.unseen}
    things = {thing for a in parts.seen for thing in a.things}
    assert {thing for a in parts.unseen for thing in a.things} <= things
    known = {(thing.shape, thing.colour) for thing in things}
    assert ({shape for shape, _ in known}, {c for _, c in known}) == (set(SHAPES), set(COLOURS))
    assert len(known) == len(SHAPES) * len(COLOURS) - 4
    assert vocabulary.first_id("en") != vocabulary.first_id("fr")
    for language in LANGUAGES:
        assert len({caption_of(a.relation, a.things, language) for a in everything}) == 8988
        for arrangement in everything[::99]:
            first, *ids = vocabulary.ids(arrangement, language)
            assert (first, ids[-1]) == (vocabulary.first_id(language), EOS_ID)
            assert UNK_ID not in ids
            assert vocabulary.texts(ids) == [word.text for word in caption(arrangement, language)]


def test_cells_of_a_thing_and_its_copies() -> None:
    big, small = Thing("square", "red", True), Thing("square", "blue", False)
    scene = (
        PlacedThing(big, 32.0, 32.0, 10.0, 0.0),  # 7 pixels each way of its middle, on four cells
        PlacedThing(small, 12.0, 12.0, 5.0, 0.0),  # 3.5 pixels each way
        PlacedThing(small, 52.0, 52.0, 5.0, 0.0),
    )
    cells = occupied_cells(scene, Arrangement("between", (big, small)))
    at = cells.reshape(2, GRID, GRID)
    assert np.argwhere(at[0]).tolist() == [[3, 3], [3, 4], [4, 3], [4, 4]]
    assert np.argwhere(at[1]).tolist() == [[1, 1], [6, 6]]


def test_looks_of_right_captions_are_measured_on_the_thing_meant() -> None:
    things = Thing("square", "red", True), Thing("circle", "blue", False)
    arrangement = Arrangement("left", things)
    scene = (
        PlacedThing(things[0], 32.0, 32.0, 10.0, 0.0),
        PlacedThing(things[1], 52.0, 32.0, 5.0, 0.0),
    )
    words = tuple(word.text for word in caption(arrangement, "en"))
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)

    def answer(weights: np.ndarray, words: tuple[str, ...] = words) -> GeneratedCaption:
        return GeneratedCaption(arrangement, scene, picture, "en", words, weights)

    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    even = attention_shares([answer(weights)], "colour")
    assert even.n_words == 2
    assert even.on_thing == pytest.approx(even.uniform)
    assert even.on_thing == pytest.approx(even.on_other)
    longer, shorter = (*words, "star"), words[:-1]
    answers = [answer(weights, text) for text in (words, longer, shorter)]
    assert accuracy(answers) == pytest.approx(1 / 3)
    weights = np.zeros_like(weights)
    weights[:, 3 * GRID + 3] = 1  # "red" and "blue", both at a cell of the square
    half = attention_shares([answer(weights)], "colour")
    assert (half.on_thing, half.on_other) == (0.5, 0.5)
    assert attention_shares([answer(weights, ("a", "big"))], "colour") is None
