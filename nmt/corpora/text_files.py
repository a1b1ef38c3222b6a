"""Streams of lines from text files, plain, compressed or in an archive, in constant memory.

Text is UTF-8, with or without a byte order mark. A line ends at `\\n` only: U+2028, U+0085 and a
`\\r` within a line are characters. In a file whose first line ends in `\\r\\n`, every `\\r` before
`\\n` belongs to the line end. Nothing else is altered, and no line is left out.
"""

import contextlib
import gzip
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.archives import is_tar, is_zip, split_member, tar_member, zip_member
from nmt.errors import DataError, missing_file_message

MAX_LINE_BYTES = 16 << 20  # largest length of a line; a file with a longer line is not text

MAX_RATIO = 100
"""Largest ratio of decompressed to compressed size; a file beyond it is a decompression bomb.
Text has a ratio of about 10, and the largest ratio of deflate is about 1,000."""

# bytes that any file may unpack to: small files of equal lines compress very well
ALWAYS_ALLOWED_BYTES = 64 << 20

_CHUNK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_DAMAGE = EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, struct.error


def read_lines(path: Path) -> list[str]:
    return list(stream_lines(path))


def stream_lines(path: Path, max_bytes: int | None = None) -> Iterator[str]:
    """Yield the lines of a text file without their ends. The last line need not have an end.

    `path` is a plain file, a pipe, a `.gz` file, a `.zip` archive with one text, or a member of an
    archive such as `x.tgz/member`. `max_bytes` is the largest size of the decompressed text. Raises
    DataError (file:line) once a fault is reached.
    """
    with open_text(path, max_bytes) as text:
        yield from text.lines()


def has_crlf(text: str) -> bool:
    """Return whether the first line of a text ends in `\\r\\n`."""
    return text.partition("\n")[0].endswith("\r") and "\n" in text


def archive_of(path: Path) -> Path:
    """Return the file on disk from which `path` is read: the archive of a member, or `path`."""
    return split_member(path)[0]


@dataclass(frozen=True)
class Text:
    """An open text of at most `limit` decompressed bytes, called `name` in errors.

    `read(n)` returns at most n bytes, and b"" at the end of the text.
    """

    read: Callable[[int], bytes]
    name: str
    limit: int | None = None

    def lines(self, keep_cr: bool = False) -> Iterator[str]:
        """Yield the lines without ends; `keep_cr` leaves `\\r`. Raises DataError if not UTF-8."""
        n_lines = 0
        is_crlf = False
        for block in self.blocks():
            text, fault = _decoded(block, self.name, n_lines)
            if n_lines == 0 and not keep_cr:
                is_crlf = has_crlf(text)
            lines = (text.replace("\r\n", "\n") if is_crlf else text).split("\n")
            if not lines[-1]:
                lines.pop()
            yield from lines
            if fault is not None:
                raise fault
            n_lines += len(lines)

    def content(self) -> str:
        """Return all of the text, line ends included. Raises DataError if it is not UTF-8."""
        content, fault = _decoded(b"".join(self.blocks()), self.name, 0)
        if fault is not None:
            raise fault
        return content

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in chunks of any size. Raises DataError if they exceed the limit."""
        n_read = 0
        while chunk := self.read(_CHUNK_BYTES):
            n_read += len(chunk)
            if self.limit is not None:
                check_unpacked(self.name, n_read, self.limit)
            yield chunk

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes in blocks of complete lines, without a byte order mark.

        The last line may have no end. Raises DataError if the text is larger than its limit, or a
        line is longer than MAX_LINE_BYTES.
        """
        rest = bytearray()
        mark, n_lines = _BOM, 0
        for chunk in self.chunks():
            head, newline, tail = chunk.rpartition(b"\n")
            if len(rest) + (chunk.find(b"\n") if newline else len(chunk)) > MAX_LINE_BYTES:
                raise DataError(
                    f"{self.name}:{n_lines + 1}: a line of more than {MAX_LINE_BYTES:,} bytes; "
                    "expected one sentence per line"
                )
            if newline:
                block = b"".join((rest, head, newline))
                n_lines += block.count(b"\n")
                yield block.removeprefix(mark)
                rest, mark = bytearray(), b""
            rest += tail
        if block := bytes(rest).removeprefix(mark):
            yield block


@contextlib.contextmanager
def open_text(path: Path, max_bytes: int | None = None) -> Iterator[Text]:
    """Open a file for `stream_lines`. In the `with` block, faults of the file raise DataError."""
    archive, member = split_member(path)
    kind = archive.suffix.lower()
    try:
        if is_zip(archive):
            with zip_member(archive, member) as (stream, name):
                yield Text(stream.read, name, max_text_bytes(archive, max_bytes))
        elif is_tar(archive):
            with tar_member(archive, member, max_text_bytes(archive)) as stream:
                yield Text(stream.read, str(path), max_text_bytes(archive, max_bytes))
        elif kind == ".gz":
            with gzip.open(archive) as stream:
                yield Text(stream.read, str(path), max_text_bytes(archive, max_bytes))
        else:
            with archive.open("rb") as stream:
                yield Text(stream.read1, str(path), max_bytes)  # read1 does not wait for a pipe
    except FileNotFoundError:
        raise DataError(missing_file_message(path)) from None
    except _DAMAGE as error:
        raise DataError(f"{path}: damaged or not a {kind[1:]} file: {error}") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path}: cannot be read: {reason}") from None


def max_text_bytes(path: Path, max_bytes: int | None = None) -> int:
    """Return the limit of a file's decompressed size for its size on disk, at most `max_bytes`."""
    by_ratio = max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * path.stat().st_size)
    return by_ratio if max_bytes is None else min(max_bytes, by_ratio)


def check_unpacked(name: str, n_bytes: int, limit: int) -> None:
    """Raise DataError if the decompressed size `n_bytes` of the file `name` exceeds its limit."""
    if n_bytes > limit:
        raise DataError(f"{name}: unpacks to more than the {limit:,} bytes allowed for its size")


def _decoded(block: bytes, name: str, n_before: int) -> tuple[str, DataError | None]:
    """Return the text before the first line that is not UTF-8, and the error of that line."""
    try:
        return block.decode("utf-8"), None
    except UnicodeDecodeError as error:
        text = block[: block.rfind(b"\n", 0, error.start) + 1].decode("utf-8")
        number = n_before + text.count("\n") + 1
        byte = block[error.start]
        hint = _hint(block) if n_before == 0 else _UTF_8
        return text, DataError(f"{name}:{number}: byte 0x{byte:02x} is not UTF-8; {hint}")


_UTF_8 = "save the file as UTF-8"


def _hint(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file looks like UTF-16, save it as UTF-8"
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        return "the file looks compressed, its name should end in .gz or .zip"
    return "the file is not text" if b"\0" in start else _UTF_8
