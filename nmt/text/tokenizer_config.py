"""The base of the config of every tokenizer, with keys that name files of the user."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from nmt.errors import DataError
from nmt.settings.base import Config, Conflict, conflict_error
from nmt.storage.bounded import read_bytes

MAX_FILE_BYTES = 100 << 20
"""A SentencePiece model of a million pieces takes a quarter of this."""

GivenFile = tuple[str, Path]
"""The key that names a file, and its path."""


class BaseTokenizerConfig(Config):
    """The keys and the answers of a tokenizer's config; the answers are the plainest ones.

    The keys `file_keys` name files of the user for source and target, in place of learning with
    the keys `learning_keys`.
    """

    joint: bool = Field(default=False, description="one vocabulary for both languages")

    file_keys: ClassVar[tuple[str, str]]
    learning_keys: ClassVar[tuple[str, ...]]

    @property
    def lowers(self) -> bool:
        """Whether the letters of its pieces are in lower case."""
        return False

    is_lossless: ClassVar[bool] = False
    """Whether ids give the normalised text back, which data.noise requires."""

    can_sample: ClassVar[bool] = False
    """Whether a word has several segmentations, which data.sampling requires."""

    unknown_cure: ClassVar[str] = "take tokenizer.kind: sentencepiece"
    """What helps where much of the text is unknown."""

    @property
    def size_limit(self) -> tuple[str, int] | None:
        """The key that limits the pieces of a side and its value; None without a limit."""
        return None

    @property
    def default_size(self) -> int | None:
        """The pieces of a side if no key says how many and the text allows them."""
        return None

    def conflicts(self) -> Iterator[Conflict]:
        """Contradictions of its keys that are reported together with those of other sections."""
        return iter(())

    @property
    def given(self) -> tuple[GivenFile, GivenFile] | None:
        """The files of both sides, the same where one is for both; None where none is named."""
        (src_key, src), (tgt_key, tgt) = ((key, getattr(self, key)) for key in self.file_keys)
        if src is None:
            return None
        return (src_key, src), ((tgt_key, tgt) if tgt is not None else (src_key, src))

    @model_validator(mode="after")
    def _learned_or_given(self) -> "BaseTokenizerConfig":
        if conflicts := list(self._file_conflicts()):
            raise conflict_error(conflicts)
        return self

    def _file_conflicts(self) -> Iterator[Conflict]:
        """Yield a file that is missing or superfluous, and keys that given pieces do not need."""
        src_key, tgt_key = self.file_keys
        src, tgt = (getattr(self, key) is not None for key in self.file_keys)
        if not (src or tgt):
            return
        if self.joint and tgt:
            yield tgt_key, f"one vocabulary for both languages (joint: true) is {src_key} alone"
        if not src:
            yield src_key, f"missing: {tgt_key} gives the target side only"
        if src and not (tgt or self.joint):
            yield tgt_key, f"missing: {src_key} gives the source side only (joint: true: both)"
        for key in self.learning_keys:
            if getattr(self, key) != type(self).model_fields[key].default:
                problem = f"belongs to learning, and {src_key if src else tgt_key} is given"
                yield key, f"{problem}: leave it out"


def read_given(file: GivenFile) -> bytes:
    """The content of a given file. Raises DataError, naming key and path."""
    key, path = file
    try:
        return read_bytes(path, MAX_FILE_BYTES, DataError)
    except FileNotFoundError:
        raise DataError(f"tokenizer.{key}: {path}: no such file") from None
    except DataError as error:
        raise DataError(f"tokenizer.{key}: {error}") from error
