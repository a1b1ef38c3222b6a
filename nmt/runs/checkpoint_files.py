"""The three files of one checkpoint, with checksums (SHA-256) that reveal damage to any bit.

model.safetensors has the weights, state.safetensors the other tensors of a training. state.json
has the plain values, the checksums of both files, and a checksum of itself, the seal.
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
from nmt.storage.bounded import read_json, stay_inside
from nmt.storage.tensor_file import Specs, check_finite, first_names, read_checked

FORMAT = 2
"""The version of the format, which another version of nmt may be unable to read."""

Tensors = dict[str, Tensor]

MODEL, STATE, JSON = "model.safetensors", "state.safetensors", "state.json"


class DamagedCheckpointError(CheckpointError):
    """The files differ from what was written. Another checkpoint may be intact."""


class StateFile(BaseModel):
    """The content of state.json."""

    model_config = ConfigDict(frozen=True, strict=True)

    seal: str
    step: int
    sha256: dict[str, str]
    state: dict[str, Any]


def write_files(
    folder: Path,
    step: int,
    model_tensors: Tensors,
    state_tensors: Tensors,
    state: Mapping[str, object],
) -> None:
    """Write a checkpoint into the empty `folder` and flush it to the disk.

    A tied tensor is written under its first name alone.
    """
    files = {}
    for file, tensors in ((MODEL, model_tensors), (STATE, state_tensors)):
        names = set(first_names(tensors).values())
        # Clones, for safetensors writes no two views of one block of memory.
        copies = {n: tensors[n].detach().cpu().contiguous().clone() for n in names}
        raw = safetensors.torch.save(copies)
        files[file] = hashlib.sha256(raw).hexdigest()
        write_bytes(folder / file, raw)
    content = {"format": FORMAT, "step": step, "sha256": files, "state": dict(state)}
    write_json(folder / JSON, content | {"seal": _seal(content)}, allow_nan=True)
    flush(folder)


def read_state(path: Path) -> StateFile:
    """The checked content of a state.json.

    Raises DamagedCheckpointError, or CheckpointError if another version wrote it.
    """
    stay_inside(path, _run_of(path), CheckpointError)
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
        raise DamagedCheckpointError(f"{path}: damaged: its content does not have its checksum")
    if content.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: got format {content.get('format')!r}, allowed: {FORMAT}; "
            "another version of nmt wrote this checkpoint"
        )
    try:
        return StateFile.model_validate(content)
    except ValidationError as error:
        raise DamagedCheckpointError(f"{path}: damaged: {first_fault(error)}") from None


def read_tensors(path: Path, content: StateFile, expected: Specs | None = None) -> Tensors:
    """The tensors of the file `path`, checked against the checksum that `content` has of it.

    Raises DamagedCheckpointError, also for a weight that is NaN or infinite; CheckpointError for a
    link out of the run, and for other tensors than those `expected`, before any is loaded.
    """
    stay_inside(path, _run_of(path), CheckpointError)
    try:
        raw = read_checked(path, expected, DamagedCheckpointError)
    except OSError as error:
        raise _unreadable(path, error) from None
    if hashlib.sha256(raw).hexdigest() != content.sha256.get(path.name):
        raise DamagedCheckpointError(
            f"{path}: damaged: its {len(raw)} bytes do not have the checksum in {JSON}"
        )
    try:
        tensors = safetensors.torch.load(raw)
    except SafetensorError as error:
        raise DamagedCheckpointError(f"{path}: damaged: {error}") from None
    if path.name == MODEL:
        check_finite(tensors, str(path), DamagedCheckpointError)
    return tensors


def _run_of(path: Path) -> Path:
    """The run directory of a checkpoint's file: RUN/checkpoints/step-000123/state.json."""
    return path.parents[2]


def _seal(content: Mapping[str, object]) -> str:
    """The checksum of the values in state.json, except for the seal itself."""
    sealed = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    if isinstance(error, FileNotFoundError):
        return DamagedCheckpointError(f"{path}: missing; the checkpoint is damaged")
    # A sector that is gone is damage; a file one may not read is not.
    kind = DamagedCheckpointError if error.errno == errno.EIO else CheckpointError
    return kind(f"{path}: cannot be read: {error.strerror}")
