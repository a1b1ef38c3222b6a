"""Tokenizers as data for the page's script, which encodes and decodes as nmt.text does."""

import re

from nmt.errors import ConfigError, DataError
from nmt.text.normalisation import FRENCH_PATTERNS, FRENCH_PRINTED, REPLACEMENTS, has_typography
from nmt.text.sentencepiece_model import check_model, read_rules
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_tokenizer import mark_sets

_UNUSED = 5
"""SentencePiece's code of a piece that its encoder splits into smaller ones."""

_WORD = r"\p{L}\p{N}_"  # Python's class \w; JavaScript's is ASCII only
_CLASSES = {
    r"[^\W_]": r"[\p{L}\p{N}]",
    r"[^\W\d]": r"[\p{L}\p{Nl}\p{No}_]",
    r"[^\W\d_]": r"[\p{L}\p{Nl}\p{No}]",
}
_ESCAPES = {r"\w": f"[{_WORD}]", r"\d": r"\p{Nd}", r"\b": f"(?<![{_WORD}])"}
_UNITS = re.compile(r"\[(?:\\.|[^\]\\])*\]|\(\?P|\\.|[*+?}]\+|.", re.DOTALL)


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, object]:
    """Return the data that tokenizer.js reads, as JSON values.

    Raises ConfigError for a SentencePiece model that the script does not support, and DataError for
    a malformed one.
    """
    config = tokenizer.config
    patterns = None
    if has_typography(tokenizer.lang):
        patterns = {k: _UNITS.sub(_in_javascript, text) for k, text in FRENCH_PATTERNS.items()}
    data: dict[str, object] = {
        "kind": config.kind,
        "lang": tokenizer.lang,
        "pieces": tokenizer.vocab.pieces,
        "typography": {"characters": REPLACEMENTS, "patterns": patterns, "printed": FRENCH_PRINTED},
    }
    if config.kind == "word":
        return {**data, "lower": config.lower, "marks": mark_sets(tokenizer.lang)}
    content = tokenizer.model_bytes
    try:
        rules = read_rules(content)
    except DataError as error:
        raise DataError(f"cannot export tokenizer ({tokenizer.lang}): {error}") from None
    if _UNUSED in rules.types or not rules.has_plain_spaces:
        fault = "unused pieces" if _UNUSED in rules.types else "special rules for spaces"
        raise ConfigError(
            f"cannot export tokenizer ({tokenizer.lang}): got a SentencePiece model with {fault}, "
            "allowed: one without (format page)"
        )
    return {
        **data,
        "algorithm": check_model(content),
        "case": config.case,
        "byte_fallback": config.byte_fallback,
        "scores": [float(f"{score:.9g}") for score in rules.scores],  # exact for fp32
        "types": "".join(map(str, rules.types)),
        "adds_dummy_prefix": rules.adds_dummy_prefix,
        "removes_extra_spaces": rules.removes_extra_spaces,
        "unknown_surface": rules.unknown_surface,
    }


def _in_javascript(match: re.Match[str]) -> str:
    """Translate a unit of a Python regular expression into JavaScript's, with the flag `u`.

    Possessive quantifiers become greedy, which must not change what the pattern matches. `\\b` must
    mark the beginning of a word.
    """
    unit = match[0]
    if unit == "(?P":
        return "(?"
    if len(unit) == 2 and unit[1] == "+" and unit[0] in "*+?}":
        return unit[0]
    if unit.startswith("["):
        return _CLASSES.get(unit, unit.replace(r"\w", _WORD).replace(r"\d", r"\p{Nd}"))
    return _ESCAPES.get(unit, unit)
