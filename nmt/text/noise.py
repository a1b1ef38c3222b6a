"""Noise in training pairs: casing, punctuation, quotes, typing slips, and tokens to copy.

A model trained only on clean text fails on a few noisy characters (Belinkov and Bisk 2018, arXiv
1711.02173). Training with sampled noise prevents that at little cost on clean text (Karpukhin et
al. 2019, arXiv 1902.01509).
"""

import itertools
import random
import re
from string import ascii_lowercase
from typing import Annotated

from pydantic import Field, model_validator

from nmt.settings.base import Config

Probability = Annotated[float, Field(ge=0, le=1)]

KEYBOARD_NEIGHBOURS = {
    letter: row[max(0, i - 1) : i] + row[i + 1 : i + 2]
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for i, letter in enumerate(row)
}
"""The letters beside a letter on a QWERTY keyboard."""


class NoiseConfig(Config):
    """Noise in the source texts of training pairs. Each key is a probability per text and epoch.

    Only `copies` and `merge` also alter target texts. Validation and translation have no noise.
    """

    lower: Probability = Field(default=0.0, description="all letters in lower case")
    upper: Probability = Field(default=0.0, description="ALL LETTERS IN CAPITALS")
    title: Probability = Field(default=0.0, description="Each Word Begins With A Capital")
    punctuation: Probability = Field(
        default=0.0,
        description="final punctuation: removed or replaced by another mark, with equal "
        "probability; if there is none, a mark is added",
    )
    quotes: Probability = Field(
        default=0.0,
        description="quotation marks and apostrophes replaced by different ones; apostrophes may "
        "also be left out",
    )
    slip: Probability = Field(
        default=0.0,
        description="a typing slip in one word of three or more letters: two adjacent letters "
        "swapped, or a letter left out, doubled, or replaced by a letter of the text or by a key "
        "beside its own on a QWERTY keyboard (Belinkov and Bisk 2018, arXiv 1711.02173; Karpukhin "
        "et al. 2019, arXiv 1902.01509)",
    )
    copies: Probability = Field(
        default=0.0,
        description="a random number, placeholder, tag, address, code or emoji, inserted at the "
        "same place of both texts, to be copied; it has no unknown pieces",
    )
    merge: Probability = Field(
        default=0.0, description="a second pair appended, unless the result is too long"
    )

    @model_validator(mode="after")
    def _one_casing(self) -> "NoiseConfig":
        total = self.lower + self.upper + self.title
        if total > 1:
            raise ValueError(f"lower, upper and title exclude each other: got a sum of {total:g}")
        return self

    @property
    def is_on(self) -> bool:
        return any(dict(self).values())


def add_noise(text: str, config: NoiseConfig, rng: random.Random) -> str:
    """Return `text` with noise drawn from `rng`. Only a text of apostrophes may become empty."""
    if rng.random() < config.quotes:
        text = _other_quotes(text, rng)
    if rng.random() < config.slip:
        text = _mistyped(text, rng)
    if rng.random() < config.punctuation:
        text = _other_end(text, rng)
    draw = rng.random()
    if draw < config.lower:
        return text.lower()
    if draw < config.lower + config.upper:
        return text.upper()
    if draw < config.lower + config.upper + config.title:
        return _FIRST_LETTERS.sub(lambda match: match[0].upper(), text)
    return text


def random_token(rng: random.Random) -> str:
    """Return a number, placeholder, tag, address, code or emoji."""
    word, number = "".join(rng.choices(ascii_lowercase, k=rng.randint(2, 8))), rng.randrange(10000)
    form, emoji = rng.choice(_TOKENS), chr(rng.randrange(0x1F300, 0x1F650))
    return form.format(word=word, number=number, code=word[:2].upper(), emoji=emoji)


def insert_token(src: str, tgt: str, token: str, rng: random.Random) -> tuple[str, str]:
    """Return both texts of a pair with `token` inserted at places that are surely aligned.

    The place is one of these: the start, before final punctuation, after the only comma of each
    text, or before a number that both texts have.
    """
    src_places, tgt_places = _places(src), _places(tgt)
    name = rng.choice([name for name in src_places if name in tgt_places])
    pairs = (src, src_places[name]), (tgt, tgt_places[name])
    space = "" if name == "end" else " "
    src, tgt = (f"{text[:i].rstrip()} {token}{space}{text[i:]}".strip() for text, i in pairs)
    return src, tgt


def _places(text: str) -> dict[str, int]:
    """Return positions in `text` by name. Positions of one name in a pair are aligned."""
    comma = {",": text.index(", ") + 2} if text.count(", ") == 1 else {}
    numbers = {match[0]: match.start() for match in re.finditer(r"(?<!\S)\d+(?!\S)", text)}
    return {"start": 0, "end": len(_END.sub("", text, count=1)), **comma, **numbers}


_TOKENS = (
    *("{number}", "{number:,}", "{number}.5", "%s", "%d", "%1$s", "%({word})s", "{{{number}}}"),
    *("{{{word}}}", "${{{word}}}", "<{word}>", "</{word}>", "<{word}/>", "{code}-{number}"),
    *("https://{word}.org/{number}", "www.{word}.com", "{word}@{word}.net", "{code}", "{emoji}"),
)
_FIRST_LETTERS = re.compile(r"(?<!\S)[^\w\s]*[^\W\d_]")
_END = re.compile(r"[\s.!?…]*$")
_END_MARKS = (".", "!", "?", "...", "…")
_WORDS = re.compile(r"[^\W\d_]{3,}")
_QUOTED = re.compile(r'["“”„«»]')
_APOSTROPHE = re.compile("['’]")
_QUOTES = (('"', '"'), ("“", "”"), ("„", "“"), ("«", "»"), ("''", "''"))
_APOSTROPHES = ("", " ", "`", "´")


def _other_quotes(text: str, rng: random.Random) -> str:
    """Replace all quotation marks by one pair, used in turn, and all apostrophes by one kind."""
    marks = itertools.cycle(rng.choice(_QUOTES))
    apostrophe = rng.choice(_APOSTROPHES)
    return _QUOTED.sub(lambda _: next(marks), _APOSTROPHE.sub(apostrophe, text))


def _other_end(text: str, rng: random.Random) -> str:
    body = _END.sub("", text, count=1)
    end = text[len(body) :].strip()
    if end and body and rng.random() < 0.5:
        return body
    return body + rng.choice([mark for mark in _END_MARKS if mark != end])


def _mistyped(text: str, rng: random.Random) -> str:
    words = list(_WORDS.finditer(text))
    if not words:
        return text
    start, end = rng.choice(words).span()
    word = text[start:end]
    kind = rng.randrange(5)
    index = rng.randrange(len(word) - (kind == 0))
    before, letter, after = word[:index], word[index], word[index + 1 :]
    if kind == 0:
        slip = f"{before}{after[0]}{letter}{after[1:]}"
    elif kind == 1:
        slip = before + after
    elif kind == 2:
        slip = before + 2 * letter + after
    elif kind == 4 and (keys := KEYBOARD_NEIGHBOURS.get(letter.lower())):
        slip = before + rng.choice(keys.upper() if letter.isupper() else keys) + after
    else:
        slip = before + rng.choice([char for char in text if char.isalpha()]) + after
    return text[:start] + slip + text[end:]
