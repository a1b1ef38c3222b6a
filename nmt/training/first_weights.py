"""The weights that a training begins with: drawn or of another run; frozen or not."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import TrainConfig
from nmt.errors import ConfigError, did_you_mean
from nmt.runs.find import find_run, split_checkpoint
from nmt.runs.trained_run import TrainedRun

_SHOWN = 5
"""Names of tensors in a line at most."""


def run_named(init_from: str) -> tuple[TrainedRun, str]:
    """The run and the checkpoint that train.init_from, RUN or RUN@CHECKPOINT, names.

    Raises CheckpointError if there is no such run.
    """
    path, checkpoint = split_checkpoint(Path(init_from).expanduser())
    return TrainedRun.open(find_run(path)), checkpoint or "best"


def set_first_weights(model: nn.Module, train: TrainConfig) -> list[str]:
    """Give `model` the weights of train.init_from; return lines about it.

    A tensor of the run is taken where the model has one of its name and shape. Raises ConfigError
    where nothing of a run fits, CheckpointError or DataError for a run that cannot be read.
    """
    if train.init_from is None:
        return []
    run, checkpoint = run_named(train.init_from)
    step, tensors = run.load_tensors(checkpoint, run.tokenizers())
    weights = dict(model.named_parameters())
    taken = [n for n in weights if n in tensors and tensors[n].shape == weights[n].shape]
    if not any(tensors[name].dim() > 1 for name in taken):  # biases fit any model
        raise ConfigError(
            f"train.init_from: {run.path}: none of its matrices has the name and the shape of one "
            "of this model"
        )
    with torch.no_grad():
        for name in taken:
            weights[name].copy_(tensors[name])
    lines = [f"first weights {run.path}, step {step:,}: {len(taken)} tensors"]
    if drawn := [name for name in weights if name not in taken]:
        more = f" and {len(drawn) - _SHOWN} more" if len(drawn) > _SHOWN else ""
        lines.append(f"              drawn anew: {', '.join(drawn[:_SHOWN])}{more}")
    return lines


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Exclude the weights whose names match `patterns` from learning; return a line about them.

    A pattern is a name with `*` for any characters. Raises ConfigError for one that matches no
    weight, and where no weight is left to learn.
    """
    weights = dict(model.named_parameters())
    for pattern in patterns:
        names = fnmatch.filter(weights, pattern)
        if not names:
            raise ConfigError(
                f"train.freeze: {pattern!r}: no weight has such a name"
                f"{did_you_mean(pattern, weights)}; there are {', '.join(weights)}"
            )
        for name in names:
            weights[name].requires_grad_(False)
    frozen = [weight for weight in weights.values() if not weight.requires_grad]
    if len(frozen) == len(weights):
        raise ConfigError("train.freeze: all weights are frozen, allowed: one that learns")
    n_frozen, n_all = (sum(map(Tensor.numel, tensors)) for tensors in (frozen, weights.values()))
    return [f"frozen        {n_frozen:,} of {n_all:,} parameters"] if frozen else []
