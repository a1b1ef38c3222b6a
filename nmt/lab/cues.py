"""Volitional and nonvolitional cues: what layers attend to with and without a query.

The task is one kind of item, such as a book, and the answer is the digit on this item. Attention
gets the task as its query. Other layers get it as a feature of every item (docs/lab/cues.md).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field
from torch import Tensor, nn

from nmt.explain.colours import BLUE, GREY, ORANGE
from nmt.lab.experiment import Experiment, Options, Result, seeded, update
from nmt.lab.figure import heat_map, label_cells, new_figure, signed_heat_map
from nmt.models.attention.scores import GeneralAttention

KINDS = ("newspaper", "paper", "cup", "notebook", "book", "pen", "phone", "lamp")
LAYERS = ("average pooling", "max pooling", "convolution", "fully connected", "attention")
SALIENT_KIND = KINDS.index("cup")
_DIGITS = 8
FEATURES = ("brightness", *KINDS, *(f"digit {digit}" for digit in range(_DIGITS)))
_FEATURES = len(FEATURES)

Items = Float[Tensor, "B S F"]


class CuesOptions(Options):
    """Options of the scenes and of the training."""

    items: int = Field(default=5, ge=5, le=len(KINDS), description="items per scene")
    salient: float = Field(
        default=0.4, ge=0, le=1, description="share of scenes whose task is the salient item"
    )
    hidden: int = Field(default=64, gt=0, description="units of each layer except attention")
    updates: int = Field(default=1000, gt=0, description="updates of Adam for each network")
    batch: int = Field(default=128, gt=0, description="new scenes per update")
    lr: float = Field(default=0.01, gt=0, description="initial learning rate; falls linearly to 0")
    tests: int = Field(default=20_000, gt=0, description="scenes to measure the accuracy")


@dataclass(frozen=True)
class Scenes:
    """B scenes of S items. `task` is the kind of one item, and `digit` the digit on this item.

    The features of an item are its brightness (1 if salient, up to 1/2 otherwise), and its kind and
    its digit as one-hot vectors. `ceiling` is the highest expected accuracy without the task.
    """

    items: Items
    task: Int[Tensor, " B"]
    digit: Int[Tensor, " B"]
    ceiling: Float[Tensor, " B"]


def make_items(
    brightness: Float[Tensor, "*B S"], kinds: Int[Tensor, "*B S"], digits: Int[Tensor, "*B S"]
) -> Float[Tensor, "*B S F"]:
    """Return the features of items (see Scenes)."""
    one_hot_digits = nn.functional.one_hot(digits, _DIGITS).float()
    return torch.cat([brightness.unsqueeze(-1), _one_hot_kinds(kinds), one_hot_digits], dim=-1)


def draw_scenes(n_scenes: int, options: CuesOptions, generator: torch.Generator) -> Scenes:
    """Draw scenes, each with items of different kinds, one salient item, and a task."""
    size = options.items
    kinds = torch.rand(n_scenes, len(KINDS), generator=generator).argsort(dim=1)[:, :size]
    digits = torch.randint(_DIGITS, (n_scenes, size), generator=generator)
    salient_item = torch.randint(size, (n_scenes, 1), generator=generator)
    brightness = torch.rand(n_scenes, size, generator=generator) / 2
    brightness.scatter_(1, salient_item, 1.0)
    offsets = torch.randint(1, size, (n_scenes, 1), generator=generator)
    other_item = (salient_item + offsets) % size
    is_salient = torch.rand(n_scenes, 1, generator=generator) < options.salient
    position = torch.where(is_salient, salient_item, other_item)
    shares = torch.full((n_scenes, size), (1 - options.salient) / (size - 1))
    shares.scatter_(1, salient_item, options.salient)
    probabilities = torch.zeros(n_scenes, _DIGITS).scatter_add_(1, digits, shares)
    return Scenes(
        items=make_items(brightness, kinds, digits),
        task=kinds.gather(1, position).squeeze(1),
        digit=digits.gather(1, position).squeeze(1),
        ceiling=probabilities.amax(dim=1),
    )


class Reader(nn.Module):
    """A layer over the items of a scene, then a linear layer that predicts the digit.

    `layer` is one of LAYERS except attention (see AttentionReader). If `with_task`, the one-hot
    task is appended to the features of every item. Before pooling, a linear layer maps each
    item separately. The convolution has width 3, and max pooling follows it.
    """

    def __init__(self, layer: str, with_task: bool, options: CuesOptions) -> None:
        super().__init__()
        self.layer = layer
        self.with_task = with_task
        size = _FEATURES + (len(KINDS) if with_task else 0)
        width = {"convolution": 3, "fully connected": options.items}.get(layer, 1)
        self.inner = nn.Linear(size * width, options.hidden)
        self.outer = nn.Linear(options.hidden, _DIGITS)

    def forward(self, items: Items, task: Int[Tensor, " B"]) -> Float[Tensor, "B digits"]:
        if self.with_task:
            task_features = _one_hot_kinds(task).unsqueeze(1).expand(-1, items.shape[1], -1)
            items = torch.cat([items, task_features], dim=-1)
        if self.layer == "fully connected":
            items = items.flatten(1).unsqueeze(1)
        elif self.layer == "convolution":
            items = nn.functional.pad(items, (0, 0, 1, 1)).unfold(1, 3, 1).flatten(2)
        units = self.inner(items).relu()
        is_average = self.layer == "average pooling"
        return self.outer(units.mean(dim=1) if is_average else units.amax(dim=1))


class AttentionReader(nn.Module):
    """The attention softmax(q^T W x) over the items x, then a linear layer that predicts the digit.

    If `with_task`, the query q is the one-hot task. Otherwise, q is a learned constant.
    """

    def __init__(self, with_task: bool) -> None:
        super().__init__()
        self.attention = GeneralAttention(len(KINDS), _FEATURES)
        self.query = None if with_task else nn.Parameter(torch.randn(len(KINDS)))
        self.outer = nn.Linear(_FEATURES, _DIGITS)

    def forward(self, items: Items, task: Int[Tensor, " B"]) -> Float[Tensor, "B digits"]:
        query = _one_hot_kinds(task) if self.query is None else self.query.expand(len(items), -1)
        weights = self.attention.attend(query.unsqueeze(1), items, items).weights
        return self.outer((weights @ items).squeeze(1))

    def feature_scores(self) -> Float[Tensor, "Q F"]:
        """Return q^T W, the score that each feature of an item adds, for every query."""
        queries = torch.eye(len(KINDS)) if self.query is None else self.query.unsqueeze(0)
        return queries @ self.attention.W_a.weight


def _one_hot_kinds(kinds: Int[Tensor, "*B"]) -> Float[Tensor, "*B kinds"]:
    return nn.functional.one_hot(kinds, len(KINDS)).float()


@dataclass(frozen=True)
class TrainedNetwork:
    """The test accuracy of a trained network, its number of parameters, and its `influence`."""

    accuracy: float
    parameters: int
    influence: npt.NDArray[np.float32]


@dataclass(frozen=True)
class CuesResult(Result):
    """The networks by layer, trained without and with the task (the kind of item to find).

    `ceiling_without_the_task` is the accuracy that no network can exceed on average without the
    task. `desk` has the kinds of items in the scene for which `influence` is computed. The scores
    are the `feature_scores` of attention. Without the task, its query is constant.
    """

    ceiling_without_the_task: float
    desk: tuple[str, ...]
    without_the_task: dict[str, TrainedNetwork]
    with_the_task: dict[str, TrainedNetwork]
    features: tuple[str, ...]
    scores_for_the_constant_query: npt.NDArray[np.float32]
    scores_for_each_query: npt.NDArray[np.float32]


def run(options: CuesOptions) -> CuesResult:
    """Train every layer without and with the task, and measure accuracy and influence."""
    generator = torch.Generator().manual_seed(options.seed)
    tests = draw_scenes(options.tests, options, generator)
    scenes = draw_scenes(options.updates * options.batch, options, generator)
    networks: dict[bool, dict[str, TrainedNetwork]] = {False: {}, True: {}}
    scores: dict[bool, npt.NDArray[np.float32]] = {}
    for with_task in networks:
        for layer in LAYERS:
            network = train(layer, with_task, scenes, options)
            with torch.no_grad():
                is_correct = network(tests.items, tests.task).argmax(dim=1) == tests.digit
                networks[with_task][layer] = TrainedNetwork(
                    accuracy=float(is_correct.float().mean()),
                    parameters=sum(parameter.numel() for parameter in network.parameters()),
                    influence=influence(network, with_task, options.items).numpy(),
                )
                if isinstance(network, AttentionReader):
                    scores[with_task] = network.feature_scores().numpy()
    return CuesResult(
        ceiling_without_the_task=float(tests.ceiling.mean()),
        desk=KINDS[: options.items],
        without_the_task=networks[False],
        with_the_task=networks[True],
        features=FEATURES,
        scores_for_the_constant_query=scores[False][0],
        scores_for_each_query=scores[True],
    )


def train(layer: str, with_task: bool, scenes: Scenes, options: CuesOptions) -> nn.Module:
    """Return a new network, trained by one pass over the scenes in order."""
    with seeded(options.seed):
        is_attention = layer == "attention"
        network = AttentionReader(with_task) if is_attention else Reader(layer, with_task, options)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr)
    tensors = (scenes.items, scenes.task, scenes.digit)
    batches = [torch.split(tensor, options.batch) for tensor in tensors]
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(batches[0]))
    for items, task, digit in zip(*batches, strict=True):
        update(optimizer, nn.functional.cross_entropy(network(items, task), digit))
        schedule.step()
    return network


def influence(network: nn.Module, with_task: bool, n_items: int) -> Float[Tensor, "tasks S"]:
    """Return the share of each item (column) in the changes of the answer.

    The digit of one item at a time is replaced. The change of the answer is the total variation
    distance, averaged over the item's other digits. The scene is the desk: the first `n_items` of
    KINDS with different digits, where only the cup is bright. Without the task, there is one row.
    """
    kinds = torch.arange(n_items)
    brightness = torch.where(kinds == SALIENT_KIND, 1.0, 0.2)
    increments = torch.eye(n_items, dtype=torch.long).unsqueeze(1) * torch.arange(_DIGITS)[:, None]
    digits = (kinds + increments) % _DIGITS  # (S, digits, S): the digit of item s plus 0 to 7
    items = make_items(brightness.expand(digits.shape), kinds.expand(digits.shape), digits)
    rows = []
    for task in kinds if with_task else kinds[:1]:
        answers = network(items.flatten(0, 1), task.expand(n_items * _DIGITS)).softmax(dim=1)
        answers = answers.view(n_items, _DIGITS, _DIGITS)
        changes = (answers[:, 1:] - answers[:, :1]).abs().sum(dim=2).mean(dim=1) / 2
        rows.append(changes / changes.sum().clamp(min=1e-9))  # 0 if the answer never changes
    return torch.stack(rows)


def draw(result: CuesResult) -> Figure:
    """Draw the influence of items, the accuracy of layers, and the scores of features."""
    figure = new_figure(11.5, 7.4)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=[1.25, 1], hspace=0.03).flat
    left, right = upper.subplots(1, 2, width_ratios=[1, 1.1])
    _draw_influence(left, result)
    upper.colorbar(left.images[0], ax=left, pad=0.01, label="share of the answer's change")
    _draw_accuracy(right, result)
    axes = lower.subplots()
    table = np.vstack([result.scores_for_the_constant_query, result.scores_for_each_query])
    image = signed_heat_map(axes, table, float(np.abs(table).max()))
    axes.set_yticks(range(len(table)), ["constant query", *(f"query: {kind}" for kind in KINDS)])
    axes.set_xticks(range(len(FEATURES)), FEATURES, rotation=40, ha="right")
    axes.axhline(0.5, color=GREY, linewidth=1.2)
    axes.set(title="Learned score that each feature adds to an item")
    lower.colorbar(image, ax=axes, pad=0.01, label="score")
    return figure


def _draw_influence(axes: Axes, result: CuesResult) -> None:
    networks = *result.without_the_task.values(), result.with_the_task["attention"]
    table = np.vstack([network.influence for network in networks])
    heat_map(axes, table, 1.0)
    label_cells(axes, table)
    names = [*LAYERS[:-1], "attention, constant query"]
    names += [f"attention, query: {kind}" for kind in result.desk]
    axes.set_yticks(range(len(table)), names)
    desk = ["red cup" if kind == KINDS[SALIENT_KIND] else kind for kind in result.desk]
    axes.set_xticks(range(len(desk)), desk, rotation=20)
    axes.axhline(len(LAYERS) - 0.5, color=GREY, linewidth=1.2)
    axes.set(title="Influence of each item on answers about the desk")


def _draw_accuracy(axes: Axes, result: CuesResult) -> None:
    positions = np.arange(len(LAYERS))
    for shift, colour, label, networks in (
        (-0.2, ORANGE, "without the task", result.without_the_task),
        (0.2, BLUE, "with the task", result.with_the_task),
    ):
        accuracy = [networks[name].accuracy for name in LAYERS]
        bars = axes.barh(positions + shift, accuracy, height=0.38, color=colour, label=label)
        labels = [f"{share:.1%}" for share in accuracy]
        axes.bar_label(bars, labels, label_type="center", color="white", fontsize=8)
    ceiling = result.ceiling_without_the_task
    bayes = axes.axvline(ceiling, color="0.2", linestyle="--", linewidth=1.2, zorder=0)
    bayes.set_label(f"Bayes' rule without it: {ceiling:.1%}")
    axes.set_yticks(positions, LAYERS)
    axes.set(title="Scenes with the right digit", xlim=(0, 1), ylim=(len(LAYERS) - 0.4, -1.4))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    handles = [*axes.containers, bayes]
    axes.legend(
        handles=handles, loc="upper left", ncols=2, frameon=True, framealpha=1, edgecolor="none"
    )


EXPERIMENT = Experiment(CuesOptions, run, draw)
