"""Trained additive attention compared with dot products, for several sizes d of queries and keys.

A memory has items with different names, and each item has an answer. A query requests the answer of
a name. Queries and keys start from N(0, 1), so q^T k has variance d (arXiv 1706.03762; arXiv
1703.03906, section 4.4).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor, nn

from nmt.explain.colours import CYCLE, GREY
from nmt.lab.experiment import Experiment, Options, Result, one_thread, seeded, update
from nmt.lab.figure import new_figure
from nmt.lab.scaling import CONFIGS, Kind, Kinds, Sizes
from nmt.models.attention.base import Attention
from nmt.models.catalog import initialise
from nmt.settings.base import Conflict

_ANSWERS = 8
_VALUE_SIZE = 16
_TEST_MEMORIES = 256

Ids = Int[Tensor, "B S"]


class KeySizeOptions(Options):
    """Options of the attention, the task and the training."""

    kinds: Kinds = Field(
        default=("dot", "scaled_dot", "additive"), description="attention scores to compare"
    )
    sizes: Sizes = Field(default=(4, 16, 64, 256, 512), description="sizes d of queries and keys")
    names: int = Field(default=64, ge=2, description="number of different names")
    items: int = Field(default=16, ge=2, description="items in a memory, at most `names`")
    draws: int = Field(default=3, ge=2, le=100, description="trainings of each model, one per seed")
    updates: int = Field(default=300, gt=0, description="updates of each training")
    batch: int = Field(default=8, gt=0, description="memories per update, with a query per item")
    lr: float = Field(default=0.003, gt=0, description="learning rate of Adam")

    def _conflicts(self) -> Iterator[Conflict]:
        if self.items > self.names:
            yield "items", f"got {self.items}, allowed: at most names ({self.names})"


class Retrieval(nn.Module):
    """Attention over items with a key per name, then a linear layer that predicts the answer."""

    def __init__(self, kind: Kind, size: int, options: KeySizeOptions) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(options.names, size))
        self.keys = nn.Parameter(torch.randn(options.names, size))
        self.values = nn.Embedding(_ANSWERS, _VALUE_SIZE)
        self.attention: Attention = CONFIGS[kind].build(size, size)
        self.answer = nn.Linear(_VALUE_SIZE, _ANSWERS)
        initialise(self)

    def forward(self, names: Ids, answers: Ids) -> Float[Tensor, "B S answers"]:
        output = self.attention.attend(self.queries[names], self.keys[names], self.values(answers))
        return self.answer(output.context)


def draw_memories(
    count: int, options: KeySizeOptions, generator: torch.Generator
) -> tuple[Ids, Ids]:
    """Draw random memories: the names of their items, and the answer stored under each name.

    Within a memory all names are different.
    """
    shuffled = torch.rand(count, options.names, generator=generator).argsort(dim=-1)
    names = shuffled[:, : options.items]
    return names, torch.randint(_ANSWERS, names.shape, generator=generator)


@dataclass(frozen=True)
class KeySizeResult(Result):
    """The test loss (nats per answer) and accuracy of each kind, in arrays (2, sizes, draws)."""

    options: KeySizeOptions
    kinds: dict[Kind, npt.NDArray[np.float64]]

    def content(self) -> dict[str, object]:
        numbers: dict[str, object] = {"sizes": self.options.sizes}
        for kind, (loss, accuracy) in self.kinds.items():
            numbers[kind] = {
                "loss": loss.mean(axis=1),
                "loss_spread": loss.std(axis=1, ddof=1),
                "accuracy": accuracy.mean(axis=1),
            }
        return numbers


def run(options: KeySizeOptions) -> KeySizeResult:
    """Train and test every kind of attention at every size."""
    generator = torch.Generator().manual_seed(options.seed)
    names, answers = draw_memories(_TEST_MEMORIES, options, generator)
    results = np.empty((len(options.kinds), 2, len(options.sizes), options.draws))
    with one_thread():
        for i, j, draw in np.ndindex(len(options.kinds), len(options.sizes), options.draws):
            seed = options.seed * 10_007 + draw
            model = _train(options.kinds[i], options.sizes[j], options, seed)
            with torch.inference_mode():
                is_correct = model(names, answers).argmax(dim=-1) == answers
                loss = _loss(model, names, answers)
                results[i, :, j, draw] = loss, is_correct.double().mean()
    return KeySizeResult(options, dict(zip(options.kinds, results, strict=True)))


def _train(kind: Kind, size: int, options: KeySizeOptions, seed: int) -> Retrieval:
    with seeded(seed):
        model = Retrieval(kind, size, options)
    generator = torch.Generator().manual_seed(seed + 2**32)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    for _ in range(options.updates):
        update(optimizer, _loss(model, *draw_memories(options.batch, options, generator)))
    return model


def _loss(model: Retrieval, names: Ids, answers: Ids) -> Float[Tensor, ""]:
    logits = model(names, answers)
    return nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten())


def draw(result: KeySizeResult) -> Figure:
    """Draw accuracy and loss by size."""
    figure = new_figure(9.0, 4.0)
    accuracy, loss = figure.subplots(1, 2)
    sizes, options = result.options.sizes, result.options
    for colour, (kind, (losses, shares)) in zip(CYCLE * 2, result.kinds.items(), strict=False):
        for axes, values in ((accuracy, 100 * shares), (loss, losses)):
            axes.plot(sizes, values.mean(axis=1), ".-", color=colour, label=kind)
            axes.plot(sizes, values, ".", color=colour, alpha=0.35, markersize=4)
    for axes, guess in ((accuracy, 100 / _ANSWERS), (loss, math.log(_ANSWERS))):
        axes.axhline(guess, color=GREY, linestyle=":", linewidth=1.2)
        axes.text(sizes[0], guess, "random guess", va="bottom", fontsize=8)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="size d of query and key", ylim=(0, None))
    accuracy.set(title=f"Right answers after {options.updates} updates, %")
    loss.set(title="Loss, nats per answer")
    loss.legend()
    return figure


EXPERIMENT = Experiment(KeySizeOptions, run, draw)
