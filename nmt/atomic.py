"""Files that appear whole or not at all: written aside, flushed to the disk, renamed."""

import hashlib
import json
import os
import shutil
from pathlib import Path

ASIDE = ".tmp-"
"""What the name of a thing not yet in place begins with."""


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: the old content or the new, never a part."""
    aside = path.with_name(f"{ASIDE}{path.name}")
    aside.write_text(text, encoding="utf-8")
    flush(aside)
    os.replace(aside, path)
    flush(path.parent)


def write_json(path: Path, value: object, allow_nan: bool = False) -> None:
    """Write JSON atomically; NaN and infinity, which JSON lacks, are a ValueError by default."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=allow_nan)
    write_text(path, f"{text}\n")


def flush(path: Path) -> None:
    """Have a file, or a folder's list of names, on the disk before anything follows."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def digest(path: Path, kind: str = "sha256") -> str:
    """The checksum of a file, in hexadecimal; `kind` is sha256 or sha1."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
