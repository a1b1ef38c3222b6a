"""Checkpoints on disk: each appears complete or not at all, and none is a pickle.

A checkpoint is a folder `step-000123` of three files (runs/checkpoint_files.py), or one of another
name, such as `average`, which no training continues from or deletes. The file
labels.json beside it says which one is `best` and which `last`. A damaged checkpoint that a
resumed training finds is renamed to `damaged-step-000123`, so that its user may save parts of it.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.runs.checkpoint_files import (
    JSON,
    MODEL,
    STATE,
    DamagedCheckpointError,
    StateFile,
    Tensors,
    read_state,
    read_tensors,
    write_files,
)
from nmt.storage.atomic import ASIDE, IS_WINDOWS, flush, remove, write_json
from nmt.storage.bounded import read_json, stay_inside
from nmt.storage.tensor_file import Specs

LABELS_FILE, LABELS = "labels.json", ("best", "last")
STEP_NAME = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,17})")
"""The full name of a checkpoint's folder: each step has one name."""

_NUMBER = re.compile(r"([0-9]{1,18})")
_OWN_NAME = re.compile(r"(?!step-|damaged-|(?:best|last)$)[a-z][a-z0-9-]{0,63}")
_REPLACED, _DOOMED, _DAMAGED = ".old-", ".del-", "damaged-"


@dataclass(frozen=True)
class CheckpointState:
    """The content of a checkpoint. Tensors are on the CPU; tied ones have their first name."""

    step: int
    model_tensors: Tensors
    state_tensors: Tensors
    state: dict[str, object]


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run."""

    path: Path

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        if not self.path.is_dir():
            return []
        folders = (p for p in self.path.iterdir() if p.is_dir() and not p.is_symlink())
        matches = [STEP_NAME.fullmatch(folder.name) for folder in folders]
        return sorted(int(match[1]) for match in matches if match)

    def labels(self) -> dict[str, int]:
        """The step of each label, `best` and `last`, that is set.

        One small file has them: symbolic links do not survive zip, object stores or Windows.
        Raises CheckpointError for a damaged file, and for a link out of the run.
        """
        path = self.path / LABELS_FILE
        stay_inside(path, self.path.parent, CheckpointError)
        try:
            labels = read_json(path, CheckpointError)
        except FileNotFoundError:
            return {}
        if not isinstance(labels, dict) or not all(map(_is_label, labels.items())):
            raise CheckpointError(
                f'{path}: damaged: allowed: the steps of best and last, as in {{"best": 10, '
                '"last": 20}; remove it, and a training that goes on writes it anew'
            )
        return labels

    def folder_of(self, step: int) -> Path:
        """The folder of a step's checkpoint, which may be absent."""
        return self.path / f"step-{step:06d}"

    def clear_leftovers(self) -> None:
        """Remove the leftovers of a killed save, and restore a checkpoint that it was replacing."""
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
        """Write the checkpoint of `step`; `state` has JSON values. Returns its folder.

        The files are written to a temporary folder, flushed to the disk and renamed: if the
        process dies, the checkpoint is complete or absent. A checkpoint of the same step is
        replaced. Raises OSError, which names the file; the temporary folder is then removed if
        the disk allows it.
        """
        final = self.folder_of(step)
        with self._replacing(final) as aside:
            write_files(aside, step, model_tensors, state_tensors, state)
        return final

    def save_named(
        self, name: str, step: int, model_tensors: Tensors, state: Mapping[str, object]
    ) -> Path:
        """Write weights as the checkpoint `name`, as `save` does; raises CheckpointError for a name
        that is not allowed.

        `step` is the last one that they come from. Such a checkpoint is read by its name alone.
        """
        if not _OWN_NAME.fullmatch(name):
            raise CheckpointError(
                f"{self.path}: got {name!r} as a checkpoint's name, allowed: a-z, 0-9 and '-', a "
                "letter first, at most 64; none of best, last, step-, damaged-"
            )
        final = self.path / name
        if final.exists() and not (final / MODEL).is_file():
            raise CheckpointError(f"{final}: exists and is no checkpoint; give another name")
        with self._replacing(final) as aside:
            write_files(aside, step, model_tensors, {}, state)
        return final

    @contextlib.contextmanager
    def _replacing(self, final: Path) -> Iterator[Path]:
        """Give an empty folder, which becomes `final` when the block ends without an error."""
        aside, replaced = (self.path / f"{start}{final.name}" for start in (ASIDE, _REPLACED))
        try:
            if aside.exists():
                remove(aside)
            aside.mkdir()
            yield aside
            if final.exists():
                if replaced.exists():
                    remove(replaced)
                # If the process dies after this rename, `find` reads the older checkpoint at
                # `replaced`, and `clear_leftovers` restores it.
                os.rename(final, replaced)
            os.rename(aside, final)
            flush(self.path)
            if replaced.exists():
                remove(replaced)
        except OSError:
            with contextlib.suppress(OSError):
                remove(aside)
            raise

    def set_labels(self, labels: Mapping[str, int]) -> None:
        """Replace all labels atomically."""
        write_json(self.path / LABELS_FILE, dict(sorted(labels.items())))

    def point(self, labels: Mapping[str, int]) -> None:
        """Set these labels. Another one is kept if its checkpoint exists."""
        others = {k: step for k, step in self.labels().items() if self.folder_of(step).is_dir()}
        self.set_labels({**others, **labels})

    def prune(self, keep: Iterable[int]) -> None:
        """Delete all checkpoints except those of the steps `keep` and those with a label.

        One that another process reads stays until the next time where the system, as Windows does,
        refuses to rename it.
        """
        for step in sorted({*self.steps()} - {*keep, *self.labels().values()}):
            folder = self.folder_of(step)
            doomed = self.path / f"{_DOOMED}{folder.name}"
            if doomed.exists():
                remove(doomed)
            # Renamed first: no half-deleted folder ever has a checkpoint's name.
            try:
                os.rename(folder, doomed)
            except PermissionError:
                if IS_WINDOWS:
                    continue
                raise
            remove(doomed)

    def set_aside(self, step: int) -> Path:
        """Rename a damaged checkpoint, so that nothing reads it. Returns its new folder."""
        damaged = self.path / f"{_DAMAGED}{self.folder_of(step).name}"
        if damaged.exists():
            remove(damaged)
        os.rename(self.folder_of(step), damaged)
        flush(self.path)
        return damaged

    def find(self, which: str) -> Path:
        """The folder of a label, `step-000123`, `123` or a name; CheckpointError if absent."""
        step = self._step_of(which)
        if step is not None or _OWN_NAME.fullmatch(which):
            folder = self.path / which if step is None else self.folder_of(step)
            for candidate in (folder, self.path / f"{_REPLACED}{folder.name}"):
                if candidate.is_symlink():
                    raise CheckpointError(f"{candidate}: a symbolic link, expected a folder")
                if candidate.is_dir():
                    return candidate
        steps = self.steps()
        if not steps:
            raise CheckpointError(f"{self.path}: no checkpoint here yet")
        labels = [label for label, step in self.labels().items() if step in steps]
        names = [self.folder_of(step).name for step in steps]
        others = sorted(p.name for p in self.path.iterdir() if _OWN_NAME.fullmatch(p.name))
        raise CheckpointError(
            f"{self.path}: no checkpoint {which!r}, there are: "
            f"{', '.join([*labels, *names, *others])}"
        )

    def _step_of(self, which: str) -> int | None:
        """The step of a label, a folder's name or a number; None for another text."""
        if which in LABELS:
            return self.labels().get(which)
        match = STEP_NAME.fullmatch(which) or _NUMBER.fullmatch(which)
        return int(match[1]) if match else None

    def load(self, which: str) -> CheckpointState:
        """All of a checkpoint, checked against its checksums; raises CheckpointError."""
        return _load(self.find(which))

    def load_weights(self, which: str, expected: Specs | None = None) -> tuple[int, Tensors]:
        """The step and the model's tensors, which is all that translation needs.

        Raises CheckpointError for other tensors than those `expected`, before any is loaded. A
        damaged checkpoint is never replaced by another, for a result must come from the requested
        model. It is read again if a training has meanwhile moved the label and deleted the folder.
        """
        while True:
            step = self._step_of(which)
            try:
                folder = self.find(which)
                content = _content(folder)
                return content.step, read_tensors(folder / MODEL, content, expected)
            except CheckpointError:
                if self._step_of(which) == step:
                    raise

    def load_newest(self) -> tuple[CheckpointState, dict[int, str]]:
        """The newest intact checkpoint, and the faults of newer ones by step.

        Raises CheckpointError if none is intact, or if another version of nmt wrote it.
        """
        faults: dict[int, str] = {}
        for step in reversed(self.steps()):
            try:
                return _load(self.folder_of(step)), faults
            except DamagedCheckpointError as error:
                faults[step] = str(error)
        if not faults:
            raise CheckpointError(f"{self.path}: no checkpoint here yet")
        raise CheckpointError(
            f"{self.path}: none of the {len(faults)} checkpoints is whole "
            f"(the newest: {next(iter(faults.values()))}); start anew in another `run`"
        )


def _content(folder: Path) -> StateFile:
    """The content of state.json. Raises DamagedCheckpointError if it is of another step."""
    content = read_state(folder / JSON)
    name = folder.name.removeprefix(_REPLACED)
    if not _OWN_NAME.fullmatch(name) and name != f"step-{content.step:06d}":
        raise DamagedCheckpointError(f"{folder / JSON}: damaged: it says step {content.step}")
    return content


def _load(folder: Path) -> CheckpointState:
    content = _content(folder)
    return CheckpointState(
        step=content.step,
        model_tensors=read_tensors(folder / MODEL, content),
        state_tensors=read_tensors(folder / STATE, content),
        state=content.state,
    )


def _is_label(item: tuple[str, object]) -> bool:
    label, step = item
    return label in LABELS and type(step) is int and 0 <= step < 10**18
