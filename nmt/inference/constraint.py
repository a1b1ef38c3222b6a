"""From what a user gives of a translation, text and weights, to the constraint of a search."""

import reprlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float32

from nmt.decoding.constraints import Constraint
from nmt.decoding.words import Words
from nmt.errors import DataError, counted
from nmt.models.base import Seq2Seq
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.types import Encoded

Weights = Sequence[float] | np.ndarray
"""A row for all shown heads, (S,), or one for each head of the model, (N, S)."""


def constraint_of(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    source: Encoded,
    prefix: str | Sequence[int],
    attention: Mapping[int, Weights],
    words: Words,
) -> Constraint:
    """The Constraint of one sentence; rows of weights are divided by their sum.

    Raises DataError for text that the vocabulary cannot write, for ids that are no pieces, for a
    step behind the first free piece, and for weights of another shape, below 0, or all 0.
    """
    ids = tokenizer.encode(prefix).ids if isinstance(prefix, str) else tuple(prefix)
    if isinstance(prefix, str) and UNK_ID in ids:
        allowed = f"text that the {tokenizer.lang} vocabulary can write"
        raise DataError(f"prefix: got {reprlib.repr(prefix)}, allowed: {allowed}")
    n_pieces = len(tokenizer.vocab)
    for id_ in ids:
        if not 0 <= id_ < n_pieces or id_ in (PAD_ID, BOS_ID, EOS_ID):
            raise DataError(f"prefix: got id {id_}, allowed: pieces of text, below {n_pieces:,}")
    for step in attention:
        if not 0 <= step <= len(ids):
            got = f"got weights for piece {step}"
            raise DataError(
                f"attention: {got}, allowed: 0 to {len(ids)}, the one behind the prefix"
            )
    size = len(source.ids) + 1
    return Constraint(ids, {t: _heads(model, row, size) for t, row in attention.items()}, words)


def _heads(model: Seq2Seq, given: Weights, size: int) -> Float32[np.ndarray, "N S"]:
    """A row for each head, NaN for those that keep their own."""
    weights = np.asarray(given, np.float64)
    n_heads = len(model.head_names)
    if weights.shape not in ((size,), (n_heads, size)):
        shape = " x ".join(map(str, weights.shape))
        pieces = counted(size, "piece")
        raise DataError(f"attention: got {shape} weights, allowed: one for each of {pieces}")
    if not np.isfinite(weights).all() or (weights < 0).any() or (weights.max(-1) <= 0).any():
        raise DataError("attention: got weights below 0, all 0 or not finite, allowed: shares")
    with np.errstate(over="ignore"):
        shares = (weights / weights.max(-1, keepdims=True)).astype(np.float32)
    shares /= shares.sum(-1, keepdims=True)
    heads: Float32[np.ndarray, "N S"] = np.full((n_heads, size), np.nan, np.float32)
    heads[list(model.shown_heads) if shares.ndim == 1 else slice(None)] = shares
    return heads
