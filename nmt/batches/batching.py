"""Batches of encoded sentence pairs, bucketed by length, in a reproducible order."""

import functools
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int, Int32
from torch import Tensor
from torch.nn.functional import pad

from nmt.batches.plan import EpochPlan, Lengths, Mixture, Rows, Unit
from nmt.batches.resampling import Resampling
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.types import Ids, SentencePair

PieceLinks = Int32[np.ndarray, "_ 2"]  # rows of a pair's links (source piece, target piece), from 0


@dataclass(frozen=True)
class EncodedCorpus:
    """A parallel corpus as ids, without bos and eos. A row is a sentence pair.

    `dropped` counts the dropped pairs by reason. `resampling` draws new ids for each row in every
    epoch. `stored_lengths` are the (source, target) lengths of rows on disk, eos included. `sizes`
    are the numbers of rows of the concatenated corpora. Row i of an epoch is draw i of `mixture`,
    if there is one. `links` are the alignment links of each row, for guided alignment. Ids and
    links are in reading order. With `reverse_target`, batches have the target ids in reverse.
    """

    src_ids: Sequence[Ids]
    tgt_ids: Sequence[Ids]
    dropped: dict[str, int] = field(default_factory=dict)
    resampling: Resampling | None = None
    stored_lengths: tuple[Lengths, Lengths] | None = None
    sizes: tuple[int, ...] = ()
    mixture: Mixture | None = None
    links: Sequence[PieceLinks] | None = None
    reverse_target: bool = False

    @functools.cached_property
    def lengths(self) -> tuple[Lengths, Lengths]:
        """The (source, target) lengths of all rows, eos included."""
        if self.stored_lengths is not None:
            return self.stored_lengths
        src, tgt = (
            np.fromiter((len(ids) + 1 for ids in side), dtype=np.int32, count=len(side))
            for side in (self.src_ids, self.tgt_ids)
        )
        return src, tgt

    def __len__(self) -> int:
        return len(self.src_ids)

    @functools.cached_property
    def longest(self) -> tuple[int, int]:
        """The lengths of the longest source and of the longest target, eos included."""
        src, tgt = (int(side.max(initial=0)) for side in self.lengths)
        return src, tgt

    def rows_at(self, rows: Rows, epoch: int) -> tuple[Rows, Rows]:
        """Return the corpus rows of the positions `rows` of `epoch`, and the rows appended to them.

        If nothing is appended to a row, both are equal.
        """
        partners = rows
        if self.resampling is not None:
            partners = self.resampling.appended_rows(rows, len(self), epoch)
        if self.mixture is not None:
            rows, partners = (self.mixture.rows(part, epoch) for part in (rows, partners))
        for side, longest in zip(self.lengths, self.longest, strict=True):
            partners = np.where(side[rows] + side[partners] - 1 <= longest, partners, rows)
        return rows, partners

    def lengths_at(self, rows: Rows, epoch: int) -> tuple[Lengths, Lengths]:
        """Return the (source, target) lengths of `rows` in `epoch`, eos included.

        The lengths count appended pairs and tokens to copy, but no other noise or subword sampling.
        """
        firsts, others = self.rows_at(rows, epoch)
        sides = [side[firsts] + (firsts != others) * (side[others] - 1) for side in self.lengths]
        if self.resampling is not None:
            added = self.resampling.token_lengths(rows, epoch)
            triples = zip(sides, added, self.longest, strict=True)
            sides = [np.minimum(side + n, longest) for side, n, longest in triples]
        return sides[0], sides[1]

    def batch(self, rows: Sequence[int], epoch: int | None = None) -> "Batch":
        """Return the batch of `rows` in `epoch`. None leaves out `mixture` and `resampling`."""
        firsts = partners = np.array(rows)
        if epoch is not None:
            firsts, partners = self.rows_at(firsts, epoch)
        pairs = [(self.src_ids[row], self.tgt_ids[row]) for row in firsts.tolist()]
        if self.resampling is not None and epoch is not None:
            for i in np.flatnonzero(firsts != partners).tolist():
                partner = self.src_ids[partners[i]], self.tgt_ids[partners[i]]
                pairs[i] = self.resampling.merge(pairs[i], partner)
            resample = self.resampling.resample
            pairs = [resample(*pair, epoch, row) for pair, row in zip(pairs, rows, strict=True)]
        order = -1 if self.reverse_target else 1
        batch = make_batch([src for src, _ in pairs], [tgt[::order] for _, tgt in pairs])
        if self.links is None:
            return batch
        links = [self.links[row] for row in rows]
        if self.reverse_target:
            ends = [np.array([0, len(tgt) - 1], np.int32) for _, tgt in pairs]
            links = [abs(end - row_links) for end, row_links in zip(ends, links, strict=True)]
        return replace(batch, links=batch_links(links))


@dataclass(frozen=True)
class BatchLinks:
    """The L alignment links of a batch. `indices` are (row, target piece, source piece).

    `shares` are the attention weights to learn, with sum 1 for each linked target piece.
    """

    indices: Int[Tensor, "3 L"]
    shares: Float[Tensor, " L"]


_MULTIPLE = 4  # `Batch.pad_to_multiple` pads lengths to multiples of this

_TENSORS = ("src_ids", "src_lengths", "tgt_in", "tgt_out")


@dataclass(frozen=True)
class Batch:
    """A padded batch. `tgt_in` begins with bos, and rows of `src_ids` and `tgt_out` end with eos.

    `n_src_tokens` and `n_tokens` count the source and target tokens, eos included, without padding.
    """

    src_ids: Int[Tensor, "B S"]
    src_lengths: Int[Tensor, " B"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    n_src_tokens: int
    n_tokens: int
    links: BatchLinks | None = None

    @property
    def n_positions(self) -> int:
        """The total number of source and target positions, padding included."""
        return self.src_ids.numel() + self.tgt_in.numel()

    def to(self, device: torch.device) -> "Batch":
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """Return a copy in page-locked memory, from which `to` does not block."""
        return self._map(Tensor.pin_memory)

    def clone(self) -> "Batch":
        return self._map(Tensor.clone)

    def copy_(self, batch: "Batch") -> None:
        """Copy the ids and lengths of `batch`, but not its links, into this batch."""
        for name in _TENSORS:
            getattr(self, name).copy_(getattr(batch, name), non_blocking=True)

    def repeat(self) -> "Batch":
        """Return a batch with all rows twice, but with this batch's token counts and links."""
        rows = {name: torch.cat([getattr(self, name)] * 2) for name in _TENSORS}
        return replace(self, **rows)  # type: ignore[arg-type]

    def pad_to_multiple(self, longest: tuple[int, int]) -> "Batch":
        """Return the batch with source and target padded to multiples of 4, so that shapes recur.

        `longest` limits the padded (source, target) lengths. A longer side is not changed.
        """
        sizes = self.src_ids.shape[1], self.tgt_in.shape[1]
        padding = [
            max(0, min(-(-size // _MULTIPLE) * _MULTIPLE, limit) - size)
            for size, limit in zip(sizes, longest, strict=True)
        ]
        pad_src, pad_tgt = (functools.partial(pad, pad=(0, n), value=PAD_ID) for n in padding)
        src_ids, tgt_in = pad_src(self.src_ids), pad_tgt(self.tgt_in)
        return replace(self, src_ids=src_ids, tgt_in=tgt_in, tgt_out=pad_tgt(self.tgt_out))

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        links = self.links and BatchLinks(function(self.links.indices), function(self.links.shares))
        tensors = {name: function(getattr(self, name)) for name in _TENSORS}
        return replace(self, links=links, **tensors)  # type: ignore[arg-type]


def encode_pairs(
    pairs: Sequence[SentencePair], tokenizers: Tokenizers, max_pieces: int
) -> EncodedCorpus:
    """Encode pairs. Drop and count pairs with a side that is empty or longer than `max_pieces`."""
    src_all = tokenizers.src.encode_batch([pair.src_text for pair in pairs])
    tgt_all = tokenizers.tgt.encode_batch([pair.tgt_text for pair in pairs])
    dropped: Counter[str] = Counter()
    src_ids, tgt_ids = drop_unusable(src_all, tgt_all, max_pieces, dropped)
    return EncodedCorpus(tuple(src_ids), tuple(tgt_ids), dict(dropped))


def drop_unusable(
    src_all: Sequence[Ids], tgt_all: Sequence[Ids], max_pieces: int, dropped: Counter[str]
) -> tuple[list[Ids], list[Ids]]:
    """Return the (source, target) ids of the usable pairs, and count the others in `dropped`."""
    sides: tuple[list[Ids], list[Ids]] = [], []
    for src, tgt in zip(src_all, tgt_all, strict=True):
        reason = reason_to_drop(src, tgt, max_pieces)
        if reason is not None:
            dropped[reason] += 1
        else:
            sides[0].append(src)
            sides[1].append(tgt)
    return sides


def reason_to_drop(src: Ids, tgt: Ids, max_pieces: int) -> str | None:
    """Return the reason to drop a pair from training, or None if it is fit for training."""
    if not src or not tgt:
        return f"empty {'target' if src else 'source'}"
    return f"longer than {max_pieces} pieces" if max(len(src), len(tgt)) > max_pieces else None


def pad_ids(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """Return the sequences as one tensor, padded with PAD_ID."""
    width = max(len(ids) for ids in sequences)
    rows = [[*ids, *[PAD_ID] * (width - len(ids))] for ids in sequences]
    return torch.tensor(rows, dtype=torch.long)


def make_batch(src: Sequence[Ids], tgt: Sequence[Ids]) -> Batch:
    """Build a batch from the ids of parallel sentences, and add bos and eos."""
    src_ids = [(*ids, EOS_ID) for ids in src]
    return Batch(
        src_ids=pad_ids(src_ids),
        src_lengths=torch.tensor([len(ids) for ids in src_ids]),
        tgt_in=pad_ids([(BOS_ID, *ids) for ids in tgt]),
        tgt_out=pad_ids([(*ids, EOS_ID) for ids in tgt]),
        n_src_tokens=sum(len(ids) for ids in src_ids),
        n_tokens=sum(len(ids) + 1 for ids in tgt),
    )


def batch_links(links: Sequence[PieceLinks]) -> BatchLinks:
    """Return the links of all rows as tensors. Each of a target piece's k links has share 1 / k."""
    rows = np.repeat(np.arange(len(links)), [len(row_links) for row_links in links])
    src, tgt = np.concatenate([np.zeros((0, 2), np.int32), *links]).T
    width = 1 + int(tgt.max(initial=0))
    counts = np.bincount(rows * width + tgt, minlength=len(links) * width)
    shares = 1 / counts[rows * width + tgt]
    return BatchLinks(
        torch.from_numpy(np.stack([rows, tgt, src]).astype(np.int64)),
        torch.from_numpy(shares.astype(np.float32)),
    )


@dataclass(eq=False)
class Batcher:
    """Plans the batches of each epoch, in an order that depends on (seed, epoch) only.

    If `unit` is "sentences", a batch has at most `size` sentence pairs. If `unit` is "tokens", a
    batch has at most `size` tokens on its longer side, padding included, and all batches cost about
    the same. A pair longer than `size` forms a batch of its own.
    """

    corpus: EncodedCorpus
    size: int
    unit: Unit
    seed: int
    _cached: tuple[int, EpochPlan] | None = field(default=None, init=False, repr=False)

    @property
    def max_positions(self) -> int:
        """An upper bound on `Batch.n_positions`, before resampling and `pad_to_multiple`."""
        longest = sum(self.corpus.longest)
        if self.unit == "sentences":
            return min(self.size, len(self.corpus)) * longest
        return max(2 * self.size, longest)

    @property
    def fingerprint(self) -> int:
        """A checksum of the lengths of all rows."""
        src, tgt = self.corpus.lengths
        return zlib.crc32(tgt.tobytes(), zlib.crc32(src.tobytes()))

    def n_positions(self, rows: Sequence[int], epoch: int = 0) -> int:
        """Return the number of positions in the batch of `rows`, padding included."""
        longest = (lengths.max() for lengths in self.corpus.lengths_at(np.array(rows), epoch))
        return len(rows) * sum(map(int, longest))

    def plan(self, epoch: int) -> EpochPlan:
        """Return the rows of every batch of `epoch`. The most recent plan is cached."""
        if self._cached is None or self._cached[0] != epoch:
            src, tgt = self.corpus.lengths
            n_rows = len(self.corpus)
            total_length = int(np.maximum(src, tgt).sum(dtype=np.int64))
            lengths_at = functools.partial(self.corpus.lengths_at, epoch=epoch)
            mean_length = total_length / n_rows if n_rows else 1.0
            batching, seed = (self.size, self.unit), f"{self.seed}/{epoch}"
            self._cached = epoch, EpochPlan(lengths_at, n_rows, mean_length, batching, seed)
        return self._cached[1]
