"""Additive against dot products over the size d of queries and keys, after training.

A memory holds items with different names; a query asks by name for the answer of one item. Queries
and keys are learned vectors, drawn from N(0, 1), so that q^T k has the variance d at first. The
larger d, the nearer the softmax is to a choice of the wrong item, and the less it learns; divided
by sqrt(d), or compared by a tanh layer, scores stay moderate for any d (arXiv 1706.03762, section
3.2.1; arXiv 1703.03906, section 4.4). The price of additive scores is counted and timed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from nmt.lab.costs import KEPT, TRAINING, Costs, Work, measure, one_thread
from nmt.lab.experiment import Experiment, Options, Result, seeded, some
from nmt.lab.figure import CYCLE, GREY, new_figure
from nmt.lab.growth import SLOPE_NOTE, Amounts, Curve, draw_growth
from nmt.lab.scaling import CONFIGS, Kind
from nmt.models.attention.base import Attention
from nmt.models.initialisation import initialise
from nmt.settings.base import conflict_error

_VALUE_SIZE = 16
_TEST_MEMORIES = 256


class KeySizeOptions(Options):
    """The attentions, the sizes, the task and the training."""

    kinds: tuple[Kind, ...] = Field(
        default=("dot", "scaled_dot", "additive"), description="kinds of attention to train"
    )
    sizes: tuple[Annotated[int, Field(gt=0, le=4096)], ...] = Field(
        default=(4, 16, 64, 256, 512), description="sizes d of q and k"
    )
    names: int = Field(default=64, ge=2, description="different names")
    items: int = Field(default=16, ge=2, description="items in a memory, at most `names`")
    answers: int = Field(default=8, ge=2, description="different answers")
    draws: int = Field(
        default=3, ge=2, le=100, description="trainings, each with a seed of its own"
    )
    updates: int = Field(default=300, gt=0, description="of each training")
    batch: int = Field(default=8, gt=0, description="memories in an update; each item is asked for")
    lr: float = Field(default=0.003, gt=0, description="learning rate of Adam")
    compared: int = Field(default=64, gt=0, description="queries and keys in the count of costs")
    repetitions: int = Field(default=5, gt=0, description="a time is the median of so many")

    _none_missing = field_validator("kinds", "sizes")(some)

    @model_validator(mode="after")
    def _names_suffice(self) -> "KeySizeOptions":
        if self.items > self.names:
            problem = f"got {self.items}, allowed: at most names ({self.names})"
            raise conflict_error([("items", problem)])
        return self


class Retrieval(nn.Module):
    """Attention over items whose names are their keys; the context becomes an answer."""

    def __init__(self, kind: Kind, size: int, options: KeySizeOptions) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(options.names, size))
        self.keys = nn.Parameter(torch.randn(options.names, size))
        self.values = nn.Embedding(options.answers, _VALUE_SIZE)
        self.attention: Attention = CONFIGS[kind].build(size, size)
        self.answer = nn.Linear(_VALUE_SIZE, options.answers)
        initialise(self)

    def forward(
        self, names: Int[Tensor, "B S"], answers: Int[Tensor, "B S"]
    ) -> Float[Tensor, "B S answers"]:
        """The logits of the answer to each item's name."""
        output = self.attention.attend(self.queries[names], self.keys[names], self.values(answers))
        logits: Tensor = self.answer(output.context)
        return logits


@dataclass(frozen=True)
class Memories:
    """B memories of S items: the names, and the answers that they lead to."""

    names: Int[Tensor, "B S"]
    answers: Int[Tensor, "B S"]


def draw_memories(count: int, options: KeySizeOptions, chance: torch.Generator) -> Memories:
    """Memories in which no name stands twice."""
    shuffled = torch.rand(count, options.names, generator=chance).argsort(dim=-1)
    names = shuffled[:, : options.items]
    return Memories(names, torch.randint(options.answers, names.shape, generator=chance))


@dataclass(frozen=True)
class Learned:
    """A kind of attention at every size, (n, draws): nats per answer, and right answers."""

    loss: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeySizeResult(Result):
    """The accuracy and loss that each kind learned, and the cost of its scores."""

    options: KeySizeOptions
    learned: dict[Kind, Learned]
    costs: dict[str, Costs]

    def numbers(self) -> dict[str, object]:
        """See Result.numbers; all but `timed` is the same at every run."""
        numbers: dict[str, object] = {"sizes": self.options.sizes}
        for kind, entry in self.learned.items():
            spread = entry.loss.std(axis=1, ddof=1)
            numbers[kind] = {
                "loss": entry.loss.mean(axis=1),
                "loss_spread": spread,
                "right": entry.right.mean(axis=1),
                **self.costs[kind].counted(),
            }
        return {**numbers, "timed": {kind: entry.timed() for kind, entry in self.costs.items()}}


def run(options: KeySizeOptions) -> KeySizeResult:
    """Train every kind at every size, and measure what its scores cost."""
    test = draw_memories(_TEST_MEMORIES, options, torch.Generator().manual_seed(options.seed))
    with one_thread():
        learned = {kind: _learn(kind, options, test) for kind in options.kinds}
        costs: dict[str, Costs] = {kind: _cost(kind, options) for kind in options.kinds}
    return KeySizeResult(options, learned, costs)


def _learn(kind: Kind, options: KeySizeOptions, test: Memories) -> Learned:
    results = np.empty((2, len(options.sizes), options.draws))
    for place, size in enumerate(options.sizes):
        for number in range(options.draws):
            model = _train(kind, size, options, options.seed * 10_007 + number)
            with torch.inference_mode():
                right = model(test.names, test.answers).argmax(dim=-1) == test.answers
                loss = _loss(model, test)
            results[:, place, number] = float(loss), float(right.double().mean())
    return Learned(*results)


def _train(kind: Kind, size: int, options: KeySizeOptions, seed: int) -> Retrieval:
    with seeded(seed):
        model = Retrieval(kind, size, options)
    chance = torch.Generator().manual_seed(seed + 2**32)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    for _ in range(options.updates):
        optimizer.zero_grad()
        loss = _loss(model, draw_memories(options.batch, options, chance))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def _loss(model: Retrieval, memories: Memories) -> Float[Tensor, ""]:
    """Nats per answer."""
    logits = model(memories.names, memories.answers)
    return nn.functional.cross_entropy(logits.flatten(0, 1), memories.answers.flatten())


def _cost(kind: Kind, options: KeySizeOptions) -> Costs:
    """The costs of the scores of n queries against n keys, the projections included."""
    n = options.compared

    def work_of(size: int) -> Work:
        with seeded(options.seed):
            queries, keys = (torch.randn(1, n, size, requires_grad=True) for _ in range(2))
            attention = CONFIGS[kind].build(size, size)
        parameters = list(attention.parameters())
        return Work(
            lambda: attention.score(queries, attention.project(keys)), [queries, keys], parameters
        )

    return measure(options.sizes, work_of, lambda d: macs(kind, n, d), options.repetitions)


def macs(kind: Kind, n: int, d: int) -> int:
    """The multiplications that are added up in the scores of n queries and n keys of size d."""
    projected = {"additive": 2, "concat": 2, "general": 1}.get(kind, 0)
    return projected * n * d * d + n * n * d


def draw(result: KeySizeResult) -> Figure:
    """Right answers and loss by the size; multiplications, memory and time of the scores."""
    figure = new_figure(10.4, 6.0)
    above, below = figure.subfigures(2, 1, squeeze=False).flat
    right, loss = above.subplots(1, 2)
    sizes, options = result.options.sizes, result.options
    for colour, (kind, learned) in zip(CYCLE * 2, result.learned.items(), strict=False):
        for axes, values in ((right, 100 * learned.right), (loss, learned.loss)):
            axes.plot(sizes, values.mean(axis=1), ".-", color=colour, label=kind)
            axes.plot(sizes, values, ".", color=colour, alpha=0.35, markersize=4)
    for axes, guess in ((right, 100 / options.answers), (loss, math.log(options.answers))):
        axes.axhline(guess, color=GREY, linestyle=":", linewidth=1.2)
        axes.text(sizes[0], guess, "a guess", va="bottom", fontsize=8)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="size d of query and key", ylim=(0, None))
    right.set(title=f"Right answers after {options.updates} updates, %")
    loss.set(title="Loss, nats per answer")
    loss.legend()
    _draw_costs(below.subplots(1, 3), result)
    below.supxlabel(SLOPE_NOTE, fontsize=8.5, color=GREY)
    return figure


def _draw_costs(panels: npt.NDArray[np.object_], result: KeySizeResult) -> None:
    n = result.options.compared
    titles: dict[str, Callable[[Costs], Amounts]] = {
        f"Scores of {n} queries and {n} keys:\nmultiplications, in millions": lambda c: c.macs,
        "tensors kept for the backward pass, MB": lambda c: c.memory_bytes[KEPT],
        "milliseconds, forward and backward": lambda c: [1e9 * x for x in c.seconds[TRAINING]],
    }
    for axes, (title, cost) in zip(panels, titles.items(), strict=True):
        curves = [
            Curve([x / 1e6 for x in cost(costs)], colour)
            for colour, costs in zip(CYCLE * 2, result.costs.values(), strict=False)
        ]
        draw_growth(axes, list(result.options.sizes), curves)
        axes.set(title=title, xlabel="size d")


EXPERIMENT = Experiment(KeySizeOptions, run, draw)
