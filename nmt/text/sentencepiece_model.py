"""Checks of a SentencePiece model file before the library parses it, and the model's rules.

The file is a protocol buffer (sentencepiece_model.proto), a sequence of numbered fields.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from nmt.errors import DataError
from nmt.text.vocabulary import MAX_SIZE

_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_CHARSMAP, _MODEL_TYPE = 2, 3
_SCORE, _TYPE = 2, 3
_DUMMY_PREFIX, _EXTRA_SPACES, _ESCAPES = 3, 4, 5
_SUFFIX, _UNKNOWN_SURFACE = 24, 44
_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_FIXED_BYTES = {1: 8, 5: 4}


def check_model(content: bytes) -> str:
    """Check a model file, and return the type of the model, unigram or bpe.

    Raises DataError if the file is not a model of these types, has more than MAX_SIZE pieces, or
    has rules that alter text. nmt normalises text itself, and the rules of a forged model could
    produce bytes that are not UTF-8.
    """
    model_type = 1
    n_pieces = 0
    try:
        for number, start, end in _fields(content, 0, len(content)):
            n_pieces += number == _PIECES
            if n_pieces > MAX_SIZE:
                raise DataError(f"more than the {MAX_SIZE:,} pieces that a vocabulary may have")
            if number not in (_TRAINER, _NORMALIZER, _DENORMALIZER):
                continue
            for inner, inner_start, inner_end in _fields(content, start, end):
                if number == _TRAINER and inner == _MODEL_TYPE:
                    model_type, _ = _varint(content, inner_start)
                elif number != _TRAINER and inner == _CHARSMAP and inner_end > inner_start:
                    raise DataError("a model with rules that alter text, allowed: none")
    except IndexError:
        raise DataError("not a SentencePiece model") from None
    name = _MODEL_TYPES.get(model_type, str(model_type))
    if name not in ("unigram", "bpe"):
        raise DataError(f"pieces of type '{name}', allowed: unigram, bpe")
    return name


class ModelRules(NamedTuple):
    """The scores and types of the pieces of a model, and its rules for spaces and unknown pieces.

    A type is 1 (normal), 2 (unknown), 3 (control), 4 (defined by the user), 5 (unused) or 6 (byte).
    With `has_plain_spaces`, ▁ replaces a space and begins a word. With `adds_dummy_prefix`, it also
    begins the text. `unknown_surface` is the text of an unknown piece.
    """

    scores: tuple[float, ...]
    types: tuple[int, ...]
    adds_dummy_prefix: bool
    removes_extra_spaces: bool
    has_plain_spaces: bool
    unknown_surface: str


def read_rules(content: bytes) -> ModelRules:
    """Read the rules of a model, after `check_model`. Raises DataError if the file is damaged."""
    scores, types = [], []
    flags = {_DUMMY_PREFIX: 1, _EXTRA_SPACES: 1, _ESCAPES: 1, _SUFFIX: 0}
    unknown = " ⁇ "
    try:
        for number, start, end in _fields(content, 0, len(content)):
            if number not in (_PIECES, _TRAINER, _NORMALIZER):
                continue
            fields = {inner: span for inner, *span in _fields(content, start, end)}
            if number == _PIECES:
                score = content[slice(*fields[_SCORE])] if _SCORE in fields else bytes(4)
                scores.append(struct.unpack("<f", score)[0])
                types.append(_varint(content, fields[_TYPE][0])[0] if _TYPE in fields else 1)
                continue
            names = {_SUFFIX} if number == _TRAINER else flags.keys() - {_SUFFIX}
            flags |= {name: _varint(content, fields[name][0])[0] for name in names & fields.keys()}
            if number == _TRAINER and _UNKNOWN_SURFACE in fields:
                unknown = content[slice(*fields[_UNKNOWN_SURFACE])].decode()
    except (IndexError, struct.error, UnicodeDecodeError):
        raise DataError("not a SentencePiece model") from None
    return ModelRules(
        scores=tuple(scores),
        types=tuple(types),
        adds_dummy_prefix=bool(flags[_DUMMY_PREFIX]),
        removes_extra_spaces=bool(flags[_EXTRA_SPACES]),
        has_plain_spaces=bool(flags[_ESCAPES]) and not flags[_SUFFIX],
        unknown_surface=unknown,
    )


def _fields(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield each field's number and its value's start and end. Raises IndexError if damaged."""
    while start < end:
        tag, start = _varint(content, start)
        kind = tag & 7
        if kind == 0:
            _, stop = _varint(content, start)
        elif kind == 2:
            size, start = _varint(content, start)
            stop = start + size
        else:
            stop = start + _FIXED_BYTES.get(kind, end)
        if stop > end:
            raise IndexError
        yield tag >> 3, start, stop
        start = stop


def _varint(content: bytes, start: int) -> tuple[int, int]:
    """Decode a varint (groups of 7 bits, lowest first), and return its value and end."""
    value = shift = 0
    while shift < 64:
        byte = content[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
    raise IndexError
