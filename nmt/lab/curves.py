"""Attend and tell over another memory: a measured curve told in words, piece by piece.

The features are the numbers themselves, a window of the curve at each place; nothing is learned
before the decoder's own memory. The decoder and the training are those of captions.py.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from pydantic import Field

from nmt.decoding.search_config import SearchConfig
from nmt.lab.captioner import (
    CaptionBatch,
    Captioner,
    DecoderOptions,
    FeatureEncoder,
    Features,
    annotate,
    describe,
    train,
)
from nmt.lab.curve_stories import (
    PIECES,
    POSITION,
    STRIDE,
    VOCAB,
    WINDOW,
    Curve,
    Story,
    draw_curve,
    features_of,
    places_of,
    split,
)
from nmt.lab.experiment import Experiment, Result, seeded
from nmt.lab.figure import BLUE, GREY, heat, new_figure
from nmt.lab.numbers import NOT_MEASURED, columns
from nmt.models.recurrent.rnn_config import RecurrentConfig
from nmt.text.vocabulary import BOS_ID, EOS_ID

_DRAWN = 3


class CurvesOptions(DecoderOptions):
    """The sizes and the training of the model that tells curves."""

    embedding: int = Field(default=16, ge=1, description="size of a word's embedding")
    updates: int = Field(default=800, ge=1, description="updates of Adam, on new curves each")
    batch: int = Field(default=32, ge=1, description="curves of an update")
    lr: float = Field(default=0.005, gt=0, description="greatest learning rate; a cosine lowers it")
    noise: float = Field(default=0.03, ge=0, description="added to each sample, standard deviation")
    asked: int = Field(default=600, ge=1, description="curves told in the test")
    beam: int = Field(default=1, ge=1, description="hypotheses kept in search; 1 is greedy")


@dataclass(frozen=True)
class Told:
    """A test curve, the words that the model wrote of it, and the attention (T, S) of each."""

    curve: Curve
    said: tuple[str, ...]
    attention: npt.NDArray[np.float32]

    @property
    def right(self) -> bool:
        """Whether every word is the right one."""
        return list(self.said) == self.curve.words


@dataclass(frozen=True)
class Look:
    """The share of attention on the piece that a word describes, and that share by chance.

    Means over the words of right sentences; equal weights would give `chance`.
    """

    on_piece: float
    chance: float
    n_words: int


def look(told: Sequence[Told], first: bool) -> Look:
    """Of the first words of a piece's description (rises), or of the second (slowly)."""
    rows = []
    for each in told:
        if not each.right:
            continue
        at, meant = places_of(each.curve), each.curve.meant
        for i, piece in enumerate(meant):
            if piece is not None and first == (i == 0 or meant[i - 1] is None):
                rows.append((each.attention[i, at[piece]].sum(), at[piece].mean()))
    means = np.mean(np.array(rows, np.float64), axis=0) if rows else (0.0, 0.0)
    return Look(float(means[0]), float(means[1]), len(rows))


@dataclass(frozen=True)
class CurvesResult(Result):
    """The test curves as the model tells them, and the cost of its training."""

    told: tuple[Told, ...]
    losses: npt.NDArray[np.float64]
    n_seen: int
    n_parameters: int
    seconds: float

    @property
    def right(self) -> dict[int, tuple[int, float]]:
        """For each number of pieces, how many curves there are, and the share told right."""
        found: dict[int, tuple[int, float]] = {}
        for n in range(1, PIECES + 1):
            right = [each.right for each in self.told if len(each.curve.story) == n]
            if right:
                found[n] = len(right), float(np.mean(right))
        return found

    @property
    def looks(self) -> dict[str, Look]:
        """Where the first and the second words of the pieces looked."""
        return {"first": look(self.told, first=True), "second": look(self.told, first=False)}

    def numbers(self) -> dict[str, object]:
        """See Result.numbers."""
        return {
            "seconds_of_training": self.seconds,
            "parameters": self.n_parameters,
            "seen_stories": self.n_seen,
            "asked": len(self.told),
            "right": float(np.mean([each.right for each in self.told])),
            "right_by_pieces": {str(n): share for n, (_, share) in self.right.items()},
            "where_words_look": {name: asdict(look) for name, look in self.looks.items()},
            "loss": [float(part.mean()) for part in np.array_split(self.losses, 20) if len(part)],
            "mistakes": [
                {"wanted": " ".join(each.curve.words), "said": " ".join(each.said)}
                for each in self.told
                if not each.right
            ],
        }

    def summary(self) -> list[str]:
        """See Result.summary."""
        rows = [("pieces of the curve", "asked", "told right")]
        rows += [(str(n), str(count), f"{share:.1%}") for n, (count, share) in self.right.items()]
        table: list[tuple[str, ...]] = [
            ("share of attention on", "the piece meant", "the same by chance")
        ]
        for name, found in self.looks.items():
            means = (found.on_piece, found.chance)
            cells = [f"{mean:.0%}" if found.n_words else NOT_MEASURED for mean in means]
            table.append((f"{name} words", *cells))
        wrong = [each for each in self.told if not each.right]
        return [
            f"trained on {self.n_seen:,} sequences of pieces in {self.seconds:.0f} s "
            f"({len(self.losses):,} updates, {self.n_parameters:,} parameters); asked for others",
            "",
            *columns(rows),
            "",
            *columns(table),
            "",
            f"{len(wrong)} mistakes in {len(self.told):,} sentences, for example",
            *(f"  {' '.join(w.curve.words)}\n  said: {' '.join(w.said)}" for w in wrong[:2]),
        ]


def run(options: CurvesOptions) -> CurvesResult:
    """Train on some sequences of pieces; tell new curves of other sequences."""
    seen, unseen = split(random.Random(f"split {options.seed}"))
    config = RecurrentConfig(
        embedding=options.embedding,
        hidden=options.hidden,
        dropout=0.0,
        attention=options.attention,
    )
    with seeded(options.seed):
        encoder = FeatureEncoder(WINDOW + POSITION, options.annotation)
        model = Captioner(encoder, config, options.annotation, len(VOCAB))
        started = time.perf_counter()
        batches = _batches(seen, options)
        losses = list(train(model, batches, options.updates, options.lr))
    seconds = time.perf_counter() - started
    chance = np.random.default_rng([options.seed, 1])
    chosen = [unseen[i] for i in chance.integers(0, len(unseen), options.asked)]
    curves = [draw_curve(story, options.noise, chance) for story in chosen]
    return CurvesResult(
        told=tuple(_tell(model, curves, options.beam)),
        losses=np.array(losses),
        n_seen=len(seen),
        n_parameters=sum(parameter.numel() for parameter in model.parameters()),
        seconds=seconds,
    )


def _batches(stories: Sequence[Story], options: CurvesOptions) -> Iterator[CaptionBatch]:
    """New curves with their sentences, without end; each number of pieces is equally likely."""
    chance = np.random.default_rng([options.seed, 0])
    by_pieces: dict[int, list[Story]] = {}
    for story in stories:
        by_pieces.setdefault(len(story), []).append(story)
    while True:
        curves = []
        for n in chance.integers(1, PIECES + 1, options.batch):
            story = by_pieces[int(n)][chance.integers(len(by_pieces[int(n)]))]
            curves.append(draw_curve(story, options.noise, chance))
        ids = [[BOS_ID, *map(VOCAB.id_of, curve.words), EOS_ID] for curve in curves]
        features = Features.padded([features_of(curve) for curve in curves])
        yield CaptionBatch.of(features, range(len(curves)), ids)


def _tell(model: Captioner, curves: Sequence[Curve], beam: int) -> list[Told]:
    config = SearchConfig(beam=beam, max_length_factor=0, max_length_extra=4 * PIECES)
    memory = annotate(model, Features.padded([features_of(curve) for curve in curves]))
    first_ids = torch.full((len(curves),), BOS_ID)
    told = []
    for curve, found in zip(curves, describe(model, memory, first_ids, config), strict=True):
        said = tuple(VOCAB.piece_of(id_) for id_ in found.ids if id_ != EOS_ID)
        n_places = places_of(curve).shape[1]
        told.append(Told(curve, said, found.attention[:, :n_places]))
    return told


def draw(result: CurvesResult) -> Figure:
    """Draw some test curves, and below each the attention of every word, all on one scale."""
    preferred = sorted(result.told, key=lambda each: (each.right, len(each.said)), reverse=True)
    by_verb: dict[str, Told] = {}
    for each in preferred:
        by_verb.setdefault(each.curve.words[0], each)
    shown = [by_verb[verb] for verb in sorted(by_verb)][:_DRAWN]
    greatest = max((float(each.attention.max()) for each in shown), default=1.0)
    figure = new_figure(12.5, 5.4)
    grid = figure.add_gridspec(2, len(shown), height_ratios=(1, 2))
    tables = []
    for column, each in enumerate(shown):
        curve_axes = figure.add_subplot(grid[0, column])
        tables.append(figure.add_subplot(grid[1, column], sharex=curve_axes))
        _draw_curve(curve_axes, each.curve)
        image = _draw_looks(tables[-1], each, greatest)
    if shown:
        bar = figure.colorbar(image, ax=tables, fraction=0.02, pad=0.01)
        bar.set_label("share of the word's attention", fontsize=8.5, color=GREY)
    return figure


def _draw_curve(axes: Axes, curve: Curve) -> None:
    axes.plot(curve.samples, color=BLUE)
    for edge in np.flatnonzero(np.diff(curve.pieces)):
        axes.axvline(edge + 0.5, color=GREY, linewidth=0.7, linestyle=":")
    axes.tick_params(labelbottom=False)
    axes.set(xlim=(0, len(curve.samples)), ylabel="curve")


def _draw_looks(axes: Axes, told: Told, greatest: float) -> AxesImage:
    """A row for each word, a column for each place, under the samples that the place holds."""
    table = told.attention[: len(told.said)]
    image = heat(axes, table, top=greatest)
    left = (WINDOW - STRIDE) / 2
    image.set_extent((left, left + STRIDE * table.shape[1], len(table) - 0.5, -0.5))
    for edge in np.flatnonzero(np.diff(told.curve.pieces)):
        axes.axvline(edge + 0.5, color=GREY, linewidth=0.7, linestyle=":")
    axes.set_yticks(range(len(told.said)), told.said)
    axes.set(xlim=(0, len(told.curve.samples)), xlabel="sample")
    return image


EXPERIMENT = Experiment(CurvesOptions, run, draw)
