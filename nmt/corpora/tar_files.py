"""Members of `.tar`, `.tar.gz` and `.tgz` archives, read in place and once through.

A tar has no table of contents: a member is found by reading the archive up to it. Headers that ask
for much memory, lead backwards, or stand behind an endless text are refused.
"""

import contextlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from nmt.corpora.compressed_files import gunzipped
from nmt.errors import DataError

TAR = (".tar", ".tar.gz", ".tgz")
"""Endings of tar archives that are read."""

MAX_READ = 1 << 20
"""Bytes read at once. A header of a member, which tarfile reads whole, has some hundred."""


def is_tar(path: Path) -> bool:
    """Whether the name is that of a tar archive."""
    return path.name.lower().endswith(TAR)


@contextlib.contextmanager
def tar_member(archive: Path, member: str | None, max_bytes: int) -> Iterator[io.BufferedIOBase]:
    """The bytes of a regular file in the archive, unpacked once more where its name ends in .gz.

    Of several members of one name it is the first. At most `max_bytes` of the archive are unpacked
    to find it. Raises DataError where it is not there, tarfile.TarError for a bad header, and
    OSError, EOFError or zlib.error for a damaged .gz.
    """
    if member is None:
        raise DataError(f"{archive}: holds several files; name one as {archive}/MEMBER")
    with contextlib.ExitStack() as stack:
        raw: io.BufferedIOBase = stack.enter_context(archive.open("rb"))
        is_packed = not archive.name.lower().endswith(".tar")
        if is_packed:
            raw = stack.enter_context(gunzipped(raw))
        forward = cast(Any, _Forward(raw, max_bytes, can_jump=not is_packed))
        opened = stack.enter_context(tarfile.TarFile(fileobj=forward))
        reader = opened.extractfile(_find(opened, archive, str(PurePosixPath(member))))
        assert isinstance(reader, io.BufferedIOBase)  # it is a regular file
        text = stack.enter_context(reader)
        if member.lower().endswith(".gz"):
            text = stack.enter_context(gunzipped(text))
        yield text


def _find(opened: tarfile.TarFile, archive: Path, name: str) -> tarfile.TarInfo:
    held: list[str] = []
    for info in iter(opened.next, None):
        opened.members.clear()  # type: ignore[attr-defined]  # it would keep all that it has seen
        if str(PurePosixPath(info.name)) == name:
            if info.isreg() and not info.issparse():
                return info
            raise DataError(f"{archive}/{name}: not a plain file in the archive")
        held = [*held, info.name][:9] if info.isreg() else held
    shown = ", ".join(held[:8]) + (", ..." if len(held) > 8 else "")
    raise DataError(f"{archive}/{name}: no such member; it holds: {shown or 'nothing'}")


class _Forward:
    """A stream that is only read onwards and within limits, as tarfile reads it."""

    def __init__(self, raw: io.BufferedIOBase, max_bytes: int, can_jump: bool) -> None:
        self._raw, self._max_bytes, self._can_jump = raw, max_bytes, can_jump
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
        self._move(len(content))
        return content

    def seek(self, place: int) -> None:
        """Go on to `place`, or to the end; what tarfile reads next is then nothing."""
        if place < self._place:
            raise tarfile.ReadError("a header that leads backwards")
        if self._can_jump:
            self._place = self._raw.seek(place)
        while self._place < place:
            content = self._raw.read(min(MAX_READ, place - self._place))
            if not content:
                break
            self._move(len(content))

    def _move(self, n: int) -> None:
        self._place += n
        if self._place > self._max_bytes and not self._can_jump:
            raise tarfile.ReadError(
                f"unpacks to more than the {self._max_bytes:,} bytes that a file of its size may "
                "hold"
            )
