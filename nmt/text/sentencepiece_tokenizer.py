"""Subword tokenizer of SentencePiece models (Kudo and Richardson 2018, arXiv 1808.06226)."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import sentencepiece
from pydantic import Field

from nmt.errors import ConfigError, DataError
from nmt.settings.base import Conflict, UserPath
from nmt.text import normalisation
from nmt.text.case_markup import CAPITAL, MARKS, UPPER, mark_case, restore_case
from nmt.text.sentencepiece_model import check_model
from nmt.text.subword_sampling import BPEDropout, Sampler, SubwordSamplingConfig, UnigramSampler
from nmt.text.tokenizer_config import BaseTokenizerConfig, ModelFile
from nmt.text.vocabulary import BOS_ID, EOS_ID, MAX_SIZE, PAD_ID, RESERVED, UNK_ID, Vocab
from nmt.types import Encoded

DEFAULT_SIZE = 8000  # pieces per side, or fewer if the text does not allow that many
_BYTE_PIECES = len(RESERVED) + 256  # number of unlearned pieces with byte_fallback

_TOO_MANY = re.compile(r"Vocabulary size too high .* <= (\d+)")

SPACE_MARK = "▁"  # U+2581, before the first piece of a word
_OPENING = (SPACE_MARK, CAPITAL, UPPER)
_NO_LETTERS = (SPACE_MARK, *MARKS)
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_WORD = re.compile(f"[{''.join(MARKS)}]|{SPACE_MARK}[^{SPACE_MARK}{''.join(MARKS)}]+")


class SentencePieceConfig(BaseTokenizerConfig):
    """SentencePiece tokenizers, learned from the training text or read from model files."""

    is_lossless = can_sample = True
    suffix = ".model"
    unknown_cure = "tokenizer.character_coverage is low"

    kind: Literal["sentencepiece"] = Field(
        default="sentencepiece", description="learned sub-word pieces"
    )
    model_type: Literal["unigram", "bpe"] = Field(
        default="unigram",
        description="how pieces are learned: unigram language model or byte-pair merges",
    )
    vocab_size: int | None = Field(
        default=None,
        gt=4,
        le=MAX_SIZE,
        description="number of pieces per side, including the four reserved ones; null: 8000, or "
        "as many as the text allows if these are fewer",
    )
    case: Literal["keep", "markup"] = Field(
        default="keep",
        description="keep: pieces keep their capitals; markup: words are in lower case, so that "
        "MAN, Man and man share pieces, and extra pieces mark a capital (⇧) and the start (⇪) and "
        "end (⇩) of words in capitals, which decoding restores",
    )
    character_coverage: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="fraction of the text's characters that get their own piece",
    )
    byte_fallback: bool = Field(
        default=False,
        description="encode a character without a piece as its UTF-8 bytes (256 pieces)",
    )
    src_model: UserPath | None = Field(
        default=None,
        description="a SentencePiece model to use for the source instead of learning one; with "
        "`joint`, for both languages; it is copied into the run",
    )
    tgt_model: UserPath | None = Field(default=None, description="the same for the target")

    def _conflicts(self) -> Iterator[Conflict]:
        if self.src_model is None and self.tgt_model is None:
            return
        for key in ("model_type", "vocab_size", "character_coverage", "byte_fallback"):
            if getattr(self, key) != type(self).model_fields[key].default:
                yield key, "applies to learned pieces, but src_model is set: leave it out"
        if self.src_model is None or (self.tgt_model is not None) == self.joint:
            key = "src_model" if self.src_model is None else "tgt_model"
            yield key, "allowed: src_model and tgt_model, or src_model alone with joint: true"

    @property
    def model_files(self) -> tuple[ModelFile, ModelFile] | None:
        if self.src_model is None:
            return None
        src = "src_model", self.src_model
        return src, (src if self.tgt_model is None else ("tgt_model", self.tgt_model))

    def conflicts(self) -> Iterator[Conflict]:
        size = self.vocab_size or DEFAULT_SIZE
        if self.model_files is None and self.byte_fallback and size <= _BYTE_PIECES:
            allowed = f"> {_BYTE_PIECES} if tokenizer.byte_fallback is true"
            yield "vocab_size", f"got {size}, allowed: {allowed}"

    @property
    def lowers_case(self) -> bool:
        return self.case == "markup"

    @property
    def size_limit(self) -> tuple[str, int] | None:
        return None if self.model_files else ("vocab_size", self.vocab_size or DEFAULT_SIZE)

    def build_from_file(self, content: bytes, lang: str) -> "SentencePieceTokenizer":
        """Build a tokenizer from a user's model file, with a config that describes the model."""
        tokenizer = self.build(content, lang)
        update = {
            "model_type": tokenizer.model_type,
            "vocab_size": len(tokenizer.vocab),
            "byte_fallback": "<0x00>" in tokenizer.vocab.pieces,
            "src_model": None,
            "tgt_model": None,
        }
        tokenizer.config = self.model_copy(update=update)
        return tokenizer

    def train(self, texts: Sequence[str], name: str, seed: int) -> bytes:
        if not any(texts):
            raise DataError(f"cannot learn a vocabulary: there is no {name} text")
        size = self.vocab_size or DEFAULT_SIZE
        try:
            return self._train(texts, size, seed)
        except RuntimeError as error:
            limit = _TOO_MANY.search(str(error))
            if limit is not None and self.vocab_size is None:
                size = int(limit[1])
                return self.model_copy(update={"vocab_size": size}).train(texts, name, seed)
            raise _training_error(str(error), size, name) from error

    def _train(self, texts: Sequence[str], vocab_size: int, seed: int) -> bytes:
        """Learn a model of `vocab_size` pieces. Raises SentencePiece's RuntimeError."""
        sentencepiece.set_random_generator_seed(seed)
        texts = list(map(mark_case, texts)) if self.case == "markup" else texts
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=self.model_type,
            vocab_size=vocab_size,
            character_coverage=self.character_coverage,
            byte_fallback=self.byte_fallback,
            split_digits=True,  # so that a number is copied digit by digit
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            pad_id=PAD_ID,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_surface=RESERVED[UNK_ID],
            # Longer lines would be skipped without a message. The minimum is 10.
            max_sentence_length=max(10, 4 * max(map(len, texts)) + 1),
            # mark_case already puts a space before the first word.
            add_dummy_prefix=self.case == "keep",
            user_defined_symbols=list(MARKS if self.case == "markup" else ()),
            num_threads=8,  # fixed, because sums and therefore pieces depend on it
            minloglevel=2,
        )
        return model.getvalue()

    def build(self, model_bytes: bytes, lang: str) -> "SentencePieceTokenizer":
        return SentencePieceTokenizer(self, model_bytes, lang)


def _training_error(message: str, size: int, name: str) -> Exception:
    if limit := _TOO_MANY.search(message):
        problem = f"{size} pieces are more than the {name} text allows; at most {limit[1]}"
        return ConfigError(f"tokenizer.vocab_size: {problem}")
    if limit := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"tokenizer.vocab_size: {size} pieces are too few for the characters of the {name} "
            f"text; at least {limit[1]}, or lower tokenizer.character_coverage"
        )
    return DataError(f"SentencePiece cannot learn from the {name} text: {message}")


class SentencePieceTokenizer:
    """Tokenizer (tokenizer.py) of a SentencePiece model for texts in `lang`.

    `decode(encode(x).ids, restore=False) == normalise(x)` for every x without unknown pieces.
    With `byte_fallback`, no piece is unknown.
    """

    def __init__(self, config: SentencePieceConfig, model_bytes: bytes, lang: str) -> None:
        self.config = config
        self.model_bytes = model_bytes
        self.lang = lang
        self.model_type = check_model(model_bytes)
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes)
        except RuntimeError as error:
            raise DataError("not a SentencePiece model") from error
        try:
            pieces = self.processor.id_to_piece(list(range(self.processor.get_piece_size())))
        except UnicodeDecodeError:
            raise DataError("a piece of the SentencePiece model is not UTF-8") from None
        self.vocab = Vocab(tuple(pieces))
        if (CAPITAL in pieces) != (config.case == "markup"):
            verb = "lacks" if config.case == "markup" else "has"
            problem = f"but the model {verb} the piece {CAPITAL}"
            raise DataError(f"tokenizer.case: {config.case}, {problem}")
        if self.processor.decode([UNK_ID]).strip() != RESERVED[UNK_ID]:
            raise DataError(f"the unknown piece is not decoded as {RESERVED[UNK_ID]}")

    def encode(self, text: str) -> Encoded:
        model_text = self._model_text(text)
        ids: list[int] = self.processor.encode(model_text, out_type=int)
        pieces: list[str] = self.processor.encode(model_text, out_type=str)
        return self._encoded(pieces, ids)

    def encode_batch(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        model_texts = [self._model_text(text) for text in texts]
        return [tuple(ids) for ids in self.processor.encode(model_texts, out_type=int)]

    def words(self, ids: Sequence[int]) -> list[str]:
        """Return the words of a text, each beginning with ▁, and its marks of case, in order.

        No piece belongs to two of them. `ids` must not include unknown pieces or byte pieces.
        """
        return _WORD.findall("".join(map(self.vocab.piece_of, ids)))

    def word_text(self, word: str) -> str:
        """Return the text that the processor segments into the pieces of `word`."""
        if self.config.case == "markup":
            return word.replace(SPACE_MARK, " ")
        return word.removeprefix(SPACE_MARK)

    def piece_bytes(self, piece: str) -> bytes:
        match = _BYTE.fullmatch(piece) if self.config.byte_fallback else None
        return piece.encode() if match is None else bytes.fromhex(match[1])

    def sampler(self, config: SubwordSamplingConfig, rate: float) -> Sampler | None:
        if not rate:
            return None
        if self.config.model_type == "bpe":
            return BPEDropout(self, rate)
        return UnigramSampler(self, rate, config)

    def encoded_from_ids(self, ids: Sequence[int]) -> Encoded:
        real_ids = self.vocab.real_ids(ids)
        return self._encoded([self.vocab.piece_of(i) for i in real_ids], real_ids)

    def decode(
        self, ids: Sequence[int], restore: bool = True, surfaces: Mapping[int, str] | None = None
    ) -> str:
        real_ids = self.vocab.real_ids(ids)
        text, start = "", 0
        # The ids between two surfaces are decoded together, so that bytes of one character join.
        for position, surface in sorted((surfaces or {}).items()):
            text += self._decode_part(real_ids[start:position]) + surface
            start = position + 1
        words = (text + self._decode_part(real_ids[start:])).split()
        if self.config.case == "markup":
            words = [word for word in restore_case(words) if word]
        text = " ".join(words)
        return normalisation.restore(text, self.lang) if restore else text

    def _model_text(self, text: str) -> str:
        text = normalisation.normalise(text, self.lang)
        return mark_case(text) if self.config.case == "markup" else text

    def _decode_part(self, ids: list[int]) -> str:
        """Decode part of a text with the space before its first word, which SentencePiece omits."""
        has_space = bool(ids) and self.vocab.piece_of(ids[0]).startswith(SPACE_MARK)
        return " " * has_space + str(self.processor.decode(ids))

    def _encoded(self, pieces: Sequence[str], ids: Sequence[int]) -> Encoded:
        spans = word_spans(pieces)
        words = [self._surface(pieces[a:b], ids[a:b]) for a, b in spans]
        if self.config.case == "markup":
            words = list(restore_case(words))
        return Encoded(tuple(pieces), tuple(ids), tuple(words), spans)

    def _surface(self, pieces: Sequence[str], ids: Sequence[int]) -> str:
        # The processor joins the bytes of a character.
        if self.config.byte_fallback and any(self.processor.is_byte(list(ids))):
            return str(self.processor.decode(list(ids))).strip()
        return "".join(pieces).replace(SPACE_MARK, "")


def word_spans(pieces: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the range (start, end) of each word's pieces. The ranges cover all pieces.

    A word begins at a piece that begins with ▁, or at the mark ⇧ or ⇪ before it. A piece ⇩ belongs
    to the word before it, as do pieces ▁, ⇧ and ⇪ at the end of the text.
    """
    if not pieces:
        return ()
    last = max((i for i, piece in enumerate(pieces) if piece not in _NO_LETTERS), default=-1)
    starts = [0]
    has_letters = False
    for i, piece in enumerate(pieces):
        if has_letters and i <= last and piece.startswith(_OPENING):
            starts.append(i)
            has_letters = False
        has_letters = has_letters or piece not in _NO_LETTERS
    return tuple(zip(starts, [*starts[1:], len(pieces)], strict=True))
