"""Compressed text files: their endings, magic numbers and decompressed bytes."""

import bz2
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

PACKED = (".gz", ".bz2", ".xz")
"""Endings of files that are one packed text."""

MAX_XZ_MEMORY = 256 << 20
"""Memory limit for decompressing an `.xz`, in bytes. Its header says how much it needs; `xz -9`
needs 65 MB."""

MAGIC = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"BZh", "bzip2", ".bz2"),
    (b"\xfd7zXZ\0", "xz", ".xz"),
    (b"PK\x03\x04", "a zip archive", ".zip"),
)
"""Magic number, name and ending of each compressed format."""

_CHUNK_BYTES = 1 << 20


def unpacked(path: Path, kind: str) -> io.BufferedIOBase:
    """The decompressed bytes of a file whose name ends in `kind`, one of PACKED, on demand."""
    if kind == ".gz":
        return gzip.GzipFile(path)
    return bz2.BZ2File(path) if kind == ".bz2" else io.BufferedReader(_XZReader(path))


class _XZReader(io.RawIOBase):
    """An `.xz` file unpacked within MAX_XZ_MEMORY, which `lzma.open` cannot be told."""

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
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY)
