"""Show, Attend and Tell (Xu et al. 2015, arXiv 1502.03044) with the translation models' decoder.

Pictures of coloured shapes, in arrangements that do not occur in training, are captioned in English
and French. The unchanged decoder attends to the grid cells of a picture instead of source words.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from pydantic import Field

from nmt.lab.captioner import CaptionBatch, Captioner, PictureEncoder, annotate, describe, train
from nmt.lab.captioning.evaluation import (
    GRID,
    GeneratedCaption,
    accuracy,
    attention_shares,
    draw_captions,
)
from nmt.lab.captioning.scenes import Arrangement, Relation, draw_scene, paint, split, with_noise
from nmt.lab.captioning.words import LANGUAGES, Aspect, CaptionVocabulary, Language
from nmt.lab.experiment import Experiment, Options, Result, seeded
from nmt.models.attention.kinds import AttentionConfig
from nmt.models.attention.scores import AdditiveConfig
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.search.search_config import SearchConfig
from nmt.settings.base import Conflict

_ASPECTS: tuple[Aspect, ...] = ("size", "colour", "shape")
_DRAWN_RELATIONS = ("left", "between", "alike")
_MAX_WORDS = 20  # eos included; the longest correct caption has 13
_SEARCH_BATCH = 64  # pictures
_EMBEDDING = 48  # size of a word embedding
_NOISE = 0.04  # standard deviation of the noise added to pixels


class CaptionsOptions(Options):
    """Options of the captioner, its training and its test."""

    attention: AttentionConfig = Field(
        default=AdditiveConfig(size=48), description="attention of the decoder"
    )
    hidden: int = Field(default=128, ge=8, description="units of the decoder")
    annotation: int = Field(default=64, ge=8, description="size of a grid cell's annotation")
    updates: int = Field(default=2000, ge=1, description="updates of Adam")
    pictures: int = Field(default=32, ge=2, description="new pictures per update")
    lr: float = Field(default=0.004, gt=0, description="peak learning rate; falls as a cosine")
    tests: int = Field(
        default=1600,
        ge=4,
        description="unseen arrangements to test, at most; a quarter as many new kinds",
    )
    beam: int = Field(default=1, ge=1, description="beam size of the search; 1 is greedy")

    def _conflicts(self) -> Iterator[Conflict]:
        for key, problem in self.attention.conflicts(self.hidden, self.annotation):
            yield f"attention.{key}", f"{problem}; in this experiment, set hidden or annotation"


def training_batches(
    arrangements: Sequence[Arrangement], options: CaptionsOptions, vocabulary: CaptionVocabulary
) -> Iterator[CaptionBatch]:
    """Yield batches of new pictures with their captions in every language, without end.

    The relation of a picture is drawn first; otherwise, pictures of a single thing would be rare.
    """
    rng = random.Random(f"lessons {options.seed}")
    groups = [[a for a in arrangements if a.relation == name] for name in get_args(Relation)]
    rows = list(range(options.pictures)) * len(LANGUAGES)
    while True:
        contents = [rng.choice(rng.choice(groups)) for _ in range(options.pictures)]
        pictures = paint([draw_scene(arrangement, rng) for arrangement in contents], rng)
        ids = [vocabulary.ids(content, language) for language in LANGUAGES for content in contents]
        yield CaptionBatch.of(with_noise(pictures, _NOISE, rng), rows, ids)


def generate(
    model: Captioner,
    arrangements: Sequence[Arrangement],
    options: CaptionsOptions,
    vocabulary: CaptionVocabulary,
    rng: random.Random,
) -> Iterator[GeneratedCaption]:
    """Draw a picture of each arrangement, and yield its beam-search captions in every language."""
    config = SearchConfig(beam=options.beam, max_length_factor=0, max_length_extra=_MAX_WORDS)
    for start in range(0, len(arrangements), _SEARCH_BATCH):
        contents = arrangements[start : start + _SEARCH_BATCH]
        scenes = [draw_scene(arrangement, rng) for arrangement in contents]
        pictures = paint(scenes, rng)
        pixels = (255 * pictures).round().byte().permute(0, 2, 3, 1).numpy()
        memory = annotate(model, with_noise(pictures, _NOISE, rng))
        for language in LANGUAGES:
            first_ids = torch.full((len(contents),), vocabulary.first_id(language))
            hypotheses = describe(model, memory, first_ids, config)
            for content, scene, picture, best in zip(
                contents, scenes, pixels, hypotheses, strict=True
            ):
                words = tuple(vocabulary.texts(best.ids))
                yield GeneratedCaption(content, scene, picture, language, words, best.attention)


@dataclass(frozen=True)
class CaptionsResult(Result):
    """The generated captions of samples of `Split.unseen` and `Split.new_kinds`.

    `losses` has the loss of each update, in nats per word. `n_seen` is the number of arrangements
    in `Split.seen`. `seconds` is the time of training, including the drawing of pictures.
    """

    unseen: tuple[GeneratedCaption, ...]
    new_kinds: tuple[GeneratedCaption, ...]
    losses: npt.NDArray[np.float64]
    n_seen: int
    n_parameters: int
    seconds: float

    def content(self) -> dict[str, object]:
        tests = {"unseen_arrangements": self.unseen, "new_kinds_of_things": self.new_kinds}
        return {
            "seconds_of_training": self.seconds,
            "parameters": self.n_parameters,
            "seen_arrangements": self.n_seen,
            "exact_captions": {
                name: {
                    "pictures": len(captions) // len(LANGUAGES),
                    **{language: accuracy(_in(captions, language)) for language in LANGUAGES},
                }
                for name, captions in tests.items()
            },
            "attention_shares": {
                f"{language} {aspect}": asdict(shares)
                for language in LANGUAGES
                for aspect in _ASPECTS
                if (shares := attention_shares(_in(self.unseen, language), aspect)) is not None
            },
            "loss": [float(part.mean()) for part in np.array_split(self.losses, 20) if len(part)],
            "mistakes": [
                {
                    "reference": " ".join(word.text for word in caption.reference),
                    "caption": " ".join(caption.words),
                }
                for caption in self.unseen
                if not caption.is_correct
            ],
        }


def _in(captions: Iterable[GeneratedCaption], language: Language) -> list[GeneratedCaption]:
    return [caption for caption in captions if caption.language == language]


def run(options: CaptionsOptions) -> CaptionsResult:
    """Train a captioner on the seen arrangements and test it on samples of the others."""
    arrangements = split(random.Random(f"split {options.seed}"))
    vocabulary = CaptionVocabulary()
    config = RecurrentConfig(
        embedding=_EMBEDDING, hidden=options.hidden, dropout=0.0, attention=options.attention
    )
    with seeded(options.seed):
        encoder = PictureEncoder(GRID**2, options.annotation)
        model = Captioner(encoder, config, options.annotation, len(vocabulary.vocab))
    started = time.perf_counter()
    with seeded(options.seed):  # used by hard attention, which samples, and by attention dropout
        batches = training_batches(arrangements.seen, options, vocabulary)
        losses = list(train(model, batches, options.updates, options.lr))
    seconds = time.perf_counter() - started
    rng = random.Random(f"examination {options.seed}")

    def test(part: Sequence[Arrangement], limit: int) -> tuple[GeneratedCaption, ...]:
        sample = rng.sample(part, min(limit, len(part)))
        return tuple(generate(model, sample, options, vocabulary, rng))

    return CaptionsResult(
        unseen=test(arrangements.unseen, options.tests),
        new_kinds=test(arrangements.new_kinds, options.tests // 4),
        losses=np.array(losses),
        n_seen=len(arrangements.seen),
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=seconds,
    )


def draw(result: CaptionsResult) -> Figure:
    """Draw the attention of every word, for one unseen arrangement of each of three relations."""
    pairs = list(zip(*(_in(result.unseen, language) for language in LANGUAGES), strict=True))
    strips: list[tuple[GeneratedCaption, ...]] = []
    for relation in _DRAWN_RELATIONS:
        candidates = [pair for pair in pairs if pair[0].arrangement.relation == relation]
        strips += sorted(candidates, key=_clarity, reverse=True)[:1]
    return draw_captions(strips or pairs[:1])


def _clarity(pair: Sequence[GeneratedCaption]) -> tuple[bool, bool, bool]:
    """Return a sort key: correct captions, then shapes and colours that differ, then genders."""
    things = pair[0].arrangement.things
    shapes, colours = ({getattr(t, name) for t in things} for name in ("shape", "colour"))
    genders = {word.text[-3:] for word in pair[-1].reference if word.aspect == "number"}
    are_distinct = len(shapes) == len(colours) == len(things)
    return all(caption.is_correct for caption in pair), are_distinct, len(genders) == len(things)


EXPERIMENT = Experiment(CaptionsOptions, run, draw)
