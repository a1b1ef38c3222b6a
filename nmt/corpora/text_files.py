"""Lines of text files, one after another in constant memory: plain, packed or in an archive.

Text is UTF-8 (a byte order mark is tolerated) and a line ends at `\\n` only: U+2028, U+0085 and
a `\\r` within a line are characters. The one exception is a file whose first line ends in
`\\r\\n`: there a `\\r` before `\\n` belongs to the line end. Nothing else is altered and no line is
left out.
"""

import contextlib
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.corpora.compressed_files import MAGIC, PACKED, unpacked
from nmt.corpora.sgm_files import SGM, segments
from nmt.corpora.tar_files import is_tar, tar_member
from nmt.errors import DataError
from nmt.storage.bounded import open_zip

MAX_LINE_BYTES = 16 << 20
"""A longer line is not a sentence: the file is not text, or has no end. In bytes."""

MAX_RATIO = 100
"""Largest ratio of decompressed to compressed size; more is a decompression bomb. Text grows ten
times; the most that deflate can do is a thousand."""

ALWAYS_ALLOWED_BYTES = 64 << 20
"""Bytes that any file may decompress to: small files of equal lines compress very well."""

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Zip methods that zipfile decompresses on demand. It decompresses bzip2 and LZMA whole."""

_CHUNK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
    struct.error,
)


def read_lines(path: Path) -> list[str]:
    """All of `stream_lines`."""
    return list(stream_lines(path))


def stream_lines(path: Path, max_bytes: int | None = None) -> Iterator[str]:
    """The lines of a text file, without their ends; a last line may go unended.

    `path` may be plain, a pipe, `.gz`, `.bz2`, `.xz`, `.zst`, a `.zip` with one text, or a member
    such as `x.tgz/member`; of a `.sgm` the lines are its segments. `max_bytes` is the known upper
    bound of its text. Raises DataError, which names file and line, once it reaches the fault.
    """
    with opened(path, max_bytes) as text:
        lines = text.lines()
        yield from segments(lines, text.shown) if path.suffix.lower() == SGM else lines


def archive_of(path: Path) -> Path:
    """The file on disk that `path` is read from: the archive of a member, else itself."""
    return _split_member(path)[0]


class Text:
    """An opened text: its bytes in order, within the limit of its decompressed size.

    `read(n)` gives at most n bytes, and none only at the end. `shown` is its name in errors.
    `has_mark` says, once lines were read, whether it begins with a byte order mark.
    """

    def __init__(self, read: Callable[[int], bytes], shown: str, limit: int | None = None) -> None:
        self.shown = shown
        self._read = read
        self._limit = limit
        self._n_read = 0
        self.has_mark = False

    def lines(self, keep_cr: bool = False) -> Iterator[str]:
        """The lines without their ends, as they are read, up to one that is not text.

        With `keep_cr` the `\\r` of an end stays.
        """
        n_lines = 0
        is_crlf = False
        for block in self.blocks():
            sound, fault = _decoded(block, self.shown, n_lines)
            if n_lines == 0 and not keep_cr:
                is_crlf = sound.partition("\n")[0].endswith("\r") and "\n" in sound
            lines = (sound.replace("\r\n", "\n") if is_crlf else sound).split("\n")
            if not lines[-1]:
                lines.pop()
            yield from lines
            if fault is not None:
                raise fault
            n_lines += len(lines)

    def chunks(self) -> Iterator[bytes]:
        """The bytes, some at a time. Raises DataError beyond the limit."""
        while chunk := self._read(_CHUNK_BYTES):
            self._n_read += len(chunk)
            if self._limit is not None:
                check_unpacked(self.shown, self._n_read, self._limit)
            yield chunk

    def blocks(self) -> Iterator[bytes]:
        """The bytes in blocks of whole lines, without a byte order mark; the last may not end."""
        rest: list[bytes] = []
        n_rest, is_first, n_lines = 0, True, 0
        for chunk in self.chunks():
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
                yield self._without_mark(block) if is_first else block
                rest, n_rest, is_first = [], 0, False
            rest.append(tail)
            n_rest += len(tail)
        block = b"".join(rest)
        if is_first:
            block = self._without_mark(block)
        if block:
            yield block

    def _without_mark(self, block: bytes) -> bytes:
        self.has_mark = block.startswith(_BOM)
        return block.removeprefix(_BOM)


@contextlib.contextmanager
def opened(path: Path, max_bytes: int | None = None) -> Iterator[Text]:
    """The text of `path`, read in place. Raises DataError for a faulty file, also while reading."""
    archive, member = _split_member(path)
    kind = archive.suffix.lower()
    try:
        if kind not in (".zip", *PACKED) and not is_tar(archive):
            with archive.open("rb") as stream:
                yield Text(stream.read1, str(path), max_bytes)  # a pipe gives what it has
            return
        limit = text_limit(archive, max_bytes)
        if is_tar(archive):
            with tar_member(archive, member, text_limit(archive)) as stream:
                yield Text(stream.read, str(path), limit)
            return
        if kind in PACKED:
            with unpacked(archive, kind) as packed:
                yield Text(packed.read, str(path), limit)
            return
        with open_zip(archive) as opened_zip:
            name = _member(opened_zip, archive, member)
            if opened_zip.getinfo(name).compress_type not in _BOUNDED:
                raise DataError(
                    f"{archive}/{name}: packed by a method that cannot be read within limits, "
                    "allowed: deflate, stored"
                )
            with opened_zip.open(name) as stream:
                yield Text(stream.read, f"{archive}/{name}", limit)
    except FileNotFoundError:
        raise DataError(missing(path)) from None
    except _DAMAGE as error:
        raise DataError(f"{path}: damaged or not a {kind[1:]} file: {error}") from None
    except (OSError, RuntimeError, ValueError, NotImplementedError) as error:
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

_GETTEXT = "a gettext catalogue (.mo), msgunfmt makes text of it"
_OFFICE = "an office document, export it as plain text"
_BINARY = (
    (b"\xde\x12\x04\x95", _GETTEXT),
    (b"\x95\x04\x12\xde", _GETTEXT),
    (b"\xd0\xcf\x11\xe0", _OFFICE),
    (b"[Content_Types].xml", _OFFICE),
    (b"mimetypeapplication/vnd.oasis", _OFFICE),
)
"""What the first bytes of a file have, and what it is then; office documents are zip archives."""


def _hint(start: bytes) -> str:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the file looks like UTF-16, save it as UTF-8"
    for mark, what in _BINARY:
        if mark in start[:100]:
            return f"the file looks like {what}"
    for magic, name, ending in MAGIC:
        if start.startswith(magic):
            return f"the file looks like {name}, its name should end in {ending}"
    return "the file is not text" if b"\0" in start else _UTF_8


def _split_member(path: Path) -> tuple[Path, str | None]:
    for parent in path.parents:
        if (parent.suffix.lower() == ".zip" or is_tar(parent)) and parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, None


def _member(opened_zip: zipfile.ZipFile, archive: Path, member: str | None) -> str:
    """The name of the member meant: `member`, or the one text that the archive holds."""
    names = [name for name in opened_zip.namelist() if not name.endswith("/")]
    matches = [member] if member is not None else [name for name in names if _is_text(name)]
    if len(matches) == 1 and matches[0] in names:
        return matches[0]
    what = "no such member" if member else f"holds {len(matches)} .txt/.tsv files, allowed: 1"
    held = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise DataError(
        f"{archive if member is None else archive / member}: {what}; "
        f"it holds: {held or 'nothing'}; name one as {archive}/MEMBER"
    )


def _is_text(name: str) -> bool:
    """Whether a zip member is text of a corpus: not _about.txt, not a file that macOS adds."""
    base = name.rsplit("/", maxsplit=1)[-1]
    return base.lower().endswith((".txt", ".tsv")) and not base.startswith((".", "_"))
