"""The base of the config of every tokenizer, with keys that name files of the user."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from nmt.settings.base import Config, Conflict, conflict_error

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

    suffix: ClassVar[str]
    """Ending of the file that holds the trained model."""

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
        src_key, tgt_key = self.file_keys
        src, tgt = (getattr(self, key) is not None for key in self.file_keys)
        if (src, tgt) == (False, False):
            return self
        conflicts: list[Conflict] = [
            (key, f"belongs to learning, and pieces are given by {src_key}: leave it out")
            for key in self.learning_keys
            if getattr(self, key) != type(self).model_fields[key].default
        ]
        if not src or tgt == self.joint:
            needed = f"allowed: {src_key} and {tgt_key}, or {src_key} alone with joint: true"
            conflicts.append((tgt_key if src else src_key, needed))
        if conflicts:
            raise conflict_error(conflicts)
        return self
