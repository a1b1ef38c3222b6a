"""What ends a run with a line that says what to change: no memory, or numbers that are none."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch

from nmt.config import RunConfig, TrainConfig
from nmt.corpus.batching import Batch
from nmt.errors import NMTError


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine, or the GPU, had no more memory; a CPU's allocator says so in words."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    beyond_numbers = ("size calculation overflow", "Overflow when unpacking")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError | TypeError)
        and any(word in str(error) for word in (*words, *beyond_numbers))
    )


@contextlib.contextmanager
def memory_for_update(group: Sequence[Batch], step: int, train: TrainConfig) -> Iterator[None]:
    """Raise NMTError with the sizes of the batch and what to change, where memory runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        largest = max(group, key=lambda batch: batch.n_positions)
        (n, src), tgt = largest.src_ids.shape, largest.tgt_in.shape[1]
        raise NMTError(
            f"out of memory at step {step} on a batch of {n} pairs, {src} pieces the longest "
            f"source and {tgt} the longest target, {largest.n_positions:,} with padding: to go on "
            f"from the last checkpoint, --set train.batch_size={max(1, train.batch_size // 2)} "
            f"--set train.accumulate={2 * train.accumulate} --allow-change"
        ) from error


def memory_for_validation(step: int, config: RunConfig) -> NMTError:
    """What to say where a validation had too little; the step must be saved."""
    return NMTError(
        f"out of memory in the validation after step {step}, which is saved: to go on with it, "
        f"--set search.batch_size={max(1, config.search.batch_size // 4)}, or a smaller "
        "valid.beam with --allow-change"
    )


def refuse_nan(nll_sum: float, grad_norm: float, step: int, is_scaled: bool) -> None:
    """Raise NMTError where the loss or the gradient is no number.

    An fp16 overflow of the gradient is the scaler's business.
    """
    if not math.isfinite(nll_sum):
        what = f"loss is {nll_sum}"
    elif not math.isfinite(grad_norm) and not is_scaled:
        what = f"gradient norm is {grad_norm}"
    else:
        return
    raise NMTError(
        f"{what} at step {step}; earlier checkpoints are intact: lower "
        "train.lr or train.clip_norm and start anew, or go on from the last one"
    )
