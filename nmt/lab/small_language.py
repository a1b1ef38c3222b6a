"""A toy parallel corpus: English sentences from a small grammar, and their French translations.

Every French word translates one English word; articles and adjectives also agree with a noun. In
French, colours follow their noun.
"""

import random
from dataclasses import dataclass

_ARTICLES = {"the": ("le", "la"), "a": ("un", "une"), "my": ("mon", "ma"), "this": ("ce", "cette")}
_SIZES = {"big": ("grand", "grande"), "small": ("petit", "petite"), "bad": ("mauvais", "mauvaise")}
_COLOURS = {
    "red": ("rouge", "rouge"),
    "green": ("vert", "verte"),
    "black": ("noir", "noire"),
    "white": ("blanc", "blanche"),
    "blue": ("bleu", "bleue"),
}
_NOUNS = (
    {"dog": "chien", "cat": "chat", "horse": "cheval", "boat": "bateau", "book": "livre"},
    {"house": "maison", "car": "voiture", "table": "table", "cow": "vache", "mouse": "souris"},
)
"""Masculine and feminine nouns. No noun has an initial vowel, which would change the article."""
_VERBS = {"sees": "voit", "seeks": "cherche", "finds": "trouve", "follows": "suit"}
_CONJUNCTIONS = {"and": "et", "but": "mais"}

_INFLECTED = (_ARTICLES, _SIZES, _COLOURS)
_INVARIABLE = (*_NOUNS, _VERBS, _CONJUNCTIONS)

ENGLISH = sorted(word for table in (*_INFLECTED, *_INVARIABLE) for word in table)
FRENCH = sorted(
    {form for table in _INFLECTED for forms in table.values() for form in forms}
    | {word for table in _INVARIABLE for word in table.values()}
)

FrenchWord = tuple[str, int, int | None]
"""A form, the position of the word it translates, and the position of the noun it agrees with."""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation. French word i translates English word `sources[i]`.

    An article or adjective i agrees with English noun `nouns[i]`, which is None for other words.
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    sources: tuple[int, ...]
    nouns: tuple[int | None, ...]


def translate(english: str) -> Pair:
    """Translate a sentence of the grammar. Every sentence has exactly one correct translation."""
    words = english.split()
    french: list[FrenchWord] = []
    modifiers: list[int] = []  # positions of the words before the noun of a noun phrase
    for position, word in enumerate(words):
        if any(word in table for table in _INFLECTED):
            modifiers.append(position)
        elif any(word in table for table in _NOUNS):
            french += _noun_phrase(words, modifiers, position)
            modifiers = []
        else:
            french.append(((_VERBS | _CONJUNCTIONS)[word], position, None))
    assert not modifiers, "a noun phrase has no noun"
    forms, sources, nouns = zip(*french, strict=True)
    return Pair(tuple(words), forms, sources, nouns)


def _noun_phrase(words: list[str], modifiers: list[int], noun: int) -> list[FrenchWord]:
    """Translate a noun phrase and order it as in French; arguments are positions in `words`."""
    gender = 0 if words[noun] in _NOUNS[0] else 1
    forms = {word: forms[gender] for table in _INFLECTED for word, forms in table.items()}
    colours = [position for position in modifiers if words[position] in _COLOURS]
    others = [position for position in modifiers if position not in colours]
    return [
        *((forms[words[position]], position, noun) for position in others),
        (_NOUNS[gender][words[noun]], noun, None),
        *((forms[words[position]], position, noun) for position in colours),
    ]


def draw_pair(rng: random.Random) -> Pair:
    """Draw a sentence of one or two clauses, 5 to 19 words, with its translation."""
    words: list[str] = []
    for clause in range(rng.randint(1, 2)):
        words += [rng.choice(list(_CONJUNCTIONS))] * (clause > 0)
        words += _draw_noun_phrase(rng)
        words.append(rng.choice(list(_VERBS)))
        words += _draw_noun_phrase(rng)
    return translate(" ".join(words))


def _draw_noun_phrase(rng: random.Random) -> list[str]:
    words = [rng.choice(list(_ARTICLES))]
    words += [rng.choice(list(_SIZES))] * (rng.random() < 0.5)
    words += [rng.choice(list(_COLOURS))] * (rng.random() < 0.5)
    return [*words, rng.choice(list(_NOUNS[rng.randrange(2)]))]
