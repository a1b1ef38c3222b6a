"""Checkpoint averaging: the mean of the weights of several checkpoints of one run.

Vaswani et al. 2017 (arXiv 1706.03762, section 6.1) translate with the mean of the last 5 or 20
checkpoints. Junczys-Dowmunt et al. 2016 (arXiv 1605.04809) average recurrent models.
"""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nmt.errors import CheckpointError
from nmt.runs.checkpoint_files import Tensors
from nmt.runs.lock import run_lock
from nmt.runs.trained_run import TrainedRun
from nmt.storage.run_files import check_tree


def write_average(run: TrainedRun, checkpoints: Sequence[str], name: str) -> tuple[Path, list[int]]:
    """Write the mean of `checkpoints` as the checkpoint `name` of the run, replacing an older one.

    Returns the folder of the new checkpoint and the steps of `checkpoints`, ascending. Trainings
    neither continue from the new checkpoint nor delete or label it. The sum is fp64, so that the
    order of `checkpoints` hardly matters. Checkpoints are loaded one at a time.

    Raises CheckpointError if a checkpoint is missing, damaged or listed twice, if `name` is not
    allowed, or if a training is writing to the run.
    """
    check_tree(run.path)
    folder, tokenizers = run.directory.checkpoint_folder, run.tokenizers()
    steps: list[int] = []
    sums: Tensors = {}
    with run_lock(run.path):
        folder.clear_leftovers()
        for which in checkpoints:
            step, tensors = run.load_tensors(which, tokenizers)
            if step in steps:
                raise CheckpointError(f"{run.path}: {which}: step {step} is listed twice")
            steps.append(step)
            for key, tensor in tensors.items():
                sums[key] = sums[key] + tensor if key in sums else tensor.double()
        first: dict[int, Tensor] = {}  # tied weights stay one tensor
        means = {
            key: first.setdefault(id(tensor), (sums[key] / len(steps)).to(tensor.dtype))
            for key, tensor in tensors.items()
        }
        return folder.save_named(name, max(steps), means, {"average": sorted(steps)}), sorted(steps)
