"""The attention over sentence pairs that are given, read by pieces or by words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32

from nmt.attention_maps.heads import MEAN, source_heads
from nmt.data.batching import pad_ids
from nmt.decoding.forced import read_weights
from nmt.inference.search_batches import search_batches
from nmt.inference.translator import Translator
from nmt.text.vocabulary import EOS_ID
from nmt.text.word_pieces import WordPieces
from nmt.types import Encoded


@dataclass(frozen=True)
class Reading:
    """How weights are read: so many steps later, by norms, and the mean of which heads.

    `heads` is as `choose_heads` takes it, of the attention over the source. See
    decoding/forced.py.
    """

    shift: int = 0
    by_norm: bool = False
    heads: str = MEAN.name

    def indices(self, translator: Translator) -> tuple[int, ...] | None:
        """The chosen heads of the model; None for the mean that it shows. Raises ConfigError."""
        return source_heads(self.heads, translator.names_by_attention)


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
    found = [
        np.zeros((len(target.ids), len(source.ids) + 1), np.float32)
        for source, target in zip(sources, targets, strict=True)
    ]
    both = zip(sources, targets, strict=True)
    sizes = [max(len(s.ids), len(t.ids)) if s.ids and t.ids else 0 for s, t in both]
    for batch in search_batches(sizes, translator.search.batch_size, by_area=True):
        rows = [(*sources[i].ids, EOS_ID) for i in batch]
        lengths = torch.tensor([len(row) for row in rows], device=translator.device)
        src_ids = pad_ids(rows).to(translator.device)
        tgt_ids = [targets[i].ids for i in batch]
        weights = read_weights(
            translator.model, src_ids, lengths, tgt_ids, reading.shift, heads, reading.by_norm
        )
        for i, matrix in zip(batch, weights, strict=True):
            found[i] = matrix
    return found


def word_weights(
    weights: Float32[np.ndarray, "T S_and_eos"], source: WordPieces, target: WordPieces
) -> Float32[np.ndarray, "TW SW_and_eos"]:
    """The weights between words: summed over a source word's pieces, averaged over a target word's.

    A piece that several words share counts by its share in each. Rows sum to 1 where words have
    pieces.
    """
    sums = target.shares.sum(axis=1, keepdims=True)
    rows = target.shares / np.where(sums > 0, sums, 1)
    by_word = np.concatenate([weights[:, :-1] @ source.shares.T, weights[:, -1:]], axis=1)
    merged: Float32[np.ndarray, "TW SW_and_eos"] = (rows @ by_word).astype(np.float32)
    return merged
