"""One update of the weights: forward, loss, backward, clipping and the optimiser's step.

Nothing here touches the disk, a log, a clock or a config file. Training, benchmarks, experiments of
the lab and scripts all change weights by `train_step`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from nmt.batches.batching import Batch
from nmt.device import Precision, autocast
from nmt.errors import NMTError
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import PLAIN, Loss, LossSum
from nmt.training.distributed import ALONE, Ranks


class DivergedError(NMTError):
    """A loss, a gradient or a weight is NaN or infinite. Such a state must not be saved."""


@runtime_checkable
class MicroBatch(Protocol):
    """A part of the data of one update, small enough for one forward pass."""

    @property
    def n_tokens(self) -> int:
        """Target tokens, padding not counted."""


@dataclass(frozen=True)
class StepSettings:
    """How an update is computed.

    `precision` is the number format of the forward pass; weights stay fp32. `clip_norm` is the
    largest L2 norm of the gradient, None for any. `scaler` multiplies the loss, so that small fp16
    gradients do not become 0; None multiplies by 1. `ranks` share the update.
    """

    precision: Precision = "fp32"
    loss: Loss = PLAIN
    clip_norm: float | None = None
    scaler: torch.amp.GradScaler | None = None
    ranks: Ranks = ALONE


@dataclass(frozen=True)
class StepResult:
    """The measurements of an update, from before it changed the weights.

    `nll_sum` is the cross-entropy in nats, summed over the `n_tokens` target tokens of the update.
    `grad_norm` is the L2 norm of the gradient before clipping.
    """

    nll_sum: float
    n_tokens: int
    grad_norm: float

    @property
    def loss(self) -> float:
        """Nats per target token."""
        return self.nll_sum / self.n_tokens


LossFunction = Callable[[Any, Any, StepSettings], LossSum]
"""The loss of a model on one micro-batch: f(model, micro_batch, settings)."""


def translation_loss(model: Seq2Seq, batch: Batch, settings: StepSettings) -> LossSum:
    """Return the loss of the target, given the source and the target tokens before each."""
    batch = batch.to(next(model.parameters()).device)
    keep = keep_from_lengths(batch.src_lengths, batch.src_ids.shape[1])
    with_weights = settings.loss.needs_weights(batch)
    output = model(batch.src_ids, keep, batch.tgt_in, with_weights=with_weights)
    return settings.loss(output, batch)


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro_batches: Sequence[MicroBatch],
    settings: StepSettings,
    loss_function: LossFunction = translation_loss,
) -> StepResult:
    """Update the weights once, by the mean loss per token over all micro-batches of all ranks.

    `micro_batches` are those of this rank, perhaps none. The gradients are summed over the ranks
    before they are clipped, so every rank takes the same step and returns the same result.

    The loss of each micro-batch is a sum. It is divided by the token count of the whole update, so
    the gradient does not depend on how the tokens are spread over micro-batches. Gradients are
    None afterwards, also after an error.

    The sums and the norm come to the host in one transfer, for which the host waits. On a GPU the
    model and the loss wait too, wherever they pack sequences or select rows by a mask. Raises
    DivergedError where the numbers are NaN or infinite; an fp16 gradient may be, for its scaler
    skips the update. Any error before the optimiser's step leaves the weights, the optimiser and
    the scaler's scale as they were.
    """
    device = next(model.parameters()).device
    scaler = settings.scaler or torch.amp.GradScaler(device.type, enabled=False)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    ranks = settings.ranks
    (n_tokens,) = ranks.sum(sum(batch.n_tokens for batch in micro_batches))
    nll_sums = []
    try:
        for batch in micro_batches:
            with autocast(device, settings.precision):
                loss = loss_function(model, batch, settings)
            scaler.scale(loss.loss_sum / n_tokens).backward()  # type: ignore[no-untyped-call]
            nll_sums.append(loss.nll_sum.detach())
        if not micro_batches and scaler.is_enabled():
            # Without a backward pass nothing else puts the scale on the device for unscale_.
            scaler.scale(torch.zeros((), device=device))
        ranks.sum_gradients(parameters, model)
        scaler.unscale_(optimizer)
        grad_norm = nn.utils.clip_grad_norm_(parameters, settings.clip_norm or math.inf)
        result = _fetch(nll_sums, int(n_tokens), grad_norm)
        result = replace(result, nll_sum=ranks.sum(result.nll_sum)[0])
        _refuse_non_finite(result, scaler.is_enabled())
        scaler.step(optimizer)
        scaler.update()
    finally:
        optimizer.zero_grad(set_to_none=True)
    return result


def _fetch(nll_sums: Sequence[Tensor], n_tokens: int, grad_norm: Tensor) -> StepResult:
    """Bring the numbers of an update from the device in one transfer."""
    *sums, norm = torch.stack([*nll_sums, grad_norm]).tolist()
    return StepResult(sum(sums, 0.0), n_tokens, norm)


def _refuse_non_finite(result: StepResult, is_scaled: bool) -> None:
    if not math.isfinite(result.nll_sum):
        raise DivergedError(f"loss is {result.nll_sum}")
    if not math.isfinite(result.grad_norm) and not is_scaled:
        raise DivergedError(f"gradient norm is {result.grad_norm}")
