"""The losses of a validation: means over a corpus, whose batches the ranks share."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nmt.data.batching import EncodedCorpus
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import GuidedAlignment, cross_entropy
from nmt.training.distributed import ALONE, Ranks

_BATCH_SIZE = 64


class InterruptedValidationError(Exception):
    """The validation was told to stop."""


def _fetch(numbers: list[Tensor]) -> list[float]:
    fetched: list[float] = torch.stack(numbers).tolist()
    return fetched


@torch.inference_mode()
def mean_loss(
    model: Seq2Seq,
    corpus: EncodedCorpus,
    device: torch.device,
    interrupted: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
) -> float:
    """Cross-entropy in nats per target token over the corpus, without label smoothing.

    The ranks share its batches. Raises InterruptedValidationError if `interrupted()` is True
    between two batches of any rank.
    """

    def nll_sum(rows: Sequence[int]) -> Tensor:
        batch = corpus.batch(rows).to(device)
        keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
        output = model(batch.src_ids, keep, batch.tgt_in)
        return cross_entropy(output, batch.tgt_out).nll_sum

    n_tokens = sum(len(ids) + 1 for ids in corpus.tgt_ids)
    return _sum_over(corpus, nll_sum, interrupted, ranks) / max(1, n_tokens)


@torch.inference_mode()
def mean_alignment_loss(
    model: Seq2Seq,
    corpus: EncodedCorpus,
    device: torch.device,
    loss: GuidedAlignment,
    interrupted: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
) -> float:
    """The loss of guided alignment, in nats per target piece with links; see `mean_loss`."""
    assert corpus.links is not None

    def loss_sum(rows: Sequence[int]) -> Tensor:
        batch = corpus.batch(rows).to(device)
        assert batch.links is not None
        keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
        output = model(batch.src_ids, keep, batch.tgt_in, with_weights=True)
        return loss.links_sum(output, batch.links)

    n_linked = sum(len(set(links[:, 1].tolist())) for links in corpus.links)
    return _sum_over(corpus, loss_sum, interrupted, ranks) / max(1, n_linked)


def _sum_over(
    corpus: EncodedCorpus,
    loss_sum: Callable[[Sequence[int]], Tensor],
    interrupted: Callable[[], bool],
    ranks: Ranks,
) -> float:
    """The sum of a loss over the batches of a corpus, which the ranks share."""
    rows = sorted(range(len(corpus)), key=lambda row: len(corpus.src_ids[row]))
    batches = [rows[start : start + _BATCH_SIZE] for start in range(0, len(rows), _BATCH_SIZE)]
    # Fetched at the end: each would wait for a GPU.
    sums = ranks.map(batches, loss_sum, interrupted, _fetch)
    if sums is None:
        raise InterruptedValidationError
    return sum(sums)
