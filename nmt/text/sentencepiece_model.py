"""Checks of a SentencePiece model file, before the library parses it.

It is a protocol buffer (sentencepiece_model.proto): numbered fields, one after another.
"""

from collections.abc import Iterator

from nmt.errors import DataError
from nmt.text.vocabulary import MAX_SIZE

_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_CHARSMAP, _MODEL_TYPE = 2, 3
_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_FIXED_BYTES = {1: 8, 5: 4}


def check_model(content: bytes) -> str:
    """Return the type of a model's pieces, unigram or bpe.

    Raises DataError for another file or type, for more pieces than a vocabulary may have, and for
    rules that alter the text: nmt normalises text itself, and tables of rules in a forged model may
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
                    raise DataError(
                        "a SentencePiece model with text rules of its own, allowed: none"
                    )
    except IndexError:
        raise DataError("not a SentencePiece model") from None
    name = _MODEL_TYPES.get(model_type, str(model_type))
    if name not in ("unigram", "bpe"):
        raise DataError(f"pieces of type '{name}', allowed: unigram, bpe")
    return name


def _fields(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each field's number, and where its value begins and ends. Raises IndexError."""
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
    """Return a number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while shift < 64:
        byte = content[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
    raise IndexError
