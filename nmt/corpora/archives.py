"""Members of zip and tar archives, read in place.

A tar has no table of contents: a member is found by reading the archive up to it. Headers that ask
for much memory, lead backwards, or stand behind an endless text are refused.
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

TAR = (".tar", ".tar.gz", ".tgz")
"""Endings of tar archives that are read."""

MAX_READ = 1 << 20
"""Bytes read at once. A header of a member, which tarfile reads whole, has some hundred."""

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Zip methods that zipfile decompresses on demand. It decompresses bzip2 and LZMA whole."""


def is_tar(path: Path) -> bool:
    """Whether the name is that of a tar archive."""
    return path.name.lower().endswith(TAR)


def is_zip(path: Path) -> bool:
    """Whether the name is that of a zip archive."""
    return path.suffix.lower() == ".zip"


def is_packed(path: Path) -> bool:
    """Whether the name is that of an archive or of a compressed file."""
    return is_tar(path) or path.suffix.lower() in (".zip", ".gz")


def split_member(path: Path) -> tuple[Path, str | None]:
    """The archive on disk that a path leads into, and the member; the path itself without any."""
    for parent in path.parents:
        if (is_zip(parent) or is_tar(parent)) and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


@contextlib.contextmanager
def zip_member(archive: Path, member: str | None) -> Iterator[tuple[IO[bytes], str]]:
    """The bytes of a member, by default of the only text, and its name in errors.

    Raises DataError where it is not there, or packed by another method than deflate.
    """
    with open_zip(archive) as opened:
        names = [name for name in opened.namelist() if not name.endswith("/")]
        matches = [name for name in names if name == member or (member is None and _is_text(name))]
        if len(matches) != 1:
            what = "no such member" if member else f"holds {len(matches)} .txt/.tsv files"
            raise _no_member(archive / (member or ""), what, names)
        shown = f"{archive}/{matches[0]}"
        if opened.getinfo(matches[0]).compress_type not in _BOUNDED:
            raise DataError(
                f"{shown}: packed by a method that cannot be read within limits, allowed: deflate, "
                "stored"
            )
        with opened.open(matches[0]) as stream:
            yield stream, shown


def _is_text(name: str) -> bool:
    """Whether a zip member is text of a corpus: not _about.txt, not a file that macOS adds."""
    base = name.rsplit("/", maxsplit=1)[-1]
    return base.lower().endswith((".txt", ".tsv")) and not base.startswith((".", "_"))


def _no_member(path: Path, what: str, names: Sequence[str]) -> DataError:
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return DataError(f"{path}: {what}; it holds: {shown or 'nothing'}; name one as ARCHIVE/MEMBER")


@contextlib.contextmanager
def tar_member(archive: Path, member: str | None, max_bytes: int) -> Iterator[io.BufferedIOBase]:
    """The bytes of a regular file in the archive, unpacked once more where its name ends in .gz.

    Of several members of one name it is the first. At most `max_bytes` of the archive are unpacked
    to find it. Raises DataError where it is not there, tarfile.TarError for a bad header, and
    OSError, EOFError or zlib.error for a damaged .gz.
    """
    with contextlib.ExitStack() as stack:
        raw: io.BufferedIOBase = stack.enter_context(archive.open("rb"))
        if not archive.name.lower().endswith(".tar"):
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
        opened = stack.enter_context(tarfile.TarFile(fileobj=cast(Any, _Forward(raw, max_bytes))))
        reader = opened.extractfile(_find(opened, archive, str(PurePosixPath(member or ""))))
        assert isinstance(reader, io.BufferedIOBase)  # it is a regular file
        text = stack.enter_context(reader)
        if member and member.lower().endswith(".gz"):
            text = stack.enter_context(gzip.GzipFile(fileobj=text))
        yield text


def _find(opened: tarfile.TarFile, archive: Path, name: str) -> tarfile.TarInfo:
    names: list[str] = []
    for info in iter(opened.next, None):
        opened.members.clear()  # type: ignore[attr-defined]  # it would keep all that it has seen
        if str(PurePosixPath(info.name)) == name:
            if info.isreg() and not info.issparse():
                return info
            raise DataError(f"{archive}/{name}: not a plain file in the archive")
        names = [*names, info.name][:9] if info.isreg() else names
    raise _no_member(archive / name, "no such member", names)


class _Forward:
    """A stream that is only read onwards and within limits, as tarfile reads it."""

    def __init__(self, raw: io.BufferedIOBase, max_bytes: int) -> None:
        self._raw, self._max_bytes = raw, max_bytes
        self._place = 0

    def seekable(self) -> bool:
        """tarfile asks; `seek` goes onwards only."""
        return False

    def tell(self) -> int:
        """Bytes from the beginning."""
        return self._place

    def read(self, n: int) -> bytes:
        """The next `n` bytes, fewer at the end."""
        if not 0 <= n <= MAX_READ:
            raise tarfile.ReadError(f"a header of {n:,} bytes, allowed: {MAX_READ:,}")
        content = self._raw.read(n)
        self._place += len(content)
        if self._place > self._max_bytes:
            raise tarfile.ReadError(
                f"unpacks to more than the {self._max_bytes:,} bytes that a file of its size may "
                "hold"
            )
        return content

    def seek(self, place: int) -> None:
        """Go on to `place`, or to the end; what tarfile reads next is then nothing."""
        if place < self._place:
            raise tarfile.ReadError("a header that leads backwards")
        if self._raw.seekable():
            self._place = self._raw.seek(place)
        while self._place < place and self.read(min(MAX_READ, place - self._place)):
            pass
