"""One update of the weights: forward, loss, backward, clipping and the optimiser's step.

Nothing here touches the disk, a log, a clock or a config file. Training, benchmarks, experiments of
the lab and scripts all change weights by `train_step`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nmt.batches.batching import Batch
from nmt.device import Precision, autocast
from nmt.errors import NMTError
from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.optim.losses import PLAIN, Loss, LossSum
from nmt.training.distributed import ALONE, Ranks
from nmt.training.graphs import TrainingGraphs


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
    gradients do not become 0; None multiplies by 1. `ranks` share the update. `graphs` replay the
    passes on a GPU.
    """

    precision: Precision = "fp32"
    loss: Loss = PLAIN
    clip_norm: float | None = None
    scaler: torch.amp.GradScaler | None = None
    ranks: Ranks = ALONE
    graphs: TrainingGraphs | None = None


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


@dataclass(frozen=True)
class UnreadResult:
    """The measurements of an update that the device may still compute: nll_sum and grad_norm."""

    numbers: Float[Tensor, " 2"]
    n_tokens: int
    is_scaled: bool


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

    The sums and the norm come to the host in one transfer, for which the host waits. Raises
    DivergedError where the numbers are NaN or infinite; an fp16 gradient may be, for its scaler
    skips the update. Any error before the optimiser's step leaves the weights, the optimiser and
    the scaler's scale as they were.
    """
    scaler = _scaler(model, settings)
    try:
        unread = _add_gradients(model, optimizer, micro_batches, settings, scaler, loss_function)
        (result,) = read_results([unread], settings.ranks)
        scaler.step(optimizer)
        scaler.update()
    finally:
        optimizer.zero_grad(set_to_none=True)
    return result


def queue_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro_batches: Sequence[MicroBatch],
    settings: StepSettings,
) -> UnreadResult:
    """Update the weights as `train_step` does on a GPU, without waiting for it.

    `read_results` finds numbers that are not finite, after they have reached the weights.
    """
    scaler = _scaler(model, settings)
    try:
        unread = _add_gradients(model, optimizer, micro_batches, settings, scaler)
        scaler.step(optimizer)
        scaler.update()
    finally:
        optimizer.zero_grad(set_to_none=True)
    return unread


def _scaler(model: nn.Module, settings: StepSettings) -> torch.amp.GradScaler:
    device = next(model.parameters()).device
    return settings.scaler or torch.amp.GradScaler(device.type, enabled=False)


def _add_gradients(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro_batches: Sequence[MicroBatch],
    settings: StepSettings,
    scaler: torch.amp.GradScaler,
    loss_function: LossFunction = translation_loss,
) -> UnreadResult:
    """Compute the gradient of an update, unscaled and clipped."""
    device = next(model.parameters()).device
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    ranks, graphs = settings.ranks, settings.graphs
    n_tokens = int(ranks.sum(sum(batch.n_tokens for batch in micro_batches))[0])

    def passes(batch: MicroBatch, divisor: Tensor | int) -> Tensor:
        with autocast(device, settings.precision):
            loss = loss_function(model, batch, settings)
        scaler.scale(loss.loss_sum / divisor).backward()  # type: ignore[no-untyped-call]
        return loss.nll_sum.detach()

    nll_sums = []
    for batch in micro_batches:
        if graphs is None or not isinstance(batch, Batch):
            nll_sums.append(passes(batch, n_tokens))
        else:
            nll_sums.append(graphs.run(settings.loss, passes, batch, n_tokens))
    if not micro_batches and scaler.is_enabled():
        # Without a backward pass nothing else puts the scale on the device for unscale_.
        scaler.scale(torch.zeros((), device=device))
    ranks.sum_gradients(parameters, model)
    scaler.unscale_(optimizer)
    grad_norm = nn.utils.clip_grad_norm_(parameters, settings.clip_norm or math.inf)
    nll_sum = torch.stack(nll_sums).sum() if nll_sums else torch.zeros_like(grad_norm)
    return UnreadResult(torch.stack([nll_sum, grad_norm]), n_tokens, scaler.is_enabled())


def read_results(unread: Sequence[UnreadResult], ranks: Ranks = ALONE) -> list[StepResult]:
    """Bring the numbers of updates from the device in one transfer, for which the host waits.

    Raises DivergedError for the first update whose numbers are NaN or infinite.
    """
    rows = torch.stack([result.numbers for result in unread]).tolist()
    results = []
    for (nll_sum, grad_norm), pending in zip(rows, unread, strict=True):
        result = StepResult(ranks.sum(nll_sum)[0], pending.n_tokens, grad_norm)
        _refuse_non_finite(result, pending.is_scaled)
        results.append(result)
    return results


def _refuse_non_finite(result: StepResult, is_scaled: bool) -> None:
    if not math.isfinite(result.nll_sum):
        raise DivergedError(f"loss is {result.nll_sum}")
    if not math.isfinite(result.grad_norm) and not is_scaled:
        raise DivergedError(f"gradient norm is {result.grad_norm}")
