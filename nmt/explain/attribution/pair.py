"""The inputs and the result of an attribution method."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """A sentence pair in a teacher-forced pass, without padding.

    `src_ids` end with eos. At step t the decoder has read `tgt_in[: t + 1]`, which starts with bos,
    and predicts `tgt_out[t]`. `contrast` is the id of a piece y' to compare with, or None.
    """

    src_ids: Int[Tensor, " S"]
    tgt_in: Int[Tensor, " T"]
    tgt_out: Int[Tensor, " T"]
    contrast: int | None = None

    @property
    def src_keep(self) -> Bool[Tensor, "1 S"]:
        """The mask of the source as a batch of one sentence."""
        return torch.ones_like(self.src_ids[None], dtype=torch.bool)


class Scores(NamedTuple):
    """The scores of T predictions: `source` by source piece, and `prefix` by decoder input.

    `prefix[t, j]` is 0 for j > t. `prefix` has no columns if the method does not score the prefix.
    """

    source: Float[Tensor, "T S"]
    prefix: Float[Tensor, "T L"]
