"""Translations in the typography of their references, because metrics compare characters.

A model reads and writes normalised text (text/normalisation.py). Print has `l’été`, most corpora
have `l'été`, and for BLEU these are different words. So before scoring, translations are converted
to the form that the references have; references are never converted. A letter with an accent may
be one code point or two; both sides are scored in NFC.
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
    composed,
    has_typography,
    normalise,
    restore,
)
from nmt.types import EvalExample

Typography = Literal["plain", "printed"]

_AS_TYPED = str.maketrans({APOSTROPHE: "'", "\u2018": "'", NNBSP: " ", NBSP: " "})
_ELISION = re.compile(r"(?<=[^\W\d_])'(?=[^\W_])")


@dataclass(frozen=True, slots=True)
class Comparable:
    """Translations and references as they are scored, and what was altered for that.

    `typography` is the form of the translations, None if they were not converted. `n_retyped`
    translations were in another form. `n_not_nfc` translations and `n_refs_not_nfc` references
    were not in NFC.
    """

    hyp_texts: tuple[str, ...]
    examples: tuple[EvalExample, ...]
    typography: Typography | None = None
    n_retyped: int = 0
    n_not_nfc: int = 0
    n_refs_not_nfc: int = 0

    @property
    def refs(self) -> list[tuple[str, ...]]:
        """The references of each line."""
        return [example.ref_texts for example in self.examples]

    def notes(self) -> list[str]:
        """A line for each kind of alteration."""
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


def comparable(
    hyp_texts: Sequence[str], examples: Sequence[EvalExample], scoring: Scoring
) -> Comparable:
    """Put translations in the typography of their references, and both sides in NFC.

    With `scoring.as_is` both sides stay as they are.
    """
    if scoring.as_is:
        return Comparable(tuple(hyp_texts), tuple(examples))
    lang = language_code(scoring.tgt_lang)
    refs = [ref for example in examples for ref in example.ref_texts]
    typography = typography_of(refs, lang)
    normal = [composed(text) for text in hyp_texts]
    written = write_as(typography, normal, lang)
    return Comparable(
        hyp_texts=tuple(written),
        examples=tuple(
            replace(example, ref_texts=tuple(map(composed, example.ref_texts)))
            for example in examples
        ),
        typography=typography,
        n_retyped=_n_different(normal, written),
        n_not_nfc=_n_different(hyp_texts, normal),
        n_refs_not_nfc=_n_different(refs, map(composed, refs)),
    )


def typography_of(texts: Sequence[str], lang: str) -> Typography:
    """Return the form, plain or printed, of most of the texts; plain if as many are in each.

    `normalise` gives the plain form. `restore` makes it the printed form, or, in a language
    without rules, ’ between letters. There is one choice for all references, so it can reveal the
    shape of an apostrophe but nothing about a translation.
    """
    normal = [composed(text) for text in texts]
    plain = [normalise(text, lang) for text in normal]
    printed = [_printed(text, lang) for text in plain]
    is_printed = _n_different(normal, printed) < _n_different(normal, plain)
    return "printed" if is_printed else "plain"


def write_as(typography: Typography, texts: Sequence[str], lang: str) -> list[str]:
    """Convert translations, which may be in either form, to this one."""
    if typography == "plain":
        return [text.translate(_AS_TYPED) for text in texts]
    return [_printed(normalise(text, lang), lang) for text in texts]


def _printed(plain: str, lang: str) -> str:
    return restore(plain, lang) if has_typography(lang) else _ELISION.sub(APOSTROPHE, plain)


def _n_different(texts: Iterable[str], others: Iterable[str]) -> int:
    return sum(text != other for text, other in zip(texts, others, strict=True))
