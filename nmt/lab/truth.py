"""Attribution methods measured against a known truth.

The sentences of nmt/lab/small_language.py have a planted alignment: every French word translates
one English word, and an article or an adjective also agrees with one noun. Models that learned the
language are explained by every method of nmt.explain.attribution. A method is measured by its
agreement with the planted words, and by deletion and insertion (nmt/lab/faithfulness.py), which
ask the model alone.
"""

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor

from nmt.explain.attribution.methods import METHODS, applicable
from nmt.explain.attribution.pair import Pair as EncodedPair
from nmt.explain.colours import CYCLE, GREY
from nmt.lab.experiment import Experiment, Result, one_thread, seeded
from nmt.lab.faithfulness import agreement, area, curves
from nmt.lab.figure import new_figure
from nmt.lab.small_language import Pair
from nmt.lab.translators import TranslatorOptions, batch_of, draw_pairs, recurrent, train
from nmt.models.base import Seq2Seq
from nmt.models.catalog import ModelConfig
from nmt.models.transformer.transformer import TransformerConfig
from nmt.search.forced import read_weights
from nmt.translation.words import row_shares

PLANTED, RANDOM = "planted", "random"
MEASURES = ("hit", "hit_or_noun", "mass", "deletion", "insertion")
_GRID = np.linspace(0, 1, 21)
"""The shares of removed words at which the curves of sentences of all lengths are averaged."""
_COLOURS: dict[str, str] = dict(zip(("attention", *METHODS), (*CYCLE, "goldenrod"), strict=True))


class TruthOptions(TranslatorOptions):
    """Settings of the models, of their training, and of the test."""

    updates: int = Field(default=250, gt=0, description="training updates of each model")
    unknown: float = Field(
        default=0.2, gt=0, lt=1, description="share of the source words read as unk in training"
    )
    sentences: int = Field(default=10, gt=0, description="unseen sentences to explain")
    models: int = Field(default=3, gt=1, description="models of each kind, with consecutive seeds")

    @property
    def configs(self) -> dict[str, ModelConfig]:
        """The models by name. A forward GRU reads an article before its noun."""
        return {
            "GRU, forward": recurrent(self),
            "GRU, both ways": recurrent(self, bidirectional=True),
            "Transformer": TransformerConfig(size=self.hidden, layers=2, dropout=0.0),
        }


@dataclass(frozen=True)
class Scored:
    """Measures of a method, one row per seed: MEASURES, and deletion and insertion at _GRID."""

    measures: npt.NDArray[np.float64]
    curves: npt.NDArray[np.float64]


@dataclass(frozen=True)
class TruthResult(Result):
    """The measures by model and method, and the share of words right, one value per seed."""

    right: dict[str, npt.NDArray[np.float64]]
    scored: dict[str, dict[str, Scored]]

    def numbers(self) -> dict[str, object]:
        """Return the numbers of NAME.json; spreads are standard deviations over the seeds."""
        return {
            "words_right": {name: float(values.mean()) for name, values in self.right.items()},
            **{
                name: {method: _numbers(scored) for method, scored in methods.items()}
                for name, methods in self.scored.items()
            },
        }


def _numbers(scored: Scored) -> dict[str, object]:
    means, spreads = scored.measures.mean(axis=0), scored.measures.std(axis=0, ddof=1)
    numbers: dict[str, object] = {}
    for name, mean, spread in zip(MEASURES, means, spreads, strict=True):
        numbers |= {name: float(mean), f"{name}_spread": float(spread)}
    deletion, insertion = scored.curves.mean(axis=0)
    return {**numbers, "deletion_curve": deletion, "insertion_curve": insertion}


def run(options: TruthOptions) -> TruthResult:
    """Train the models of each kind, and measure every method on the same unseen sentences."""
    pairs = draw_pairs(random.Random(options.seed), options.sentences, frozenset())
    right: dict[str, npt.NDArray[np.float64]] = {}
    scored: dict[str, dict[str, Scored]] = {}
    with one_thread():
        for name, config in options.configs.items():
            models = [
                _trained(config, pairs, options.model_copy(update={"seed": options.seed + i}))
                for i in range(options.models)
            ]
            right[name] = np.array([_words_right(model, pairs) for model in models])
            by_seed = [_score(model, pairs, options.seed + i) for i, model in enumerate(models)]
            scored[name] = {
                method: Scored(
                    np.stack([means[method][0] for means in by_seed]),
                    np.stack([means[method][1] for means in by_seed]),
                )
                for method in by_seed[0]
            }
    return TruthResult(right, scored)


def _trained(config: ModelConfig, pairs: list[Pair], options: TruthOptions) -> Seq2Seq:
    with seeded(options.seed):
        return train(config, frozenset(pairs), options, options.unknown)


def encode(pair: Pair) -> EncodedPair:
    """Return the pair as ids, eos included."""
    batch = batch_of([pair])
    return EncodedPair(batch.src_ids[0], batch.tgt_in[0], batch.tgt_out[0])


@torch.inference_mode()
def _words_right(model: Seq2Seq, pairs: list[Pair]) -> float:
    """Return the share of words that are the most probable after a right prefix."""
    is_right: list[bool] = []
    for pair in map(encode, pairs):
        keep = torch.ones_like(pair.src_ids[None], dtype=torch.bool)
        best = model(pair.src_ids[None], keep, pair.tgt_in[None]).logits[0].argmax(dim=-1)
        is_right += (best == pair.tgt_out)[:-1].tolist()
    return float(np.mean(is_right))


def attributions(model: Seq2Seq, pair: Pair, chance: torch.Generator) -> dict[str, Tensor]:
    """Return the shares (words, S) of the planted words, of every applicable method, and of chance.

    The planted shares of a word are 1/2 for its noun and 1 for the word that it translates, divided
    by their sum. All scores count by their absolute value, as in maps.
    """
    encoded = encode(pair)
    n_words, n_src = len(pair.french), len(encoded.src_ids)
    planted = torch.zeros(n_words, n_src)
    for row, source, noun in zip(planted, pair.sources, pair.nouns, strict=True):
        if noun is not None:
            row[noun] = 0.5
        row[source] = 1.0
    scores = {PLANTED: planted, "attention": _attention(model, encoded)}
    for method in applicable(model)[1]:
        scores[method] = METHODS[method](model, encoded).source
    scores[RANDOM] = torch.rand(n_words, n_src, generator=chance)
    return {
        method: torch.from_numpy(row_shares(values[:n_words].float().numpy()))
        for method, values in scores.items()
    }


def _attention(model: Seq2Seq, pair: EncodedPair) -> Float[Tensor, "T S"]:
    lengths = torch.tensor([len(pair.src_ids)])
    [weights] = read_weights(model, pair.src_ids[None], lengths, [pair.tgt_out.tolist()])
    return torch.from_numpy(weights)


def _score(
    model: Seq2Seq, pairs: list[Pair], seed: int
) -> dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Return the means over all target words: MEASURES, and both curves at _GRID."""
    chance = torch.Generator().manual_seed(seed)
    measures: dict[str, list[Tensor]] = {}
    points: dict[str, list[npt.NDArray[np.float64]]] = {}
    for pair in pairs:
        shares = attributions(model, pair, chance)
        both = curves(model, encode(pair), torch.stack(list(shares.values())))
        sources = torch.tensor(pair.sources)
        nouns = torch.tensor([-1 if noun is None else noun for noun in pair.nouns])
        for i, (method, values) in enumerate(shares.items()):
            hit, mass = agreement(values, sources)
            on_noun, _ = agreement(values, nouns)
            rows = [hit, hit | on_noun, mass, *(area(curve[i]) for curve in both)]
            measures.setdefault(method, []).append(torch.stack([row.double() for row in rows], 1))
            points.setdefault(method, []).append(
                np.stack([_on_grid(curve[i].double().numpy()) for curve in both], axis=1)
            )
    return {
        method: (torch.cat(rows).mean(dim=0).numpy(), np.concatenate(points[method]).mean(axis=0))
        for method, rows in measures.items()
    }


def _on_grid(curve: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shares = np.linspace(0, 1, curve.shape[1])
    return np.stack([np.interp(_GRID, shares, row) for row in curve])


def draw(result: TruthResult) -> Figure:
    """Draw a row per model: the hit rates, and the deletion and insertion curves."""
    figure = new_figure(10.6, 10.2)
    panels = figure.subplots(
        len(result.scored), 3, width_ratios=[1.25, 1, 1], sharex="col", squeeze=False
    )
    for (name, methods), (bars, *rest) in zip(result.scored.items(), panels, strict=True):
        _draw_bars(bars, methods)
        bars.set_title(name, fontweight="bold")
        for i, (axes, title) in enumerate(zip(rest, ("deletion", "insertion"), strict=True)):
            _draw_curves(axes, {method: scored.curves[:, i] for method, scored in methods.items()})
            axes.set_title(title)
            axes.sharey(rest[0])
        rest[0].set_ylabel("log p of the reference, nats")
    panels[-1, 0].set_xlabel("largest share on the planted word (pale: or on its noun)")
    panels[-1, 1].set_xlabel("share of words removed")
    panels[-1, 2].set_xlabel("share of words restored")
    figure.supxlabel("Curves in grey: planted (dashed) and random (dotted).", fontsize=8.5)
    return figure


def _draw_bars(axes: Axes, methods: dict[str, Scored]) -> None:
    for y, (method, scored) in enumerate(methods.items()):
        hit, either = scored.measures[:, 0], scored.measures[:, 1]
        colour = _COLOURS.get(method, GREY)
        axes.barh(y, either.mean(), color=colour, alpha=0.3)
        axes.barh(y, hit.mean(), xerr=hit.std(ddof=1), color=colour, ecolor="0.2")
    axes.set_yticks(range(len(methods)), list(methods))
    axes.set(xlim=(0, 1.02), ylim=(len(methods) - 0.4, -0.6))


def _draw_curves(axes: Axes, by_method: dict[str, npt.NDArray[np.float64]]) -> None:
    for method, values in by_method.items():
        style = {PLANTED: "--", RANDOM: ":"}.get(method, "-")
        axes.plot(_GRID, values.mean(axis=0), style, color=_COLOURS.get(method, GREY))


EXPERIMENT = Experiment(TruthOptions, run, draw)
