"""Checkpoints on disk: each appears whole or not at all, and none is ever a pickle.

A checkpoint is a folder `step-000123` of three files: model.safetensors (the weights),
state.safetensors (the other tensors that training needs) and state.json (everything else, with
the checksums of the two). Names such as `last` are relative links beside it.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from nmt.atomic import ASIDE, flush, remove, write_json
from nmt.errors import CheckpointError

FORMAT = 1
"""The version of state.json that is written, and the only one that is read."""

Tensors = dict[str, Tensor]

_MODEL, _STATE, _JSON = "model.safetensors", "state.safetensors", "state.json"
_NAME = re.compile(r"\w[\w.-]*$")
_STEP_NAME = re.compile(r"step-(\d{6,})$")
_REPLACED, _DOOMED = ".old-", ".del-"


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint holds; tensors are on the CPU, tied ones share their storage again."""

    step: int
    model_tensors: Tensors
    state_tensors: Tensors
    state: dict[str, object]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run."""

    path: Path

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, ascending."""
        if not self.path.is_dir():
            return []
        found = [_STEP_NAME.match(entry.name) for entry in self.path.iterdir() if entry.is_dir()]
        return sorted(int(match[1]) for match in found if match)

    def labels(self) -> list[str]:
        """The names that point to a checkpoint: best, last."""
        if not self.path.is_dir():
            return []
        return sorted(p.name for p in self.path.iterdir() if p.name[0] != "." and p.is_symlink())

    def clear_leftovers(self) -> None:
        """Remove what a killed save left behind, and bring back what it was about to replace."""
        if not self.path.is_dir():
            return
        for entry in list(self.path.iterdir()):
            original = self.path / entry.name.removeprefix(_REPLACED)
            if entry.name.startswith(_REPLACED) and not original.exists():
                os.rename(entry, original)
            elif entry.name.startswith((ASIDE, _REPLACED, _DOOMED)):
                remove(entry)

    def save(
        self, step: int, model_tensors: Tensors, state_tensors: Tensors, state: Mapping[str, object]
    ) -> Path:
        """Write the checkpoint of `step`; `state` is fit for JSON. Returns its folder.

        Written aside, flushed to the disk, then renamed: whenever the process dies, the folder
        is whole or absent. A checkpoint of the same step is replaced.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        final = self.path / f"step-{step:06d}"
        aside = self.path / f"{ASIDE}{final.name}"
        if aside.exists():
            remove(aside)
        aside.mkdir()
        files, aliases = {}, {}
        for name, tensors in ((_MODEL, model_tensors), (_STATE, state_tensors)):
            unique, aliases[name] = _without_twins(tensors)
            raw = safetensors.torch.save(unique)
            files[name] = hashlib.sha256(raw).hexdigest()
            (aside / name).write_bytes(raw)
            flush(aside / name)
        content = {
            "format": FORMAT,
            "step": step,
            "sha256": files,
            "aliases": aliases,
            "state": dict(state),
        }
        write_json(aside / _JSON, content, allow_nan=True)
        flush(aside)
        self._put_in_place(aside, final)
        return final

    def _put_in_place(self, aside: Path, final: Path) -> None:
        replaced = self.path / f"{_REPLACED}{final.name}"
        if final.exists():
            if replaced.exists():
                remove(replaced)
            # Killed after this rename, the older checkpoint is at `replaced`: `find` reads it
            # there, and `clear_leftovers` brings it back.
            os.rename(final, replaced)
        os.rename(aside, final)
        flush(self.path)
        if replaced.exists():
            remove(replaced)

    def point(self, label: str, step: int) -> None:
        """Make `label` (best, last) mean the checkpoint of `step`, in one atomic move."""
        target = f"step-{step:06d}"
        if not (self.path / target).is_dir():
            raise CheckpointError(f"{self.path / target}: no such checkpoint to call '{label}'")
        link, aside = self.path / label, self.path / f"{ASIDE}{label}"
        if link.exists() and not link.is_symlink():
            raise CheckpointError(
                f"{link}: a folder stands where a link is to be (did a copy follow the links?); "
                "remove it"
            )
        aside.unlink(missing_ok=True)
        aside.symlink_to(target)
        os.replace(aside, link)
        flush(self.path)

    def prune(self, keep_last: int) -> None:
        """Delete all but the newest `keep_last` checkpoints and those that a label points to."""
        pointed = {os.readlink(self.path / label) for label in self.labels()}
        for step in self.steps()[:-keep_last] if keep_last else self.steps():
            name = f"step-{step:06d}"
            if name not in pointed:
                doomed = self.path / f"{_DOOMED}{name}"
                if doomed.exists():
                    remove(doomed)
                # Renamed first: no half-deleted folder ever has a checkpoint's name.
                os.rename(self.path / name, doomed)
                remove(doomed)

    def find(self, which: str) -> Path:
        """The folder of `best`, `last`, `step-000123` or `123`; CheckpointError if absent."""
        name = f"step-{int(which):06d}" if which.isdecimal() else which
        if _NAME.match(name):
            link = self.path / name
            name = os.readlink(link) if link.is_symlink() else name
            for candidate in (self.path / name, self.path / f"{_REPLACED}{name}"):
                if candidate.is_dir():
                    return candidate
        there = [*self.labels(), *(f"step-{step:06d}" for step in self.steps())]
        if not there:
            raise CheckpointError(f"{self.path}: no checkpoint here yet")
        hint = " (no validation has chosen one yet)" if which == "best" else ""
        raise CheckpointError(
            f"{self.path}: no checkpoint '{which}'{hint}, there are: {', '.join(there)}"
        )

    def load(self, which: str) -> CheckpointState:
        """All of a checkpoint, checked against its checksums."""
        folder = self.find(which)
        content = _read_state(folder / _JSON)
        return CheckpointState(
            step=content.step,
            model_tensors=_read_tensors(folder / _MODEL, content),
            state_tensors=_read_tensors(folder / _STATE, content),
            state=content.state,
        )

    def load_weights(self, which: str) -> tuple[int, Tensors]:
        """The step and the model's tensors alone, which is all that translation needs."""
        folder = self.find(which)
        content = _read_state(folder / _JSON)
        return content.step, _read_tensors(folder / _MODEL, content)


@dataclass(frozen=True)
class _StateFile:
    step: int
    sha256: dict[str, str]
    aliases: dict[str, dict[str, str]]
    state: dict[str, object]


def _without_twins(tensors: Tensors) -> tuple[Tensors, dict[str, str]]:
    """The tensors without those that are another one's storage, and the name of that other."""
    unique: Tensors = {}
    aliases: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, tensor in tensors.items():
        # An empty tensor has no address to know it by.
        view = (tensor.data_ptr() or name, tensor.dtype, tensor.shape, tensor.stride())
        if view in first:
            aliases[name] = first[view]
        else:
            first[view] = name
            unique[name] = tensor.detach().cpu().contiguous().clone()
    return unique, aliases


def _read_state(path: Path) -> _StateFile:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing; the checkpoint is damaged") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: not JSON ({error})") from None
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise CheckpointError(
            f"{path}: got format {version!r}, allowed: {FORMAT}; "
            "another version of nmt wrote this checkpoint"
        )
    try:
        return _StateFile(content["step"], content["sha256"], content["aliases"], content["state"])
    except KeyError as error:
        raise CheckpointError(f"{path}: damaged: it lacks {error}") from None


def _read_tensors(path: Path, content: _StateFile) -> Tensors:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing; the checkpoint is damaged") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    if hashlib.sha256(raw).hexdigest() != content.sha256.get(path.name):
        raise CheckpointError(
            f"{path}: damaged: its {len(raw)} bytes do not have the checksum in {_JSON}"
        )
    try:
        tensors = safetensors.torch.load(raw)
    except SafetensorError as error:
        raise CheckpointError(f"{path}: damaged: {error}") from None
    tensors.update({name: tensors[twin] for name, twin in content.aliases[path.name].items()})
    return tensors
