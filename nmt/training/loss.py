"""The training loss: a sum and a token count, divided once per update and never before."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from nmt.corpus.vocab import PAD_ID
from nmt.models.base import Surrogate


class LossSum(NamedTuple):
    """Summed over a batch: the loss to train on, the plain cross-entropy, and the tokens.

    `loss_sum` and `nll_sum` are scalars in nats; they are equal without label smoothing and
    without a surrogate.
    """

    loss_sum: Float[Tensor, ""]
    nll_sum: Float[Tensor, ""]
    n_tokens: int


def cross_entropy(
    logits: Float[Tensor, "B T V"],
    tgt_out: Int[Tensor, "B T"],
    vocab_size: int,
    label_smoothing: float = 0.0,
    surrogate: Surrogate | None = None,
) -> LossSum:
    """-sum log p(target), over the positions of `tgt_out` that are not padding.

    With smoothing e the target distribution is (1 - e) one-hot + e uniform over the
    `vocab_size` real rows (arXiv 1512.00567, section 7); the rows that pad the table get none.
    A `surrogate` adds its term to `loss_sum` and not to `nll_sum`. Computed in fp32.
    """
    keep = tgt_out != PAD_ID
    scores, targets = logits[keep].float(), tgt_out[keep]
    log_z = scores.logsumexp(dim=-1)
    nlls = log_z - scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    nll_sum = nlls.sum()
    loss_sum = nll_sum
    if label_smoothing:
        uniform_sum = (log_z - scores[:, :vocab_size].mean(dim=-1)).sum()
        loss_sum = (1 - label_smoothing) * nll_sum + label_smoothing * uniform_sum
    if surrogate is not None:
        loss_sum = loss_sum + surrogate.loss_sum(keep, -nlls.detach())
    return LossSum(loss_sum, nll_sum.detach(), targets.numel())
