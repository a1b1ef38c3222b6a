"""Query, key and value as retrieval: attention as a soft look-up in a dictionary.

The text that a customer types is the query. The description of a product is a key, and its price is
the value. Attention returns the mean of the values, weighted by softmax(score / temperature).
"""

import textwrap
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from matplotlib.figure import Figure
from pydantic import Field, field_validator
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from nmt.explain.colours import BLUE, GREEN, ORANGE
from nmt.lab.experiment import Experiment, Options, Result
from nmt.lab.figure import heat_map, label_cells, new_figure
from nmt.models.attention.scores import DotAttention

SHOP = {
    "red winter jacket": 90.0,
    "red summer jacket": 60.0,
    "blue winter jacket": 80.0,
    "thin winter scarf": 20.0,
    "white summer dress": 50.0,
    "thin thick red blue winter summer jacket sale": 10.0,
}
"""Descriptions and prices. The last description has many words and matches many queries."""

Score = Literal["dot", "cosine"]
Query = Float64[Tensor, "1 D"]
Keys = Float64[Tensor, "S D"]
Scores = Float64[Tensor, " S"]
SCORES: tuple[Score, ...] = ("dot", "cosine")
_PRICES = torch.tensor(list(SHOP.values()), dtype=torch.float64)
_COLOURS = {"dot": ORANGE, "cosine": BLUE}
_TEMPERATURES = [0.01, 0.1, 0.3, 1.0, 100.0]  # of the weight maps
_GRID = torch.logspace(-2.5, 2.0, 91, dtype=torch.float64)


class RetrievalOptions(Options):
    """Options of the experiment: the query. Nothing is random, so `seed` has no effect."""

    query: str = Field(default="thin red winter jacket", description="words to search for")

    @field_validator("query")
    @classmethod
    def _has_words(cls, query: str) -> str:
        if not query.split():
            raise ValueError(f"got '{query}', allowed: one or more words")
        return query


@dataclass(frozen=True)
class RetrievalResult(Result):
    """The scores of all products, and the results of soft look-ups at several temperatures.

    `exact_price` is the price of an exact look-up, or None if the query is not a key. Lengths are
    norms of vectors. `weights` has a row per temperature of the picture, and `prices` has the
    retrieved price at each temperature of a finer grid.
    """

    exact_price: float | None
    scores: dict[Score, Scores]
    lengths: Scores
    query_length: float
    weights: dict[Score, Float64[Tensor, "T S"]]
    prices: dict[Score, Float64[Tensor, " grid"]]

    def content(self) -> dict[str, object]:
        # The difference is the maximum over the keys of |q . k - |q| |k| cos(q, k)|.
        products = self.query_length * self.lengths * self.scores["cosine"]
        return {
            "exact_price": self.exact_price,
            "average_price": _PRICES.mean().item(),
            "query_length": self.query_length,
            "products": {
                name: {
                    "price": price,
                    "length": float(self.lengths[i]),
                    **{score: float(values[i]) for score, values in self.scores.items()},
                }
                for i, (name, price) in enumerate(SHOP.items())
            },
            "dot_minus_lengths_times_cosine": float((self.scores["dot"] - products).abs().max()),
            "best": {score: list(SHOP)[int(self.scores[score].argmax())] for score in SCORES},
            "weights": {score: values.numpy() for score, values in self.weights.items()},
            "grid_of_temperatures": _GRID.numpy(),
            "prices": {score: values.numpy() for score, values in self.prices.items()},
        }


def vectors(query: str) -> tuple[Query, Keys]:
    """Return the query and the keys as vectors: 1 for each word of SHOP in the text, else 0."""
    words = sorted({word for name in SHOP for word in name.split()})
    rows = [[float(word in text.split()) for word in words] for text in (query, *SHOP)]
    table = torch.tensor(rows, dtype=torch.float64)
    return table[:1], table[1:]


def compare(query: Query, keys: Keys, score: Score) -> Scores:
    """Return the scores of the keys: q . k, or the cosine of q and k (0 if q or k is 0)."""
    return (keys * query).sum(dim=1) if score == "dot" else cosine_similarity(query, keys)


def look_up(query: Query, keys: Keys, score: Score, temperature: float) -> Scores:
    """Return the weights softmax(score(q, k) / temperature), computed by DotAttention.

    The cosine is the dot product of normalised vectors.
    """
    if score == "cosine":
        query, keys = (normalize(vector, dim=-1) for vector in (query, keys))
    attention = DotAttention(keys.shape[1], scale=1 / temperature)
    return attention.attend(query[None], keys[None], keys[None]).weights[0, 0]


def run(options: RetrievalOptions) -> RetrievalResult:
    """Look up the query, exactly and at every temperature."""
    query, keys = vectors(options.query)

    def rows(score: Score, temperatures: list[float]) -> Float64[Tensor, "T S"]:
        return torch.stack([look_up(query, keys, score, t) for t in temperatures])

    return RetrievalResult(
        exact_price=SHOP.get(options.query),
        scores={score: compare(query, keys, score) for score in SCORES},
        lengths=keys.norm(dim=1),
        query_length=float(query.norm()),
        weights={score: rows(score, _TEMPERATURES) for score in SCORES},
        prices={score: rows(score, _GRID.tolist()) @ _PRICES for score in SCORES},
    )


def draw(result: RetrievalResult) -> Figure:
    """Draw the weights and the retrieved price by temperature."""
    figure = new_figure(12.0, 3.6)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[2.3, 1]).flat
    panels = left.subplots(1, 2, sharey=True)
    for axes, (score, weights) in zip(panels, result.weights.items(), strict=True):
        image = heat_map(axes, weights.T.numpy(), 1.0)
        label_cells(axes, weights.T.numpy())
        axes.set_xticks(range(len(weights)), [f"{t:g}" for t in _TEMPERATURES])
        axes.set(title=f"Weights by {score}, softmax(score / T)", xlabel="temperature T")
    labels = [f"{name}: {price:g}" for name, price in SHOP.items()]
    panels[0].set_yticks(range(len(labels)), [textwrap.fill(label, 30) for label in labels])
    left.colorbar(image, ax=list(panels), pad=0.01, label="attention weight")
    axes = right.subplots()
    for score, prices in result.prices.items():
        axes.semilogx(_GRID, prices, color=_COLOURS[score], label=f"soft look-up by {score}")
    average = float(_PRICES.mean())
    axes.axhline(average, color=GREEN, linestyle="--", label=f"average pooling: {average:.1f}")
    axes.set(title="Retrieved price", xlabel="temperature T", ylabel="price", ylim=(0, 105))
    axes.legend(loc="upper right")
    return figure


EXPERIMENT = Experiment(RetrievalOptions, run, draw)
