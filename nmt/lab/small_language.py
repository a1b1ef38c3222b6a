"""A small English and its French: sentences drawn from a grammar, word for word but reordered.

Every French word comes from one English word, so that the right alignment is known. Colours go
behind their noun, and articles and adjectives agree with it. So a translator has to leave the order
of the source, and some words depend on two: `the ... mouse` is `la souris`.
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
"""Masculine, feminine; none begins with a vowel, before which articles would change."""
_VERBS = {"sees": "voit", "seeks": "cherche", "finds": "trouve", "follows": "suit"}
_JOINTS = {"and": "et", "but": "mais"}

_AGREEING = (_ARTICLES, _SIZES, _COLOURS)
_FIXED = (*_NOUNS, _VERBS, _JOINTS)

ENGLISH = sorted(word for table in (*_AGREEING, *_FIXED) for word in table)
FRENCH = sorted(
    {form for table in _AGREEING for forms in table.values() for form in forms}
    | {word for table in _FIXED for word in table.values()}
)


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation. French word i comes from English word `sources[i]`; an
    article or an adjective agrees with the noun at `nouns[i]`, which is None of other words.
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    sources: tuple[int, ...]
    nouns: tuple[int | None, ...]


def translate(english: str) -> Pair:
    """The only right translation of a sentence of this language."""
    words = english.split()
    french: list[tuple[str, int, int | None]] = []
    waiting: list[int] = []  # words of a noun phrase, until its noun is read
    for place, word in enumerate(words):
        if any(word in table for table in _AGREEING):
            waiting.append(place)
        elif any(word in table for table in _NOUNS):
            french += _noun_phrase(words, waiting, place)
            waiting = []
        else:
            french.append(((_VERBS | _JOINTS)[word], place, None))
    assert not waiting, "a noun phrase without its noun"
    forms, sources, nouns = zip(*french, strict=True)
    return Pair(tuple(words), forms, sources, nouns)


def _noun_phrase(words: list[str], before: list[int], at: int) -> list[tuple[str, int, int | None]]:
    """The noun at `at`, and what stands before it, in the order of French."""
    gender = 0 if words[at] in _NOUNS[0] else 1
    agreeing: list[tuple[str, int, int | None]] = [
        (table[words[place]][gender], place, at)
        for place in before
        for table in _AGREEING
        if words[place] in table
    ]
    noun = (_NOUNS[gender][words[at]], at, None)
    in_front = [word for word in agreeing if words[word[1]] not in _COLOURS]
    return [*in_front, noun, *(word for word in agreeing if word not in in_front)]


def draw_pair(chance: random.Random) -> Pair:
    """A sentence of one or two clauses, 5 to 19 words."""
    words: list[str] = []
    for clause in range(chance.randint(1, 2)):
        words += [chance.choice(list(_JOINTS))] * (clause > 0)
        words += _draw_noun_phrase(chance)
        words.append(chance.choice(list(_VERBS)))
        words += _draw_noun_phrase(chance)
    return translate(" ".join(words))


def _draw_noun_phrase(chance: random.Random) -> list[str]:
    """An article, perhaps a size, perhaps a colour, and a noun."""
    words = [chance.choice(list(_ARTICLES))]
    words += [chance.choice(list(_SIZES))] * (chance.random() < 0.5)
    words += [chance.choice(list(_COLOURS))] * (chance.random() < 0.5)
    return [*words, chance.choice(list(_NOUNS[chance.randrange(2)]))]
