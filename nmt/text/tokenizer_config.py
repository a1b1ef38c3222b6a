"""The base class of all tokenizer configs."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from nmt.settings.base import Config, Conflict

if TYPE_CHECKING:
    from nmt.text.tokenizer import Tokenizer

ModelFile = tuple[str, Path]  # a config key, and the path of the user's model file that it names


class BaseTokenizerConfig(Config):
    """Base class of tokenizer configs, which learn a model file or take the user's."""

    joint: bool = Field(default=False, description="one vocabulary for both languages")

    suffix: ClassVar[str]  # file name extension of the trained model
    is_lossless: ClassVar[bool] = False  # whether decoding restores the normalised text
    can_sample: ClassVar[bool] = False  # whether a word can have several segmentations

    unknown_cure: ClassVar[str] = "take tokenizer.kind: sentencepiece"
    """Advice to print if many pieces of a text are unknown."""

    @property
    def lowers_case(self) -> bool:
        """Whether the letters of the pieces are in lower case."""
        return False

    @property
    def size_limit(self) -> tuple[str, int] | None:
        """The key and the value of the limit on pieces per side, or None without a limit."""
        return None

    @property
    def model_files(self) -> tuple[ModelFile, ModelFile] | None:
        """The user's model files for source and target, or None if pieces are learned."""
        return None

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the contradictions between the keys of this section."""
        return iter(())

    @abstractmethod
    def train(self, texts: Sequence[str], name: str, seed: int) -> bytes:
        """Learn a model file from normalised texts. The same input gives the same bytes.

        `name` describes the texts in errors. Raises DataError if there is no text, and ConfigError
        if the text does not allow the settings.
        """

    @abstractmethod
    def build(self, model_bytes: bytes, lang: str) -> "Tokenizer":
        """Build a tokenizer from a model file. Raises DataError if it is not of this type."""

    def build_from_file(self, content: bytes, lang: str) -> "Tokenizer":
        """Build a tokenizer from a user's model file. Raises DataError if it is unusable."""
        raise NotImplementedError
