"""Tokenizers, which convert text of one language to pieces and ids and back.

A type of tokenizer is a pair of classes. Its config learns the bytes of a model file from text
(`train`) and makes a tokenizer from these bytes (`build`). To add a type, write both classes and
add the config to the union `TokenizerConfig`.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, ValidationError

from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import write_bytes, write_json
from nmt.storage.bounded import check_inside, parse_json, read_bytes
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.subword_sampling import Sampler, SubwordSamplingConfig
from nmt.text.tokenizer_config import ModelFile
from nmt.text.vocabulary import Vocab
from nmt.text.word_tokenizer import WordConfig, letter_words
from nmt.types import Encoded, FilePath, SentencePair

TokenizerConfig = Annotated[SentencePieceConfig | WordConfig, Field(discriminator="kind")]

MANIFEST_NAME = "tokenizer.json"

MAX_FILE_BYTES = 100 << 20
"""Largest model file that is read: four times a SentencePiece model of a million pieces."""

MAX_WORDS = 1 << 17
"""Largest number of distinct words in a record, whose size is then half a megabyte."""


@runtime_checkable
class Tokenizer(Protocol):
    """Converter of text to ids and back. It normalises the text, and adds neither bos nor eos."""

    model_bytes: bytes  # the content of the model file
    lang: str  # the language of the texts, as named in the config ("fr")
    vocab: Vocab  # the pieces by id

    @property
    def config(self) -> TokenizerConfig:
        """The config that the tokenizer was trained with."""

    def __hash__(self) -> int:
        """Hash by identity, so that results can be cached per tokenizer."""

    def encode(self, text: str) -> Encoded:
        """Return the pieces of `text`. An unknown piece keeps its surface and has UNK_ID."""

    def encode_batch(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        """Return `encode(text).ids` of every text, faster than `encode`."""

    def piece_bytes(self, piece: str) -> bytes:
        """Return a piece as UTF-8, with ▁ for a space, or the byte of a byte piece."""

    def sampler(self, config: SubwordSamplingConfig, rate: float) -> Sampler | None:
        """Return a segmentation sampler, or None if `rate` is 0 or words have one segmentation."""

    def encoded_from_ids(self, ids: Sequence[int]) -> Encoded:
        """Return the pieces and words of `ids`, without pad, bos and eos."""

    def decode(
        self, ids: Sequence[int], restore: bool = True, surfaces: Mapping[int, str] | None = None
    ) -> str:
        """Return the text of `ids`, without pad, bos and eos. An unknown piece becomes `<unk>`.

        If `restore` is set, the text gets the typography of the language (normalisation.restore).
        `surfaces` maps a position among the remaining ids to a text that replaces the piece.
        """


class _File(Config):
    name: str = Field(pattern=r"^\w[\w.]*$")  # inside the folder
    sha256: str


class _Manifest(Config):
    """The content of tokenizer.json."""

    format: Literal[1] = 1
    src_lang: str
    tgt_lang: str
    config: TokenizerConfig
    src: _File
    tgt: _File
    tgt_config: TokenizerConfig | None = None  # None: the same as `config`


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target, with one vocabulary for both if `joint`.

    With `reverse_target` (data.reverse_target), the model reads and writes the target ids from the
    last to the first. The tokenizers use reading order, and `save` does not store the flag.
    """

    src: Tokenizer
    tgt: Tokenizer
    joint: bool
    reverse_target: bool = False

    def save(self, folder: FilePath) -> None:
        """Write the model files to `folder`, created if missing, and tokenizer.json last."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, _File] = {}
        for side, tokenizer in (("src", self.src), ("tgt", self.tgt)):
            name = f"{'joint' if self.joint else side}{tokenizer.config.suffix}"
            content = tokenizer.model_bytes
            write_bytes(folder / name, content)
            files[side] = _File(name=name, sha256=hashlib.sha256(content).hexdigest())
        manifest = _Manifest(
            src_lang=self.src.lang,
            tgt_lang=self.tgt.lang,
            config=self.src.config,
            tgt_config=None if self.tgt.config == self.src.config else self.tgt.config,
            src=files["src"],
            tgt=files["tgt"],
        )
        write_json(folder / MANIFEST_NAME, manifest.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: FilePath) -> "Tokenizers":
        """Load the tokenizers that `save` wrote to `folder`.

        Raises DataError if a file is missing, unreadable or altered, or its format is unknown.
        """
        folder = Path(folder)
        path = folder / MANIFEST_NAME
        try:
            manifest = _Manifest.model_validate(parse_json(_read(path), str(path), DataError))
        except ValidationError as error:
            raise DataError(f"{path}: {first_fault(error)}") from error
        config = manifest.config
        src = _load_side(folder, manifest.src, config, manifest.src_lang)
        tgt = _load_side(folder, manifest.tgt, manifest.tgt_config or config, manifest.tgt_lang)
        return cls(src, tgt, config.joint)


def train_tokenizers(
    config: TokenizerConfig, pairs: Iterable[SentencePair], src_lang: str, tgt_lang: str, seed: int
) -> Tokenizers:
    """Learn a vocabulary for each side, or one for both, from the training pairs.

    If `config` names model files, these are used, and no pair is read. The same pairs in the same
    order give the same tokenizers. Raises DataError if there is no text or a file is unusable, and
    ConfigError if the text does not allow the vocabulary size.
    """
    if config.model_files is not None:
        src_file, tgt_file = config.model_files
        src_tokenizer = tokenizer_from_file(config, src_file, src_lang)
        tgt_tokenizer = tokenizer_from_file(config, tgt_file, tgt_lang)
        return Tokenizers(src_tokenizer, tgt_tokenizer, config.joint)
    src_texts: list[str] = []
    tgt_texts: list[str] = []
    for pair in pairs:
        src_texts.append(normalise(pair.src_text, src_lang))
        tgt_texts.append(normalise(pair.tgt_text, tgt_lang))
    if config.joint:
        src = tgt = config.train(src_texts + tgt_texts, f"{src_lang}+{tgt_lang}", seed)
    else:
        src = config.train(src_texts, src_lang, seed)
        tgt = config.train(tgt_texts, tgt_lang, seed)
    return Tokenizers(config.build(src, src_lang), config.build(tgt, tgt_lang), config.joint)


def tokenizer_from_file(config: TokenizerConfig, file: ModelFile, lang: str) -> Tokenizer:
    """Build a tokenizer from a user's model file. Raises DataError if the file is unusable."""
    key, path = file
    try:
        return config.build_from_file(read_bytes(path, MAX_FILE_BYTES, DataError), lang)
    except FileNotFoundError:
        raise DataError(f"tokenizer.{key}: {path}: no such file") from None
    except DataError as error:
        problem = str(error).removeprefix(f"{path}: ")
        raise DataError(f"tokenizer.{key}: {path}: {problem}") from error


def size_notes(tokenizers: Tokenizers) -> list[str]:
    """Return a line for each vocabulary that is below the default size for lack of text."""
    config = tokenizers.src.config
    if config.size_limit is None or getattr(config, config.size_limit[0]) is not None:
        return []
    key, size = config.size_limit
    sides = [tokenizers.src] if tokenizers.joint else [tokenizers.src, tokenizers.tgt]
    return [
        f"the {side.lang} text allows only {len(side.vocab):,} pieces "
        f"(tokenizer.{key}: {size:,} by default)"
        for side in sides
        if len(side.vocab) < size
    ]


def word_hash(word: str) -> int:
    """Return a 32-bit hash of a word that ignores case."""
    return zlib.crc32(word.casefold().encode())


def record_words(folder: Path, texts: Iterable[str], others: frozenset[int] = frozenset()) -> None:
    """Write the hashes of all words of `texts`, and `others`, to a file in `folder`.

    Nothing is written if there are more than MAX_WORDS hashes.
    """
    hashes = set(others)
    for text in texts:
        hashes.update(map(word_hash, letter_words(text)))
        if len(hashes) > MAX_WORDS:
            return
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "src.words", np.array(sorted(hashes), dtype="<u4").tobytes())


def read_word_hashes(folder: Path) -> frozenset[int]:
    """Return the hashes recorded in `folder`, if any. Raises DataError if they are unreadable."""
    path = folder / "src.words"
    content = _read(path)[: 4 * MAX_WORDS] if path.exists() else b""
    return frozenset(np.frombuffer(content[: len(content) & -4], dtype="<u4").tolist())


def _read(path: Path) -> bytes:
    check_inside(path, path.parent, DataError)
    try:
        return read_bytes(path, MAX_FILE_BYTES, DataError)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; the tokenizer is incomplete") from None


def _load_side(folder: Path, file: _File, config: TokenizerConfig, lang: str) -> Tokenizer:
    path = folder / file.name
    content = _read(path)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(f"{path}: the SHA-256 differs from the one in {MANIFEST_NAME}")
    try:
        return config.build(content, lang)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
