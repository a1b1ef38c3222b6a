"""Compressed text files: their endings, magic numbers and decompressed bytes."""

import bz2
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

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

_CHUNK_BYTES = 1 << 20

_ZSTD_CHUNK_BYTES = 1 << 11
"""A zstd block of four bytes may hold 128 KiB, and all of a chunk is decompressed at once."""


def unpacked(path: Path, kind: str) -> io.BufferedIOBase:
    """The decompressed bytes of a file whose name ends in `kind`, one of PACKED, on demand.

    Raises DataError for a `.zst` if the package zstandard is not installed.
    """
    if kind == ".gz":
        return gzip.GzipFile(path)
    if kind == ".zst":
        return io.BufferedReader(_ZstdReader(path), _CHUNK_BYTES)
    return bz2.BZ2File(path) if kind == ".bz2" else io.BufferedReader(_XZReader(path))


class _XZReader(io.RawIOBase):
    """An `.xz` file unpacked within MAX_MEMORY, which `lzma.open` cannot be told."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._decompressor = self._new()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next; 0 at the end. Raises EOFError, lzma.LZMAError."""
        while True:
            if self._decompressor.eof:
                rest = self._decompressor.unused_data.lstrip(b"\0") or self._file.read(_CHUNK_BYTES)
                if not rest.strip(b"\0"):
                    return 0
                self._decompressor = self._new()
            else:
                rest = self._file.read(_CHUNK_BYTES) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not rest:
                    raise EOFError("it ends in the middle")
            data = self._decompressor.decompress(rest, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_MEMORY)


class _ZstdReader(io.RawIOBase):
    """A `.zst` file of one or more frames, unpacked within MAX_MEMORY."""

    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise DataError(f"{path}: needs the package zstandard: {pip_install('zstd')}") from None
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_MEMORY)
        self._error = zstandard.ZstdError
        self._file = path.open("rb")
        self._frame: Any = None
        self._packed = self._found = b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next; 0 at the end. Raises EOFError."""
        while not self._found:
            self._packed = self._packed or self._file.read(_ZSTD_CHUNK_BYTES)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("it ends in the middle")
                return 0
            self._frame = self._frame or self._unpacker.decompressobj()
            try:
                self._found = self._frame.decompress(self._packed)
            except self._error as error:
                raise EOFError(str(error)) from None
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        n = min(len(buffer), len(self._found))
        buffer[:n] = self._found[:n]
        self._found = self._found[n:]
        return n
