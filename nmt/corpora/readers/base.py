"""The interface of a reader of sentence pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from nmt.types import SentencePair


@dataclass(frozen=True)
class PairFile:
    """A file of sentence pairs between two languages.

    `columns` names the source and target columns. `max_bytes` limits the decompressed text.
    """

    path: Path
    languages: tuple[str, str]
    columns: tuple[str, str] | None = None
    max_bytes: int | None = None


@runtime_checkable
class Reader(Protocol):
    """Reads the sentence pairs of a file format in which one file has both sides."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The suffixes of file names in the format, in lower case."""

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        """Yield the pairs in order, in constant memory.

        Raises DataError, with file and line or row, once it reaches a fault or the size limit.
        """
