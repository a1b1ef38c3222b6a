"""Tokenizers: text of one language to pieces and ids, and back. They are trained, saved, loaded.

A kind of tokenizer is its config: `train` learns the bytes of a model file from text, `build`
makes a tokenizer of such bytes. To add a kind, write such a pair of classes and add the config
to the union at the end of this file.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field, ValidationError

from nmt.errors import DataError
from nmt.settings.base import Config
from nmt.settings.messages import first_fault
from nmt.storage.atomic import write_bytes, write_json
from nmt.storage.bounded import parse_json, read_bytes, stay_inside
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.subword_sampling import Sampler, SubwordSamplingConfig
from nmt.text.tokenizer_config import GivenFile
from nmt.text.vocabulary import NO_SURFACES, Vocab
from nmt.text.word_tokenizer import WordConfig
from nmt.types import Encoded, FilePath, SentencePair

TokenizerConfig = Annotated[SentencePieceConfig | WordConfig, Field(discriminator="kind")]

MANIFEST_NAME = "tokenizer.json"

MAX_FILE_BYTES = 100 << 20
"""A SentencePiece model of a million pieces takes a quarter of this."""


@runtime_checkable
class Tokenizer(Protocol):
    """Text of one language to ids and back. Texts are normalised first; ids hold no bos or eos."""

    def __hash__(self) -> int:
        """By identity, for what is computed once for each."""

    @property
    def config(self) -> TokenizerConfig:
        """The config it was trained by."""

    @property
    def model_bytes(self) -> bytes:
        """The content of its model file."""

    @property
    def lang(self) -> str:
        """The language of its texts, as the config names it ("fr")."""

    @property
    def vocab(self) -> Vocab:
        """Its pieces by id."""

    def encode(self, text: str) -> Encoded:
        """The pieces of `text`. An unknown piece keeps its surface and has UNK_ID."""

    def encode_batch(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        """`encode(text).ids` of every text, fast."""

    def piece_bytes(self, piece: str) -> bytes:
        """The UTF-8 of a piece's characters, ▁ for a space; of a part of a character its byte."""

    def sampler(self, config: SubwordSamplingConfig, rate: float) -> Sampler | None:
        """Return a sampler of segmentations; None where `rate` is 0 or a word has only one."""

    def encoded_from_ids(self, ids: Sequence[int]) -> Encoded:
        """The pieces and words of ids that a model wrote, without pad, bos and eos."""

    def decode(
        self, ids: Sequence[int], restore: bool = True, surfaces: Mapping[int, str] = NO_SURFACES
    ) -> str:
        """The text of ids, without pad, bos and eos; an unknown piece reads `<unk>`.

        `restore` writes it in the typography of the language (text.restore). The piece at place p
        of the ids that are left reads `surfaces[p]`, where there is one.
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
    tgt_config: TokenizerConfig | None = None  # where it is not the source's


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of both sides; `joint` where they share one vocabulary."""

    src: Tokenizer
    tgt: Tokenizer
    joint: bool

    def save(self, folder: FilePath) -> None:
        """Write the model files into `folder`, made if need be, and tokenizer.json last."""
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
        """The tokenizers that `save` wrote into `folder`.

        Raises DataError, naming the file and what is wrong with it, where one is missing,
        unreadable, of another format, altered, or not the model of a vocabulary.
        """
        folder = Path(folder)
        manifest = _read_manifest(folder / MANIFEST_NAME)
        config = manifest.config
        src = _load_side(folder, manifest.src, config, manifest.src_lang)
        tgt = _load_side(folder, manifest.tgt, manifest.tgt_config or config, manifest.tgt_lang)
        return cls(src, tgt, config.joint)


def train_tokenizers(
    config: TokenizerConfig, pairs: Iterable[SentencePair], src_lang: str, tgt_lang: str, seed: int
) -> Tokenizers:
    """Learn the vocabularies of both sides, or one for both, from the training pairs.

    Where `config` names files, they are taken, and no pair is read. The same pairs in the same
    order give the same tokenizers. Raises DataError for text that is empty or a file that is
    unfit, and ConfigError for a vocabulary size that the text does not allow.
    """
    if config.given is not None:
        src_file, tgt_file = config.given
        src_tokenizer = given_tokenizer(config, src_file, src_lang)
        return Tokenizers(src_tokenizer, given_tokenizer(config, tgt_file, tgt_lang), config.joint)
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


def given_tokenizer(config: TokenizerConfig, file: GivenFile, lang: str) -> Tokenizer:
    """The tokenizer of a file that `config` names. Raises DataError with key and path."""
    key, path = file
    try:
        return config.build_given(read_bytes(path, MAX_FILE_BYTES, DataError), lang)
    except FileNotFoundError:
        raise DataError(f"tokenizer.{key}: {path}: no such file") from None
    except DataError as error:
        problem = str(error).removeprefix(f"{path}: ")
        raise DataError(f"tokenizer.{key}: {path}: {problem}") from error


def size_notes(tokenizers: Tokenizers) -> list[str]:
    """A line for each vocabulary that its text makes smaller than the default size."""
    size = tokenizers.src.config.default_size
    if size is None:
        return []
    sides = [tokenizers.src] if tokenizers.joint else [tokenizers.src, tokenizers.tgt]
    return [
        f"{len(side.vocab):,} pieces are all that the {side.lang} text allows "
        f"(tokenizer.vocab_size: {size:,} by default)"
        for side in sides
        if len(side.vocab) < size
    ]


def _read(path: Path) -> bytes:
    stay_inside(path, path.parent, DataError)
    try:
        return read_bytes(path, MAX_FILE_BYTES, DataError)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; the tokenizer is not whole") from None


def _read_manifest(path: Path) -> _Manifest:
    content = parse_json(_read(path), str(path), DataError)
    try:
        return _Manifest.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}") from error


def _load_side(folder: Path, file: _File, config: TokenizerConfig, lang: str) -> Tokenizer:
    path = folder / file.name
    content = _read(path)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(f"{path}: its content is not what {MANIFEST_NAME} says (sha256 differs)")
    try:
        return config.build(content, lang)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
