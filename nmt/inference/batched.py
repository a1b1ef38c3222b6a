"""A model on its device, searched and forced in batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from nmt.data.batching import pad_ids
from nmt.decoding.constraints import Constraint
from nmt.decoding.forced import force_decode, self_attention
from nmt.decoding.sampling import sample
from nmt.decoding.search import search, search_penalties
from nmt.decoding.search_config import SearchConfig
from nmt.device import autocast
from nmt.inference.minimum_risk import expected_utilities, minimum_risk
from nmt.inference.parallel import CheckCancelled, n_workers, never_cancelled, parallel_map
from nmt.inference.search_batches import search_batches
from nmt.models.base import Seq2Seq
from nmt.text.tokenizer import Tokenizer
from nmt.text.vocabulary import EOS_ID
from nmt.types import Encoded, Hypothesis

DecodingPrecision = Literal["fp32", "bf16"]
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class BatchedModel:
    """Searches for and scores translations of any number of sources.

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
            own = [constraints[i] for i in batch] if constraints else ()
            mbr, draws = config.mbr, config.sampling
            if draws is not None:
                n = config.n_best
                return sample(self.model, *inputs, config, draws, n, check, own)
            if mbr is None:
                return search(self.model, *inputs, config, check, own)
            if mbr.samples is None:
                widest = config.model_copy(update={"n_best": config.beam})
                candidates = search(self.model, *inputs, widest, check, own)
            else:
                n, draws = mbr.samples, mbr.sampling
                candidates = sample(self.model, *inputs, config, draws, n, check, own)
            return [self._least_risk(each, config, check) for each in candidates]

        found = self._in_batches(sources, config.batch_size, work)
        return [found.get(i, []) for i in range(len(sources))]

    def search_penalties(
        self,
        sources: Sequence[Encoded],
        config: SearchConfig,
        penalties: Sequence[float],
        constraints: Sequence[Constraint] = (),
    ) -> list[list[list[Hypothesis]]]:
        """For each length penalty the n best hypotheses of each source (search_penalties)."""

        def work(batch: Sequence[int], check: CheckCancelled) -> list[tuple[list[Hypothesis], ...]]:
            inputs = self._padded([sources[i] for i in batch])
            own = [constraints[i] for i in batch] if constraints else ()
            found = search_penalties(self.model, *inputs, config, penalties, check, own)
            return list(zip(*found, strict=True))

        found = self._in_batches(sources, config.batch_size, work)
        nothing: tuple[list[Hypothesis], ...] = ([],) * len(penalties)
        each = (found.get(i, nothing) for i in range(len(sources)))
        return [list(best) for best in zip(*each, strict=True)] or [[] for _ in penalties]

    def _least_risk(
        self, candidates: Sequence[Hypothesis], config: SearchConfig, check: CheckCancelled
    ) -> list[Hypothesis]:
        """The best candidates by expected utility; see minimum_risk."""
        check()
        assert config.mbr is not None
        texts = [self.tokenizer.decode(without_eos(each), restore=False) for each in candidates]
        utilities = expected_utilities(texts, config.mbr.utility, self.tokenizer.lang)
        return minimum_risk(candidates, texts, utilities)[: config.n_best]

    def _in_batches(
        self,
        sources: Sequence[Encoded],
        batch_size: int,
        work: Callable[[Sequence[int], CheckCancelled], Sequence[_Found]],
    ) -> dict[int, _Found]:
        """The results of `work` for the sources that are not empty, by the source's index."""

        def work_on(batch: Sequence[int], check: CheckCancelled) -> Sequence[_Found]:
            with autocast(self.device, self.precision):  # of this thread only
                return work(batch, check)

        workers = n_workers(self.device)
        sizes = [len(source.ids) for source in sources]
        batches = list(search_batches(sizes, batch_size, workers))
        results = parallel_map(work_on, batches, workers, self.check_cancelled)
        return dict(zip(chain(*batches), chain(*results), strict=True))

    def force(
        self,
        sources: Sequence[Encoded],
        tgt_ids: Sequence[Sequence[int]],
        config: SearchConfig,
        with_heads: bool,
    ) -> Iterator[tuple[int, Hypothesis]]:
        """The index and the Hypothesis of each pair whose source is not empty."""
        sizes = [
            max(len(source.ids), len(ids)) if source.ids else 0
            for source, ids in zip(sources, tgt_ids, strict=True)
        ]
        for batch in search_batches(sizes, config.batch_size, by_area=with_heads):
            inputs = self._padded([sources[i] for i in batch])
            own_ids = [tgt_ids[i] for i in batch]
            with autocast(self.device, self.precision):
                forced = force_decode(self.model, *inputs, own_ids, config.score, with_heads)
            yield from zip(batch, forced, strict=True)

    def add_heads(
        self, sources: Sequence[Encoded], found: list[list[Hypothesis]], config: SearchConfig
    ) -> None:
        """Add the weights of each head to the hypotheses that a search found.

        Forced decoding computes them anew, with equal weights. So the beam need not carry a matrix
        per head for hypotheses of which most are dropped.
        """
        places = [(i, rank) for i, best in enumerate(found) for rank in range(len(best))]
        tgt_ids = [found[i][rank].ids for i, rank in places]
        forced = self.force([sources[i] for i, _ in places], tgt_ids, config, with_heads=True)
        for k, hypothesis in forced:
            i, rank = places[k]
            found[i][rank] = replace(found[i][rank], heads=hypothesis.heads)

    def self_heads(
        self, pairs: Sequence[tuple[Encoded, Hypothesis]], batch_size: int
    ) -> list[dict[str, Float32[np.ndarray, "N L L"]]]:
        """The self-attention of each pair of a source and its translation."""
        sizes = [max(len(src.ids), len(found.ids)) + 1 for src, found in pairs]
        heads: list[dict[str, Float32[np.ndarray, "N L L"]]] = [{} for _ in pairs]
        for batch in search_batches(sizes, batch_size, by_area=True):
            inputs = self._padded([pairs[k][0] for k in batch])
            tgt_ids = [pairs[k][1].ids for k in batch]
            with autocast(self.device, self.precision):
                weights = self_attention(self.model, *inputs, tgt_ids)
            for k, each in zip(batch, weights, strict=True):
                heads[k] = each
        return heads

    def _padded(self, sources: Sequence[Encoded]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
        """The ids with eos, padded, and their lengths, eos included."""
        rows = [(*source.ids, EOS_ID) for source in sources]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return pad_ids(rows).to(self.device), lengths


def without_eos(hypothesis: Hypothesis) -> tuple[int, ...]:
    """The ids of the pieces of a hypothesis."""
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids
