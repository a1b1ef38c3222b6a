"""Attribution methods compared with the known alignment of nmt/lab/small_language.py.

The measures are agreement with the alignment, deletion and insertion (nmt/lab/faithfulness.py).
"""

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor

from nmt.explain.attribution.methods import METHODS, applicable_methods, attention
from nmt.explain.attribution.pair import Pair as EncodedPair
from nmt.explain.colours import CYCLE, GREY
from nmt.lab.experiment import Experiment, Result, one_thread
from nmt.lab.faithfulness import agreement, area, curves
from nmt.lab.figure import new_figure
from nmt.lab.small_language import Pair
from nmt.lab.translators import TranslatorOptions, draw_pairs, encode, gru_config, train
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.translation.words import row_shares

PLANTED, RANDOM = "planted", "random"
MEASURES = ("hit", "hit_or_noun", "mass", "deletion", "insertion")
_GRID = np.linspace(0, 1, 21)
"""The shares of words at which the curves of sentences of all lengths are averaged."""
_COLOURS: dict[str, str] = dict(zip(("attention", *METHODS), (*CYCLE, "goldenrod"), strict=True))


class TruthOptions(TranslatorOptions):
    """Options of the models, of their training, and of the test."""

    updates: int = Field(default=250, gt=0, description="training updates of each model")
    unknown: float = Field(
        default=0.2, gt=0, lt=1, description="share of source words replaced with unk in training"
    )
    sentences: int = Field(default=10, gt=0, description="unseen sentences to explain")
    models: int = Field(default=3, gt=1, description="models of each kind, with consecutive seeds")

    @property
    def configs(self) -> dict[str, ModelConfig]:
        """The model configurations by name. A forward GRU reads an article before its noun."""
        return {
            "GRU, forward": gru_config(self),
            "GRU, both ways": gru_config(self, bidirectional=True),
            "Transformer": TransformerConfig(size=self.hidden, layers=2, dropout=0.0),
        }


@dataclass(frozen=True)
class MethodScores:
    """Scores of a method by seed.

    `measures` has the shape (seeds, MEASURES). `curves` (seeds, 2, points) has the curves of
    deletion and insertion at _GRID.
    """

    measures: npt.NDArray[np.float64]
    curves: npt.NDArray[np.float64]

    def content(self) -> dict[str, object]:
        means, spreads = self.measures.mean(axis=0), self.measures.std(axis=0, ddof=1)
        numbers: dict[str, object] = {}
        for name, mean, spread in zip(MEASURES, means, spreads, strict=True):
            numbers |= {name: float(mean), f"{name}_spread": float(spread)}
        deletion, insertion = self.curves.mean(axis=0)
        return {**numbers, "deletion_curve": deletion, "insertion_curve": insertion}


@dataclass(frozen=True)
class TruthResult(Result):
    """The scores by model and method, and the word accuracy of each model, one value per seed."""

    accuracy: dict[str, npt.NDArray[np.float64]]
    scores: dict[str, dict[str, MethodScores]]

    def content(self) -> dict[str, object]:
        return {
            "word_accuracy": {name: float(values.mean()) for name, values in self.accuracy.items()},
            **{
                name: {method: scores.content() for method, scores in methods.items()}
                for name, methods in self.scores.items()
            },
        }


def run(options: TruthOptions) -> TruthResult:
    """Train the models of each kind, and score every method on the same unseen sentences."""
    pairs = draw_pairs(random.Random(options.seed), options.sentences, frozenset())
    accuracy: dict[str, npt.NDArray[np.float64]] = {}
    scores: dict[str, dict[str, MethodScores]] = {}
    with one_thread():
        for name, config in options.configs.items():
            accuracies, rows = [], []
            for seed in range(options.seed, options.seed + options.models):
                seed_options = options.model_copy(update={"seed": seed})
                model = train(config, frozenset(pairs), seed_options, options.unknown)
                accuracies.append(_accuracy(model, pairs))
                rows.append(_score(model, pairs, seed))
            accuracy[name] = np.array(accuracies)
            scores[name] = {
                method: MethodScores(*(np.stack([row[method][i] for row in rows]) for i in (0, 1)))
                for method in rows[0]
            }
    return TruthResult(accuracy, scores)


def encode_pair(pair: Pair) -> EncodedPair:
    """Return the pair as ids, eos included."""
    batch = encode([pair])
    return EncodedPair(batch.src_ids[0], batch.tgt_in[0], batch.tgt_out[0])


@torch.inference_mode()
def _accuracy(model: Seq2Seq, pairs: list[Pair]) -> float:
    """Return the share of French words that are the most probable after the correct prefix."""
    is_correct: list[bool] = []
    for pair in map(encode_pair, pairs):
        best = model(pair.src_ids[None], pair.src_keep, pair.tgt_in[None]).logits[0].argmax(dim=-1)
        is_correct += (best == pair.tgt_out)[:-1].tolist()
    return float(np.mean(is_correct))


def attributions(model: Seq2Seq, pair: Pair, generator: torch.Generator) -> dict[str, Tensor]:
    """Return the shares (words, S) by method: planted, attention, applicable METHODS, and random.

    The planted shares of a word are 1 for the word that it translates and 1/2 for the noun that it
    agrees with, divided by their sum. The shares of a method are proportional to the absolute
    values of its scores.
    """
    encoded = encode_pair(pair)
    n_words, n_src = len(pair.french), len(encoded.src_ids)
    planted = torch.zeros(n_words, n_src)
    for row, source, noun in zip(planted, pair.sources, pair.nouns, strict=True):
        if noun is not None:
            row[noun] = 0.5
        row[source] = 1.0
    scores = {PLANTED: planted, "attention": attention(model, encoded).source}
    for method in applicable_methods(model)[1]:
        scores[method] = METHODS[method](model, encoded).source
    scores[RANDOM] = torch.rand(n_words, n_src, generator=generator)
    return {
        method: torch.from_numpy(row_shares(values[:n_words].float().numpy()))
        for method, values in scores.items()
    }


def _score(
    model: Seq2Seq, pairs: list[Pair], seed: int
) -> dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Return MEASURES and both curves at _GRID by method, as means over all target words."""
    generator = torch.Generator().manual_seed(seed)
    measures: dict[str, list[Tensor]] = {}
    points: dict[str, list[npt.NDArray[np.float64]]] = {}
    for pair in pairs:
        shares = attributions(model, pair, generator)
        both_curves = curves(model, encode_pair(pair), torch.stack(list(shares.values())))
        x = np.linspace(0, 1, both_curves[0].shape[-1])
        sources = torch.tensor(pair.sources)
        nouns = torch.tensor([-1 if noun is None else noun for noun in pair.nouns])
        for i, (method, values) in enumerate(shares.items()):
            hit, mass = agreement(values, sources)
            on_noun, _ = agreement(values, nouns)
            columns = [hit, hit | on_noun, mass, *(area(curve[i]) for curve in both_curves)]
            measures.setdefault(method, []).append(torch.stack([c.double() for c in columns], 1))
            points.setdefault(method, []).extend(
                np.stack([np.interp(_GRID, x, y.double().numpy()) for y in word_curves])
                for word_curves in zip(*(curve[i] for curve in both_curves), strict=True)
            )
    return {
        method: (torch.cat(rows).mean(dim=0).numpy(), np.mean(points[method], axis=0))
        for method, rows in measures.items()
    }


def draw(result: TruthResult) -> Figure:
    """Draw a row per model: the hit rates, and the deletion and insertion curves."""
    figure = new_figure(10.6, 10.2)
    panels = figure.subplots(len(result.scores), 3, width_ratios=[1.25, 1, 1], sharex="col")
    for (name, methods), (bars, *others) in zip(result.scores.items(), panels, strict=True):
        _draw_bars(bars, methods)
        bars.set_title(name, fontweight="bold")
        for i, (axes, title) in enumerate(zip(others, ("deletion", "insertion"), strict=True)):
            for method, scores in methods.items():
                style = {PLANTED: "--", RANDOM: ":"}.get(method, "-")
                y, colour = scores.curves[:, i].mean(axis=0), _COLOURS.get(method, GREY)
                axes.plot(_GRID, y, style, color=colour)
            axes.set_title(title)
            axes.sharey(others[0])
        others[0].set_ylabel("log p of the reference, nats")
    panels[-1, 0].set_xlabel("largest share on the planted word (pale: or on its noun)")
    panels[-1, 1].set_xlabel("share of words removed")
    panels[-1, 2].set_xlabel("share of words restored")
    figure.supxlabel("Curves in grey: planted (dashed) and random (dotted).", fontsize=8.5)
    return figure


def _draw_bars(axes: Axes, methods: dict[str, MethodScores]) -> None:
    for y, (method, scores) in enumerate(methods.items()):
        hit, hit_or_noun = scores.measures[:, 0], scores.measures[:, 1]
        colour = _COLOURS.get(method, GREY)
        axes.barh(y, hit_or_noun.mean(), color=colour, alpha=0.3)
        axes.barh(y, hit.mean(), xerr=hit.std(ddof=1), color=colour, ecolor="0.2")
    axes.set_yticks(range(len(methods)), list(methods))
    axes.set(xlim=(0, 1.02), ylim=(len(methods) - 0.4, -0.6))


EXPERIMENT = Experiment(TruthOptions, run, draw)
