"""Dropout of units over the steps of a sentence, and of whole pieces."""

from collections.abc import Callable
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

WordDropout = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="probability that the whole embedding of a piece that is read is 0 in "
        "training; padding, bos and eos stay (arXiv 1905.11901, section 3)",
    ),
]
"""A key of a config; the side is in the key's name."""

Drop = Callable[[Tensor], Tensor]


class Dropout(nn.Module):
    """Dropout in training; `variational`: one mask for all steps of a sentence (arXiv 1512.05287).

    Kept units are divided by 1 - p, as in torch.nn.Dropout.
    """

    def __init__(self, p: float, variational: bool = False) -> None:
        super().__init__()
        self.p = p
        self.variational = variational

    def forward(self, x: Float[Tensor, "*L D"], steps_dim: int | None = None) -> Tensor:
        """`x` after dropout; `steps_dim` is the dimension of its steps, None for a single step."""
        if not self.variational or steps_dim is None:
            return nn.functional.dropout(x, self.p, self.training)
        return self.over_steps(x.narrow(steps_dim, 0, 1))(x)

    def over_steps(self, like: Float[Tensor, "*L D"]) -> Drop:
        """A dropout function for the steps of a sentence, which all have the shape of `like`.

        Variational dropout draws its mask here; otherwise each call draws a mask of its own.
        """
        if not (self.variational and self.training and self.p > 0):
            return self
        mask = nn.functional.dropout(torch.ones_like(like), self.p)
        return lambda x: x * mask


def drop_words(
    embedded: Float[Tensor, "*L D"], ids: Int[Tensor, "*L"], p: float
) -> Float[Tensor, "*L D"]:
    """The embeddings with whole pieces set to 0, each place of a sentence by itself.

    Those that stay are divided by 1 - p, as in dropout of units. Padding, bos and eos are never
    dropped nor scaled. A word of several pieces may lose some of them: the text is cut into
    pieces before a model sees it.
    """
    mask = nn.functional.dropout(embedded.new_ones(ids.shape), p)
    fixed = (ids == PAD_ID) | (ids == BOS_ID) | (ids == EOS_ID)
    return embedded * mask.masked_fill(fixed, 1.0).unsqueeze(-1)
