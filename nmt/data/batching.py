"""Batches of ids from text pairs: encoded once, bucketed by length, in a reproducible order."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from nmt.data.batch_plan import Lengths, Plan, Rows, Unit, plan_batches
from nmt.data.id_rows import IdRows
from nmt.data.resampling import Resampling
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.types import SentencePair

Ids = tuple[int, ...]


@dataclass(frozen=True)
class EncodedCorpus:
    """Parallel ids, without bos and eos; `dropped` counts pairs left out, by reason.

    With `resampling`, the batches of an epoch have ids of their own.
    """

    src_ids: Sequence[Ids]
    tgt_ids: Sequence[Ids]
    dropped: dict[str, int] = field(default_factory=dict)
    resampling: Resampling | None = None

    def __len__(self) -> int:
        return len(self.src_ids)

    def batch(self, rows: Sequence[int], epoch: int | None = None) -> "Batch":
        """The batch of these rows, as they are in this epoch; plain without one."""
        pairs = [(self.src_ids[row], self.tgt_ids[row]) for row in rows]
        if self.resampling is not None and epoch is not None:
            draw = self.resampling.pair
            pairs = [draw(*pair, epoch, row) for pair, row in zip(pairs, rows, strict=True)]
        return make_batch([src for src, _ in pairs], [tgt for _, tgt in pairs])


@dataclass(frozen=True)
class Batch:
    """Padded ids, each sentence with its eos; `tgt_in` begins with bos instead."""

    src_ids: Int[Tensor, "B S"]
    src_lengths: Int[Tensor, " B"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    n_src_tokens: int
    n_tokens: int

    @property
    def n_positions(self) -> int:
        """The positions of source and target, padding included."""
        return self.src_ids.numel() + self.tgt_in.numel()

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`."""
        tensors = (self.src_ids, self.src_lengths, self.tgt_in, self.tgt_out)
        src_ids, src_lengths, tgt_in, tgt_out = (t.to(device, non_blocking=True) for t in tensors)
        return Batch(src_ids, src_lengths, tgt_in, tgt_out, self.n_src_tokens, self.n_tokens)


def encode_pairs(
    pairs: Sequence[SentencePair], tokenizers: Tokenizers, max_pieces: int
) -> EncodedCorpus:
    """Ids of every pair fit for training; empty and over-long ones are counted by reason."""
    src_all = tokenizers.src.encode_batch([pair.src_text for pair in pairs])
    tgt_all = tokenizers.tgt.encode_batch([pair.tgt_text for pair in pairs])
    dropped: Counter[str] = Counter()
    src_kept, tgt_kept = fit_for_training(src_all, tgt_all, max_pieces, dropped)
    return EncodedCorpus(tuple(src_kept), tuple(tgt_kept), dict(dropped))


def fit_for_training(
    src_all: Sequence[Ids], tgt_all: Sequence[Ids], max_pieces: int, dropped: Counter[str]
) -> tuple[list[Ids], list[Ids]]:
    """The pairs to train on. Pairs that are left out are counted in `dropped` by reason."""
    kept: tuple[list[Ids], list[Ids]] = [], []
    for src, tgt in zip(src_all, tgt_all, strict=True):
        if not src or not tgt:
            dropped[f"empty {'target' if src else 'source'}"] += 1
        elif max(len(src), len(tgt)) > max_pieces:
            dropped[f"longer than {max_pieces} pieces"] += 1
        else:
            kept[0].append(src)
            kept[1].append(tgt)
    return kept


def pad_ids(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """The sequences as one table, short rows filled with pad."""
    width = max(len(ids) for ids in sequences)
    return torch.tensor([[*ids, *[PAD_ID] * (width - len(ids))] for ids in sequences])


def make_batch(src: Sequence[Ids], tgt: Sequence[Ids]) -> Batch:
    """One batch of parallel ids, given without bos and eos."""
    src_ids = [(*ids, EOS_ID) for ids in src]
    return Batch(
        src_ids=pad_ids(src_ids),
        src_lengths=torch.tensor([len(ids) for ids in src_ids]),
        tgt_in=pad_ids([(BOS_ID, *ids) for ids in tgt]),
        tgt_out=pad_ids([(*ids, EOS_ID) for ids in tgt]),
        n_src_tokens=sum(len(ids) for ids in src_ids),
        n_tokens=sum(len(ids) + 1 for ids in tgt),
    )


class Batcher:
    """The batches of an epoch, in an order that depends on (seed, epoch) only.

    `unit` is the unit of `size`: sentences, or tokens of the longer side with padding, so that
    batches of long and of short sentences cost the same.
    """

    def __init__(self, corpus: EncodedCorpus, size: int, unit: Unit, seed: int) -> None:
        self.corpus = corpus
        self.size = size
        self.unit = unit
        self.seed = seed
        self._lengths = (_lengths(corpus.src_ids), _lengths(corpus.tgt_ids))
        self._last: tuple[int, Plan] | None = None

    @property
    def max_positions(self) -> int:
        """An upper bound of `n_positions` of its batches, but for those with sampled pieces."""
        longest = sum(int(lengths.max(initial=0)) for lengths in self._lengths)
        if self.unit == "sentences":
            return min(self.size, len(self.corpus)) * longest
        return max(2 * self.size, longest)

    @property
    def fingerprint(self) -> int:
        """A checksum of the lengths of all rows; equal corpora have equal ones."""
        src, tgt = (lengths.tobytes() for lengths in self._lengths)
        return zlib.crc32(tgt, zlib.crc32(src))

    def n_positions(self, rows: Sequence[int]) -> int:
        """The positions of the batch of these rows, padding included, before pieces are sampled."""
        return len(rows) * sum(int(lengths[rows].max()) for lengths in self._lengths)

    def plan(self, epoch: int, done: Rows | None = None) -> Plan:
        """The rows of every batch of `epoch`, each row of the corpus but `done` exactly once."""
        if done is None and self._last is not None and self._last[0] == epoch:
            return self._last[1]
        self._last = None  # before there are two
        rows = np.arange(len(self.corpus), dtype=np.uint32)
        if done is not None:
            rows = np.setdiff1d(rows, done, assume_unique=True)
        seed = f"{self.seed}/{epoch}"
        plan = plan_batches(self._lengths, rows, self.size, self.unit, seed)
        if done is None:
            self._last = epoch, plan
        return plan


def _lengths(rows: Sequence[Ids]) -> Lengths:
    """The length of every row, with eos."""
    if isinstance(rows, IdRows):
        return rows.lengths_with_eos()
    return np.fromiter((len(ids) + 1 for ids in rows), dtype=np.int32, count=len(rows))
