"""Packed runs: zip archives with all that translation needs, which commands accept as runs.

An archive holds the config, the run card, the tokenizers, the calibration of confidence, if any,
and the weights of one checkpoint, but no other training state. Unzipped, it is a run directory.

In an int8 archive, each fp32 matrix is stored as int8 with one scale for each row, the row's
largest magnitude / 127, and the members are deflated. Other tensors are unchanged. The loaded model
computes in fp32. An --int8 search uses the same integers with the archive as with the run.
"""

import atexit
import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.errors import CheckpointError
from nmt.ops.backend import operations
from nmt.runs.card import CARD
from nmt.runs.checkpoint_files import JSON, MODEL, Tensors, read_state, write_files
from nmt.runs.checkpoints import LABELS, LABELS_FILE, STEP_NAME
from nmt.runs.directory import CONFIDENCE, RunDirectory
from nmt.storage.bounded import check_inside, open_zip
from nmt.storage.output import atomic_output
from nmt.storage.tensor_file import SCALES

MAX_BYTES, MAX_MEMBERS = 64 << 30, 64
"""Limits on the bytes and on the number of files in an archive that is unpacked."""

MAX_RATIO = 10
"""Limit on the compression ratio of an archive; runs have a ratio of about 1.2."""

_DATE = (1980, 1, 1, 0, 0, 0)  # constant, so that equal runs give equal archives
_DAMAGE = OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError
_METHODS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_TOKENIZER = r"tokenizer/[a-z]{1,20}(\.[a-z]{1,20}){1,2}"
_CHECKPOINT = rf"checkpoints/({LABELS_FILE}|{STEP_NAME.pattern}/({JSON}|{MODEL}))"
_MEMBER = re.compile(rf"[^/]+/(config\.yaml|{CARD}|{CONFIDENCE}|{_TOKENIZER}|{_CHECKPOINT})")


def pack(
    run: RunDirectory, checkpoint: str, out: Path, force: bool = False, int8: bool = False
) -> None:
    """Write a run with one of its checkpoints to the archive `out`.

    In the archive, this checkpoint is `best` and `last`. With `int8`, matrices are stored as int8,
    and the calibration of confidence, which is valid for the exact weights, is left out. `out` must
    not exist unless `force` is set. Raises CheckpointError if the checkpoint is missing, damaged or
    a named one, and DataError if `out` cannot be written.
    """
    folder = run.checkpoint_folder
    step, tensors = folder.load_weights(checkpoint)  # checks the checksums
    path = folder.find(checkpoint)
    if not STEP_NAME.fullmatch(path.name):
        raise CheckpointError(f"{path}: a named checkpoint; allowed: best, last or step-NNNNNN")
    top = run.path.resolve().name
    confidence = run.path / CONFIDENCE
    files = [run.config_path, run.path / CARD]
    files += [confidence] * (confidence.is_file() and not int8)
    files += sorted(run.tokenizer_path.iterdir())
    for file in files:
        check_inside(file, run.path, CheckpointError)
    sources = {file.relative_to(run.path).as_posix(): file for file in files}
    method = zipfile.ZIP_DEFLATED if int8 else zipfile.ZIP_STORED
    with (
        tempfile.TemporaryDirectory(prefix="nmt-pack-") as scratch,
        atomic_output(out, force) as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        weights = path
        if int8:
            weights = Path(scratch)
            write_files(weights, step, quantize(tensors), None, read_state(path / JSON).state)
        sources |= {f"checkpoints/{path.name}/{name}": weights / name for name in (JSON, MODEL)}
        for name, file in sources.items():
            info = _member(f"{top}/{name}", method)
            with file.open("rb") as content, archive.open(info, "w") as member:
                shutil.copyfileobj(content, member, 1 << 20)
        labels = json.dumps(dict.fromkeys(LABELS, step))
        archive.writestr(_member(f"{top}/checkpoints/{LABELS_FILE}", method), labels)


def quantize(tensors: Tensors) -> Tensors:
    """Return the tensors with each fp32 matrix as int8, followed by the scales of its rows."""
    stored = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and tensor.dtype == torch.float32:
            stored[name], scales = operations("reference", tensor).quantize_rows(tensor)
            stored[name + SCALES] = scales.squeeze(1)
    return stored


def is_packed_run(path: Path) -> bool:
    """Return whether a file is a zip archive with a run's config.yaml in its folder."""
    if not (path.is_file() and zipfile.is_zipfile(path)):
        return False
    try:
        with open_zip(path) as archive:
            return any(re.fullmatch(r"[^/]+/config\.yaml", name) for name in archive.namelist())
    except _DAMAGE:
        return False


def unpack(archive: Path) -> Path:
    """Unpack a packed run to a folder that is deleted at exit; return the run directory in it.

    Raises CheckpointError if `archive` is damaged or has content that `pack` does not write.
    """
    folder = Path(tempfile.mkdtemp(prefix="nmt-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with open_zip(archive) as zip_file:
            for problem in _problems(zip_file, archive):
                raise CheckpointError(f"{archive}: not a packed run: {problem}")
            for member in zip_file.infolist():
                path = folder / member.filename
                check_inside(path, folder, CheckpointError)  # on Windows `C:x` is outside
                path.parent.mkdir(parents=True, exist_ok=True)
                with zip_file.open(member) as content, path.open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
    except _DAMAGE as error:
        raise CheckpointError(f"{archive}: not a packed run: {error}") from None
    return next(folder.iterdir())


def _problems(zip_file: zipfile.ZipFile, archive: Path) -> Iterator[str]:
    """Yield a description of names and sizes that `pack` does not write."""
    members = zip_file.infolist()
    if len(members) > MAX_MEMBERS:
        yield f"{len(members)} files, allowed: {MAX_MEMBERS}"
    tops = {member.filename.partition("/")[0] for member in members}
    names = {member.filename for member in members}
    if len(tops) != 1 or len(names) != len(members) or tops & {".", ".."}:
        yield "allowed: one folder, each file once"
    for member in members:
        if not _MEMBER.fullmatch(member.filename) or member.compress_type not in _METHODS:
            yield f"it contains {member.filename!r}; `nmt runs pack` writes packed runs"
    n_bytes = archive.stat().st_size
    largest = min(MAX_BYTES, MAX_RATIO * n_bytes)
    if sum(member.file_size for member in members) > largest:
        yield f"unpacks to more than {largest:,} bytes"
    if sum(member.compress_size for member in members) > n_bytes:
        yield "its files overlap"


def _member(name: str, method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = method
    info.external_attr = 0o644 << 16
    return info
