"""Captions of test pictures, the share that is right, and the attention at each word."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from nmt.decoding.search_config import SearchConfig
from nmt.lab.captioner import Captioner, annotate, describe
from nmt.lab.captioning.model import GRID
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.scenes import SIDE, Arrangement, Scene, masks, paint, place, with_noise
from nmt.lab.captioning.words import LANGUAGES, Aspect, Language, Lexicon, Word, caption

_LONGEST = 20  # words, eos included; the longest right caption has 13
_TOGETHER = 64  # pictures searched at a time
_TOUCHED = 0.1  # a thing is at a place if it covers this share of its 8 by 8 pixels


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
    said: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def wanted(self) -> tuple[Word, ...]:
        """The right caption."""
        return tuple(caption(self.arrangement, self.language))

    @property
    def right(self) -> bool:
        """Whether the caption is exactly the right one."""
        return self.said == tuple(word.text for word in self.wanted)


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
    for start in range(0, len(arrangements), _TOGETHER):
        part = arrangements[start : start + _TOGETHER]
        scenes = [place(arrangement, rng) for arrangement in part]
        pictures = paint(scenes, rng)
        shown = (255 * pictures).round().byte().permute(0, 2, 3, 1).numpy()
        memory = annotate(model, with_noise(pictures, options.noise, rng))
        for language in LANGUAGES:
            first_ids = torch.full((len(part),), lexicon.first_id(language))
            found = describe(model, memory, first_ids, config)
            for i, best in enumerate(found):
                said = tuple(lexicon.texts(best.ids))
                answers.append(Answer(part[i], scenes[i], shown[i], language, said, best.attention))
    return answers


def accuracy(answers: Iterable[Answer]) -> float:
    """The share that is right in every word."""
    return float(np.mean([answer.right for answer in answers]))


@dataclass(frozen=True)
class Looks:
    """The attention of the words of one aspect, the mean over `n_words` of them.

    `on_right` is the share of attention on the places of the thing that the word describes,
    `on_other` that on the places of the picture's other thing. `chance` is the share of places
    that the right thing covers, which uniform attention would give. `pointed` is the share of words
    whose greatest weight lies on the right thing.
    """

    on_right: float
    on_other: float
    chance: float
    pointed: float
    n_words: int


def looks(answers: Iterable[Answer], aspect: Aspect) -> Looks:
    """Measure right captions only: in the others a word need not mean one thing."""
    rows = []
    for answer in answers:
        if not answer.right:
            continue
        at = places(answer.scene, answer.arrangement)
        for word, weights in zip(answer.wanted, answer.attention, strict=False):
            if word.aspect == aspect and word.thing is not None:
                own = at[word.thing]
                other = at.any(axis=0) & ~own
                pointed = own[weights.argmax()]
                rows.append((weights[own].sum(), weights[other].sum(), own.mean(), pointed))
    if not rows:
        return Looks(0.0, 0.0, 0.0, 0.0, 0)
    means = np.mean(np.array(rows, dtype=np.float64), axis=0)
    on_own, on_other, chance, pointed = map(float, means)
    return Looks(on_own, on_other, chance, pointed, len(rows))


def places(scene: Scene, arrangement: Arrangement) -> npt.NDArray[np.bool_]:
    """For each thing of the arrangement, the places of the grid that its copies cover."""
    covered = nn.functional.avg_pool2d(masks(scene).unsqueeze(1), SIDE // GRID).flatten(1)
    touched = (covered >= _TOUCHED).numpy()
    drawn = np.array(arrangement.drawn)
    return np.stack([touched[drawn == i].any(axis=0) for i in range(len(arrangement.things))])
