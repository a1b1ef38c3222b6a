"""A model on its device, searched and forced in batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.batches.batching import pad_ids
from nmt.device import autocast
from nmt.models.base import Seq2Seq
from nmt.search.constraints import Constraint
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabulary import EOS_ID
from nmt.translation.minimum_risk import expected_utilities, minimum_risk
from nmt.translation.parallel import CheckCancelled, n_workers, never_cancelled, parallel_map
from nmt.types import Encoded, Hypothesis

DecodingPrecision = Literal["fp32", "bf16"]
Padded = tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]
_Result = TypeVar("_Result")

_PIECES_PER_SENTENCE = 100
"""A batch has at most batch_size times as many padded pieces, which bounds its memory."""


@dataclass(frozen=True)
class BatchedModel:
    """Searches for translations of any number of sources, and reads pairs.

    Empty sources are left out. `tokenizer` is the target's. With `bf16` matrix products are of
    bf16 numbers, and totals stay as they are (nmt.device.autocast). `check_cancelled` is called
    before each step of a search, which ends with the exception that it raises.
    """

    model: Seq2Seq
    tokenizer: Tokenizer
    device: torch.device
    precision: DecodingPrecision = "fp32"
    check_cancelled: CheckCancelled = never_cancelled

    def search(
        self,
        sources: Sequence[Encoded],
        config: SearchConfig,
        constraints: Sequence[Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """The n best hypotheses of each source, found as `config` says; none for an empty one."""

        def work(batch: Sequence[int], check: CheckCancelled) -> list[list[Hypothesis]]:
            inputs = self._padded([sources[i] for i in batch])
            rows = [constraints[i] for i in batch] if constraints else ()
            with autocast(self.device, self.precision):  # of this thread only
                candidates = search(self.model, *inputs, config.candidate_search(), check, rows)
            if config.mbr is None:
                return candidates
            return [self._least_risk(hypotheses, config, check) for hypotheses in candidates]

        workers = n_workers(self.device)
        sizes = [len(source.ids) for source in sources]
        batches = list(search_batches(sizes, config.batch_size, workers))
        results = parallel_map(work, batches, workers, self.check_cancelled)
        beams = dict(zip(chain(*batches), chain(*results), strict=True))
        return [beams.get(i, []) for i in range(len(sources))]

    def _least_risk(
        self, candidates: Sequence[Hypothesis], config: SearchConfig, check: CheckCancelled
    ) -> list[Hypothesis]:
        """The best candidates by expected utility; see minimum_risk."""
        check()
        assert config.mbr is not None
        texts = [self.tokenizer.decode(without_eos(ids), restore=False) for ids in candidates]
        utilities = expected_utilities(texts, config.mbr.utility, self.tokenizer.lang)
        return minimum_risk(candidates, texts, utilities)[: config.n_best]

    def read_pairs(
        self,
        sources: Sequence[Encoded],
        tgt_ids: Sequence[Sequence[int]],
        batch_size: int,
        read: Callable[[Padded, Sequence[Sequence[int]]], Sequence[_Result]],
        by_area: bool = True,
    ) -> Iterator[tuple[int, _Result]]:
        """Read pairs of a source and a given target in batches.

        Yields the index and the result of each pair whose source is not empty.
        """
        pairs = zip(sources, tgt_ids, strict=True)
        sizes = [max(len(src.ids), len(ids)) if src.ids else 0 for src, ids in pairs]
        for batch in search_batches(sizes, batch_size, by_area=by_area):
            inputs = self._padded([sources[i] for i in batch])
            with autocast(self.device, self.precision):
                results = read(inputs, [tgt_ids[i] for i in batch])
            yield from zip(batch, results, strict=True)

    def _padded(self, sources: Sequence[Encoded]) -> Padded:
        """The ids with eos, padded, and their lengths, eos included."""
        rows = [(*source.ids, EOS_ID) for source in sources]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return pad_ids(rows).to(self.device), lengths


def without_eos(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The ids of the pieces of a hypothesis."""
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids


def search_batches(
    sizes: Sequence[int], batch_size: int, n_parts: int = 1, by_area: bool = False
) -> Iterator[list[int]]:
    """Yield batches of the indices of items whose size is not 0, longest first.

    Memory grows with the number of padded pieces, or `by_area` with its square. A batch has at
    most its share of `n_parts`, so that as many workers can take one each.
    """
    order = sorted((i for i, size in enumerate(sizes) if size), key=lambda i: -sizes[i])
    limit = min(batch_size, -(-len(order) // n_parts))
    power = 2 if by_area else 1
    start = 0
    while start < len(order):
        longest = sizes[order[start]]
        count = max(1, min(limit, limit * _PIECES_PER_SENTENCE**power // longest**power))
        yield order[start : start + count]
        start += count
