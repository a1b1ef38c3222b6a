"""Compressed text files: their endings and decompressed bytes."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

PACKED = (".gz", ".bz2", ".xz")
"""Endings of files that are one packed text."""

MAX_MEMORY = 256 << 20
"""Memory limit for decompressing an `.xz`, in bytes. Its header says how much it needs; `xz -9`
needs 65 MB."""

_CHUNK_BYTES = 1 << 14
"""Bytes read from the file at once. What follows the end of a stream is copied for the next."""


def unpacked(file: BinaryIO | io.BufferedIOBase, kind: str) -> io.BufferedIOBase:
    """The decompressed bytes of a file of a kind of PACKED, on demand; closing it closes `file`."""
    return io.BufferedReader(_Streams(file, _DECOMPRESSORS[kind]), 1 << 16)


class _Streams(io.RawIOBase):
    """The text of the packed streams of a file, one after another, with zeros between them.

    `new` makes a decompressor of one stream, with the interface of bz2.BZ2Decompressor. Python's
    own readers take damage behind the first stream for its end.
    """

    def __init__(self, file: BinaryIO | io.BufferedIOBase, new: Callable[[], Any]) -> None:
        self._file, self._new = file, new
        self._decompressor: Any = None
        self._packed = self._text = b""

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
                self._packed = self._file.read(_CHUNK_BYTES)
                if not self._packed:
                    raise EOFError("it ends in the middle")
            self._text = current.decompress(self._packed, len(buffer))
            self._packed = current.unused_data if current.eof else b""
            if current.eof:
                self._decompressor = None
        n = min(len(buffer), len(self._text))
        buffer[:n], self._text = self._text[:n], self._text[n:]
        return n

    def _begin(self) -> bool:
        """Begin the next stream; False where there is none."""
        self._packed = self._packed.lstrip(b"\0")
        while not self._packed:
            chunk = self._file.read(_CHUNK_BYTES)
            if not chunk:
                return False
            self._packed = chunk.lstrip(b"\0")
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


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    ".gz": _Gzip,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY),
}
