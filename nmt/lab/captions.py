"""Show, Attend and Tell (Xu et al. 2015, arXiv 1502.03044) with the decoder that translates.

Pictures of coloured shapes are captioned in French and in English. The decoder is that of the
translation models, unchanged: its memory holds the places of a picture in place of the words of a
sentence. The test pictures show arrangements not seen in training (captioning/split.py). Given
`images`, it is trained on image files instead (captioning/photographs.py).
"""

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure

from nmt.lab.captioning.examining import Answer, accuracy, ask, looks
from nmt.lab.captioning.learning import learn
from nmt.lab.captioning.model import drawn_captioner
from nmt.lab.captioning.options import CaptionsOptions
from nmt.lab.captioning.photographs import (
    OwnImageResult,
    TrainedResult,
    caption_own_image,
    draw_images,
    train_on_images,
)
from nmt.lab.captioning.scenes import Arrangement
from nmt.lab.captioning.split import split
from nmt.lab.captioning.strip import LooksTable, draw_strips
from nmt.lab.captioning.words import LANGUAGES, Aspect, Language, Lexicon
from nmt.lab.experiment import Experiment, Result, seeded
from nmt.lab.numbers import NOT_MEASURED, columns

_ASPECTS: tuple[Aspect, ...] = ("size", "colour", "shape")
_STRIPS = ("left", "between", "alike")


@dataclass(frozen=True)
class CaptionsResult(Result):
    """The captions of unseen arrangements and new kinds of things (split.py), and the cost.

    `losses` are the losses of each update, in nats per word. `seconds` is the time of training on
    `threads` threads, with the drawing of pictures.
    """

    unseen: tuple[Answer, ...]
    new_kinds: tuple[Answer, ...]
    losses: npt.NDArray[np.float64]
    n_seen: int
    n_parameters: int
    threads: int
    seconds: float

    def looks(self) -> LooksTable:
        """Where the words of each language and aspect looked, over the unseen arrangements."""
        return {
            (language, aspect): looks(_in(self.unseen, language), aspect)
            for language in LANGUAGES
            for aspect in _ASPECTS
        }

    def numbers(self) -> dict[str, object]:
        """See Result.numbers."""
        return {
            "seconds_of_training": self.seconds,
            "threads": self.threads,
            "parameters": self.n_parameters,
            "seen_arrangements": self.n_seen,
            "unseen_arrangements": _tally(self.unseen),
            "new_kinds_of_things": _tally(self.new_kinds),
            "where_words_look": {
                language: {
                    aspect: asdict(looks(_in(self.unseen, language), aspect)) for aspect in _ASPECTS
                }
                for language in LANGUAGES
            },
            "loss": [float(part.mean()) for part in np.array_split(self.losses, 20) if len(part)],
            "mistakes": [
                {"wanted": _text(answer), "said": " ".join(answer.said)}
                for answer in self.unseen
                if not answer.right
            ],
        }

    def summary(self) -> list[str]:
        """See Result.summary."""
        rows: list[tuple[str, ...]] = [("exact captions", "asked", *LANGUAGES)]
        for title, answers in [
            ("unseen arrangements", self.unseen),
            *((f"  of {n} shape{'s' * (n > 1)}", _of(self.unseen, n)) for n in (1, 2, 3)),
            ("new kinds of things", self.new_kinds),
        ]:
            shares = (_in(answers, language) for language in LANGUAGES)
            count = f"{len(answers) // len(LANGUAGES):,}"
            rows.append((title, count, *(f"{accuracy(s):.1%}" if s else "-" for s in shares)))
        table: list[tuple[str, ...]] = [
            ("share of attention on", "the thing meant", "the other", "the thing by chance")
        ]
        for (language, aspect), look in self.looks().items():
            means = (look.on_right, look.on_other, look.chance)
            cells = [f"{mean:.0%}" if look.n_words else NOT_MEASURED for mean in means]
            table.append((f"{language} {aspect} words", *cells))
        wrong = [answer for answer in self.unseen if not answer.right]
        return [
            f"trained on {self.n_seen:,} arrangements in {self.seconds:.0f} s "
            f"({len(self.losses):,} updates, {self.threads} threads, "
            f"{self.n_parameters:,} parameters)",
            "",
            *columns(rows),
            "",
            *columns(table),
            "",
            f"{len(wrong)} mistakes in {len(self.unseen):,} captions, for example",
            *(f"  {_text(a)}\n  said: {' '.join(a.said)}" for a in wrong[:3]),
        ]


def _in(answers: Sequence[Answer], language: Language) -> list[Answer]:
    return [answer for answer in answers if answer.language == language]


def _of(answers: Sequence[Answer], n_shapes: int) -> list[Answer]:
    return [answer for answer in answers if len(answer.scene) == n_shapes]


def _text(answer: Answer) -> str:
    return " ".join(word.text for word in answer.wanted)


def _tally(answers: Sequence[Answer]) -> dict[str, object]:
    """The number of pictures, and the share of exact captions by language and number of shapes."""
    shares: dict[str, object] = {}
    for language in LANGUAGES:
        mine = _in(answers, language)
        parts = {n: _of(mine, n) for n in (1, 2, 3)}
        shares[language] = {
            "exact": accuracy(mine),
            **{f"exact_of_{n}_shapes": accuracy(part) for n, part in parts.items() if part},
        }
    return {"asked": len(answers) // len(LANGUAGES), **shares}


def run(options: CaptionsOptions) -> Result:
    """Caption drawn pictures, image files, or one image by a captioner that was kept."""
    if options.image is not None:
        return caption_own_image(options)
    if options.images is not None:
        return train_on_images(options)
    return run_drawn(options)


def run_drawn(options: CaptionsOptions) -> CaptionsResult:
    """Train a captioner on one part of the arrangements and test it on the others."""
    parts = split(random.Random(f"split {options.seed}"))
    lexicon = Lexicon()
    with seeded(options.seed):
        model = drawn_captioner(options, len(lexicon.vocab))
    started = time.perf_counter()
    with seeded(options.seed):  # only attention that samples draws from it
        losses = learn(model, parts.seen, options, lexicon)
    seconds = time.perf_counter() - started
    rng = random.Random(f"examination {options.seed}")
    return CaptionsResult(
        unseen=tuple(ask(model, _some(parts.unseen, options.asked, rng), options, lexicon, rng)),
        new_kinds=tuple(
            ask(model, _some(parts.new_kinds, options.asked // 4, rng), options, lexicon, rng)
        ),
        losses=np.array(losses),
        n_seen=len(parts.seen),
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        threads=torch.get_num_threads(),
        seconds=seconds,
    )


def _some(arrangements: Sequence[Arrangement], most: int, rng: random.Random) -> list[Arrangement]:
    return rng.sample(list(arrangements), min(most, len(arrangements)))


def draw(result: Result) -> Figure:
    """Draw the attention at every word; of drawn pictures, for one unseen one of each sort."""
    if isinstance(result, TrainedResult | OwnImageResult):
        return draw_images(result)
    assert isinstance(result, CaptionsResult)
    pairs = list(zip(*(_in(result.unseen, language) for language in LANGUAGES), strict=True))
    shown = []
    for relation in _STRIPS:
        fit = [pair for pair in pairs if pair[0].arrangement.relation == relation]
        # Preferred: right in both languages, with two things that share neither shape nor colour.
        shown += sorted(fit, key=_telling, reverse=True)[:1]
    return draw_strips(shown, result.looks())


def _telling(pair: Sequence[Answer]) -> tuple[bool, bool, bool]:
    things = pair[0].arrangement.things
    shapes, colours = ({getattr(t, name) for t in things} for name in ("shape", "colour"))
    genders = {word.text[-3:] for word in pair[-1].wanted if word.aspect == "number"}
    apart = len(shapes) == len(colours) == len(things)
    return all(answer.right for answer in pair), apart, len(genders) == len(things)


EXPERIMENT = Experiment(CaptionsOptions, run, draw)
