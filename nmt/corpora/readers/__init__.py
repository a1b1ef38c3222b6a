"""Readers of sentence pairs, one module per format.

To add a format, implement the interface in base.py, and add a reader to READERS.
"""

from pathlib import Path

from nmt.corpora.readers.base import PairFile as PairFile
from nmt.corpora.readers.base import Reader
from nmt.corpora.readers.parquet import ParquetReader
from nmt.corpora.readers.po import PoReader
from nmt.corpora.readers.records import CsvReader, JsonLinesReader, TsvReader
from nmt.corpora.readers.tmx import TmxReader

READERS: tuple[Reader, ...] = (
    ParquetReader(),
    CsvReader(),
    JsonLinesReader(),
    TmxReader(),
    PoReader(),
    TsvReader(),
)
"""The readers of all formats. The last one reads files with any other name."""


def reader_of(path: Path) -> Reader:
    """Return the reader for the suffix of a file name, which may be followed by `.gz`."""
    name = path.name.lower().removesuffix(".gz")
    readers = (reader for reader in READERS if name.endswith(reader.suffixes))
    return next(readers, READERS[-1])


def is_text(path: Path) -> bool:
    """Return whether a file has lines of text, by the suffix of its name."""
    return reader_of(path) is READERS[-1]
