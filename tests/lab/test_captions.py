"""The captioner: what is drawn, what is said of it, what is unseen, and that it learns."""

import dataclasses
import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from nmt.lab.captioning.examining import Answer, accuracy, looks, places
from nmt.lab.captioning.learning import learn
from nmt.lab.captioning.model import GRID, drawn_captioner
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.scenes import (
    COLOURS,
    SIDE,
    Arrangement,
    Placed,
    Relation,
    Thing,
    masks,
    paint,
    place,
    with_noise,
)
from nmt.lab.captioning.shapes import SHAPES
from nmt.lab.captioning.split import PAIR, Split, split
from nmt.lab.captioning.strip import draw_strips
from nmt.lab.captioning.words import LANGUAGES, Language, Lexicon, caption
from nmt.lab.captions import CaptionsResult, draw
from nmt.lab.captions import run_drawn as run
from nmt.lab.numbers import NOT_MEASURED
from nmt.models.base import Memory
from nmt.text.vocabulary import EOS_ID, UNK_ID

RED_CIRCLE, BLUE_STAR = Thing("circle", "red", True), Thing("star", "blue", False)


def said(relation: Relation, things: tuple[Thing, ...], language: Language) -> str:
    return " ".join(word.text for word in caption(Arrangement(relation, things), language))


# ---- pictures


@pytest.mark.parametrize("relation", ["alone", "alike", *PAIR])
def test_everything_is_in_the_picture_and_apart(relation: Relation) -> None:
    rng = random.Random(5)
    for _ in range(300):
        things = (RED_CIRCLE, BLUE_STAR) if relation in PAIR else (RED_CIRCLE,)
        scene = place(Arrangement(relation, things), rng)
        assert len(scene) == {"alone": 1, "between": 3}.get(relation, 2)
        for placed in scene:
            assert placed.radius <= placed.x <= SIDE - placed.radius
            assert placed.radius <= placed.y <= SIDE - placed.radius
        for one, other in pairwise(sorted(scene, key=lambda p: (p.x, p.y))):
            assert np.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius + 1.9
        _check_relation(relation, scene)


def _check_relation(relation: Relation, scene: tuple[Placed, ...]) -> None:
    first, *others = scene
    right = [other.x - first.x for other in others]
    down = [other.y - first.y for other in others]
    if relation == "between":
        line = np.array([right, down])
        along = line[:, 0] @ line[:, 1] / np.prod(np.linalg.norm(line, axis=0))
        assert along == pytest.approx(-1)
    elif relation in PAIR:
        toward = {"above": down, "below": down, "left": right, "right": right}[relation][0]
        across = {"above": right, "below": right, "left": down, "right": down}[relation][0]
        assert (toward > 0) == (relation in ("above", "left"))
        assert abs(toward) > 2 * abs(across)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_thing_is_drawn_in_its_colour_where_it_is(shape: str, colour: str) -> None:
    scene = place(Arrangement("alone", (Thing(shape, colour, True),)), random.Random(shape))
    [inside] = masks(scene)
    [picture] = paint([scene], random.Random(0))
    nearest = torch.tensor(list(COLOURS.values())).sub(picture[:, inside == 1].mean(1)).norm(dim=1)
    assert list(COLOURS)[int(nearest.argmin())] == colour
    paper = picture[:, inside == 0]
    assert torch.equal(paper, paper[:1, :1].expand_as(paper))
    assert 0.8 <= float(paper[0, 0]) <= 1.0
    pixels = torch.arange(SIDE) + 0.5
    reach = torch.hypot(pixels - scene[0].x, pixels.unsqueeze(1) - scene[0].y)
    assert float((inside * (reach > scene[0].radius + 1)).sum()) < 0.5  # a point's soft end


def test_noise_is_of_its_size_and_of_its_own_chance() -> None:
    scene = place(Arrangement("alone", (RED_CIRCLE,)), random.Random(3))
    pictures = paint([scene, scene], random.Random(0))
    inside = (pictures > 0.2) & (pictures < 0.8)  # nothing is cut off there
    noise = with_noise(pictures, 0.04, random.Random(1)) - pictures
    assert float(noise[inside].std()) == pytest.approx(0.04, rel=0.1)
    assert torch.equal(with_noise(pictures, 0.0, random.Random(1)), pictures)
    assert not torch.equal(pictures[0], pictures[1])  # each in shades of its own


def test_shapes_have_their_areas() -> None:
    """In squares of the radius; from geometry where it is simple."""
    areas = {}
    for shape in SHAPES:
        inside = masks([Placed(Thing(shape, "red", True), SIDE / 2, SIDE / 2, 30.0, 0.0)])
        areas[shape] = float(inside.sum()) / 30**2
    assert areas["circle"] == pytest.approx(np.pi * 0.92**2, rel=0.01)
    assert areas["square"] == pytest.approx(1.4**2, rel=0.01)
    assert areas["triangle"] == pytest.approx(0.75 * np.sqrt(3), rel=0.01)
    assert areas["cross"] == pytest.approx(2 * 1.84 * 0.6 - 0.6**2, rel=0.01)
    notch = 5 * 0.42 * np.sin(np.pi / 5)  # ten triangles between the centre, a point and a notch
    assert areas["star"] == pytest.approx(notch, rel=0.02)
    assert len({round(area, 2) for area in areas.values()}) == len(SHAPES)


def test_a_turned_thing_turns() -> None:
    upright, turned = masks(
        [Placed(Thing("cross", "red", True), 32.0, 32.0, 20.0, turn) for turn in (0.0, np.pi / 2)]
    )
    torch.testing.assert_close(upright, turned, atol=1e-4, rtol=0)
    askew = masks([Placed(Thing("cross", "red", True), 32.0, 32.0, 20.0, np.pi / 4)])[0]
    assert float((askew - upright).abs().max()) == 1


# ---- words


@pytest.mark.parametrize(
    ("relation", "things", "english", "french"),
    [
        ("alone", (RED_CIRCLE,), "a big red circle", "un grand cercle rouge"),
        ("alone", (BLUE_STAR,), "a small blue star", "une petite étoile bleue"),
        ("alike", (BLUE_STAR,), "two small blue stars", "deux petites étoiles bleues"),
        ("alike", (RED_CIRCLE,), "two big red circles", "deux grands cercles rouges"),
        (
            "above",
            (RED_CIRCLE, BLUE_STAR),
            "a big red circle above a small blue star",
            "un grand cercle rouge au-dessus d'une petite étoile bleue",
        ),
        (
            "left",
            (Thing("moon", "green", True), Thing("heart", "purple", False)),
            "a big green moon to the left of a small purple heart",
            "une grande lune verte à gauche d'un petit cœur violet",
        ),
        (
            "between",
            (Thing("square", "green", True), Thing("cross", "purple", False)),
            "a big green square between two small purple crosses",
            "un grand carré vert entre deux petites croix violettes",
        ),
    ],
)
def test_captions(relation: Relation, things: tuple[Thing, ...], english: str, french: str) -> None:
    assert said(relation, things, "en") == english
    assert said(relation, things, "fr") == french


@pytest.mark.parametrize(
    ("colour", "forms"),
    [
        ("red", "rouge rouge rouges rouges"),
        ("orange", "orange orange orange orange"),
        ("yellow", "jaune jaune jaunes jaunes"),
        ("green", "vert verte verts vertes"),
        ("blue", "bleu bleue bleus bleues"),
        ("purple", "violet violette violets violettes"),
    ],
)
def test_french_colours_agree(colour: str, forms: str) -> None:
    """Masculine, feminine, masculine plural, feminine plural."""
    words = []
    for relation in ("alone", "alike"):
        for shape in ("triangle", "moon"):
            words.append(said(relation, (Thing(shape, colour, True),), "fr").split()[-1])
    assert words == forms.split()


@pytest.mark.parametrize("language", LANGUAGES)
def test_different_arrangements_have_different_captions(language: Language) -> None:
    parts = split(random.Random(1))
    every = [*parts.seen, *parts.unseen, *parts.new_kinds]
    assert len(every) == 8988
    assert len({said(a.relation, a.things, language) for a in every}) == len(every)


def test_ids_are_the_words_between_the_language_and_eos() -> None:
    lexicon = Lexicon()
    parts = split(random.Random(1))
    for language in LANGUAGES:
        for arrangement in [*parts.seen, *parts.unseen, *parts.new_kinds][::11]:
            first, *ids = lexicon.ids(arrangement, language)
            assert first == lexicon.first_id(language)
            assert ids[-1] == EOS_ID
            assert UNK_ID not in ids
            assert lexicon.texts(ids) == [word.text for word in caption(arrangement, language)]
    assert lexicon.first_id("en") != lexicon.first_id("fr")


# ---- what is unseen


@pytest.fixture(scope="module")
def parts() -> Split:
    return split(random.Random("split 1"))


def test_unseen_pairs_never_met(parts: Split) -> None:
    seen = {a.things for a in parts.seen if a.relation in PAIR}
    asked = {a.things for a in parts.unseen if a.relation in PAIR}
    assert len(asked) > 200
    assert not asked & seen
    seen_singles = {(a.relation, a.things) for a in parts.seen if a.relation not in PAIR}
    asked_singles = {(a.relation, a.things) for a in parts.unseen if a.relation not in PAIR}
    assert len(asked_singles) > 20
    assert not asked_singles & seen_singles


def test_every_unseen_thing_is_known_from_other_company(parts: Split) -> None:
    known = {thing for a in parts.seen for thing in a.things}
    assert {thing for a in parts.unseen for thing in a.things} <= known


def test_new_kinds_are_new_and_made_of_what_is_known(parts: Split) -> None:
    known = {(thing.shape, thing.colour) for a in parts.seen for thing in a.things}
    assert {kind[0] for kind in known} == set(SHAPES)
    assert {kind[1] for kind in known} == set(COLOURS)
    assert len(known) == len(SHAPES) * len(COLOURS) - 4
    for arrangement in parts.new_kinds:
        assert any((t.shape, t.colour) not in known for t in arrangement.things)


# ---- where a word looks


def test_places_of_a_thing_and_its_copies() -> None:
    big, small = Thing("square", "red", True), Thing("square", "blue", False)
    scene = (
        Placed(big, 32.0, 32.0, 10.0, 0.0),  # 7 pixels each way of its middle, on four places
        Placed(small, 12.0, 12.0, 5.0, 0.0),  # 3.5 pixels each way
        Placed(small, 52.0, 52.0, 5.0, 0.0),
    )
    at = places(scene, Arrangement("between", (big, small))).reshape(2, GRID, GRID)
    assert np.argwhere(at[0]).tolist() == [[3, 3], [3, 4], [4, 3], [4, 4]]
    assert np.argwhere(at[1]).tolist() == [[1, 1], [6, 6]]


def _answer(weights: np.ndarray, words: tuple[str, ...] | None = None) -> Answer:
    big, small = Thing("square", "red", True), Thing("circle", "blue", False)
    arrangement = Arrangement("left", (big, small))
    scene = (Placed(big, 32.0, 32.0, 10.0, 0.0), Placed(small, 52.0, 32.0, 5.0, 0.0))
    right = tuple(word.text for word in caption(arrangement, "en"))
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)
    return Answer(arrangement, scene, picture, "en", words or right, weights)


def test_looks_are_measured_on_the_thing_meant() -> None:
    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    even = looks([_answer(weights)], "colour")
    assert even.n_words == 2
    assert even.on_right == pytest.approx(even.chance)
    assert even.on_right == pytest.approx(even.on_other)
    weights[2] = 0  # "red", all at a place of the square
    weights[2, 3 * GRID + 3] = 1
    weights[10] = 0  # "blue", there too
    weights[10, 3 * GRID + 3] = 1
    half = looks([_answer(weights)], "colour")
    assert (half.on_right, half.on_other, half.pointed) == (0.5, 0.5, 0.5)
    assert looks([_answer(weights, ("a", "big"))], "colour").n_words == 0  # wrong: not counted


def test_an_answer_is_right_in_every_word_or_wrong() -> None:
    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    right = _answer(weights)
    longer = _answer(weights, (*right.said, "star"))
    shorter = _answer(weights, right.said[:-1])
    assert [right.right, longer.right, shorter.right] == [True, False, False]
    assert accuracy([right, longer, shorter]) == pytest.approx(1 / 3)


# ---- the model


def test_the_order_of_the_places_means_nothing_to_the_decoder() -> None:
    """A permuted memory gives the same words and the permuted map: it is a set."""
    torch.manual_seed(0)
    model = drawn_captioner(CaptionsOptions(hidden=13, annotation=11, embedding=7), 31).eval()
    with torch.no_grad():
        memory = model.encoder(torch.rand(3, 3, SIDE, SIDE))
    order = torch.randperm(GRID * GRID)
    mixed = Memory(memory.values[:, order], memory.keep[:, order], memory.final)
    tgt_in = torch.randint(4, 31, (3, 5))
    straight, permuted = (
        model.decoder.teacher_forced(tgt_in, model.init_state(m), with_weights=True)
        for m in (memory, mixed)
    )
    torch.testing.assert_close(straight.logits, permuted.logits)
    torch.testing.assert_close(straight.weights[:, :, order], permuted.weights)
    assert not torch.allclose(straight.weights, permuted.weights)


def test_a_place_sees_its_surroundings_alike_on_all_sides() -> None:
    """By gradient: 38 pixels, 15 to each side of its own 8. Else a map would be off the things."""
    model = drawn_captioner(CaptionsOptions(), 31).eval()
    pictures = torch.rand(1, 3, SIDE, SIDE, requires_grad=True)
    model.encoder(pictures).values[0, 3 * GRID + 4].sum().backward()
    assert pictures.grad is not None
    rows, columns = pictures.grad[0].abs().sum(0).nonzero().unbind(1)
    assert (int(rows.min()), int(rows.max())) == (3 * 8 - 15, 3 * 8 + 7 + 15)
    assert (int(columns.min()), int(columns.max())) == (4 * 8 - 15, 4 * 8 + 7 + 15)


@pytest.mark.parametrize(
    "decoder",
    [
        {"attention": {"kind": "scaled_dot"}},
        {"attention": {"kind": "multi_head", "heads": 2}},
        {"attention": {"kind": "additive", "weights": {"kind": "hard"}}},
        {"cell": "lstm"},
    ],
    ids=str,
)
def test_other_decoders_learn_too(decoder: dict[str, object]) -> None:
    """The captioner takes what the decoder takes; attention that samples adds its own loss."""
    sizes = {"hidden": 32, "annotation": 32, "pictures": 4, "updates": 15}
    options = CaptionsOptions.model_validate({**decoder, **sizes})
    torch.manual_seed(1)
    lexicon = Lexicon()
    things = [Arrangement("alone", (RED_CIRCLE,)), Arrangement("alike", (BLUE_STAR,))]
    losses = learn(drawn_captioner(options, len(lexicon.vocab)), things, options, lexicon)
    assert losses[-1] < 0.7 * losses[0]


def test_an_attention_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"got 128 .* and 64"):
        CaptionsOptions.model_validate({"attention": {"kind": "dot"}})


# ---- the experiment


SMALL = CaptionsOptions(updates=6, pictures=8, asked=60)


def test_equal_options_give_equal_results() -> None:
    torch.manual_seed(4)
    before = torch.get_rng_state()
    first = _without_time(run(SMALL))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    again = run(SMALL)
    assert _without_time(again) == first
    assert len(draw(again).axes) > len(LANGUAGES)
    assert "unseen arrangements" in "\n".join(again.summary())
    assert _without_time(run(SMALL.model_copy(update={"seed": 2}))) != first


def _without_time(result: CaptionsResult) -> dict[str, object]:
    numbers = {**result.numbers(), "answers": [answer.said for answer in result.unseen]}
    del numbers["seconds_of_training"]
    return numbers


def test_it_learns_to_name_a_thing() -> None:
    """Two colours and two shapes, one thing a picture, one of the four kinds never shown."""
    kinds = [("circle", "red"), ("circle", "blue"), ("cross", "red"), ("cross", "blue")]
    things = [Arrangement("alone", (Thing(*kind, True),)) for kind in kinds]
    options = CaptionsOptions(updates=50, pictures=12)
    torch.manual_seed(1)
    lexicon = Lexicon()
    model = drawn_captioner(options, len(lexicon.vocab))
    losses = learn(model, things[:3], options, lexicon)
    assert np.mean(losses[-5:]) < 0.15
    assert np.mean(losses[:5]) > 2


def test_the_picture_has_a_panel_for_every_word() -> None:
    weights = np.full((13, GRID * GRID), 0.5 / GRID**2, np.float32)
    weights[2, 3 * GRID + 4] = 0.5  # "red" looks at row 3, column 4
    answer = _answer(weights)
    answer.picture[:] = 200
    table = {(lang, a): looks([answer], a) for lang in LANGUAGES for a in ("size", "colour")}
    figure = draw_strips([[answer, answer]], table)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [*answer.said, *answer.said]
    red = np.asarray(figure.axes[3].images[0].get_array())[:, :, 0]
    row, column = np.unravel_index(red.argmax(), red.shape)
    assert (row // 8, column // 8) == (3, 4)
    assert red.max() == 200
    assert red[0, 0] < 60


def test_an_even_look_is_darker_than_a_sharp_one() -> None:
    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    weights[2] = 0.2 / GRID**2
    weights[2, 27] += 0.8
    answer = _answer(weights)
    answer.picture[:] = 200
    figure = draw_strips([[answer, answer]], {})
    sharp, even = (np.asarray(figure.axes[place].images[0].get_array()) for place in (3, 4))
    assert sharp.max() == 200
    assert even.max() < 60
    assert "80%" in figure.get_supxlabel()


def test_a_mean_over_no_word_is_not_measured() -> None:
    weights = np.full((13, GRID * GRID), 1 / GRID**2, np.float32)
    long, wrong = _answer(weights, ("a",) * 13), _answer(weights, ("a", "big"))
    french = dataclasses.replace(wrong, language="fr")
    result = CaptionsResult((wrong, french), (wrong, french), np.ones(20), 1, 1, 1, 1.0)
    table = [line for line in result.summary() if " words" in line]
    assert all(line.count(NOT_MEASURED) == 3 and "%" not in line for line in table)
    bars = draw_strips([[long, long], [wrong, wrong]], result.looks()).axes[-1]
    assert {text.get_text() for text in bars.texts} == {NOT_MEASURED}


def test_no_text_stands_on_a_bar() -> None:
    answer = _answer(np.full((13, GRID * GRID), 1 / GRID**2, np.float32))
    table = {(lang, a): looks([answer], a) for lang in LANGUAGES for a in ("size", "colour")}
    short = _answer(answer.attention, answer.said[:2])
    figure = draw_strips([[answer, answer], [short, short]], table)
    figure.canvas.draw()
    bars = figure.axes[-1]
    assert bars.get_yticklabels()[0].get_text() == "en: size words"
    boxes = [text.get_window_extent() for text in bars.texts]
    for label in bars.get_yticklabels():
        assert not any(label.get_window_extent().overlaps(box) for box in boxes)


@pytest.mark.slow
def test_unseen_arrangements_are_captioned() -> None:
    """The figure of docs/lab/captions.md."""
    result = run(CaptionsOptions())
    for language in LANGUAGES:
        answers = [answer for answer in result.unseen if answer.language == language]
        assert len(answers) > 1000
        assert accuracy(answers) >= 0.95
        # One look tells colour and shape: the second of the two words may look elsewhere.
        look = looks(answers, "colour" if language == "en" else "shape")
        assert look.on_right > 6 * look.chance
        assert look.on_right > 6 * look.on_other
