"""Readers of sentence pairs, one file a format.

A new format is a file with an object of the interface in base.py, and its entry in READERS.
"""

from pathlib import Path

from nmt.corpora.readers.base import PairFile, Reader
from nmt.corpora.readers.parquet import ParquetReader
from nmt.corpora.readers.tsv import TsvReader

READERS: tuple[Reader, ...] = (ParquetReader(), TsvReader())
"""The readers by format; the last one takes files of any name."""


def reader_of(path: Path) -> Reader:
    """Return the reader of a file, or of a pattern of files, by the ending of its name.

    The ending stands before `.gz` where the file is packed.
    """
    name = path.name.lower().removesuffix(".gz")
    readers = (reader for reader in READERS if name.endswith(reader.suffixes))
    return next(readers, READERS[-1])


__all__ = ["READERS", "PairFile", "Reader", "reader_of"]
