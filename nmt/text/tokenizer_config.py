"""The base of the config of every tokenizer."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from nmt.settings.base import Config, Conflict

if TYPE_CHECKING:
    from nmt.text.tokenizer import Tokenizer

GivenFile = tuple[str, Path]
"""A key that names a file of the user, and its path."""


class BaseTokenizerConfig(Config):
    """The keys and properties of every tokenizer's config; a kind overrides the plain defaults."""

    joint: bool = Field(default=False, description="one vocabulary for both languages")

    suffix: ClassVar[str]
    """Ending of the file that holds the trained model."""

    is_lossless: ClassVar[bool] = False
    """Whether ids give the normalised text back, which data.noise requires."""

    can_sample: ClassVar[bool] = False
    """Whether a word has several segmentations, which data.sampling requires."""

    unknown_cure: ClassVar[str] = "take tokenizer.kind: sentencepiece"
    """What helps where much of the text is unknown."""

    @property
    def lowers(self) -> bool:
        """Whether the letters of its pieces are in lower case."""
        return False

    @property
    def size_limit(self) -> tuple[str, int] | None:
        """The key that limits the pieces of a side and its value; None without a limit."""
        return None

    @property
    def default_size(self) -> int | None:
        """The pieces of a side if no key says how many and the text allows them."""
        return None

    @property
    def given(self) -> tuple[GivenFile, GivenFile] | None:
        """The files of both sides, the same if one is for both; None where pieces are learned."""
        return None

    def conflicts(self) -> Iterator[Conflict]:
        """Contradictions of its keys that are reported together with those of other sections."""
        return iter(())

    @abstractmethod
    def train(self, texts: Sequence[str], name: str, seed: int) -> bytes:
        """Learn a model file from normalised texts; the same input gives the same bytes.

        `name` names the text in errors. Raises DataError if there is no text, and ConfigError for
        settings that the text does not allow.
        """

    @abstractmethod
    def build(self, model_bytes: bytes, lang: str) -> "Tokenizer":
        """Build the tokenizer of a trained model. Raises DataError for anything else."""

    def build_given(self, content: bytes, lang: str) -> "Tokenizer":
        """Build the tokenizer of one of the files in `given`. Raises DataError for an unfit one."""
        raise NotImplementedError
