"""Tokenizers as data for the page's script, which encodes and decodes as nmt.text does."""

import re

from nmt.errors import ConfigError
from nmt.text.normalisation import CHARACTERS, FRENCH_PATTERNS, FRENCH_PRINTED, has_typography
from nmt.text.sentencepiece_model import check_model, read_rules
from nmt.text.tokenizer import Tokenizer
from nmt.text.word_tokenizer import mark_sets

_UNUSED = 5
"""SentencePiece's type of pieces that are only used while text is segmented anew."""

_WORD = r"\p{L}\p{N}_"  # Python's \w; JavaScript's has ASCII letters only
_CLASSES = {
    r"[^\W_]": r"[\p{L}\p{N}]",
    r"[^\W\d]": r"[\p{L}\p{Nl}\p{No}_]",
    r"[^\W\d_]": r"[\p{L}\p{Nl}\p{No}]",
}
_ESCAPES = {r"\w": f"[{_WORD}]", r"\d": r"\p{Nd}", r"\b": f"(?<![{_WORD}])"}
_UNITS = re.compile(r"\[(?:\\.|[^\]\\])*\]|\(\?P|\\.|[*+?}]\+|.", re.DOTALL)


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, object]:
    """Return everything that tokenizer.js needs, as JSON has it.

    Raises ConfigError for a SentencePiece model with rules that the script does not know.
    """
    config = tokenizer.config
    data: dict[str, object] = {
        "kind": config.kind,
        "lang": tokenizer.lang,
        "pieces": tokenizer.vocab.pieces,
        "typography": _typography(tokenizer.lang),
    }
    if config.kind == "word":
        return {**data, "lower": config.lower, "marks": mark_sets(tokenizer.lang)}
    content = tokenizer.model_bytes
    rules = read_rules(content)
    if _UNUSED in rules.types or not rules.has_plain_spaces:
        got = "unused pieces" if _UNUSED in rules.types else "rules of its own for spaces"
        raise ConfigError(
            f"cannot export tokenizer: got a SentencePiece model ({tokenizer.lang}) with {got}, "
            "allowed: none (format page)"
        )
    return {
        **data,
        "algorithm": check_model(content),
        "case": config.case,
        "byte_fallback": config.byte_fallback,
        "scores": [float(f"{score:.9g}") for score in rules.scores],  # enough for any fp32
        "types": "".join(map(str, rules.types)),
        "adds_dummy_prefix": rules.adds_dummy_prefix,
        "removes_extra_spaces": rules.removes_extra_spaces,
        "unknown_surface": rules.unknown_surface,
    }


def _typography(lang: str) -> dict[str, object]:
    patterns = None
    if has_typography(lang):
        patterns = {name: in_javascript(text) for name, text in FRENCH_PATTERNS.items()}
    return {"characters": CHARACTERS, "patterns": patterns, "printed": FRENCH_PRINTED}


def in_javascript(pattern: str) -> str:
    """Return a pattern of Python's as one of JavaScript's, for the flag `u`.

    It must match the same where a possessive quantifier is greedy, and `\\b` begin a word.
    """
    return _UNITS.sub(lambda match: _unit(match[0]), pattern)


def _unit(unit: str) -> str:
    if unit == "(?P":
        return "(?"
    if len(unit) == 2 and unit[1] == "+" and unit[0] in "*+?}":
        return unit[0]
    if unit.startswith("["):
        inside = unit.replace(r"\w", _WORD).replace(r"\d", r"\p{Nd}")
        return _CLASSES.get(unit, inside)
    return _ESCAPES.get(unit, unit)
