"""Trained models, each decoded with soft, sampled and argmax attention.

Soft attention averages over all positions. Hard attention selects one position: a sample from
the same distribution, or the most probable position (arXiv 1502.03044, section 4).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from nmt.explain.colours import BLUE, GREEN, ORANGE, RED
from nmt.lab import translators
from nmt.lab.experiment import Experiment, Result, one_thread, seeded
from nmt.lab.figure import heat_map, new_figure
from nmt.lab.small_language import translate
from nmt.models.attention import weighting
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.text.vocabulary import EOS_ID, RESERVED

EXAMPLE = translate("my big green house follows the small black mouse")
WEIGHTINGS: dict[str, weighting.WeightingConfig] = {
    "soft": weighting.SoftConfig(),
    "hard": weighting.HardConfig(credit="sentence", reward=1),
    "hard_future": weighting.HardConfig(credit="future", reward=1),
    "hard_gumbel": weighting.HardGumbelConfig(),
}
SOFT, SAMPLED, ARGMAX = "soft", "sampled", "argmax"
_COLOURS = {SOFT: BLUE, SAMPLED: ORANGE, ARGMAX: GREEN}


class HardSoftOptions(translators.TranslatorOptions):
    """Options of the models, of their training, and of the test."""

    bidirectional: bool = Field(
        default=False,
        description="bidirectional encoder; a forward encoder reads an article before its noun",
    )
    sentences: int = Field(default=200, gt=0, description="unseen sentences to translate")
    draws: int = Field(default=5, gt=1, description="repetitions of sampled decoding")


@dataclass(frozen=True)
class ModelMeasurements:
    """Measurements of a trained model. `attention` has the means of its soft attention.

    `translations` has the accuracy and an example for each way of decoding. Sampled decoding has an
    entry per draw, and the other ways have one entry.
    """

    translations: dict[str, list[translators.Translations]]
    attention: translators.AttentionMeans

    def content(self) -> dict[str, object]:
        numbers: dict[str, object] = {
            "entropy": self.attention.entropy,
            "weight_on_source_word": self.attention.on_source,
            "weight_on_agreeing_noun": self.attention.on_noun,
        }
        for way, draws in self.translations.items():
            mean, spread = _mean_and_spread(draws)
            numbers[f"decoded_{way}"] = {
                "word_accuracy": mean,
                **({} if spread is None else {"word_accuracy_spread": spread}),
                "example": " ".join(draws[0].first_words),
                "example_weights": draws[0].first_weights,
            }
        return numbers


def _mean_and_spread(draws: Sequence[translators.Translations]) -> tuple[float, float | None]:
    """Return the mean word accuracy in %, and its standard deviation (None for one draw)."""
    values = [translations.word_accuracy for translations in draws]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class HardSoftResult(Result):
    """The models by the name of their weighting in training, a key of WEIGHTINGS."""

    models: dict[str, ModelMeasurements]

    def content(self) -> dict[str, object]:
        return {
            "example": {"english": " ".join(EXAMPLE.english), "french": " ".join(EXAMPLE.french)},
            **{f"trained_{name}": model.content() for name, model in self.models.items()},
        }


def run(options: HardSoftOptions) -> HardSoftResult:
    """Train each model on the same sentences, and decode it in each of the three ways."""
    rng = random.Random(options.seed)
    test_pairs = [EXAMPLE, *translators.draw_pairs(rng, options.sentences, frozenset([EXAMPLE]))]
    models: dict[str, ModelMeasurements] = {}
    with one_thread():
        for name, weights in WEIGHTINGS.items():
            config = translators.gru_config(options, weights, options.bidirectional)
            trained = translators.train(config, frozenset(test_pairs), options)
            assert isinstance(trained, RNNSeq2Seq)
            ways = (
                weighting.SoftConfig().build(),
                translators.SampledWeighting(),
                weighting.HardConfig().build(),
            )
            soft, sampled, argmax = (translators.with_weighting(trained, way) for way in ways)
            results = {SOFT: [translators.evaluate(soft, test_pairs)], SAMPLED: []}
            for draw in range(options.draws):
                with seeded(options.seed + draw):
                    results[SAMPLED].append(translators.evaluate(sampled, test_pairs))
            results[ARGMAX] = [translators.evaluate(argmax, test_pairs)]
            attention = translators.measure_attention(soft, test_pairs)
            models[name] = ModelMeasurements(results, attention)
    return HardSoftResult(models)


def draw(result: HardSoftResult) -> Figure:
    """Draw a row per model: its word accuracy, and its attention on the example sentence."""
    figure = new_figure(10.6, 9.4)
    panels = figure.subplots(len(result.models), 4, width_ratios=[1.05, 1, 1, 1], sharex="col")
    for (name, model), (bars, *maps) in zip(result.models.items(), panels, strict=True):
        _draw_bars(bars, model)
        bars.set_title(f"trained {name.replace('_', ', ')}", fontweight="bold")
        for axes, (way, draws) in zip(maps, model.translations.items(), strict=True):
            _draw_map(axes, draws[0])
            entropy = f"; entropy {model.attention.entropy:.2f}" if way == SOFT else ""
            axes.set_title(f"decoded {way}{entropy}", color=_COLOURS[way])
        maps[0].set_ylabel("translation")
    for axes in panels[-1, 1:]:
        axes.set_xlabel("source")
    figure.colorbar(panels[-1, -1].images[0], ax=panels[:, -1], label="attention weight")
    figure.supxlabel("Wrong words are red.", color=RED, fontsize=8.5)
    return figure


def _draw_bars(axes: Axes, model: ModelMeasurements) -> None:
    for x, (way, colour) in enumerate(_COLOURS.items()):
        mean, spread = _mean_and_spread(model.translations[way])
        text = f"{mean:.1f}" if spread is None else f"{mean:.1f} ± {spread:.1f}"
        axes.bar(x, mean, color=colour, width=0.65)
        axes.text(x, mean + 1.5, text, ha="center", fontsize=7.5)
    axes.set_xticks(range(len(_COLOURS)), list(_COLOURS))
    axes.set(ylim=(0, 112), yticks=[0, 50, 100], ylabel="words right, %")
    axes.tick_params(axis="x", labelbottom=True, labelsize=8)


def _draw_map(axes: Axes, translations: translators.Translations) -> None:
    """Draw the attention weights of the example, a row per target word. Wrong words are red."""
    words = translations.first_words
    heat_map(axes, translations.first_weights, 1.0)
    source, reference = ([*words, RESERVED[EOS_ID]] for words in (EXAMPLE.english, EXAMPLE.french))
    axes.set_xticks(range(len(source)), source, rotation=60, fontsize=7.5)
    axes.set_yticks(range(len(words)), words, fontsize=7.5)
    for i, label in enumerate(axes.get_yticklabels()):
        if words[i : i + 1] != reference[i : i + 1]:
            label.set_color(RED)
    axes.tick_params(length=0)


EXPERIMENT = Experiment(HardSoftOptions, run, draw)
