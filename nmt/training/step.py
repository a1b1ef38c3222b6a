"""One update of the weights: forward pass, loss, backward pass, clipping and optimiser step.

Training, benchmarks, the experiments of nmt.lab and scripts all share `train_step`. Nothing here
touches the disk, a log, a clock or a config file.
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

_NO_SCALER = torch.amp.GradScaler("cpu", enabled=False)  # its methods do the same on any device


class DivergedError(NMTError):
    """Raised if a loss, a gradient or a weight is NaN or infinite; the state must not be saved."""


@runtime_checkable
class MicroBatch(Protocol):
    """A part of the data of one update, small enough for one forward pass."""

    @property
    def n_tokens(self) -> int:
        """The number of target tokens without padding."""


@dataclass(frozen=True)
class StepSettings:
    """Settings of an update.

    `precision` is the number format of the forward pass; weights stay fp32. `clip_norm` is the
    maximum L2 norm of the gradient, or None to disable clipping. `scaler` scales the loss so that
    small fp16 gradients do not become 0, or is None to disable scaling. `ranks` share the update.
    `graphs` replays the forward and backward passes as CUDA graphs, or is None to disable graphs.
    """

    precision: Precision = "fp32"
    loss: Loss = PLAIN
    clip_norm: float | None = None
    scaler: torch.amp.GradScaler | None = None
    ranks: Ranks = ALONE
    graphs: TrainingGraphs | None = None


@dataclass(frozen=True)
class StepResult:
    """Measurements of an update, taken before the weights change.

    `nll_sum` is the cross-entropy in nats, summed over the `n_tokens` target tokens of the update.
    `grad_norm` is the L2 norm of the gradient before clipping.
    """

    nll_sum: float
    n_tokens: int
    grad_norm: float

    @property
    def loss(self) -> float:
        """The loss in nats per target token."""
        return self.nll_sum / self.n_tokens


@dataclass(frozen=True)
class PendingResult:
    """A StepResult whose measurements are still on the device, perhaps not computed yet.

    `numbers` is [nll_sum, grad_norm]; `read_results` reads it. `is_scaled` is True if a GradScaler
    is in use, so that a non-finite `grad_norm` is no error.
    """

    numbers: Float[Tensor, " 2"]
    n_tokens: int
    is_scaled: bool


LossFunction = Callable[[Any, Any, StepSettings], LossSum]
"""A function f(model, micro_batch, settings) that returns the loss on the micro-batch."""


def translation_loss(model: Seq2Seq, batch: Batch, settings: StepSettings) -> LossSum:
    """Return the loss of `model` on the targets of `batch`, with teacher forcing."""
    batch = settings.loss.inputs(batch.to(next(model.parameters()).device))
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
    """Update the weights once, from the mean loss per token over all micro-batches of all ranks.

    `micro_batches` is the share of this rank, and may be empty. The loss of each micro-batch is a
    sum, divided by the token count of the whole update. The gradient is therefore independent of
    how the tokens are divided into micro-batches. Gradients are summed over the ranks before
    clipping, so every rank takes the same step and returns the same result.

    Waits for the device, to read the measurements. Gradients are None afterwards, also after an
    error. An error before the optimiser's step leaves weights, optimiser and loss scale unchanged.
    Raises DivergedError if the loss or the gradient norm is NaN or infinite. With a GradScaler, a
    non-finite gradient is no error: the scaler skips the update.
    """
    scaler = settings.scaler or _NO_SCALER
    try:
        pending = _add_gradients(model, optimizer, micro_batches, settings, scaler, loss_function)
        (result,) = read_results([pending], settings.ranks)
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
) -> PendingResult:
    """Update the weights as `train_step` does, but without waiting for the GPU.

    Only `read_results` detects a NaN or an infinity, which may have reached the weights by then.
    """
    scaler = settings.scaler or _NO_SCALER
    try:
        pending = _add_gradients(model, optimizer, micro_batches, settings, scaler)
        scaler.step(optimizer)
        scaler.update()
    finally:
        optimizer.zero_grad(set_to_none=True)
    return pending


def _add_gradients(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro_batches: Sequence[MicroBatch],
    settings: StepSettings,
    scaler: torch.amp.GradScaler,
    loss_function: LossFunction = translation_loss,
) -> PendingResult:
    """Compute the gradients of an update, unscaled and clipped, into the parameters' `grad`."""
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
        # unscale_ needs the scale on the device, where the backward pass would have put it.
        scaler.scale(torch.zeros((), device=device))
    ranks.sum_gradients(parameters, model)
    scaler.unscale_(optimizer)
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    grad_norm = nn.utils.get_total_norm(grads)
    # On a CPU the norm is known by now. On a GPU reading it would block.
    if (limit := settings.clip_norm) and (device.type != "cpu" or not grad_norm <= limit):
        nn.utils.clip_grads_with_norm_(parameters, limit, grad_norm)
    nll_sum = torch.stack(nll_sums).sum() if nll_sums else torch.zeros_like(grad_norm)
    return PendingResult(torch.stack([nll_sum, grad_norm]), n_tokens, scaler.is_enabled())


def read_results(queue: Sequence[PendingResult], ranks: Ranks = ALONE) -> list[StepResult]:
    """Wait for the device, and read the measurements of several updates in one transfer.

    Raises DivergedError if a loss is NaN or infinite. Without a GradScaler, also raises it for a
    gradient norm that is NaN or infinite.
    """
    rows = torch.stack([result.numbers for result in queue]).tolist()
    results = []
    for (nll_sum, grad_norm), pending in zip(rows, queue, strict=True):
        result = StepResult(ranks.sum(nll_sum)[0], pending.n_tokens, grad_norm)
        if not math.isfinite(result.nll_sum):
            raise DivergedError(f"loss is {result.nll_sum}")
        if not math.isfinite(grad_norm) and not pending.is_scaled:
            raise DivergedError(f"gradient norm is {grad_norm}")
        results.append(result)
    return results
