"""The three files of a checkpoint, with SHA-256 checksums.

model.safetensors holds the weights, and state.safetensors the other tensors of the training state.
In a packed run (runs/pack.py), matrices may be int8, and state.safetensors is missing. state.json
holds the state's JSON values, the checksums of the other files, and the seal: its own checksum.
"""

import errno
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from nmt.errors import CheckpointError
from nmt.settings.messages import first_fault
from nmt.storage.atomic import flush, write_bytes, write_json
from nmt.storage.bounded import check_inside, read_json
from nmt.storage.tensor_file import (
    SCALES,
    Specs,
    canonical_names,
    check_finite,
    int8_matrices,
    read_safetensors,
    specs_of,
)

FORMAT = 2
"""The version of the checkpoint format. nmt reads only checkpoints of this version."""

Tensors = dict[str, Tensor]
State = Mapping[str, object]

MODEL, STATE, JSON = "model.safetensors", "state.safetensors", "state.json"

_RUN = 2  # the index of RUN in the parents of RUN/checkpoints/step-000123/state.json


class DamagedCheckpointError(CheckpointError):
    """Raised if a file of a checkpoint is missing or altered. Other checkpoints may be intact."""


class StateFile(BaseModel):
    """The content of state.json."""

    model_config = ConfigDict(frozen=True, strict=True)

    seal: str
    step: int
    sha256: dict[str, str]
    state: dict[str, Any]


def write_files(
    folder: Path, step: int, model_tensors: Tensors, state_tensors: Tensors | None, state: State
) -> None:
    """Write a checkpoint into the empty `folder` and flush it to the disk.

    A tied tensor is written once, under its first name. No training can continue from a checkpoint
    without `state_tensors`.
    """
    files = {}
    for file, tensors in ((MODEL, model_tensors), (STATE, state_tensors)):
        if tensors is None:
            continue
        names = set(canonical_names(tensors).values())
        # Cloned, because safetensors refuses tensors that share memory.
        copies = {n: tensors[n].detach().cpu().contiguous().clone() for n in names}
        content_bytes = safetensors.torch.save(copies)
        files[file] = hashlib.sha256(content_bytes).hexdigest()
        write_bytes(folder / file, content_bytes)
    content = {"format": FORMAT, "step": step, "sha256": files, "state": dict(state)}
    write_json(folder / JSON, content | {"seal": _seal(content)}, allow_nan=True)
    flush(folder)


def read_state(path: Path) -> StateFile:
    """Read and check a state.json.

    Raises DamagedCheckpointError if it is damaged, and CheckpointError if it cannot be read or
    another version of nmt wrote it.
    """
    check_inside(path, path.parents[_RUN], CheckpointError)
    try:
        content = read_json(path, DamagedCheckpointError)
    except (OSError, DamagedCheckpointError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            raise _unreadable(path, cause) from None
        raise
    if not isinstance(content, dict):
        content = {}
    if "seal" in content and content["seal"] != _seal(content):
        raise DamagedCheckpointError(f"{path}: damaged: its content does not match its checksum")
    if (got := content.get("format")) != FORMAT:
        reason = "another version of nmt wrote this checkpoint"
        raise CheckpointError(f"{path}: got format {got!r}, allowed: {FORMAT}; {reason}")
    try:
        return StateFile.model_validate(content)
    except ValidationError as error:
        raise DamagedCheckpointError(f"{path}: damaged: {first_fault(error)}") from None


def read_tensors(path: Path, content: StateFile, expected: Specs | None = None) -> Tensors:
    """Return the tensors of the file `path`, after a check of its checksum in `content`.

    An int8 matrix with scales is dequantized to fp32. Raises DamagedCheckpointError if the file is
    damaged or a weight is NaN or infinite. Raises CheckpointError if the path leads out of the run,
    or if the tensors differ from `expected` (None: any), which is checked before they are loaded.
    """
    check_inside(path, path.parents[_RUN], CheckpointError)
    try:
        raw = read_safetensors(path, expected, DamagedCheckpointError)
    except OSError as error:
        raise _unreadable(path, error) from None
    if hashlib.sha256(raw).hexdigest() != content.sha256.get(path.name):
        raise DamagedCheckpointError(f"{path}: damaged: it does not match the checksum in {JSON}")
    try:
        tensors = safetensors.torch.load(raw)
    except SafetensorError as error:
        raise DamagedCheckpointError(f"{path}: damaged: {error}") from None
    for name in int8_matrices(specs_of(tensors)):
        tensors[name] = tensors[name] * tensors.pop(name + SCALES).unsqueeze(1)
    if path.name == MODEL:
        check_finite(tensors, str(path), DamagedCheckpointError)
    return tensors


def _seal(content: Mapping[str, object]) -> str:
    """Return the checksum of the values in state.json without the seal."""
    values = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    if isinstance(error, FileNotFoundError):
        return DamagedCheckpointError(f"{path}: missing; the checkpoint is damaged")
    # EIO, such as a bad sector, is damage; a lack of permission is not.
    kind = DamagedCheckpointError if error.errno == errno.EIO else CheckpointError
    return kind(f"{path}: cannot be read: {error.strerror}")
