"""Members of zip and tar archives, read in place.

A tar archive has no table of contents, so it is read from the start until the member is reached.
A tar header is refused if it is large, points backwards, or follows too much decompressed data.
"""

import contextlib
import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from nmt.errors import DataError
from nmt.storage.bounded import open_zip

TAR = (".tar", ".tar.gz", ".tgz")  # name endings of supported tar archives
MAX_READ = 1 << 20  # largest read in bytes; tarfile reads a header in one piece

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Zip methods that zipfile decompresses in small parts, unlike bzip2 and LZMA."""


def is_tar(path: Path) -> bool:
    return path.name.lower().endswith(TAR)


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def is_packed(path: Path) -> bool:
    """Return whether the file name has the ending of an archive or a compressed file."""
    return is_tar(path) or path.suffix.lower() in (".zip", ".gz")


def split_member(path: Path) -> tuple[Path, str | None]:
    """Split a path into an archive on disk and its member, or return `path` and None."""
    for parent in path.parents:
        if (is_zip(parent) or is_tar(parent)) and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


@contextlib.contextmanager
def zip_member(archive: Path, member: str | None) -> Iterator[tuple[IO[bytes], str]]:
    """Open a member of a zip archive, and yield its stream and a name for error messages.

    Without `member`, the only .txt or .tsv file is opened. Raises DataError if the member is
    missing, if there is not exactly one such file, or if the method is not deflate or stored.
    """
    with open_zip(archive) as zip_file:
        names = [name for name in zip_file.namelist() if not name.endswith("/")]
        matches = [name for name in names if name == member or (member is None and _is_text(name))]
        if len(matches) != 1:
            what = "no such member" if member else f"holds {len(matches)} .txt/.tsv files"
            raise _no_member(archive / (member or ""), what, names)
        name = f"{archive}/{matches[0]}"
        if zip_file.getinfo(matches[0]).compress_type not in _BOUNDED:
            problem = "compressed by a method that cannot be read within limits"
            raise DataError(f"{name}: {problem}, allowed: deflate, stored")
        with zip_file.open(matches[0]) as stream:
            yield stream, name


def _is_text(name: str) -> bool:
    """Return whether a zip member is a corpus text, unlike _about.txt and files added by macOS."""
    base = name.rsplit("/", maxsplit=1)[-1]
    return base.lower().endswith((".txt", ".tsv")) and not base.startswith((".", "_"))


def _no_member(path: Path, what: str, names: Sequence[str]) -> DataError:
    items = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return DataError(f"{path}: {what}; it holds: {items or 'nothing'}; name one as ARCHIVE/MEMBER")


@contextlib.contextmanager
def tar_member(archive: Path, member: str | None, max_bytes: int) -> Iterator[io.BufferedIOBase]:
    """Open a regular file in a tar archive, and decompress it if its name ends in .gz.

    If several members have the name, the first is used. Raises DataError if the member is missing
    or not a regular file. Raises tarfile.TarError if a header is refused, or if the archive unpacks
    to more than `max_bytes`, and OSError, EOFError or zlib.error if a .gz is damaged.
    """
    with contextlib.ExitStack() as stack:
        raw: io.BufferedIOBase = stack.enter_context(archive.open("rb"))
        if not archive.name.lower().endswith(".tar"):
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
        tar = stack.enter_context(tarfile.TarFile(fileobj=cast(Any, _Forward(raw, max_bytes))))
        reader = tar.extractfile(_find(tar, archive, str(PurePosixPath(member or ""))))
        assert isinstance(reader, io.BufferedIOBase)  # a regular file
        text = stack.enter_context(reader)
        if member and member.lower().endswith(".gz"):
            text = stack.enter_context(gzip.GzipFile(fileobj=text))
        yield text


def _find(tar: tarfile.TarFile, archive: Path, name: str) -> tarfile.TarInfo:
    names: list[str] = []
    for info in iter(tar.next, None):
        tar.members.clear()  # type: ignore[attr-defined]  # the list would grow with each header
        if str(PurePosixPath(info.name)) == name:
            if info.isreg() and not info.issparse():
                return info
            raise DataError(f"{archive}/{name}: not a plain file in the archive")
        names = [*names, info.name][:9] if info.isreg() else names
    raise _no_member(archive / name, "no such member", names)


class _Forward:
    """A forward-only stream with size limits, for tarfile."""

    def __init__(self, raw: io.BufferedIOBase, max_bytes: int) -> None:
        self._raw, self._max_bytes = raw, max_bytes
        self._position = 0

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._position

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes, or fewer at the end."""
        if not 0 <= n <= MAX_READ:
            raise tarfile.ReadError(f"a header of {n:,} bytes, allowed: {MAX_READ:,}")
        content = self._raw.read(n)
        self._position += len(content)
        if self._position > self._max_bytes:
            limit = f"the {self._max_bytes:,} bytes allowed for its size"
            raise tarfile.ReadError(f"unpacks to more than {limit}")
        return content

    def seek(self, position: int) -> None:
        """Skip to `position`, or to the end, where later reads return no bytes."""
        if position < self._position:
            raise tarfile.ReadError("a header that points backwards")
        if self._raw.seekable():
            self._position = self._raw.seek(position)
        while self._position < position and self.read(min(MAX_READ, position - self._position)):
            pass
