"""Is attention true: do the source pieces that it looks at matter to what is written?"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from jaxtyping import Float32
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from nmt.attention_maps.health import AttentionHealth, health_of
from nmt.attention_maps.pair_weights import Reading, piece_weights
from nmt.data.corpora import read_examples
from nmt.errors import DataError
from nmt.evaluation.examples import split_named
from nmt.inference.translator import Translator
from nmt.lab.erasure import Erasure, erase_each, even_log_probs, with_even_attention
from nmt.lab.experiment import Experiment, Options, Result
from nmt.lab.figure import BLUE, GREEN, GREY, ORANGE, new_figure
from nmt.runs.find import find_run
from nmt.runs.trained_run import TrainedRun
from nmt.settings.base import UserPath

READINGS = {"weights": Reading(), "weights x norms": Reading(by_norm=True)}
"""What is compared with the effect of erasing, by name."""

MOST = "the piece that matters most"

OTHER_STEP = "another step's weights"
_LEAST_PIECES = 3  # for a rank correlation


class FaithfulnessOptions(Options):
    """The settings of the experiment."""

    run: UserPath | None = Field(default=None, description="run directory; null: the newest")
    checkpoint: str = Field(default="best", description="best, last, step-NNNNNN or a name")
    split: str = Field(default="valid", description="the split of the run's data to translate")
    sentences: int = Field(default=40, gt=0, description="how many of it, evenly spaced")
    longest: int = Field(default=40, gt=2, description="pieces of the longest source that is taken")


@dataclass(frozen=True)
class Explained:
    """A sentence's own translation: what erasing does, and how each reading explains it."""

    erasure: Erasure
    health: AttentionHealth
    readings: Mapping[str, Float32[np.ndarray, "_ _"]]
    even_log_probs: Float32[np.ndarray, " _"]


@dataclass(frozen=True)
class FaithfulnessResult(Result):
    """The run's path, and all sentences."""

    run: str
    explained: tuple[Explained, ...]

    def falls(self) -> dict[str, float]:
        """Nats that log p of a written piece falls by, on average, when a source piece is erased.

        The one with the most weight by each reading; any one, which is the mean over all; and the
        one that makes it fall most.
        """
        means = {
            f"the top of {name}": _mean(_fall_of_top(sentence, name) for sentence in self.explained)
            for name in READINGS
        }
        any_one = _mean(sentence.erasure.falls.mean(axis=1) for sentence in self.explained)
        most = _mean(sentence.erasure.falls.max(axis=1) for sentence in self.explained)
        return {**means, "any piece": any_one, MOST: most}

    def correlations(self) -> dict[str, dict[str, float]]:
        """The mean over steps of the rank correlation between a reading and the falls."""
        return {
            name: {"kendall": _mean_kendall(self.explained, name)}
            for name in (*READINGS, OTHER_STEP)
        }

    def losses(self) -> dict[str, float]:
        """Nats per written piece, with the model's own weights and with even ones."""
        return {
            "own weights": -_mean(sentence.erasure.log_probs for sentence in self.explained),
            "even weights": -_mean(sentence.even_log_probs for sentence in self.explained),
        }

    def health(self) -> dict[str, float]:
        """The means over the sentences of the measurements of attention."""
        measures = [sentence.health.measured() for sentence in self.explained]
        return {name: float(np.mean([one[name] for one in measures])) for name in measures[0]}

    def numbers(self) -> dict[str, object]:
        return {
            "run": self.run,
            "sentences": len(self.explained),
            "steps": sum(len(sentence.erasure.log_probs) for sentence in self.explained),
            "fall": self.falls(),
            "correlation": self.correlations(),
            "loss": self.losses(),
            "health": self.health(),
        }


def run(options: FaithfulnessOptions) -> FaithfulnessResult:
    """Explain the run's own translations of some sentences by erasing their pieces in turn."""
    trained = TrainedRun.open(find_run(options.run))
    translator = Translator.load(trained, "cpu", options.checkpoint)
    data = trained.config.data
    texts = [example.src_text for example in read_examples(split_named(data, options.split), data)]
    sample = _chosen(translator, texts, options)
    explained = _explain(translator, sample, options.seed)
    if not explained:
        raise DataError(f"{trained.path}: no translation of {options.split} has a piece")
    return FaithfulnessResult(str(trained.path), tuple(explained))


def _chosen(
    translator: Translator, texts: Sequence[str], options: FaithfulnessOptions
) -> list[str]:
    """Evenly spaced texts with enough pieces, and not more than the longest."""
    ids = translator.tokenizers.src.encode_batch(texts)
    fit = [t for t, i in zip(texts, ids, strict=True) if _LEAST_PIECES <= len(i) <= options.longest]
    step = max(1, len(fit) // options.sentences)
    return fit[::step][: options.sentences]


def _explain(translator: Translator, texts: Sequence[str], seed: int) -> list[Explained]:
    translations = [t for t in translator.translate(texts, n_best=1) if t.hypotheses]
    pairs = [(t.source, t.hypotheses[0].target) for t in translations if t.hypotheses[0].target.ids]
    readings = {
        name: piece_weights(translator, [s for s, _ in pairs], [t for _, t in pairs], reading)
        for name, reading in READINGS.items()
    }
    even = with_even_attention(translator.model)
    chance = random.Random(f"faithfulness {seed}")
    explained = []
    for index, (source, target) in enumerate(pairs):
        mine = {name: weights[index] for name, weights in readings.items()}
        n_steps = len(target.ids)
        others = [(t + chance.randint(1, max(1, n_steps - 1))) % n_steps for t in range(n_steps)]
        mine[OTHER_STEP] = mine["weights"][others]
        erasure = erase_each(translator.model, source.ids, target.ids)
        log_probs = even_log_probs(even, source.ids, target.ids)
        explained.append(Explained(erasure, health_of(mine["weights"]), mine, log_probs))
    return explained


def _fall_of_top(sentence: Explained, name: str) -> Float32[np.ndarray, " _"]:
    """At each step the fall without the source piece of the greatest weight, eos not counted."""
    top = sentence.readings[name][:, :-1].argmax(axis=1)
    falls: Float32[np.ndarray, " _"] = sentence.erasure.falls[np.arange(len(top)), top]
    return falls


def _mean(parts: Iterable[Float32[np.ndarray, " _"]]) -> float:
    return float(np.concatenate(list(parts)).mean())


def _mean_kendall(explained: Sequence[Explained], name: str) -> float:
    """Return the mean over the steps that have one; 0 where none has."""
    taus = [
        kendall(weights, falls)
        for sentence in explained
        for weights, falls in zip(
            sentence.readings[name][:, :-1].astype(float),
            sentence.erasure.falls.astype(float),
            strict=True,
        )
    ]
    values = [tau for tau in taus if tau is not None]
    return float(np.mean(values)) if values else 0.0


def kendall(x: npt.NDArray[np.floating], y: npt.NDArray[np.floating]) -> float | None:
    """Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied in x * those in y).

    None where all values of a side are equal.
    """
    pairs = np.triu_indices(len(x), 1)
    signs_x, signs_y = (np.sign(v[:, None] - v[None, :])[pairs] for v in (x, y))
    untied = float((signs_x != 0).sum()) * float((signs_y != 0).sum())
    return float((signs_x * signs_y).sum()) / math.sqrt(untied) if untied else None


def draw(result: FaithfulnessResult) -> Figure:
    """Falls, rank correlations, and the loss with even weights, as bars."""
    figure = new_figure(10.5, 4.2)
    falls, ranks, losses = figure.subplots(1, 3)
    _bars(falls, result.falls(), "log p falls without ..., in nats", (BLUE, GREEN, GREY, ORANGE))
    by_rank = {name: value["kendall"] for name, value in result.correlations().items()}
    _bars(ranks, by_rank, "Kendall's tau with the fall", (BLUE, GREEN, GREY))
    _bars(losses, result.losses(), "nats per piece", (BLUE, GREY))
    return figure


def _bars(axes: Axes, values: Mapping[str, float], title: str, colours: Sequence[str]) -> None:
    names = list(values)
    axes.barh(range(len(names)), list(values.values()), color=list(colours))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(0, color="0.6", linewidth=0.6)
    axes.set_title(title)
    for place, value in enumerate(values.values()):
        axes.text(max(value, 0.0), place, f" {value:.2f}", va="center", fontsize=8)


EXPERIMENT = Experiment(FaithfulnessOptions, run, draw)
