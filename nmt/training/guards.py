"""Errors that end a training, and warnings. Their messages tell the user what to change."""

import contextlib
import math
from collections.abc import Iterator

from nmt.config import RunConfig
from nmt.device import is_out_of_memory
from nmt.errors import NMTError
from nmt.evaluation.attention_health import AttentionHealth
from nmt.models.base import Seq2Seq
from nmt.storage.tensor_file import check_finite
from nmt.training.step import DivergedError
from nmt.training.validation import Validator, evenly_spaced


@contextlib.contextmanager
def explain_update_errors(step: int, config: RunConfig, saved_step: int | None) -> Iterator[None]:
    """Add advice to an out-of-memory error or a DivergedError of update `step` in this block."""
    try:
        yield
    except DivergedError as error:
        raise DivergedError(f"{error} at step {step}; {_way_out(saved_step)}") from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        train = config.train
        size = max(config.min_batch_size, train.batch_size // 2)
        way, change = "no checkpoint was saved yet: start again with ", ""
        if saved_step is not None:
            way = f"to continue from the last checkpoint (step {saved_step:,}): "
            change = " `allow_change`"
        way += f"`train.batch_size={size}` `train.accumulate={2 * train.accumulate}`{change}"
        if size == train.batch_size:
            way = "use a smaller model or a lower data.max_pieces, in another `run`"
        raise NMTError(f"out of memory at step {step}: {way}") from error


def validation_memory_error(step: int, validator: Validator) -> NMTError:
    """Return the error for a validation that ran out of memory after update `step`.

    Its message says how to continue from the checkpoint of `step`, which must be saved already.
    """
    n_examples = len(evenly_spaced(validator.examples, validator.config.max_examples))
    size = min(validator.search.batch_size, n_examples)
    ways = [
        *[f"`search.batch_size={max(1, size // 4)}`"] * (size > 1),
        *["a smaller valid.beam with `allow_change`"] * (validator.config.beam > 1),
        "another `run` with shorter sentences in data.valid",
    ]
    text = f"out of memory in the validation after step {step}, which is saved: to continue, use "
    return NMTError(text + ", or ".join(ways))


def check_finite_weights(model: Seq2Seq, step: int, saved_step: int | None) -> None:
    """Raise DivergedError if a weight is NaN or infinite after `step`.

    The message names the checkpoint of `saved_step`, if there is one, as a place to continue from.
    """
    try:
        check_finite(model.state_dict(), "the weights", DivergedError)
    except DivergedError as error:
        raise DivergedError(f"{error} after step {step}; {_way_out(saved_step)}") from None


def _way_out(saved_step: int | None) -> str:
    if saved_step is None:
        return "no checkpoint was saved yet: lower train.lr or train.clip_norm and start again"
    return (
        f"earlier checkpoints are intact: lower train.lr or train.clip_norm and start again, or "
        f"continue from the last one (step {saved_step:,})"
    )


def collapse_note(health: AttentionHealth | None) -> str | None:
    """Return a warning if attention has collapsed, else None.

    Callers ignore the first validation, since the model may not have learned to attend yet.
    """
    collapse = None if health is None else health.describe_collapse()
    return collapse and (
        f"attention has collapsed: {collapse}; translations may ignore their source (nmt "
        "attention shows where the model looks)"
    )


def divergence_note(loss: float, valid_loss: float, tgt_vocab_size: int) -> str | None:
    """Return a warning if the loss (nats per target token) has diverged, else None.

    The loss has diverged if the training loss and the validation loss are both at least twice the
    loss of a uniform distribution. Overfitting raises the validation loss only.
    """
    uniform_loss = math.log(tgt_vocab_size)
    if min(loss, valid_loss) < 2 * uniform_loss:
        return None
    return (
        f"the loss has diverged: {loss:,.1f} nats per target token in training, where a uniform "
        f"guess has {uniform_loss:.1f}; stop (Ctrl-C) and begin another run with a lower train.lr "
        "or more train.schedule.warmup"
    )
