"""The training loss: a sum and a token count, divided once per update and never before."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
        log_likelihoods = -nlls
        if output.expected_features is not None:
            with torch.no_grad():
                expected = output.expected_features[keep]
                log_likelihoods = (
                    log_likelihoods + output.vocabulary.cross_entropy(expected, targets, 0.0)[1]
                )
        loss_sum = loss_sum + output.auxiliary_loss.loss_sum(keep, log_likelihoods)
    return LossSum(loss_sum, nlls.sum(), targets.numel())
