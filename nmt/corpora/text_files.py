"""Lines of text files, one after another in constant memory: plain, packed or in an archive.

Text is UTF-8 (a byte order mark is tolerated) and a line ends at `\\n` only: U+2028, U+0085 and
a `\\r` within a line are characters. The one exception is a file whose first line ends in
`\\r\\n`: there a `\\r` before `\\n` belongs to the line end. Nothing else is altered and no line is
left out.
"""

import contextlib
import gzip
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nmt.corpora.archives import is_tar, is_zip, split_member, tar_member, zip_member
from nmt.errors import DataError

MAX_LINE_BYTES = 16 << 20
"""A longer line is not a sentence: the file is not text, or has no end. In bytes."""

MAX_RATIO = 100
"""Largest ratio of decompressed to compressed size; more is a decompression bomb. Text grows ten
times; the most that deflate can do is a thousand."""

ALWAYS_ALLOWED_BYTES = 64 << 20
"""Bytes that any file may decompress to: small files of equal lines compress very well."""

_CHUNK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_DAMAGE = (
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
    struct.error,
)


def read_lines(path: Path) -> list[str]:
    """All of `stream_lines`."""
    return list(stream_lines(path))


def stream_lines(path: Path, max_bytes: int | None = None) -> Iterator[str]:
    """The lines of a text file, without their ends; a last line may go unended.

    `path` may be plain, a pipe, `.gz`, a `.zip` with one text, or a member
    such as `x.tgz/member`; of a `.sgm` the lines are its segments. `max_bytes` is the known upper
    bound of its text. Raises DataError, which names file and line, once it reaches the fault.
    """
    with opened(path, max_bytes) as text:
        lines = text.lines()
        yield from _segments(lines, text.shown) if path.suffix.lower() == ".sgm" else lines


def archive_of(path: Path) -> Path:
    """The file on disk that `path` is read from: the archive of a member, else itself."""
    return split_member(path)[0]


class Text:
    """An opened text: its bytes in order, within the limit of its decompressed size.

    `read(n)` gives at most n bytes, and none only at the end. `shown` is its name in errors.
    """

    def __init__(self, read: Callable[[int], bytes], shown: str, limit: int | None = None) -> None:
        self.shown = shown
        self._read = read
        self._limit = limit

    def lines(self) -> Iterator[str]:
        """The lines without their ends, as they are read, up to one that is not text."""
        n_lines = 0
        is_crlf = False
        for block in self.blocks():
            sound, fault = _decoded(block, self.shown, n_lines)
            if n_lines == 0:
                is_crlf = sound.partition("\n")[0].endswith("\r") and "\n" in sound
            lines = (sound.replace("\r\n", "\n") if is_crlf else sound).split("\n")
            if not lines[-1]:
                lines.pop()
            yield from lines
            if fault is not None:
                raise fault
            n_lines += len(lines)

    def blocks(self) -> Iterator[bytes]:
        """The bytes in blocks of whole lines, without a byte order mark; the last may not end.

        Raises DataError beyond the limit, and for a line of more than MAX_LINE_BYTES.
        """
        rest: list[bytes] = []
        n_rest, mark, n_lines, n_read = 0, _BOM, 0, 0
        while chunk := self._read(_CHUNK_BYTES):
            n_read += len(chunk)
            if self._limit is not None:
                check_unpacked(self.shown, n_read, self._limit)
            head, newline, tail = chunk.rpartition(b"\n")
            n_first = (chunk.find(b"\n") if newline else len(chunk)) + n_rest
            if n_first > MAX_LINE_BYTES:
                raise DataError(
                    f"{self.shown}:{n_lines + 1}: a line of more than {MAX_LINE_BYTES:,} bytes; "
                    "expected a sentence a line"
                )
            if newline:
                block = b"".join((*rest, head, newline))
                n_lines += block.count(b"\n")
                yield block.removeprefix(mark)
                rest, n_rest, mark = [], 0, b""
            rest.append(tail)
            n_rest += len(tail)
        if block := b"".join(rest).removeprefix(mark):
            yield block


@contextlib.contextmanager
def opened(path: Path, max_bytes: int | None = None) -> Iterator[Text]:
    """The text of `path`, read in place. Raises DataError for a faulty file, also while reading."""
    archive, member = split_member(path)
    kind = archive.suffix.lower()
    try:
        if is_zip(archive):
            limit = text_limit(archive, max_bytes)
            with zip_member(archive, member) as (stream, shown):
                yield Text(stream.read, shown, limit)
        elif is_tar(archive):
            limit = text_limit(archive, max_bytes)
            with tar_member(archive, member, text_limit(archive)) as stream:
                yield Text(stream.read, str(path), limit)
        elif kind == ".gz":
            with gzip.open(archive) as stream:
                yield Text(stream.read, str(path), text_limit(archive, max_bytes))
        else:
            with archive.open("rb") as stream:
                yield Text(stream.read1, str(path), max_bytes)  # a pipe gives what it has
    except FileNotFoundError:
        raise DataError(missing(path)) from None
    except _DAMAGE as error:
        raise DataError(f"{path}: damaged or not a {kind[1:]} file: {error}") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path}: cannot be read: {reason}") from None


def text_limit(path: Path, max_bytes: int | None = None) -> int:
    """The most bytes that a compressed file may unpack to; `max_bytes` is what is known of it."""
    by_ratio = max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * path.stat().st_size)
    return by_ratio if max_bytes is None else min(max_bytes, by_ratio)


def check_unpacked(shown: str, n_bytes: int, limit: int) -> None:
    """Raise DataError where a file, called `shown` in errors, unpacks to more than its limit."""
    if n_bytes > limit:
        raise DataError(
            f"{shown}: unpacks to more than the {limit:,} bytes of text that a file of its size "
            "may hold"
        )


def missing(path: Path) -> str:
    """The message for a missing file, with the folder in which a relative path starts."""
    where = "" if path.is_absolute() else f"; relative paths start in {Path.cwd()}"
    return f"{path}: no such file{where}"


def _decoded(block: bytes, shown: str, n_before: int) -> tuple[str, DataError | None]:
    """The decoded lines of the block up to the first that is not UTF-8, and its fault."""
    try:
        return block.decode("utf-8"), None
    except UnicodeDecodeError as error:
        sound = block[: block.rfind(b"\n", 0, error.start) + 1].decode("utf-8")
        number = n_before + sound.count("\n") + 1
        byte = block[error.start]
        hint = _hint(block) if n_before == 0 else _UTF_8
        return sound, DataError(f"{shown}:{number}: byte 0x{byte:02x} is not UTF-8; {hint}")


_UTF_8 = "save the file as UTF-8"


def _hint(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file looks like UTF-16, save it as UTF-8"
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        return "the file looks like a packed one, its name should end in .gz or .zip"
    return "the file is not text" if b"\0" in start else _UTF_8


_SEGMENT = re.compile(r"<seg\b[^<>]*>(.*)</seg>", re.IGNORECASE)


def _segments(lines: Iterable[str], shown: str) -> Iterator[str]:
    """The text of each segment of an `.sgm` file, the form of WMT's test sets.

    It looks like XML and is not: `&` stands for itself. sacreBLEU reads the same lines as segments
    and undoes no entities either. Raises DataError (file:line) for a segment that does not fill its
    line, and for text outside.
    """
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if match := _SEGMENT.fullmatch(line):
            yield match[1].strip()
        elif line and (not line.startswith("<") or "<seg" in line.lower()):
            excerpt = line if len(line) <= 40 else f"{line[:39]}…"
            raise DataError(
                f"{shown}:{number}: expected a line with one <seg ...>...</seg>, or with other "
                f"tags, got {excerpt!r}"
            )
