"""Compressed text files: their endings, magic numbers and decompressed bytes."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from nmt.errors import DataError, pip_install

PACKED = (".gz", ".bz2", ".xz", ".zst")
"""Endings of files that are one packed text."""

MAX_MEMORY = 256 << 20
"""Memory limit for decompressing an `.xz` or `.zst`, in bytes. Its header says how much it needs;
`xz -9` needs 65 MB, `zstd -19` 8 MB, `zstd --long` 128 MB."""

MAGIC = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"BZh", "bzip2", ".bz2"),
    (b"\xfd7zXZ\0", "xz", ".xz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"PK\x03\x04", "a zip archive", ".zip"),
)
"""Magic number, name and ending of each compressed format."""

MAX_SMALL_STREAMS, MIN_STREAM_BYTES = 1000, 16
"""A file may be many packed streams, one after another. Beyond so many they must hold so much text
each on average: the text of empty streams never reaches its limit."""

_CHUNK_BYTES = 1 << 14
"""Bytes read from the file at once. What follows the end of a stream is copied for the next."""

_ZSTD_CHUNK_BYTES = 1 << 11
"""A zstd block of four bytes may hold 128 KiB, and all of a chunk is decompressed at once."""


def unpacked(path: Path, kind: str) -> io.BufferedIOBase:
    """The decompressed bytes of a file whose name ends in `kind`, one of PACKED, on demand.

    Raises DataError for a `.zst` if the package zstandard is not installed.
    """
    if kind == ".zst":
        try:
            import zstandard
        except ImportError:
            raise DataError(f"{path}: needs the package zstandard: {pip_install('zstd')}") from None
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY)
        return _buffered(path.open("rb"), lambda: _Zstd(unpacker), _ZSTD_CHUNK_BYTES)
    if kind == ".gz":
        return gunzipped(path.open("rb"))
    return _buffered(path.open("rb"), bz2.BZ2Decompressor if kind == ".bz2" else _new_xz)


def gunzipped(file: BinaryIO | io.BufferedIOBase) -> io.BufferedIOBase:
    """The decompressed bytes of a gzip stream; closing it closes `file`."""
    return _buffered(file, _Gzip)


def _buffered(
    file: BinaryIO | io.BufferedIOBase, new: Callable[[], Any], n_chunk: int = _CHUNK_BYTES
) -> io.BufferedIOBase:
    return io.BufferedReader(_Streams(file, new, n_chunk), 1 << 16)


def _new_xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY)


class _Streams(io.RawIOBase):
    """The text of the packed streams of a file, one after another, with zeros between them.

    `new` makes a decompressor of one stream, with the interface of bz2.BZ2Decompressor.
    """

    def __init__(
        self, file: BinaryIO | io.BufferedIOBase, new: Callable[[], Any], n_chunk: int
    ) -> None:
        self._file, self._new, self._n_chunk = file, new, n_chunk
        self._decompressor: Any = None
        self._packed = self._text = b""
        self._n_streams = self._n_text = 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next; 0 at the end. Raises EOFError, and as `new` does."""
        while not self._text:
            if self._decompressor is None and not self._begin():
                return 0
            current = self._decompressor
            if current.needs_input and not self._packed:
                self._packed = self._file.read(self._n_chunk)
                if not self._packed:
                    raise EOFError("it ends in the middle")
            self._text = current.decompress(self._packed, len(buffer))
            self._packed = current.unused_data if current.eof else b""
            if current.eof:
                self._decompressor = None
        n = min(len(buffer), len(self._text))
        buffer[:n], self._text = self._text[:n], self._text[n:]
        self._n_text += n
        return n

    def _begin(self) -> bool:
        """Begin the next stream; False where there is none."""
        self._packed = self._packed.lstrip(b"\0")
        while not self._packed:
            chunk = self._file.read(self._n_chunk)
            if not chunk:
                return False
            self._packed = chunk.lstrip(b"\0")
        self._n_streams += 1
        if self._n_streams > MAX_SMALL_STREAMS + self._n_text // MIN_STREAM_BYTES:
            raise EOFError(f"{self._n_streams:,} packed streams with almost no text")
        self._decompressor = self._new()
        return True


class _Gzip:
    """One gzip stream."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, packed: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + packed, max_length)


class _Zstd:
    """One zstd frame. It may give more text than it is asked for."""

    needs_input = True

    def __init__(self, unpacker: Any) -> None:
        self._inner = unpacker.decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inner.unused_data)

    def decompress(self, packed: bytes, max_length: int) -> bytes:
        import zstandard

        try:
            return bytes(self._inner.decompress(packed))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from None
