"""Show, Attend and Tell (Xu et al. 2015, arXiv 1502.03044) with the translation models' decoder.

Pictures of coloured shapes are captioned in French and in English. The decoder is unchanged: it
attends to the grid cells of a picture instead of the words of a sentence. The test pictures show
arrangements that do not occur in training (captioning/scenes.py).
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

from nmt.lab.captioner import (
    CaptionBatch,
    Captioner,
    Eye,
    annotate,
    describe,
    train,
)
from nmt.lab.captioning.answers import GRID, Answer, accuracy, draw_strips, looks
from nmt.lab.captioning.scenes import Arrangement, paint, place, split, with_noise
from nmt.lab.captioning.words import LANGUAGES, Aspect, Language, Lexicon
from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.settings.base import conflict_error

_ASPECTS: tuple[Aspect, ...] = ("size", "colour", "shape")
_SHOWN = ("left", "between", "alike")
_LONGEST = 20  # words, eos included; the longest correct caption has 13
_SEARCHED = 64  # pictures per search
_EMBEDDING = 48  # size of a word embedding
_NOISE = 0.04  # standard deviation of the noise added to pixels


class CaptionsOptions(Options):
    """Options of the captioner, its training and its test."""

    attention: AttentionConfig = Field(
        default=AdditiveConfig(size=48), description="the decoder's attention, of any type"
    )
    hidden: int = Field(default=128, ge=8, description="units of the decoder")
    annotation: int = Field(default=64, ge=8, description="size of a grid cell's annotation")
    updates: int = Field(default=2000, ge=1, description="updates of Adam")
    pictures: int = Field(
        default=32, ge=2, description="new pictures per update, each captioned in both languages"
    )
    lr: float = Field(default=0.004, gt=0, description="peak learning rate; falls as a cosine")
    asked: int = Field(
        default=1600,
        ge=4,
        description="most unseen arrangements to test; for new kinds, a quarter as many",
    )
    beam: int = Field(default=1, ge=1, description="beam size of the search; 1 is greedy")

    @model_validator(mode="after")
    def _attention_fits(self) -> "CaptionsOptions":
        conflicts = list(self.attention.conflicts(self.hidden, self.annotation))
        if conflicts:
            note = "; in this experiment, set hidden or annotation"
            raise conflict_error([(f"attention.{key}", why + note) for key, why in conflicts])
        return self


def new_captioner(options: CaptionsOptions, vocab_size: int) -> Captioner:
    """Return a captioner with initial weights from torch's global generator."""
    config = RecurrentConfig(
        embedding=_EMBEDDING,
        hidden=options.hidden,
        dropout=0.0,
        attention=options.attention,
    )
    return Captioner(Eye(GRID**2, options.annotation), config, options.annotation, vocab_size)


def caption_batches(
    arrangements: Sequence[Arrangement], options: CaptionsOptions, lexicon: Lexicon
) -> Iterator[CaptionBatch]:
    """Yield endless batches of new pictures with their captions in every language.

    A relation is drawn first, then an arrangement of this relation: otherwise, pictures of a single
    thing would be rare.
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
        yield CaptionBatch.of(with_noise(pictures, _NOISE, rng), rows, ids)


def ask(
    model: Captioner,
    arrangements: Sequence[Arrangement],
    options: CaptionsOptions,
    lexicon: Lexicon,
    rng: random.Random,
) -> list[Answer]:
    """Caption one new picture of each arrangement in every language, by beam search."""
    config = SearchConfig(beam=options.beam, max_length_factor=0, max_length_extra=_LONGEST)
    answers = []
    for start in range(0, len(arrangements), _SEARCHED):
        part = arrangements[start : start + _SEARCHED]
        scenes = [place(arrangement, rng) for arrangement in part]
        pictures = paint(scenes, rng)
        pixels = (255 * pictures).round().byte().permute(0, 2, 3, 1).numpy()
        memory = annotate(model, with_noise(pictures, _NOISE, rng))
        for language in LANGUAGES:
            first_ids = torch.full((len(part),), lexicon.first_id(language))
            for i, best in enumerate(describe(model, memory, first_ids, config)):
                words = tuple(lexicon.texts(best.ids))
                answers.append(
                    Answer(part[i], scenes[i], pixels[i], language, words, best.attention)
                )
    return answers


@dataclass(frozen=True)
class CaptionsResult(Result):
    """The captions of unseen arrangements and of new kinds of things (see Split), and the cost.

    `losses` has the loss of each update, in nats per word. `seconds` is the time of training,
    including the drawing of pictures.
    """

    unseen: tuple[Answer, ...]
    new_kinds: tuple[Answer, ...]
    losses: npt.NDArray[np.float64]
    n_seen: int
    n_parameters: int
    seconds: float

    def numbers(self) -> dict[str, object]:
        answers_of = {"unseen_arrangements": self.unseen, "new_kinds_of_things": self.new_kinds}
        return {
            "seconds_of_training": self.seconds,
            "parameters": self.n_parameters,
            "seen_arrangements": self.n_seen,
            "exact_captions": {
                name: {
                    "asked": len(answers) // len(LANGUAGES),
                    **{language: accuracy(_in(answers, language)) for language in LANGUAGES},
                }
                for name, answers in answers_of.items()
            },
            "where_words_look": {
                f"{language} {aspect}": asdict(shares)
                for language in LANGUAGES
                for aspect in _ASPECTS
                if (shares := looks(_in(self.unseen, language), aspect)) is not None
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
    """Train a captioner on the seen arrangements and test it on the others."""
    parts = split(random.Random(f"split {options.seed}"))
    lexicon = Lexicon()
    with seeded(options.seed):
        model = new_captioner(options, len(lexicon.vocab))
    started = time.perf_counter()
    with seeded(options.seed):  # only hard attention, which samples, uses this generator
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
    """Draw the attention of every word, for one unseen arrangement of each of three relations."""
    pairs = list(zip(*(_in(result.unseen, language) for language in LANGUAGES), strict=True))
    strips: list[tuple[Answer, ...]] = []
    for relation in _SHOWN:
        candidates = [pair for pair in pairs if pair[0].arrangement.relation == relation]
        strips += sorted(candidates, key=_is_clear, reverse=True)[:1]
    return draw_strips(strips or pairs[:1])


def _is_clear(pair: Sequence[Answer]) -> tuple[bool, bool, bool]:
    """Return a sort key: correct captions first, then things of different shapes and colours."""
    things = pair[0].arrangement.things
    shapes, colours = ({getattr(t, name) for t in things} for name in ("shape", "colour"))
    genders = {word.text[-3:] for word in pair[-1].reference if word.aspect == "number"}
    differ = len(shapes) == len(colours) == len(things)
    return all(answer.right for answer in pair), differ, len(genders) == len(things)


EXPERIMENT = Experiment(CaptionsOptions, run, draw)
