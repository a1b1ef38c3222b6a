"""The checkpoints of a run: written atomically, and without pickles.

A checkpoint is a folder `step-000123` with three files (runs/checkpoint_files.py). A named
checkpoint, such as `average`, has another folder name; trainings neither continue from it nor
delete it. The file labels.json says which step is `best` and which is `last`. If a resumed training
meets a damaged checkpoint, it renames the folder to `damaged-step-000123`.
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
    State,
    StateFile,
    Tensors,
    read_state,
    read_tensors,
    write_files,
)
from nmt.storage.atomic import ASIDE, IS_WINDOWS, flush, remove, write_json
from nmt.storage.bounded import check_inside, read_json
from nmt.storage.tensor_file import Specs

LABELS_FILE, LABELS = "labels.json", ("best", "last")
STEP_NAME = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,17})")
"""The folder name of a checkpoint. Each step has exactly one such name."""

_NUMBER = re.compile(r"([0-9]{1,18})")
_OWN_NAME = re.compile(r"(?!step-|damaged-|(?:best|last)$)[a-z][a-z0-9-]{0,63}")
_REPLACED, _DOOMED, _DAMAGED = ".old-", ".del-", "damaged-"


@dataclass(frozen=True)
class CheckpointState:
    """The content of a checkpoint. Tensors are on the CPU; tied tensors occur once."""

    step: int
    model_tensors: Tensors
    state_tensors: Tensors
    state: dict[str, object]


@dataclass(frozen=True)
class CheckpointFolder:
    """The folder with the checkpoints of one run."""

    path: Path

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, ascending."""
        if not self.path.is_dir():
            return []
        folders = (p for p in self.path.iterdir() if p.is_dir() and not p.is_symlink())
        matches = [STEP_NAME.fullmatch(folder.name) for folder in folders]
        return sorted(int(match[1]) for match in matches if match)

    def labels(self) -> dict[str, int]:
        """Return the step of each label, `best` and `last`. A label may be missing.

        Labels are in a file, because symbolic links do not survive zip, object stores or Windows.
        Raises CheckpointError if the file is damaged or is a link out of the run.
        """
        path = self.path / LABELS_FILE
        check_inside(path, self.path.parent, CheckpointError)
        try:
            labels = read_json(path, CheckpointError)
        except FileNotFoundError:
            return {}
        if not isinstance(labels, dict) or not all(map(_is_label, labels.items())):
            raise CheckpointError(
                f'{path}: damaged: allowed: the steps of best and last, as in {{"best": 10, '
                '"last": 20}; remove it, and a resumed training writes it again'
            )
        return labels

    def folder_of(self, step: int) -> Path:
        """Return the path of a step's checkpoint, which may not exist."""
        return self.path / f"step-{step:06d}"

    def clear_leftovers(self) -> None:
        """Remove the files of killed saves, and restore a checkpoint that such a save had moved."""
        if not self.path.is_dir():
            return
        for entry in list(self.path.iterdir()):
            original = self.path / entry.name.removeprefix(_REPLACED)
            if entry.name.startswith(_REPLACED) and not original.exists():
                os.rename(entry, original)
            elif entry.name.startswith((ASIDE, _REPLACED, _DOOMED)):
                remove(entry)

    def save(self, step: int, model_tensors: Tensors, state_tensors: Tensors, state: State) -> Path:
        """Write the checkpoint of `step` atomically and return its folder.

        `state` holds JSON values. An older checkpoint of the same step is replaced. Raises OSError,
        which names the file, if the checkpoint cannot be written.
        """
        final = self.folder_of(step)
        with self._replacing(final) as folder:
            write_files(folder, step, model_tensors, state_tensors, state)
        return final

    def save_named(self, name: str, step: int, model_tensors: Tensors, state: State) -> Path:
        """Write weights as the checkpoint `name`, which can be loaded by this name only.

        `step` is the latest step among the checkpoints that the weights come from. Raises
        CheckpointError if `name` is not allowed, and OSError as `save` does.
        """
        if not _OWN_NAME.fullmatch(name):
            raise CheckpointError(
                f"{self.path}: got {name!r} as a checkpoint's name, allowed: at most 64 of a-z, "
                "0-9 and '-', a letter first, but not best, last, step-... or damaged-..."
            )
        final = self.path / name
        if final.exists() and not (final / MODEL).is_file():
            raise CheckpointError(f"{final}: exists and is no checkpoint; give another name")
        with self._replacing(final) as folder:
            write_files(folder, step, model_tensors, {}, state)
        return final

    @contextlib.contextmanager
    def _replacing(self, final: Path) -> Iterator[Path]:
        """Yield an empty folder that replaces `final` when the block ends without an error."""
        aside, replaced = (self.path / f"{start}{final.name}" for start in (ASIDE, _REPLACED))
        try:
            remove(aside)
            aside.mkdir()
            yield aside
            if final.exists():
                remove(replaced)
                # If the process dies after this rename, `find` reads the older checkpoint at
                # `replaced`, and `clear_leftovers` restores it.
                os.rename(final, replaced)
            os.rename(aside, final)
            flush(self.path)
            remove(replaced)
        except OSError:
            with contextlib.suppress(OSError):
                remove(aside)
            raise

    def set_labels(self, labels: Mapping[str, int]) -> None:
        """Replace all labels atomically."""
        write_json(self.path / LABELS_FILE, dict(sorted(labels.items())))

    def update_labels(self, labels: Mapping[str, int]) -> None:
        """Set `labels`, and keep other labels whose checkpoints exist."""
        others = {k: step for k, step in self.labels().items() if self.folder_of(step).is_dir()}
        self.set_labels({**others, **labels})

    def prune(self, keep: Iterable[int]) -> None:
        """Delete the checkpoints without a label whose steps are not in `keep`.

        Named checkpoints stay. On Windows, a checkpoint that another process is reading also stays
        until the next call.
        """
        for step in sorted({*self.steps()} - {*keep, *self.labels().values()}):
            folder = self.folder_of(step)
            doomed = self.path / f"{_DOOMED}{folder.name}"
            remove(doomed)
            # Renamed first, so that a half-deleted folder does not look like a checkpoint.
            try:
                os.rename(folder, doomed)
            except PermissionError:
                if IS_WINDOWS:
                    continue
                raise
            remove(doomed)

    def set_aside(self, step: int) -> Path:
        """Rename a damaged checkpoint to `damaged-step-000123` and return the new path."""
        damaged = self.path / f"{_DAMAGED}{self.folder_of(step).name}"
        remove(damaged)
        os.rename(self.folder_of(step), damaged)
        flush(self.path)
        return damaged

    def find(self, which: str) -> Path:
        """Return the folder of the checkpoint `which`: a label, `step-000123`, `123` or a name.

        Raises CheckpointError if there is no such checkpoint.
        """
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
        known = ", ".join([*labels, *names, *others])
        raise CheckpointError(f"{self.path}: no checkpoint {which!r}, there are: {known}")

    def _step_of(self, which: str) -> int | None:
        """Return the step of a label, `step-000123` or `123`, or None for a name or unset label."""
        if which in LABELS:
            return self.labels().get(which)
        match = STEP_NAME.fullmatch(which) or _NUMBER.fullmatch(which)
        return int(match[1]) if match else None

    def load(self, which: str) -> CheckpointState:
        """Load and check all files of a checkpoint. Raises CheckpointError if it is not intact."""
        return _load(self.find(which))

    def load_weights(self, which: str, expected: Specs | None = None) -> tuple[int, Tensors]:
        """Return the step and the model's tensors, which suffice for translation.

        If a training process moves the label `which` and deletes its folder during the read, the
        label is read again. Raises CheckpointError if the checkpoint is missing or damaged, or if
        its tensors do not match `expected` (None: any), which is checked before they are loaded.
        No other checkpoint is used instead, since its translations would differ.
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

    def checksum(self, which: str) -> str:
        """Return the SHA-256 of a checkpoint's weights. Raises CheckpointError if it is missing."""
        return _content(self.find(which)).sha256.get(MODEL, "")

    def load_newest(self) -> tuple[CheckpointState, dict[int, str]]:
        """Load the newest intact checkpoint; also return the faults of newer ones, by step.

        Raises CheckpointError if none is intact, or if a newer one is unreadable or of a different
        version of nmt.
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
            f"{self.path}: none of the {len(faults)} checkpoints is intact "
            f"(the newest: {next(iter(faults.values()))}); start anew in another `run`"
        )


def _content(folder: Path) -> StateFile:
    """Read state.json. Raises DamagedCheckpointError if its step does not fit the folder's name."""
    content = read_state(folder / JSON)
    name = folder.name.removeprefix(_REPLACED)
    if not _OWN_NAME.fullmatch(name) and name != f"step-{content.step:06d}":
        raise DamagedCheckpointError(f"{folder / JSON}: damaged: it says step {content.step}")
    return content


def _load(folder: Path) -> CheckpointState:
    content = _content(folder)
    if STATE not in content.sha256:
        advice = "no training can continue from it, but `train.init_from` can name its run"
        raise CheckpointError(f"{folder}: has weights without a training state; {advice}")
    return CheckpointState(
        step=content.step,
        model_tensors=read_tensors(folder / MODEL, content),
        state_tensors=read_tensors(folder / STATE, content),
        state=content.state,
    )


def _is_label(item: tuple[str, object]) -> bool:
    label, step = item
    return label in LABELS and type(step) is int and 0 <= step < 10**18
