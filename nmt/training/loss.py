"""The training loss: a sum and a token count, divided once per update and never before."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from nmt.data.batching import BatchLinks
from nmt.models.base import DecoderOutput
from nmt.text.vocabulary import PAD_ID


class LossSum(NamedTuple):
    """Summed over a batch: the loss to train on, the plain cross-entropy, and the tokens.

    `loss_sum` and `nll_sum` are scalars in nats; they are equal without label smoothing and
    without an auxiliary loss.
    """

    loss_sum: Float[Tensor, ""]
    nll_sum: Float[Tensor, ""]
    n_tokens: int


_LEAST_WEIGHT = 1e-10
"""Below it, as outside of a window, a weight has no gradient in `alignment_loss`."""


def alignment_loss(weights: Float[Tensor, "B T S"], links: BatchLinks) -> Float[Tensor, ""]:
    """-sum over links of share * log weight: nats, summed over the target pieces that have links.

    For each of these it is the cross-entropy of its weights against its shares, which sum to 1
    (arXiv 1607.01628; arXiv 1909.02074).
    """
    row, target, source = links.places
    chosen = weights[row, target, source].float().clamp_min(_LEAST_WEIGHT)
    return -(links.shares * chosen.log()).sum()


def cross_entropy(
    output: DecoderOutput, tgt_out: Int[Tensor, "B T"], label_smoothing: float = 0.0
) -> LossSum:
    """-sum log p(target), over the positions of `tgt_out` that are not padding.

    With smoothing e the target distribution is (1 - e) one-hot + e uniform over the vocabulary
    (arXiv 1512.00567, section 7). The output's auxiliary loss is added to `loss_sum` and not to
    `nll_sum`. Where autocast is on, the logits are in its dtype; the sums never are.
    """
    keep = tgt_out != PAD_ID
    targets = tgt_out[keep]
    loss_sum, nlls = output.vocabulary.cross_entropy(
        output.features[keep], targets, label_smoothing
    )
    if output.auxiliary_loss is not None:
        loss_sum = loss_sum + output.auxiliary_loss.loss_sum(keep, -nlls)
    return LossSum(loss_sum, nlls.sum(), targets.numel())
