"""Where a run ends: by updates, epochs, minutes or patience, whichever comes first."""

import math

from nmt.config import RunConfig, TrainConfig
from nmt.data.batching import Batcher
from nmt.errors import counted
from nmt.training.progress import Progress


def total_steps(train: TrainConfig, batcher: Batcher) -> int | None:
    """The number of updates, as far as the limits tell; None where only time limits them."""
    limits = [] if train.steps is None else [train.steps]
    if train.epochs is not None:
        limits.append(train.epochs * math.ceil(len(batcher.plan(0)) / train.accumulate))
    return min(limits, default=None)


def end_reason(config: RunConfig, done: Progress) -> str | None:
    """Why the run is over, or None."""
    train, valid = config.train, config.valid
    if train.steps is not None and done.step >= train.steps:
        return f"{counted(train.steps, 'step')} done"
    if train.epochs is not None and done.epoch >= train.epochs:
        return f"{counted(train.epochs, 'epoch')} done"
    if train.max_minutes is not None and done.seconds >= 60 * train.max_minutes:
        are = "is" if train.max_minutes == 1 else "are"
        return f"{counted(train.max_minutes, 'minute')} {are} over"
    if valid.patience is not None and done.bad_validations >= valid.patience:
        return f"no better BLEU in {counted(valid.patience, 'validation')}"
    return None
