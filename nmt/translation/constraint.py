"""Build the constraints of a search from a user's prefixes, words and attention weights."""

import functools
import reprlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float32

from nmt.errors import ConfigError, DataError, format_count
from nmt.models.base import Seq2Seq
from nmt.search.constraints import Constraint
from nmt.search.search_config import SearchConfig
from nmt.search.words import Word, WordConstraints
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, RESERVED, UNK_ID
from nmt.translation.arguments import reject_single_text
from nmt.types import Encoded

Prefix = str | Sequence[int]
"""The beginning of a translation, as text or as ids of pieces."""

Weights = Sequence[float] | np.ndarray
"""Attention weights over the source: (S,) for all averaged heads, or (N, S) for the N heads."""


def constraints_of(
    model: Seq2Seq,
    tokenizers: Tokenizers,
    sources: Sequence[Encoded],
    config: SearchConfig,
    prefixes: Sequence[Prefix] | None,
    attention: Sequence[Mapping[int, Weights]] = (),
) -> list[Constraint]:
    """Build the constraint of each source; [] if the search is not constrained.

    For each source, `attention` has a dict from steps to weights, which are divided by their sum.
    It is ignored without `prefixes`. Raises TypeError if `prefixes` is a single text. Raises
    ConfigError if a right-to-left model, which writes the end first, gets a prefix or attention.
    Raises DataError if the numbers of sources, prefixes and dicts differ, if the vocabulary cannot
    write a required word or a prefix, or if an id of a prefix is not a piece. Raises it also if a
    step lies beyond the first piece after the prefix, or for invalid weights.
    """
    tokenizer, is_reversed = tokenizers.tgt, tokenizers.reverse_target
    words = _words_of(tokenizer, config, is_reversed)
    reject_single_text("prefixes", prefixes)
    if is_reversed and (any(map(len, prefixes or ())) or any(attention)):
        reason = "this model writes a translation from its end, so it cannot continue a beginning"
        raise ConfigError(f"prefix: not possible with data.reverse_target: {reason}")
    if prefixes is None:
        return [Constraint(words=words)] * len(sources) if words else []
    weights = list(attention) or [{}] * len(sources)
    if not len(sources) == len(prefixes) == len(weights):
        got = f"{len(prefixes)} prefixes and {len(attention)} sets of weights"
        raise DataError(f"translate: got {got} for {format_count(len(sources), 'text')}")
    constraints = []
    for source, prefix, rows in zip(sources, prefixes, weights, strict=True):
        ids, size = _prefix_ids(tokenizer, prefix), len(source.ids) + 1
        for step in rows:
            if not 0 <= step <= len(ids):
                allowed = f"0 to {len(ids)}, the first piece after the prefix"
                raise DataError(f"attention: got weights for piece {step}, allowed: {allowed}")
        heads = {step: _heads(model, row, size) for step, row in rows.items()}
        constraints.append(Constraint(ids, heads, words))
    return constraints


def _prefix_ids(tokenizer: Tokenizer, prefix: Prefix) -> tuple[int, ...]:
    ids = tokenizer.encode(prefix).ids if isinstance(prefix, str) else tuple(prefix)
    if isinstance(prefix, str) and UNK_ID in ids:
        allowed = f"text that the {tokenizer.lang} vocabulary can write"
        raise DataError(f"prefix: got {reprlib.repr(prefix)}, allowed: {allowed}")
    n_pieces = len(tokenizer.vocab)
    for id_ in ids:
        if not 0 <= id_ < n_pieces or id_ in (PAD_ID, BOS_ID, EOS_ID):
            raise DataError(f"prefix: got id {id_}, allowed: pieces of text, below {n_pieces:,}")
    return ids


def _heads(model: Seq2Seq, row: Weights, size: int) -> Float32[np.ndarray, "N S"]:
    """Return the normalised weights of each head; NaN for heads that keep their own weights."""
    weights = np.asarray(row, np.float64)
    n_heads = len(model.head_names)
    if weights.shape not in ((size,), (n_heads, size)):
        shape = " x ".join(map(str, weights.shape))
        pieces = format_count(size, "piece")
        raise DataError(f"attention: got {shape} weights, allowed: one for each of {pieces}")
    if not np.isfinite(weights).all() or (weights < 0).any() or (weights.max(-1) <= 0).any():
        raise DataError("attention: got weights below 0, all 0 or not finite, allowed: shares")
    with np.errstate(over="ignore"):
        shares = (weights / weights.max(-1, keepdims=True)).astype(np.float32)
    shares /= shares.sum(-1, keepdims=True)
    heads: Float32[np.ndarray, "N S"] = np.full((n_heads, size), np.nan, np.float32)
    heads[list(model.averaged_heads) if shares.ndim == 1 else slice(None)] = shares
    return heads


def _words_of(tokenizer: Tokenizer, config: SearchConfig, is_reversed: bool) -> WordConstraints:
    """Return the required words `config.must` and the excluded words `config.must_not` as pieces.

    An excluded word that the vocabulary cannot write is dropped; a required one raises DataError.
    If `is_reversed`, the words are for a search from right to left.
    """
    words = [word_of(tokenizer, text, is_reversed) for text in (*config.must, *config.must_not)]
    for text, word in zip(config.must, words, strict=False):
        if word is None:
            allowed = f"words that the {tokenizer.lang} vocabulary can write"
            raise DataError(f"search.must: got '{text}', allowed: {allowed}")
    n_required = len(config.must)
    required = tuple((word,) for word in words[:n_required] if word)
    return WordConstraints(required, tuple(word for word in words[n_required:] if word))


@functools.lru_cache(maxsize=1000)
def word_of(tokenizer: Tokenizer, text: str, is_reversed: bool) -> Word | None:
    """Return a Word, reversed if `is_reversed`, or None if the vocabulary cannot write it."""
    order = -1 if is_reversed else 1
    texts, ids = _piece_texts(tokenizer, order), tokenizer.encode(text).ids[::order]
    can_write = bool(ids) and UNK_ID not in ids and all(texts[id_] for id_ in ids)
    return Word(ids, texts) if can_write else None


@functools.lru_cache(maxsize=4)
def _piece_texts(tokenizer: Tokenizer, order: int) -> tuple[str, ...]:
    """Return the text of each id, read in `order` 1 or -1, with ▁ for a space; "" if reserved."""
    contents = map(tokenizer.piece_bytes, tokenizer.vocab.pieces[len(RESERVED) :])
    # A single byte beyond ASCII is a part of a character, and decodes to "".
    texts = (content.decode(errors="ignore")[::order] for content in contents)
    return ("",) * len(RESERVED) + tuple(texts)
