"""The attention over sentence pairs that are given, read by pieces."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from nmt.search.forced import read_weights
from nmt.translation.batched import Padded
from nmt.translation.heads import MEAN, source_heads
from nmt.translation.translator import Translator
from nmt.types import Encoded


@dataclass(frozen=True)
class Reading:
    """How weights are read: so many steps later, by norms, and the mean of which heads.

    `heads` is as `choose_heads` takes it, of the attention over the source. See search/forced.py.
    """

    shift: int = 0
    by_norm: bool = False
    heads: str = MEAN.name

    def indices(self, translator: Translator) -> tuple[int, ...] | None:
        """The chosen heads of the model; None for the mean that it shows. Raises ConfigError."""
        return source_heads(self.heads, translator.model.names_by_attention)


def piece_weights(
    translator: Translator,
    sources: Sequence[Encoded],
    targets: Sequence[Encoded],
    reading: Reading | None = None,
) -> list[Float32[np.ndarray, "_ _"]]:
    """A row for each target piece and a column for each source piece, the last one for eos.

    A pair of which a side has no piece has no weight.
    """
    reading = reading or Reading()
    heads = reading.indices(translator)

    def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[Float32[np.ndarray, "_ _"]]:
        return read_weights(translator.model, *inputs, ids, reading.shift, heads, reading.by_norm)

    weights = [
        np.zeros((len(target.ids), len(source.ids) + 1), np.float32)
        for source, target in zip(sources, targets, strict=True)
    ]
    places = [i for i, target in enumerate(targets) if target.ids]
    pairs = [sources[i] for i in places], [targets[i].ids for i in places]
    batch_size = translator.search.batch_size
    for k, matrix in translator.batched.read_pairs(*pairs, batch_size, read):
        weights[places[k]] = matrix
    return weights
