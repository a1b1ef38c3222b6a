"""Show, Attend and Tell (Xu et al. 2015, arXiv 1502.03044) with the decoder that translates.

Pictures of coloured shapes are captioned in French and in English. The decoder is that of the
translation models, unchanged: its memory holds the places of a picture in place of the words of a
sentence. The test pictures show arrangements not seen in training (captioning/split.py).
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from pydantic import Field, model_validator
from torch import nn

from nmt.lab.captioner import (
    CaptionBatch,
    Captioner,
    annotate,
    describe,
    train,
)
from nmt.lab.captioning.model import GRID, Eye
from nmt.lab.captioning.scenes import SIDE, Arrangement, Scene, masks, paint, place, with_noise
from nmt.lab.captioning.split import split
from nmt.lab.captioning.strip import draw_strips
from nmt.lab.captioning.words import LANGUAGES, Aspect, Language, Lexicon, Word, caption
from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.cells import CellKind
from nmt.models.recurrent.rnn_config import BahdanauConfig, RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.settings.base import conflict_error

_ASPECTS: tuple[Aspect, ...] = ("size", "colour", "shape")
_SHOWN = ("left", "between", "alike")
_LONGEST = 20  # words, eos included; the longest right caption has 13
_SEARCHED = 64  # pictures searched at a time
_TOUCHED = 0.1  # a thing is at a place if it covers this share of its 8 by 8 pixels


class CaptionsOptions(Options):
    """The captioner's attention, sizes, training and test."""

    attention: AttentionConfig = Field(
        default=AdditiveConfig(size=48), description="the decoder's, any of a translation model's"
    )
    cell: CellKind = Field(default="gru", description="the decoder's recurrent cell")
    hidden: int = Field(default=128, ge=8, description="units of the decoder")
    annotation: int = Field(default=64, ge=8, description="numbers that describe one place")
    embedding: int = Field(default=48, ge=1, description="size of a word's embedding")
    updates: int = Field(default=2000, ge=1, description="updates of Adam")
    pictures: int = Field(
        default=32, ge=2, description="new pictures an update, with captions in both languages"
    )
    lr: float = Field(default=0.004, gt=0, description="greatest learning rate; a cosine lowers it")
    noise: float = Field(default=0.04, ge=0, description="added to pixels, standard deviation")
    asked: int = Field(
        default=1600,
        ge=4,
        description="unseen arrangements asked, at most; and a quarter as many with new kinds",
    )
    beam: int = Field(default=1, ge=1, description="hypotheses kept in search; 1 is greedy")

    @model_validator(mode="after")
    def _attention_fits(self) -> "CaptionsOptions":
        conflicts = list(self.attention.conflicts(self.hidden, self.annotation))
        if conflicts:
            note = "; here the sizes are called hidden and annotation"
            raise conflict_error([(f"attention.{key}", why + note) for key, why in conflicts])
        return self


def new_captioner(options: CaptionsOptions, vocab_size: int) -> Captioner:
    """Return a captioner whose first weights come from torch's global generator."""
    config = RecurrentConfig(
        embedding=options.embedding,
        hidden=options.hidden,
        dropout=0.0,
        attention=options.attention,
        decoder=BahdanauConfig(cell=options.cell),
    )
    return Captioner(Eye(options.annotation), config, options.annotation, vocab_size)


def caption_batches(
    arrangements: Sequence[Arrangement], options: CaptionsOptions, lexicon: Lexicon
) -> Iterator[CaptionBatch]:
    """Yield new pictures with their captions in every language, without end.

    A relation is drawn first, then an arrangement with it, because few arrangements have one thing.
    """
    rng = random.Random(f"lessons {options.seed}")
    by_relation: dict[str, list[Arrangement]] = {}
    for arrangement in arrangements:
        by_relation.setdefault(arrangement.relation, []).append(arrangement)
    groups = list(by_relation.values())
    rows = list(range(options.pictures)) * len(LANGUAGES)
    while True:
        contents = [rng.choice(rng.choice(groups)) for _ in range(options.pictures)]
        pictures = paint([place(arrangement, rng) for arrangement in contents], rng)
        ids = [lexicon.ids(content, language) for language in LANGUAGES for content in contents]
        yield CaptionBatch.of(with_noise(pictures, options.noise, rng), rows, ids)


@dataclass(frozen=True)
class Answer:
    """The caption of one picture in one language.

    `picture` (H, W, 3) is without the noise of the captioner's input. `attention` has a
    row for each word and one for the end, and a column for each place.
    """

    arrangement: Arrangement
    scene: Scene
    picture: npt.NDArray[np.uint8]
    language: Language
    words: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def reference(self) -> tuple[Word, ...]:
        """The right caption."""
        return tuple(caption(self.arrangement, self.language))

    @property
    def right(self) -> bool:
        """Whether the caption is exactly the right one."""
        return self.words == tuple(word.text for word in self.reference)


def ask(
    model: Captioner,
    arrangements: Sequence[Arrangement],
    options: CaptionsOptions,
    lexicon: Lexicon,
    rng: random.Random,
) -> list[Answer]:
    """Caption one new picture of each arrangement in every language, by the project's search."""
    config = SearchConfig(beam=options.beam, max_length_factor=0, max_length_extra=_LONGEST)
    answers = []
    for start in range(0, len(arrangements), _SEARCHED):
        part = arrangements[start : start + _SEARCHED]
        scenes = [place(arrangement, rng) for arrangement in part]
        pictures = paint(scenes, rng)
        pixels = (255 * pictures).round().byte().permute(0, 2, 3, 1).numpy()
        memory = annotate(model, with_noise(pictures, options.noise, rng))
        for language in LANGUAGES:
            first_ids = torch.full((len(part),), lexicon.first_id(language))
            for i, best in enumerate(describe(model, memory, first_ids, config)):
                words = tuple(lexicon.texts(best.ids))
                answers.append(
                    Answer(part[i], scenes[i], pixels[i], language, words, best.attention)
                )
    return answers


def accuracy(answers: Iterable[Answer]) -> float:
    """Return the share of captions that are right in every word."""
    return float(np.mean([answer.right for answer in answers]))


@dataclass(frozen=True)
class Looks:
    """The attention of the words of one aspect, the mean over `n_words` of them.

    `on_right` is the share of attention on the places of the thing that the word describes,
    `on_other` that on the places of the picture's other thing. `chance` is the share of places
    that the right thing covers, which uniform attention would give.
    """

    on_right: float
    on_other: float
    chance: float
    n_words: int


def looks(answers: Iterable[Answer], aspect: Aspect) -> Looks:
    """Measure right captions only: in the others a word need not mean one thing."""
    rows = []
    for answer in answers:
        if not answer.right:
            continue
        at = places(answer.scene, answer.arrangement)
        for word, weights in zip(answer.reference, answer.attention, strict=False):
            if word.aspect == aspect and word.thing is not None:
                thing = at[word.thing]
                other = at.any(axis=0) & ~thing
                rows.append((weights[thing].sum(), weights[other].sum(), thing.mean()))
    if not rows:
        return Looks(0.0, 0.0, 0.0, 0)
    on_right, on_other, chance = np.mean(np.array(rows, dtype=np.float64), axis=0).tolist()
    return Looks(on_right, on_other, chance, len(rows))


def places(scene: Scene, arrangement: Arrangement) -> npt.NDArray[np.bool_]:
    """Return for each thing of the arrangement the places of the grid that its copies cover."""
    covered = nn.functional.avg_pool2d(masks(scene).unsqueeze(1), SIDE // GRID).flatten(1)
    touched = (covered >= _TOUCHED).numpy()
    drawn = np.array(arrangement.drawn)
    return np.stack([touched[drawn == i].any(axis=0) for i in range(len(arrangement.things))])


@dataclass(frozen=True)
class CaptionsResult(Result):
    """The captions of unseen arrangements and new kinds of things (split.py), and the cost.

    `losses` are the losses of each update, in nats per word. `seconds` is the time of training,
    with the drawing of pictures.
    """

    unseen: tuple[Answer, ...]
    new_kinds: tuple[Answer, ...]
    losses: npt.NDArray[np.float64]
    n_seen: int
    n_parameters: int
    seconds: float

    def numbers(self) -> dict[str, object]:
        asked = {"unseen_arrangements": self.unseen, "new_kinds_of_things": self.new_kinds}
        return {
            "seconds_of_training": self.seconds,
            "parameters": self.n_parameters,
            "seen_arrangements": self.n_seen,
            "exact_captions": {
                name: {
                    "asked": len(answers) // len(LANGUAGES),
                    **{language: accuracy(_in(answers, language)) for language in LANGUAGES},
                }
                for name, answers in asked.items()
            },
            "where_words_look": {
                f"{language} {aspect}": asdict(looks(_in(self.unseen, language), aspect))
                for language in LANGUAGES
                for aspect in _ASPECTS
            },
            "loss": [float(part.mean()) for part in np.array_split(self.losses, 20) if len(part)],
            "mistakes": [
                {
                    "right": " ".join(word.text for word in answer.reference),
                    "written": " ".join(answer.words),
                }
                for answer in self.unseen
                if not answer.right
            ],
        }


def _in(answers: Iterable[Answer], language: Language) -> list[Answer]:
    return [answer for answer in answers if answer.language == language]


def run(options: CaptionsOptions) -> CaptionsResult:
    """Train a captioner on one part of the arrangements and test it on the others."""
    parts = split(random.Random(f"split {options.seed}"))
    lexicon = Lexicon()
    with seeded(options.seed):
        model = new_captioner(options, len(lexicon.vocab))
    started = time.perf_counter()
    with seeded(options.seed):  # only attention that samples draws from it
        batches = caption_batches(parts.seen, options, lexicon)
        losses = list(train(model, batches, options.updates, options.lr))
    seconds = time.perf_counter() - started
    rng = random.Random(f"examination {options.seed}")

    def answers(arrangements: Sequence[Arrangement], most: int) -> tuple[Answer, ...]:
        sample = rng.sample(list(arrangements), min(most, len(arrangements)))
        return tuple(ask(model, sample, options, lexicon, rng))

    return CaptionsResult(
        unseen=answers(parts.unseen, options.asked),
        new_kinds=answers(parts.new_kinds, options.asked // 4),
        losses=np.array(losses),
        n_seen=len(parts.seen),
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=seconds,
    )


def draw(result: CaptionsResult) -> Figure:
    """Draw the attention at every word, for one unseen arrangement of each of three relations."""
    pairs = list(zip(*(_in(result.unseen, language) for language in LANGUAGES), strict=True))
    shown = []
    for relation in _SHOWN:
        candidates = [pair for pair in pairs if pair[0].arrangement.relation == relation]
        shown += sorted(candidates, key=_is_clear, reverse=True)[:1]
    strips = [[(answer.picture, answer.words, answer.attention) for answer in pair]
              for pair in shown]  # fmt: skip
    return draw_strips(strips)


def _is_clear(pair: Sequence[Answer]) -> tuple[bool, bool, bool]:
    """Prefer captions right in both languages, of things of two shapes, colours and genders."""
    things = pair[0].arrangement.things
    shapes, colours = ({getattr(t, name) for t in things} for name in ("shape", "colour"))
    genders = {word.text[-3:] for word in pair[-1].reference if word.aspect == "number"}
    differ = len(shapes) == len(colours) == len(things)
    return all(answer.right for answer in pair), differ, len(genders) == len(things)


EXPERIMENT = Experiment(CaptionsOptions, run, draw)
