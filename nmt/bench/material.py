"""The batches to measure on: of one fixed shape, and of real lengths."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.bench.flops import Amount
from nmt.bench.sizes import Sizes
from nmt.data.batching import Batch, Batcher, encode_pairs, make_batch
from nmt.data.corpora import read_split, readable_splits
from nmt.data.entries import data_folder
from nmt.data.sources import DataConfig, SplitConfig
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import RESERVED

REAL_CORPUS = "multi30k-en-fr"
FALLBACK = "starter"
_FALLBACK_VOCABULARY = 3000
"""Vocabulary size for the starter corpus, which has too few words for many more pieces."""


@dataclass(frozen=True)
class Material:
    """Training batches, their name, and the sizes of the vocabularies."""

    title: str
    batches: tuple[Batch, ...]
    src_vocab: int
    tgt_vocab: int

    @property
    def amount(self) -> Amount:
        """The sizes of all batches together."""
        return Amount.of(self.batches)

    def to(self, device: torch.device) -> "Material":
        """The same on `device`."""
        return replace(self, batches=tuple(batch.to(device) for batch in self.batches))


def fixed_shape(sizes: Sizes, seed: int = 1) -> Material:
    """One batch of random pieces without any padding."""
    generator = torch.Generator().manual_seed(seed)

    def ids(length: int) -> list[tuple[int, ...]]:
        shape = (sizes.batch, length - 1)
        table = torch.randint(len(RESERVED), sizes.vocabulary, shape, generator=generator)
        return [tuple(row) for row in table.tolist()]

    batch = make_batch(ids(sizes.src), ids(sizes.tgt))
    title = f"fixed shapes, B {sizes.batch}, S {sizes.src}, T {sizes.tgt}"
    return Material(title, (batch,), sizes.vocabulary, sizes.vocabulary)


def real_corpus(folder: Path) -> str:
    """The corpus to take real lengths from: Multi30k if it was fetched, else the starter."""
    return REAL_CORPUS if "train" in readable_splits(REAL_CORPUS, folder) else FALLBACK


def real_lengths(sizes: Sizes, data: Path, n_batches: int, seed: int = 1) -> Material:
    """`n_batches` batches of a first epoch of training, evenly spaced by size."""
    folder = data_folder(data)
    corpus = real_corpus(folder)
    config = DataConfig(corpus=corpus, folder=folder)
    pairs = read_split(SplitConfig(corpus=corpus, split="train"), config)
    most = sizes.vocabulary if corpus == REAL_CORPUS else _FALLBACK_VOCABULARY
    pieces = SentencePieceConfig(model_type="bpe", vocab_size=min(sizes.vocabulary, most))
    tokenizers = train_tokenizers(pieces, pairs, config.src_lang, config.tgt_lang, seed)
    encoded = encode_pairs(pairs, tokenizers, config.max_pieces)
    batches = spread_batches(Batcher(encoded, sizes.batch, "sentences", seed), n_batches)
    title = f"{corpus}, {len(batches)} batches of {sizes.batch}"
    return Material(title, batches, len(tokenizers.src.vocab), len(tokenizers.tgt.vocab))


def spread_batches(batcher: Batcher, n_batches: int) -> tuple[Batch, ...]:
    """At most `n_batches` full batches of the first epoch, evenly spaced by number of pieces.

    A corpus of less than a batch gives its only one.
    """
    corpus = batcher.corpus

    def n_pieces(rows: list[int]) -> int:
        return sum(len(corpus.src_ids[row]) + len(corpus.tgt_ids[row]) for row in rows)

    plan = list(batcher.plan(0))
    full = sorted((rows for rows in plan if len(rows) == batcher.size), key=n_pieces) or plan
    n = min(n_batches, len(full))
    return tuple(corpus.batch(full[(2 * i + 1) * len(full) // (2 * n)]) for i in range(n))
