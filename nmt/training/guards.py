"""What ends a run with a line that says what to change: no memory, or numbers that are none."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch

from nmt.config import RunConfig, TrainConfig
from nmt.data.batching import Batch
from nmt.errors import NMTError
from nmt.models.base import Seq2Seq
from nmt.storage.tensor_file import check_finite


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
            f"from the last checkpoint, `train.batch_size={max(1, train.batch_size // 2)}` "
            f"`train.accumulate={2 * train.accumulate}` `allow_change`"
        ) from error


def memory_for_validation(step: int, config: RunConfig) -> NMTError:
    """What to say where a validation had too little; the step must be saved."""
    return NMTError(
        f"out of memory in the validation after step {step}, which is saved: to go on with it, "
        f"`search.batch_size={max(1, config.search.batch_size // 4)}`, or a smaller "
        "valid.beam with `allow_change`"
    )


class DivergedError(NMTError):
    """A loss, a gradient or a weight is NaN or infinite: such a state may not be saved."""


def refuse_nan(
    nll_sum: float, grad_norm: float, step: int, is_scaled: bool, saved: int | None
) -> None:
    """Raise DivergedError where the loss or the gradient is NaN or infinite.

    An fp16 overflow of the gradient is the scaler's business. `saved` is the last saved step.
    """
    if not math.isfinite(nll_sum):
        what = f"loss is {nll_sum}"
    elif not math.isfinite(grad_norm) and not is_scaled:
        what = f"gradient norm is {grad_norm}"
    else:
        return
    raise DivergedError(f"{what} at step {step}; {_way_out(saved)}")


def refuse_bad_weights(model: Seq2Seq, step: int, saved: int | None) -> None:
    """Raise DivergedError where a weight is NaN or infinite. `saved` is the last saved step."""
    try:
        check_finite(model.state_dict(), "the weights", DivergedError)
    except DivergedError as error:
        raise DivergedError(f"{error} after step {step}; {_way_out(saved)}") from None


def _way_out(saved: int | None) -> str:
    if saved is None:
        return "nothing was saved yet: lower train.lr or train.clip_norm and start anew"
    return (
        f"earlier checkpoints are intact: lower train.lr or train.clip_norm and start anew, or go "
        f"on from the last one, of step {saved:,}"
    )


class DivergenceWatch:
    """Reports once that the loss has diverged; training goes on.

    It has where the losses of training and validation are both at least twice that of a uniform
    guess, and twice that of the first update. Overfitting raises the validation loss alone, and
    large initial weights raise the loss of the first update too.
    """

    def __init__(self, tgt_vocab_size: int) -> None:
        self._guessing = math.log(tgt_vocab_size)
        self._first: float | None = None
        self._last = 0.0
        self._is_said = False

    def update(self, loss: float) -> None:
        """Note the loss of an update, in nats per target token."""
        self._last = loss
        if self._first is None:
            self._first = loss

    def words(self, valid_loss: float) -> str | None:
        """The report due after a validation, or None."""
        limit = 2 * max(self._guessing, self._first or 0.0)
        if self._is_said or min(self._last, valid_loss) < limit:
            return None
        self._is_said = True
        return (
            f"the loss has diverged: {self._last:,.1f} nats per target token in training, where a "
            f"uniform guess has {self._guessing:.1f}; stop (Ctrl-C) and begin another "
            "run with a lower train.lr or more train.schedule.warmup"
        )
