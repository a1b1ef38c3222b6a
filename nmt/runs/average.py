"""The mean of the weights of several checkpoints of one run, as a checkpoint of its own.

Vaswani et al. 2017 (arXiv 1706.03762, section 6.1) translate with the mean of the last 5 or 20
checkpoints, Junczys-Dowmunt et al. 2016 (arXiv 1605.04809) with that of recurrent networks.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.errors import CheckpointError
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.checkpoints import CheckpointFolder
from nmt.runs.directory import RunDirectory
from nmt.runs.lock import run_lock
from nmt.storage.run_files import check_tree
from nmt.storage.tensor_file import spec_faults, specs_of


def write_average(
    run: RunDirectory, checkpoints: Sequence[str], name: str
) -> tuple[Path, list[int]]:
    """Write the mean of `checkpoints` as the run's checkpoint `name`, replacing an earlier one.

    Returns its folder and the steps that it comes from. No training continues from it, prunes it
    or moves a label to it. Raises CheckpointError as `mean_weights` does, for a name that is not
    allowed, and while a training writes in the run.
    """
    check_tree(run.path)
    folder = run.checkpoint_folder
    with run_lock(run.path):
        folder.clear_leftovers()
        steps, means = mean_weights(folder, checkpoints)
        return folder.save_named(name, steps[-1], means, {"average": steps}), steps


def mean_weights(folder: CheckpointFolder, checkpoints: Sequence[str]) -> tuple[list[int], Tensors]:
    """The steps of `checkpoints`, ascending, and the mean of each weight over them.

    One checkpoint is in memory at a time, beside the sum: in fp64, so that the mean is the same in
    any order but for the last rounding. Raises CheckpointError if a checkpoint is missing, damaged,
    there twice, or has other tensors or ties than the first; or if tensors of integers differ.
    """
    steps: list[int] = []
    sums: Tensors = {}
    ties: dict[str, str] = {}
    tensors: Tensors = {}
    for which in checkpoints:
        expected = specs_of(tensors)
        step, tensors = folder.load_weights(which)
        where = f"{folder.path}: cannot average {which} (step {step}) with {checkpoints[0]}"
        if step in steps:
            raise CheckpointError(f"{where}: this step is among them already")
        if steps and (faults := spec_faults(expected, specs_of(tensors))):
            raise CheckpointError(f"{where}: {faults[0]}")
        if steps and ties != _ties(tensors):
            raise CheckpointError(f"{where}: other tensors are tied")
        steps.append(step)
        ties = _ties(tensors)
        for name in set(ties.values()):
            tensor = tensors[name]
            if tensor.is_floating_point():
                sums[name] = sums[name] + tensor if name in sums else tensor.double()
            elif not torch.equal(sums.setdefault(name, tensor), tensor):
                raise CheckpointError(f"{where}: {name}: integers that differ have no mean")
    means = {
        name: (total / len(steps)).to(tensors[name].dtype) if total.is_floating_point() else total
        for name, total in sums.items()
    }
    return sorted(steps), {name: means[first] for name, first in ties.items()}


def _ties(tensors: Tensors) -> dict[str, str]:
    """The first name of the tensor that each name means."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}
