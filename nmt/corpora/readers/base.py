"""The interface of a reader of sentence pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from nmt.types import SentencePair


@dataclass(frozen=True)
class PairFile:
    """A file of pairs between two languages, with what the config and the catalogue know of it.

    `columns` are the names of its source and target column. `max_bytes` bounds its text.
    """

    path: Path
    languages: tuple[str, str]
    columns: tuple[str, str] | None = None
    max_bytes: int | None = None


@runtime_checkable
class Reader(Protocol):
    """A format of files that hold both sides of each pair."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of the names of its files, in lower case."""

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        """Yield the pairs in order, in constant memory and within the limits of the file.

        Raises DataError, with file and line or row, once it reaches the fault.
        """
