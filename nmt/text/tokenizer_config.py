"""What the config of every tokenizer answers, and its keys that name files of the user."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from nmt.errors import DataError
from nmt.settings.base import Config, Conflict
from nmt.storage.bounded import read_bytes

MAX_FILE_BYTES = 100 << 20
"""A SentencePiece model of a million pieces takes a quarter of this."""

GivenFile = tuple[str, Path]
"""The key that names a file, and its path."""


class TokenizerAnswers(Config):
    """The questions that a tokenizer's config is asked, with the answers of the plainest one."""

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


def given_conflicts(
    config: Config, joint: bool, keys: tuple[str, str], learning: Sequence[str]
) -> Iterator[Conflict]:
    """Conflicts of the given source and target files with other keys.

    A file is missing or superfluous, or a key of `learning` is set, which given pieces do not need.
    """
    src, tgt = (getattr(config, key) is not None for key in keys)
    if not (src or tgt):
        return
    if joint and tgt:
        yield keys[1], f"one vocabulary for both languages (joint: true) is {keys[0]} alone"
    if not src:
        yield keys[0], f"missing: {keys[1]} gives the target side only"
    if src and not (tgt or joint):
        yield keys[1], f"missing: {keys[0]} gives the source side only (joint: true: both)"
    for key in learning:
        if getattr(config, key) != type(config).model_fields[key].default:
            yield key, f"belongs to learning, and {keys[0 if src else 1]} is given: leave it out"


def given_files(config: Config, keys: tuple[str, str]) -> tuple[GivenFile, GivenFile] | None:
    """The files of both sides, the same where one is for both; None where none is named."""
    src, tgt = (getattr(config, key) for key in keys)
    if src is None:
        return None
    return (keys[0], src), ((keys[1], tgt) if tgt is not None else (keys[0], src))


def read_given(file: GivenFile) -> bytes:
    """The content of a given file. Raises DataError, naming key and path."""
    key, path = file
    try:
        return read_bytes(path, MAX_FILE_BYTES, DataError)
    except FileNotFoundError:
        raise DataError(f"tokenizer.{key}: {path}: no such file") from None
    except DataError as error:
        raise DataError(f"tokenizer.{key}: {error}") from error
