"""Conversion of translations to the typography of their references before scoring.

Models write normalised text (text/normalisation.py). Some references have the printed form `l’été`,
others the plain form `l'été`, and to BLEU these are different words. Therefore translations are
converted to the form of the references. References are never converted. Because an accented letter
may be one code point or two, both sides are scored in NFC.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nmt.corpora.languages import language_code
from nmt.evaluation.metric import Scoring
from nmt.text.normalisation import (
    APOSTROPHE,
    NBSP,
    NNBSP,
    compose_unicode,
    has_typography,
    normalise,
    restore,
)
from nmt.types import EvalExample, Examples

Typography = Literal["plain", "printed"]

_AS_TYPED = str.maketrans({APOSTROPHE: "'", "\u2018": "'", NNBSP: " ", NBSP: " "})
_ELISION = re.compile(r"(?<=[^\W\d_])'(?=[^\W_])")


@dataclass(frozen=True, slots=True)
class ComparableTexts:
    """Translations and references in the form that is scored, and the numbers of changed texts.

    `typography` is the form of the translations, or None if `Scoring.as_is` forbids conversion.
    `n_retyped` is the number of translations whose typography changed. `n_not_nfc` translations and
    `n_refs_not_nfc` references were not in NFC.
    """

    hyp_texts: tuple[str, ...]
    examples: tuple[EvalExample, ...]
    typography: Typography | None = None
    n_retyped: int = 0
    n_not_nfc: int = 0
    n_refs_not_nfc: int = 0

    @property
    def refs(self) -> list[tuple[str, ...]]:
        return [example.ref_texts for example in self.examples]

    def notes(self) -> list[str]:
        """Return a line for each kind of change, with the number of changed texts."""
        lines = []
        if self.n_retyped:
            form = "' and common spaces" if self.typography == "plain" else "’ and no-break spaces"
            lines.append(
                f"{self.n_retyped:,} of {len(self.hyp_texts):,} translations are scored in the "
                f"typography of the references ({form})"
            )
        if self.n_not_nfc or self.n_refs_not_nfc:
            n_refs = sum(len(example.ref_texts) for example in self.examples)
            changes = [(self.n_refs_not_nfc, n_refs, "references")]
            changes += [(self.n_not_nfc, len(self.hyp_texts), "translations")]
            counts = " and ".join(f"{n:,} of {n_all:,} {what}" for n, n_all, what in changes if n)
            lines.append(f"{counts} are not in Unicode's NFC; both sides are scored in NFC")
        return lines


def make_comparable(
    hyp_texts: Sequence[str], examples: Examples, scoring: Scoring
) -> ComparableTexts:
    """Convert all translations to the references' prevailing typography, and all texts to NFC.

    If `scoring.as_is` is set, all texts stay unchanged.
    """
    if scoring.as_is:
        return ComparableTexts(tuple(hyp_texts), tuple(examples))
    lang = language_code(scoring.tgt_lang)
    refs = [ref for example in examples for ref in example.ref_texts]
    typography = typography_of(refs, lang)
    nfc_texts = [compose_unicode(text) for text in hyp_texts]
    outputs = convert_typography(typography, nfc_texts, lang)
    return ComparableTexts(
        hyp_texts=tuple(outputs),
        examples=tuple(
            replace(example, ref_texts=tuple(map(compose_unicode, example.ref_texts)))
            for example in examples
        ),
        typography=typography,
        n_retyped=_n_different(nfc_texts, outputs),
        n_not_nfc=_n_different(hyp_texts, nfc_texts),
        n_refs_not_nfc=_n_different(refs, map(compose_unicode, refs)),
    )


def typography_of(texts: Sequence[str], lang: str) -> Typography:
    """Return the more frequent form of the texts, plain or printed. A tie gives plain.

    The plain form is the output of `normalise`. The printed form is the output of `restore` or, in
    a language without typographic rules, has ’ between letters. The choice is made once
    for all references, so it reveals nothing about the translation of a single sentence.
    """
    nfc_texts = [compose_unicode(text) for text in texts]
    plain = [normalise(text, lang) for text in nfc_texts]
    printed = [_printed(text, lang) for text in plain]
    is_printed = _n_different(nfc_texts, printed) < _n_different(nfc_texts, plain)
    return "printed" if is_printed else "plain"


def convert_typography(typography: Typography, texts: Sequence[str], lang: str) -> list[str]:
    """Convert texts, which may have either form, to the form `typography`."""
    if typography == "plain":
        return [text.translate(_AS_TYPED) for text in texts]
    return [_printed(normalise(text, lang), lang) for text in texts]


def _printed(plain: str, lang: str) -> str:
    return restore(plain, lang) if has_typography(lang) else _ELISION.sub(APOSTROPHE, plain)


def _n_different(texts: Iterable[str], others: Iterable[str]) -> int:
    return sum(text != other for text, other in zip(texts, others, strict=True))
