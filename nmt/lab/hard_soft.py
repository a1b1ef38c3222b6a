"""One trained model decoded with soft, sampled and argmax attention.

Soft attention averages over all positions. Hard attention takes one position: a sample from the
same distribution, or the most probable (arXiv 1502.03044, section 4). The accuracy that a model
loses if decoded in another way than trained shows how well one position replaces the average.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from nmt.explain.colours import BLUE, GREEN, ORANGE, RED
from nmt.lab.experiment import Experiment, Result, one_thread, seeded
from nmt.lab.figure import heat_map, new_figure
from nmt.lab.small_language import translate
from nmt.lab.translators import (
    Looks,
    SampledWeighting,
    Translations,
    TranslatorOptions,
    draw_pairs,
    looks_along,
    recurrent,
    train,
    translated,
    weighted_by,
)
from nmt.models.attention.weighting import (
    HardConfig,
    HardGumbelConfig,
    SoftConfig,
    WeightingConfig,
)
from nmt.models.recurrent.rnn import RNNSeq2Seq
from nmt.text.vocabulary import EOS_ID, RESERVED

EXAMPLE = translate("my big green house follows the small black mouse")
TRAINED: dict[str, WeightingConfig] = {
    "soft": SoftConfig(),
    "hard": HardConfig(credit="sentence", reward=1),
    "hard_future": HardConfig(credit="future", reward=1),
    "hard_gumbel": HardGumbelConfig(),
}
END = RESERVED[EOS_ID]
SOFT, SAMPLED, ARGMAX = "soft", "sampled", "argmax"
_COLOURS = {SOFT: BLUE, SAMPLED: ORANGE, ARGMAX: GREEN}


class HardSoftOptions(TranslatorOptions):
    """Settings of the models, of their training, and of the test."""

    bidirectional: bool = Field(
        default=False,
        description="bidirectional encoder; otherwise it reads an article before its noun",
    )
    sentences: int = Field(default=200, gt=0, description="unseen sentences to translate")
    draws: int = Field(default=5, gt=1, description="how often sampled decoding is repeated")


@dataclass(frozen=True)
class Model:
    """Measurements of a trained model. `looks` measures its soft attention.

    `decoded` holds the translations of each way of decoding, one per draw for sampled decoding.
    """

    decoded: dict[str, list[Translations]]
    looks: Looks

    def words_right(self, way: str) -> list[float]:
        """Return the percentage of right words of each draw."""
        return [translations.words_right for translations in self.decoded[way]]


@dataclass(frozen=True)
class HardSoftResult(Result):
    """The models by the name of the weighting that they were trained with (keys of TRAINED)."""

    models: dict[str, Model]

    def numbers(self) -> dict[str, object]:
        """Return the numbers of NAME.json; spreads are standard deviations over the draws."""
        return {
            "shown": {"english": " ".join(EXAMPLE.english), "french": " ".join(EXAMPLE.french)},
            **{f"trained_{name}": _numbers(model) for name, model in self.models.items()},
        }


def _numbers(model: Model) -> dict[str, object]:
    looks = model.looks
    numbers: dict[str, object] = {
        "entropy": looks.entropy,
        "weight_of_agreeing_words_on_their_own_word": looks.on_own_word,
        "weight_of_agreeing_words_on_their_noun": looks.on_its_noun,
    }
    for way, draws in model.decoded.items():
        row = model.words_right(way)
        numbers[f"decoded_{way}"] = {
            "words_right": float(np.mean(row)),
            **({"words_right_spread": float(np.std(row, ddof=1))} if len(row) > 1 else {}),
            "shown": " ".join(draws[0].first),
            "shown_weights": draws[0].first_weights,
        }
    return numbers


def _with_spread(row: Sequence[float]) -> str:
    spread = f" ± {np.std(row, ddof=1):.1f}" if len(row) > 1 else ""
    return f"{np.mean(row):.1f}{spread}"


def run(options: HardSoftOptions) -> HardSoftResult:
    """Train each model on the same sentences, and decode it in each of the three ways."""
    chance = random.Random(options.seed)
    unseen = [EXAMPLE, *draw_pairs(chance, options.sentences, frozenset([EXAMPLE]))]
    models: dict[str, Model] = {}
    with one_thread():
        for name, weights in TRAINED.items():
            config = recurrent(options, weights, options.bidirectional)
            with seeded(options.seed):
                trained = train(config, frozenset(unseen), options)
            assert isinstance(trained, RNNSeq2Seq)
            soft, sampled, argmax = (
                weighted_by(trained, weighting)
                for weighting in (SoftConfig().build(), SampledWeighting(), HardConfig().build())
            )
            draws: list[Translations] = []
            for draw in range(options.draws):
                with seeded(options.seed + draw):
                    draws.append(translated(sampled, unseen))
            ways = {SOFT: [translated(soft, unseen)], SAMPLED: draws}
            ways[ARGMAX] = [translated(argmax, unseen)]
            models[name] = Model(ways, looks_along(soft, unseen))
    return HardSoftResult(models)


def draw(result: HardSoftResult) -> Figure:
    """Draw a row per model: the share of right words, and its attention on the example sentence."""
    figure = new_figure(10.6, 9.4)
    panels = figure.subplots(
        len(result.models), 4, width_ratios=[1.05, 1, 1, 1], sharex="col", squeeze=False
    )
    for (name, model), (bars, *maps) in zip(result.models.items(), panels, strict=True):
        _draw_bars(bars, model)
        bars.set_title(f"trained {name.replace('_', ', ')}", fontweight="bold")
        for axes, (way, draws) in zip(maps, model.decoded.items(), strict=True):
            _draw_map(axes, draws[0])
            entropy = f"; entropy {model.looks.entropy:.2f}" if way == SOFT else ""
            axes.set_title(f"decoded {way}{entropy}", color=_COLOURS[way])
        maps[0].set_ylabel("translation")
    for axes in panels[-1, 1:]:
        axes.set_xlabel("source")
    figure.colorbar(panels[-1, -1].images[0], ax=panels[:, -1], label="attention weight")
    figure.supxlabel("Words in red should be others.", color=RED, fontsize=8.5)
    return figure


def _draw_bars(axes: Axes, model: Model) -> None:
    for x, (way, colour) in enumerate(_COLOURS.items()):
        row = model.words_right(way)
        axes.bar(x, float(np.mean(row)), color=colour, width=0.65)
        axes.text(x, float(np.mean(row)) + 1.5, _with_spread(row), ha="center", fontsize=7.5)
    axes.set_xticks(range(len(_COLOURS)), list(_COLOURS))
    axes.set(ylim=(0, 112), yticks=[0, 50, 100], ylabel="words right, %")
    axes.tick_params(axis="x", labelbottom=True, labelsize=8)


def _draw_map(axes: Axes, translations: Translations) -> None:
    """Draw the weights on the example sentence, a row per target word. Wrong words are red."""
    words = translations.first
    heat_map(axes, translations.first_weights, 1.0)
    source, reference = [*EXAMPLE.english, END], [*EXAMPLE.french, END]
    axes.set_xticks(range(len(source)), source, rotation=60, fontsize=7.5)
    axes.set_yticks(range(len(words)), words, fontsize=7.5)
    for i, label in enumerate(axes.get_yticklabels()):
        if words[i : i + 1] != reference[i : i + 1]:
            label.set_color(RED)
    axes.tick_params(length=0)


EXPERIMENT = Experiment(HardSoftOptions, run, draw)
