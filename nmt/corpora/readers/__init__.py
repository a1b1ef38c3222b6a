"""Readers of sentence pairs, one module per format.

To add a format, write a function that streams its pairs, and add a Reader (base.py) to READERS.
"""

from pathlib import Path

from nmt.corpora.readers.base import PairFile as PairFile
from nmt.corpora.readers.base import Reader
from nmt.corpora.readers.parquet import stream_parquet
from nmt.corpora.readers.po import stream_po
from nmt.corpora.readers.records import stream_csv, stream_json_lines, stream_tsv
from nmt.corpora.readers.tmx import stream_tmx

READERS = (
    Reader((".parquet",), stream_parquet),
    Reader((".csv",), stream_csv),
    Reader((".jsonl", ".ndjson", ".json"), stream_json_lines),
    Reader((".tmx",), stream_tmx),
    Reader((".po",), stream_po),
    Reader((".tsv",), stream_tsv),
)
"""The readers of all formats. The last one reads files with any other name."""


def reader_of(path: Path) -> Reader:
    """Return the reader for the suffix of a file name, which may be followed by `.gz`."""
    name = path.name.lower().removesuffix(".gz")
    return next((reader for reader in READERS if name.endswith(reader.suffixes)), READERS[-1])


def is_text(path: Path) -> bool:
    """Return whether a file has lines of text, by the suffix of its name."""
    return reader_of(path) is READERS[-1]
