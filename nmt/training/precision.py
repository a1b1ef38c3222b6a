"""The number format of a training, precision once a run where train.precision is `auto`."""

from typing import cast

import torch

from nmt.config import RunConfig
from nmt.device import Precision, fast_bf16
from nmt.errors import CheckpointError
from nmt.runs.card import CARD
from nmt.runs.directory import RunDirectory
from nmt.storage.run_files import check_tree


def choose_precision(
    config: RunConfig, run: RunDirectory, device: torch.device, is_begun: bool
) -> tuple[Precision, str]:
    """The format of train.precision, and it in words with the reason, for run.json.

    A run that was begun (`is_begun`) keeps its format on any machine, because it could not go on
    bit for bit in another. Raises CheckpointError if run.json does not tell it.
    """
    if config.train.precision != "auto":
        return config.train.precision, config.train.precision
    fast = fast_bf16(device)
    precision: Precision = "bf16" if fast else "fp32"
    reason = f"{fast} of this device" if fast else "this device is not faster in bf16"
    if device.type == "cuda" and not fast:
        reason += "; train.precision=fp16 may be faster"
    if is_begun:
        begun = _begun(run)
        if begun != precision:
            reason += f", but the run was begun in {begun}"
        precision = begun
    return precision, f"{precision} (auto: {reason})"


def _begun(run: RunDirectory) -> Precision:
    """The format with which `run` was begun, by its run.json."""
    check_tree(run.path, (CARD,))
    try:
        words = str(run.read_json(CARD)["hardware"]["precision"])  # type: ignore[index]
    except (KeyError, TypeError):
        words = ""
    begun = words.partition(" ")[0]
    if begun not in ("fp32", "bf16", "fp16"):
        raise CheckpointError(f"{run.path / CARD}: damaged: it lacks hardware.precision")
    return cast(Precision, begun)
