"""Initial weights from another run (train.init_from), and frozen weights (train.freeze)."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from nmt.config import RunConfig
from nmt.errors import ConfigError, did_you_mean
from nmt.runs.find import find_run, split_checkpoint
from nmt.runs.trained_run import TrainedRun

_MAX_NAMES = 5  # the largest number of tensor names in a line


def find_initial_run(init_from: str) -> tuple[TrainedRun, str]:
    """Return the run and the checkpoint that train.init_from = `init_from` names.

    `init_from` is RUN@CHECKPOINT, or RUN for RUN@best. Raises CheckpointError if there is no run.
    """
    path, checkpoint = split_checkpoint(Path(init_from).expanduser())
    return TrainedRun.open(find_run(path)), checkpoint or "best"


def copy_initial_weights(model: nn.Module, config: RunConfig) -> list[str]:
    """Copy the weights of the run train.init_from to `model`, and return lines for the log.

    A tensor is copied if `model` has a parameter of the same name and shape. Raises ConfigError if
    no matrix can be copied, and CheckpointError or DataError if the run cannot be read.
    """
    if config.train.init_from is None:
        return []
    run, checkpoint = find_initial_run(config.train.init_from)
    step, tensors = run.load_tensors(checkpoint, run.tokenizers())
    weights = dict(model.named_parameters())
    names = [n for n in weights if n in tensors and tensors[n].shape == weights[n].shape]
    if not any(tensors[name].dim() > 1 for name in names):  # biases fit any model
        problem = "none of its matrices has the name and the shape of a matrix of this model"
        raise ConfigError(f"train.init_from: {run.name}: {problem}")
    with torch.no_grad():
        for name in names:
            weights[name].copy_(tensors[name])
    lines = [f"first weights {run.name}, step {step:,}: {len(names)} tensors"]
    if run.config.data.reverse_target != config.data.reverse_target:
        lines.append("              of a model with a different data.reverse_target")
    if others := [name for name in weights if name not in names]:
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        lines.append(f"              drawn at random: {', '.join(others[:_MAX_NAMES])}{more}")
    return lines


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the weights whose names match one of `patterns`, and return lines for the log.

    In a pattern, `*` matches any characters. Raises ConfigError if a pattern matches no weight or
    if all weights are frozen.
    """
    weights = dict(model.named_parameters())
    for pattern in patterns:
        names = fnmatch.filter(weights, pattern)
        if not names:
            raise ConfigError(
                f"train.freeze: {pattern!r}: no weight has such a name"
                f"{did_you_mean(pattern, weights)}; the names are {', '.join(weights)}"
            )
        for name in names:
            weights[name].requires_grad_(False)
    frozen = [weight for weight in weights.values() if not weight.requires_grad]
    if len(frozen) == len(weights):
        raise ConfigError("train.freeze: all weights are frozen; leave at least one to learn")
    n_frozen, n_all = (sum(map(Tensor.numel, tensors)) for tensors in (frozen, weights.values()))
    return [f"frozen        {n_frozen:,} of {n_all:,} parameters"] if frozen else []
