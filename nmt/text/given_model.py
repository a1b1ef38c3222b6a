"""A SentencePiece model that was trained elsewhere, rewritten as nmt's tokenizers have it.

The reserved four become ids 0 to 3, whatever ids and names they have in the file. All other pieces
keep their order, scores and types, so that a text is cut as before.
"""

from dataclasses import dataclass

from nmt.errors import DataError
from nmt.text.sentencepiece_model import (
    CHARSMAP,
    DENORMALIZER,
    IDENTITY,
    NORMALIZER,
    PIECES,
    RULE_NAME,
    TRAINER,
    fields,
    rule_name,
    text_rules,
    varint,
)
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, RESERVED, UNK_ID

_TYPE, _NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 3, 1, 2, 3, 4
_MODEL_TYPE, _BYTE_FALLBACK, _SUFFIX = 3, 35, 24
_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_SPECIAL_NAMES = {46: "<s>", 47: "</s>", 48: "<pad>"}
"""Fields of the trainer's settings that name bos, eos and pad, with their defaults."""
_UNK_SURFACE = 44
_IDS = {40: UNK_ID, 41: BOS_ID, 42: EOS_ID, 43: PAD_ID}
_SCORE_ZERO = b"\x15\0\0\0\0"  # field 2, a float
_DUMMY_PREFIX, _NO_EXTRA_SPACES, _ESCAPES = 3, 4, 5


@dataclass(frozen=True)
class GivenModel:
    """The rewritten model, and what it was learned as; `adds_space` before a text's first word."""

    model_bytes: bytes
    model_type: str
    byte_fallback: bool
    adds_space: bool
    n_pieces: int


def given_model(content: bytes) -> GivenModel:
    """The model file `content`, rewritten.

    Pieces called as a reserved one, and those that the file has for bos, eos, pad and unknown
    text, are replaced by the reserved four; where the file lacks one, it is added. The tables of
    its text rules are left out: `rule_name` says which rules of the library are applied. Raises
    DataError for a file that is no such model, for pieces of another type than unigram and bpe,
    for other text rules, and where nothing is left.
    """
    try:
        return _rewritten(content)
    except (IndexError, UnicodeDecodeError):
        raise DataError("not a SentencePiece model") from None


def _rewritten(content: bytes) -> GivenModel:
    trainer, normalizer = _merged(content, TRAINER), _merged(content, NORMALIZER)
    number = _number(trainer, _MODEL_TYPE, 1)
    model_type = _MODEL_TYPES.get(number, str(number))
    names = {_text(trainer, field, name) for field, name in _SPECIAL_NAMES.items()}
    pieces = _other_pieces(content, names | set(RESERVED))
    if not pieces:
        raise DataError("no piece besides the reserved ones")
    if model_type not in ("unigram", "bpe"):
        raise DataError(f"pieces of type '{model_type}', allowed: unigram, bpe")
    if _number(trainer, _SUFFIX, 0) or not _number(normalizer, _ESCAPES, 1):
        raise DataError("its pieces do not mark the beginning of a word by ▁")
    rule = _rule(content, normalizer)
    if altered := [name for name in _user_defined(pieces) if text_rules(rule)(name) != name]:
        raise DataError(f"its text rules ({rule}) alter its user-defined symbol {altered[0]!r}")
    byte_fallback = bool(_number(trainer, _BYTE_FALLBACK, 0))
    n_pieces = len(RESERVED) + len(pieces)
    options = [
        _varint_field(field, _number(normalizer, field, 1))
        for field in (_DUMMY_PREFIX, _NO_EXTRA_SPACES, _ESCAPES)
    ]
    model = [_message(PIECES, piece) for piece in (*_reserved_pieces(), *pieces)]
    model.append(_message(TRAINER, _trainer(number, n_pieces, byte_fallback)))
    model.append(_message(NORMALIZER, _message(RULE_NAME, rule.encode()) + b"".join(options)))
    adds_space = bool(_number(normalizer, _DUMMY_PREFIX, 1))
    return GivenModel(b"".join(model), model_type, byte_fallback, adds_space, n_pieces)


def _rule(content: bytes, normalizer: bytes) -> str:
    """The name of the text rules, whose tables the file has unless nmt wrote it."""
    if any(_values(_merged(content, DENORMALIZER), CHARSMAP)):
        raise DataError("it has rules for decoded text, allowed: none")
    rule = rule_name(content)
    if rule == IDENTITY and any(_values(normalizer, CHARSMAP)):
        raise DataError("its text rules have no name")
    return rule


def _user_defined(pieces: list[bytes]) -> list[str]:
    return [_text(piece, 1, "") for piece in pieces if _number(piece, _TYPE, 1) == _USER_DEFINED]


def _other_pieces(content: bytes, replaced: set[str]) -> list[bytes]:
    """The pieces that are not replaced. Raises IndexError without any piece, as for other files."""
    messages = _values(content, PIECES)
    if not messages:
        raise IndexError
    return [
        message
        for message in messages
        if _number(message, _TYPE, _NORMAL) != _UNKNOWN and _text(message, 1, "") not in replaced
    ]


def _reserved_pieces() -> list[bytes]:
    return [
        _message(1, name.encode())
        + _SCORE_ZERO
        + _varint_field(_TYPE, _UNKNOWN if id_ == UNK_ID else _CONTROL)
        for id_, name in enumerate(RESERVED)
    ]


def _trainer(model_type: int, n_pieces: int, byte_fallback: bool) -> bytes:
    """The settings that decoding reads; names of the reserved pieces are the library's defaults."""
    parts = [_varint_field(_MODEL_TYPE, model_type), _varint_field(4, n_pieces)]
    parts += [_varint_field(_BYTE_FALLBACK, byte_fallback)]
    parts += [_varint_field(field, id_) for field, id_ in _IDS.items()]
    return b"".join([*parts, _message(_UNK_SURFACE, RESERVED[UNK_ID].encode())])


def _merged(content: bytes, field: int) -> bytes:
    """A sub-message; several of one field count as one, as protocol buffers have it."""
    return b"".join(_values(content, field))


def _number(message: bytes, field: int, default: int) -> int:
    """The last value of an integer field."""
    starts = [start for number, start, _ in fields(message, 0, len(message)) if number == field]
    return varint(message, starts[-1])[0] if starts else default


def _text(message: bytes, field: int, default: str) -> str:
    values = _values(message, field)
    return values[-1].decode() if values else default


def _values(message: bytes, field: int) -> list[bytes]:
    return [message[a:b] for number, a, b in fields(message, 0, len(message)) if number == field]


def _varint_field(field: int, value: int) -> bytes:
    return _varint_bytes(field << 3) + _varint_bytes(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint_bytes(field << 3 | 2) + _varint_bytes(len(content)) + content


def _varint_bytes(value: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first."""
    groups = []
    while value >= 128:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
