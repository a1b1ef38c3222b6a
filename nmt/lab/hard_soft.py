"""The same trained model with soft, hard-sampled and argmax attention, however it was trained.

Soft attention averages over all positions; hard attention takes one, drawn from the same
distribution or the most probable (arXiv 1502.03044, section 4). The loss of a
model that is decoded in another way than it was trained shows how well one position can replace
the average.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from nmt.lab.experiment import Experiment, Result, one_thread, seeded
from nmt.lab.figure import BLUE, GREEN, ORANGE, RED, heat, new_figure
from nmt.lab.small_language import translate
from nmt.lab.translators import (
    Looks,
    SampledWeighting,
    Translations,
    TranslatorOptions,
    draw_pairs,
    looks_along,
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
from nmt.text.vocabulary import EOS_ID, RESERVED

SHOWN = translate("my big green house follows the small black mouse")
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
    """The sizes of models and training, and the number of test sentences and draws."""

    sentences: int = Field(default=200, gt=0, description="unseen ones that are translated")
    draws: int = Field(default=5, gt=1, description="how often sampled decoding is repeated")


@dataclass(frozen=True)
class Model:
    """One trained model: its translations by way of decoding, one per draw if positions are
    sampled, and the attention of its softmax.
    """

    decoded: dict[str, list[Translations]]
    looks: Looks

    def words_right(self, way: str) -> list[float]:
        """The percentage of right words, draw by draw."""
        return [translations.words_right for translations in self.decoded[way]]


@dataclass(frozen=True)
class HardSoftResult(Result):
    """The models by the weights of their training."""

    models: dict[str, Model]

    def numbers(self) -> dict[str, object]:
        """See Result.numbers; spreads are standard deviations over the draws."""
        return {
            "shown": {"english": " ".join(SHOWN.english), "french": " ".join(SHOWN.french)},
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
    """Train each model on the same sentences, and decode each in every way."""
    chance = random.Random(options.seed)
    unseen = [SHOWN, *draw_pairs(chance, options.sentences, frozenset([SHOWN]))]
    models: dict[str, Model] = {}
    with one_thread():
        for name, weights in TRAINED.items():
            with seeded(options.seed):
                trained = train(weights, frozenset(unseen), options)
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
    """A row per model: the share of right words, and its attention on the shown sentence."""
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
    for place, (way, colour) in enumerate(_COLOURS.items()):
        row = model.words_right(way)
        axes.bar(place, float(np.mean(row)), color=colour, width=0.65)
        axes.text(place, float(np.mean(row)) + 1.5, _with_spread(row), ha="center", fontsize=7.5)
    axes.set_xticks(range(len(_COLOURS)), list(_COLOURS))
    axes.set(ylim=(0, 112), yticks=[0, 50, 100], ylabel="words right, %")
    axes.tick_params(axis="x", labelbottom=True, labelsize=8)


def _draw_map(axes: Axes, shown: Translations) -> None:
    """The weights, a row per word. Wrong words are red."""
    heat(axes, shown.first_weights, 1.0)
    columns_of = [*SHOWN.english, END]
    axes.set_xticks(range(len(columns_of)), columns_of, rotation=60, fontsize=7.5)
    axes.set_yticks(range(len(shown.first)), shown.first, fontsize=7.5)
    right = [*SHOWN.french, END]
    for place, label in enumerate(axes.get_yticklabels()):
        if shown.first[place : place + 1] != right[place : place + 1]:
            label.set_color(RED)
    axes.tick_params(length=0)


EXPERIMENT = Experiment(HardSoftOptions, run, draw)
