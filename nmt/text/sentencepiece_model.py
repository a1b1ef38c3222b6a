"""Checks of a SentencePiece model file, before the library parses it.

It is a protocol buffer (sentencepiece_model.proto): numbered fields, one after another.
"""

import mmap
from collections.abc import Callable, Iterator
from functools import cache

import sentencepiece

from nmt.errors import DataError
from nmt.text.vocabulary import MAX_SIZE

PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
RULE_NAME, CHARSMAP = 1, 2
IDENTITY = "identity"
RULES = (IDENTITY, "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf")
"""Text rules of the library: Unicode's NFKC, `cf` folds case, `nmt` removes control characters."""

_FIXED_BYTES = {1: 8, 5: 4}


def check_model(content: bytes) -> None:
    """Raise DataError for more pieces than a vocabulary may have, or rules that alter the text.

    nmt normalises text itself, and applies the rules of a given model (`rule_name`) before the
    library reads the text, so its models have no tables of rules. Those of a forged model may
    produce bytes that are not UTF-8.
    """
    n_pieces = 0
    try:
        for number, start, end in fields(content, 0, len(content)):
            n_pieces += number == PIECES
            if n_pieces > MAX_SIZE:
                raise DataError(f"more than the {MAX_SIZE:,} pieces that a vocabulary may have")
            if number in (NORMALIZER, DENORMALIZER) and any(
                inner == CHARSMAP and inner_end > inner_start
                for inner, inner_start, inner_end in fields(content, start, end)
            ):
                raise DataError("a SentencePiece model with text rules of its own, allowed: none")
    except IndexError:
        raise DataError("not a SentencePiece model") from None


def rule_name(content: bytes) -> str:
    """The name of a model's text rules, one of RULES. Raises DataError for others.

    Raises IndexError for what is no model.
    """
    name = IDENTITY.encode()
    for number, start, end in fields(content, 0, len(content)):
        if number == NORMALIZER:
            for inner, inner_start, inner_end in fields(content, start, end):
                if inner == RULE_NAME and inner_end > inner_start:
                    name = content[inner_start:inner_end]
    shown = name.decode(errors="replace")
    if shown not in RULES:
        raise DataError(f"text rules '{shown}', allowed: {', '.join(RULES)}")
    return shown


@cache
def text_rules(name: str) -> Callable[[str], str]:
    """The text rules of that name, one of RULES, as the library applies them."""
    if name == IDENTITY:
        return str
    normalizer = sentencepiece.SentencePieceNormalizer(
        rule_name=name,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    )
    return normalizer.normalize


def fields(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Each field's number, and where its value begins and ends. Raises IndexError."""
    while start < end:
        tag, start = varint(content, start)
        kind = tag & 7
        if kind == 0:
            _, stop = varint(content, start)
        elif kind == 2:
            size, start = varint(content, start)
            stop = start + size
        else:
            stop = start + _FIXED_BYTES.get(kind, end)
        if stop > end:
            raise IndexError
        yield tag >> 3, start, stop
        start = stop


def varint(content: bytes | mmap.mmap, start: int) -> tuple[int, int]:
    """Return a number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while shift < 64:
        byte = content[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
    raise IndexError
