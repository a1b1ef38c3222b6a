"""A run as one file: a zip archive of what translation needs, which commands read as a run.

It holds the config, the card, the tokenizers and the weights of one checkpoint, without the rest
of its training state. Unpacked by any program it is a run directory.
"""

import atexit
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from nmt.errors import CheckpointError
from nmt.runs.card import CARD
from nmt.runs.checkpoint_files import JSON, MODEL
from nmt.runs.checkpoints import LABELS, LABELS_FILE, STEP_NAME
from nmt.runs.directory import RunDirectory
from nmt.storage.bounded import open_zip, stay_inside
from nmt.storage.output import atomic_output

MAX_BYTES, MAX_MEMBERS = 64 << 30, 64
"""The largest packed run that is unpacked."""

_DATE = (1980, 1, 1, 0, 0, 0)  # equal runs give equal bytes
_TOKENIZER = r"tokenizer/[a-z]{1,20}(\.[a-z]{1,20}){1,2}"
_CHECKPOINT = rf"checkpoints/({LABELS_FILE}|{STEP_NAME.pattern}/({JSON}|{MODEL}))"
_MEMBER = re.compile(rf"[^/]+/(config\.yaml|{CARD}|{_TOKENIZER}|{_CHECKPOINT})")


def pack(run: RunDirectory, checkpoint: str, out: Path, force: bool = False) -> None:
    """Write the archive `out` of a run with one of its checkpoints, which becomes its `best`.

    `out` must be new unless `force`. Raises CheckpointError for a checkpoint that is absent,
    damaged or has a name of its own, DataError where `out` cannot be written.
    """
    folder = run.checkpoint_folder
    step, _ = folder.load_weights(checkpoint)  # checks every bit of them
    path = folder.find(checkpoint)
    if not STEP_NAME.fullmatch(path.name):
        raise CheckpointError(f"{path}: allowed: best, last or step-NNNNNN")
    top = run.path.resolve().name
    files = [run.config_path, run.path / CARD]
    files += sorted(run.tokenizer_path.iterdir())
    files += [path / JSON, path / MODEL]
    with atomic_output(out, force) as stream, zipfile.ZipFile(stream, "w") as archive:
        for file in files:
            name = f"{top}/{file.relative_to(run.path).as_posix()}"
            with file.open("rb") as content, archive.open(_member(name), "w") as member:
                shutil.copyfileobj(content, member, 1 << 20)
        labels = json.dumps(dict.fromkeys(LABELS, step))
        archive.writestr(_member(f"{top}/checkpoints/{LABELS_FILE}"), labels)


def unpacked(archive: Path) -> Path:
    """The run directory in a packed run, in a temporary folder that this process removes.

    Raises CheckpointError for any other file, and for members that `pack` does not write.
    """
    folder = Path(tempfile.mkdtemp(prefix="nmt-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with open_zip(archive) as packed:
            for member in _checked(packed, archive):
                path = folder / member.filename
                stay_inside(path, folder, CheckpointError)  # on Windows `C:x` is elsewhere
                path.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(member) as content, path.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{archive}: not a packed run: {error}") from None
    return next(folder.iterdir())


def _checked(packed: zipfile.ZipFile, archive: Path) -> Iterator[zipfile.ZipInfo]:
    """The members: few, stored, not compressed, and together no larger than the archive."""
    members = packed.infolist()
    if len(members) > MAX_MEMBERS:
        raise CheckpointError(
            f"{archive}: not a packed run: {len(members)} files, allowed: {MAX_MEMBERS}"
        )
    tops = {member.filename.partition("/")[0] for member in members}
    names = {member.filename for member in members}
    if len(tops) != 1 or len(names) != len(members) or tops & {".", ".."}:
        raise CheckpointError(f"{archive}: not a packed run: allowed: one folder, each file once")
    for member in members:
        if not _MEMBER.fullmatch(member.filename) or member.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(
                f"{archive}: not a packed run: {member.filename!r} is none of its files; "
                "`nmt runs pack` writes one"
            )
    largest = min(MAX_BYTES, archive.stat().st_size)  # members that overlap hold more
    if sum(member.file_size for member in members) > largest:
        raise CheckpointError(
            f"{archive}: not a packed run: unpacks to more than {largest:,} bytes"
        )
    yield from members


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.external_attr = 0o644 << 16
    return info
