"""Search and forced decoding with a model, in batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from nmt.batches.batching import pad_ids
from nmt.models.base import Seq2Seq
from nmt.search.constraints import Constraint
from nmt.search.forced import force_decode
from nmt.search.search import search
from nmt.search.search_config import SearchConfig
from nmt.text.tokenizer import Tokenizer, Tokenizers
from nmt.text.vocabulary import EOS_ID
from nmt.translation.minimum_risk import expected_utilities, minimum_risk
from nmt.translation.parallel import CheckCancelled, n_workers, parallel_map
from nmt.types import Encoded, Hypothesis, TranslatedHypothesis

Padded = tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]  # ids of B sources and lengths, with eos

_Result = TypeVar("_Result")

_PIECES_PER_SENTENCE = 100  # padded pieces of a batch / batch_size, to bound its memory


@dataclass(frozen=True)
class BatchedModel:
    """A model that reads any number of sources in batches, for a search or with teacher forcing.

    Empty sources are skipped. The search calls `check_cancelled` before each step; an exception
    from it ends the search. Ids and hypotheses are in reading order, also for a right-to-left model
    (`tokenizers.reverse_target`), which writes a target from its last piece to its first (Liu et
    al. 2016, doi 10.18653/v1/N16-1046).
    """

    model: Seq2Seq
    tokenizers: Tokenizers
    device: torch.device
    check_cancelled: CheckCancelled = lambda: None

    def search(
        self,
        sources: Sequence[Encoded],
        config: SearchConfig,
        constraints: Sequence[Constraint] = (),
    ) -> list[list[Hypothesis]]:
        """Search the `config.n_best` best hypotheses of each source; an empty source has none."""

        def work(batch: Sequence[int], check: CheckCancelled) -> list[list[Hypothesis]]:
            inputs = self._padded([sources[i] for i in batch])
            rows = [constraints[i] for i in batch] if constraints else ()
            beams = search(self.model, *inputs, config.candidate_search(), check, rows)
            candidates = [list(map(self.switch_order, hypotheses)) for hypotheses in beams]
            if config.mbr is None:
                return candidates
            return [self._least_risk(hypotheses, config, check) for hypotheses in candidates]

        workers = n_workers(self.device)
        sizes = [len(source.ids) for source in sources]
        batches = list(batch_by_size(sizes, config.batch_size, workers))
        results = parallel_map(work, batches, workers, self.check_cancelled)
        by_index = dict(zip(chain(*batches), chain(*results), strict=True))
        return [by_index.get(i, []) for i in range(len(sources))]

    def switch_order(self, hypothesis: Hypothesis) -> Hypothesis:
        """Convert a hypothesis from the model's writing order to reading order, or back.

        For a right-to-left model, this reverses the target pieces of all fields; bos stays first,
        and eos last.
        """
        if not self.tokenizers.reverse_target:
            return hypothesis
        size = len(hypothesis.ids)
        n = size - hypothesis.finished
        rows, read = [*reversed(range(n)), *range(n, size)], [0, *range(n, 0, -1)]
        heads, self_heads = hypothesis.heads, dict(hypothesis.self_heads)
        if "decoder" in self_heads:
            self_heads["decoder"] = self_heads["decoder"][:, read][:, :, read]
        attribution = hypothesis.attribution
        if attribution is not None:
            prefix = attribution.prefix_scores[rows]
            prefix = prefix[:, read[: prefix.shape[1]]]  # without columns if there are no scores
            scores = attribution.scores[rows]
            attribution = replace(attribution, scores=scores, prefix_scores=prefix)
        return replace(
            hypothesis,
            ids=reversed_ids(hypothesis.ids),
            log_probs=tuple(hypothesis.log_probs[row] for row in rows),
            attention=hypothesis.attention[rows],
            heads=None if heads is None else heads[:, rows],
            self_heads=self_heads,
            attribution=attribution,
            entropies=tuple(hypothesis.entropies[row] for row in rows if hypothesis.entropies),
        )

    def _least_risk(
        self, candidates: Sequence[Hypothesis], config: SearchConfig, check: CheckCancelled
    ) -> list[Hypothesis]:
        check()
        assert config.mbr is not None
        tgt = self.tokenizers.tgt
        texts = [tgt.decode(without_eos(ids), restore=False) for ids in candidates]
        utilities = expected_utilities(texts, config.mbr.utility, tgt.lang)
        return minimum_risk(candidates, texts, utilities)[: config.n_best]

    def force(
        self,
        sources: Sequence[Encoded],
        tgt_ids: Sequence[Sequence[int]],
        config: SearchConfig,
        with_heads: bool = False,
    ) -> Iterator[tuple[int, Hypothesis]]:
        """Yield the index and the hypothesis (forced decoding) of each pair with a source."""

        def read(inputs: Padded, ids: Sequence[Sequence[int]]) -> list[Hypothesis]:
            return force_decode(self.model, *inputs, ids, config.length_penalty, with_heads)

        pairs = self.map_pairs(sources, tgt_ids, config.batch_size, read, by_area=with_heads)
        for i, hypothesis in pairs:
            yield i, self.switch_order(hypothesis)

    def map_pairs(
        self,
        sources: Sequence[Encoded],
        tgt_ids: Sequence[Sequence[int]],
        batch_size: int,
        read: Callable[[Padded, Sequence[Sequence[int]]], Sequence[_Result]],
        by_area: bool = True,
    ) -> Iterator[tuple[int, _Result]]:
        """Call `read`, a teacher-forced pass, on batches of sources and their targets `tgt_ids`.

        Yields the index and the result of each pair whose source is not empty. `tgt_ids` are in
        reading order, but `read` gets and returns values in the model's writing order. `by_area`
        bounds the batches as in `batch_by_size`.
        """
        if self.tokenizers.reverse_target:
            tgt_ids = list(map(reversed_ids, tgt_ids))
        pairs = zip(sources, tgt_ids, strict=True)
        sizes = [max(len(src.ids), len(ids)) if src.ids else 0 for src, ids in pairs]
        for batch in batch_by_size(sizes, batch_size, by_area=by_area):
            inputs = self._padded([sources[i] for i in batch])
            results = read(inputs, [tgt_ids[i] for i in batch])
            yield from zip(batch, results, strict=True)

    def _padded(self, sources: Sequence[Encoded]) -> Padded:
        """Append eos to the ids and pad them; return them with their lengths, eos included."""
        rows = [(*source.ids, EOS_ID) for source in sources]
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        return pad_ids(rows).to(self.device), lengths


def with_text(hypothesis: Hypothesis, tokenizer: Tokenizer) -> TranslatedHypothesis:
    """Return a hypothesis with its text and the pieces of the text."""
    ids = without_eos(hypothesis)
    return TranslatedHypothesis(tokenizer.decode(ids), tokenizer.encoded_from_ids(ids), hypothesis)


def without_eos(hypothesis: Hypothesis) -> tuple[int, ...]:
    return hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids


def batch_by_size(
    sizes: Sequence[int], batch_size: int, n_parts: int = 1, by_area: bool = False
) -> Iterator[list[int]]:
    """Yield batches of the indices of the items whose size is not 0, longest items first.

    A batch has at most `batch_size` items, and at most 1 / `n_parts` of all items. Its number of
    padded pieces is bounded, or with `by_area`, the sum of the squares of its padded lengths.
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


def reversed_ids(ids: Sequence[int]) -> tuple[int, ...]:
    """Reverse the ids of a target; an eos at the end stays there. It is its own inverse."""
    n = len(ids) - (EOS_ID in ids[-1:])
    return (*reversed(ids[:n]), *ids[n:])
