"""Translations written the way their references are: metrics compare characters, not meaning.

A model reads and writes normalised text (corpus/text.py); print wants `l’été`, while most corpora
have `l'été`, and to BLEU these are two different words. So before scoring, the model's output,
never a reference, is put into the one of the two forms that the references are in.
"""

from collections.abc import Sequence
from typing import Literal

from nmt.corpus.text import normalise, restore

Typography = Literal["plain", "printed"]


def typography_of(texts: Sequence[str], lang: str) -> Typography:
    """The form, plain or printed, that more of the texts are in as they stand; else plain.

    Plain is what `normalise` gives, printed what `restore` makes of that. One choice for a whole
    set of references: it can tell an apostrophe's shape and nothing about a translation.
    """
    plain_texts = [normalise(text, lang) for text in texts]
    n_plain = sum(text == plain for text, plain in zip(texts, plain_texts, strict=True))
    n_printed = sum(
        text == restore(plain, lang) for text, plain in zip(texts, plain_texts, strict=True)
    )
    return "printed" if n_printed > n_plain else "plain"


def write_as(typography: Typography, texts: Sequence[str], lang: str) -> list[str]:
    """The model's texts, in whichever form they are, in the form asked for."""
    plain_texts = [normalise(text, lang) for text in texts]
    if typography == "plain":
        return plain_texts
    return [restore(text, lang) for text in plain_texts]
