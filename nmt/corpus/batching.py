"""From text pairs to batches of ids: encoded once, bucketed by length, in a known order."""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.corpus.tokenizer import Tokenizers
from nmt.corpus.vocab import BOS_ID, EOS_ID, PAD_ID
from nmt.schema import SentencePair

Ids = tuple[int, ...]

_POOL_BATCHES = 64
"""Sentences are sorted by length within pools of this many batches: little padding, and still
other neighbours in every epoch."""


@dataclass(frozen=True)
class EncodedCorpus:
    """Parallel ids, without bos and eos, and what was left out on the way.

    `dropped` counts the pairs left out by reason; none is left out uncounted.
    """

    src_ids: tuple[Ids, ...]
    tgt_ids: tuple[Ids, ...]
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.src_ids)

    def batch(self, rows: Sequence[int]) -> "Batch":
        """The batch of these rows."""
        return make_batch([self.src_ids[i] for i in rows], [self.tgt_ids[i] for i in rows])


@dataclass(frozen=True)
class Batch:
    """Padded ids, each sentence with its eos; `tgt_in` begins with bos instead."""

    src_ids: Int[Tensor, "B S"]
    src_lengths: Int[Tensor, " B"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    n_src_tokens: int
    n_tokens: int

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`."""
        return Batch(
            src_ids=self.src_ids.to(device, non_blocking=True),
            src_lengths=self.src_lengths.to(device, non_blocking=True),
            tgt_in=self.tgt_in.to(device, non_blocking=True),
            tgt_out=self.tgt_out.to(device, non_blocking=True),
            n_src_tokens=self.n_src_tokens,
            n_tokens=self.n_tokens,
        )


def encode_pairs(
    pairs: Sequence[SentencePair], tokenizers: Tokenizers, max_pieces: int
) -> EncodedCorpus:
    """Ids of every pair fit for training; empty and over-long ones are counted by reason."""
    src_all = tokenizers.src.encode_batch([pair.src_text for pair in pairs])
    tgt_all = tokenizers.tgt.encode_batch([pair.tgt_text for pair in pairs])
    src_kept: list[Ids] = []
    tgt_kept: list[Ids] = []
    dropped: Counter[str] = Counter()
    for src, tgt in zip(src_all, tgt_all, strict=True):
        if not src or not tgt:
            side = "source" if not src else "target"
            dropped[f"empty {side}"] += 1
        elif max(len(src), len(tgt)) > max_pieces:
            dropped[f"longer than {max_pieces} pieces"] += 1
        else:
            src_kept.append(src)
            tgt_kept.append(tgt)
    return EncodedCorpus(tuple(src_kept), tuple(tgt_kept), dict(dropped))


def pad_ids(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """The sequences as one table, short rows filled with pad."""
    width = max(len(ids) for ids in sequences)
    return torch.tensor([[*ids, *[PAD_ID] * (width - len(ids))] for ids in sequences])


def make_batch(src: Sequence[Ids], tgt: Sequence[Ids]) -> Batch:
    """One batch of parallel ids that hold neither bos nor eos yet."""
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
    """The batches of an epoch, in an order that (seed, epoch) alone decides.

    `unit` says what `size` counts: sentences, or tokens of the longer side with padding, so
    that a batch of long sentences costs what a batch of short ones does.
    """

    def __init__(
        self, corpus: EncodedCorpus, size: int, unit: Literal["sentences", "tokens"], seed: int
    ) -> None:
        self.corpus = corpus
        self.size = size
        self.unit = unit
        self.seed = seed
        self._lengths = [
            (len(src) + 1, len(tgt) + 1)
            for src, tgt in zip(corpus.src_ids, corpus.tgt_ids, strict=True)
        ]

    def plan(self, epoch: int, done: Collection[int] = ()) -> list[list[int]]:
        """The rows of every batch of `epoch`, each row of the corpus but `done` exactly once."""
        rng = random.Random(f"{self.seed}/{epoch}")
        rows = [row for row in range(len(self.corpus)) if row not in done]
        rng.shuffle(rows)
        pool = _POOL_BATCHES * self._sentences_per_batch()
        batches: list[list[int]] = []
        for start in range(0, len(rows), pool):
            bucket = sorted(rows[start : start + pool], key=lambda row: self._lengths[row])
            batches.extend(self._cut(bucket))
        rng.shuffle(batches)
        return batches

    def _sentences_per_batch(self) -> int:
        if self.unit == "sentences" or not self._lengths:
            return self.size
        mean = sum(max(pair) for pair in self._lengths) / len(self._lengths)
        return max(1, round(self.size / mean))

    def _cut(self, rows: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        width = 0
        for row in rows:
            wider = max(width, *self._lengths[row])
            cost = len(batch) + 1 if self.unit == "sentences" else (len(batch) + 1) * wider
            if batch and cost > self.size:
                yield batch
                batch, wider = [], max(self._lengths[row])
            batch.append(row)
            width = wider
        if batch:
            yield batch
