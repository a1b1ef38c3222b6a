"""Source texts as people type them, for training: other casing and punctuation, typing slips.

A model that is trained on clean text alone fails on a few such characters (Belinkov and Bisk 2018,
arXiv 1711.02173), and training on sampled noise mends this at little cost on clean text
(Karpukhin et al. 2019, arXiv 1902.01509).
"""

import itertools
import random
import re
from typing import Annotated

from pydantic import Field, model_validator

from nmt.settings.base import Config

Probability = Annotated[float, Field(ge=0, le=1)]


class NoiseConfig(Config):
    """Probabilities that the source text of a training pair is altered in an epoch. The target text
    stays as it is, and so do validation and translation.
    """

    lower: Probability = Field(default=0.0, description="all letters in lower case")
    upper: Probability = Field(default=0.0, description="ALL LETTERS IN CAPITALS")
    title: Probability = Field(default=0.0, description="Each Word With A Capital")
    punctuation: Probability = Field(
        default=0.0,
        description="final punctuation: removed, or exchanged for another mark, each half of the "
        "time; where there is none, a mark is added",
    )
    quotes: Probability = Field(
        default=0.0,
        description="quotation marks and apostrophes exchanged for other kinds, or apostrophes "
        "left out",
    )
    slip: Probability = Field(
        default=0.0,
        description="a typing slip in one word of three or more letters: two neighbouring letters "
        "exchanged, or a letter left out, doubled, or replaced by another of the text (Belinkov "
        "and Bisk 2018, arXiv 1711.02173; Karpukhin et al. 2019, arXiv 1902.01509)",
    )

    @model_validator(mode="after")
    def _one_casing(self) -> "NoiseConfig":
        total = self.lower + self.upper + self.title
        if total > 1:
            raise ValueError(f"lower, upper and title exclude each other: got a sum of {total:g}")
        return self

    @property
    def is_on(self) -> bool:
        """Whether any text is altered."""
        return self != NoiseConfig()


def disturb(text: str, config: NoiseConfig, rng: random.Random) -> str:
    """`text` with the noise of `config`, drawn from `rng` alone; an apostrophe alone may vanish."""
    if rng.random() < config.quotes:
        text = _other_quotes(text, rng)
    if rng.random() < config.slip:
        text = _mistyped(text, rng)
    if rng.random() < config.punctuation:
        text = _other_end(text, rng)
    place = rng.random()
    if place < config.lower:
        return text.lower()
    if place < config.lower + config.upper:
        return text.upper()
    if place < config.lower + config.upper + config.title:
        return _FIRST_LETTERS.sub(lambda match: match[0].upper(), text)
    return text


_FIRST_LETTERS = re.compile(r"(?<!\S)[^\w\s]*[^\W\d_]")
_END = re.compile(r"[\s.!?…]*$")
_END_MARKS = (".", "!", "?", "...", "…")
_WORDS = re.compile(r"[^\W\d_]{3,}")
_QUOTED = re.compile(r'["“”„«»]')
_APOSTROPHE = re.compile("['’]")
_QUOTES = (('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), ("''", "''"))
_APOSTROPHES = ("", " ", "`", "´")


def _other_quotes(text: str, rng: random.Random) -> str:
    """`text` with one kind of quotation marks, open and close in turn, and one of apostrophes."""
    marks = itertools.cycle(rng.choice(_QUOTES))
    apostrophe = rng.choice(_APOSTROPHES)
    return _QUOTED.sub(lambda _: next(marks), _APOSTROPHE.sub(apostrophe, text))


def _other_end(text: str, rng: random.Random) -> str:
    """`text` with another mark at its end, or with none."""
    body = _END.sub("", text, count=1)
    end = text[len(body) :].strip()
    if end and body and rng.random() < 0.5:
        return body
    return body + rng.choice([mark for mark in _END_MARKS if mark != end])


def _mistyped(text: str, rng: random.Random) -> str:
    """`text` with one slip in one of its words of three or more letters, if there is one."""
    words = list(_WORDS.finditer(text))
    if not words:
        return text
    start, end = rng.choice(words).span()
    word = text[start:end]
    kind = rng.randrange(4)
    place = rng.randrange(len(word) - (kind == 0))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == 0:
        changed = f"{before}{after[0]}{letter}{after[1:]}"
    elif kind == 1:
        changed = before + after
    elif kind == 2:
        changed = before + 2 * letter + after
    else:
        changed = before + rng.choice([char for char in text if char.isalpha()]) + after
    return text[:start] + changed + text[end:]
