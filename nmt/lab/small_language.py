"""A toy parallel corpus: English sentences from a small grammar, and their French translations.

Every French word translates one English word, so that the right alignment is known. In French,
colours follow their noun, and articles and adjectives agree with it. A translator therefore has to
reorder words, and some French words depend on two English words: `the ... mouse` is `la souris`.
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
"""Masculine and feminine nouns. None begins with a vowel, which would change the article."""
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
    """A sentence and its translation. French word i translates English word `sources[i]`, and if
    it is an article or an adjective, agrees with English noun `nouns[i]` (otherwise None).
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    sources: tuple[int, ...]
    nouns: tuple[int | None, ...]


def translate(english: str) -> Pair:
    """Translate a sentence of the grammar; there is exactly one right translation."""
    words = english.split()
    french: list[tuple[str, int, int | None]] = []
    before_noun: list[int] = []  # positions of the words of an unfinished noun phrase
    for position, word in enumerate(words):
        if any(word in table for table in _AGREEING):
            before_noun.append(position)
        elif any(word in table for table in _NOUNS):
            french += _noun_phrase(words, before_noun, position)
            before_noun = []
        else:
            french.append(((_VERBS | _JOINTS)[word], position, None))
    assert not before_noun, "a noun phrase has no noun"
    forms, sources, nouns = zip(*french, strict=True)
    return Pair(tuple(words), forms, sources, nouns)


def _noun_phrase(words: list[str], before: list[int], at: int) -> list[tuple[str, int, int | None]]:
    """Translate a noun phrase into French order; `before` and `at` are positions of its words."""
    gender = 0 if words[at] in _NOUNS[0] else 1
    agreeing: list[tuple[str, int, int | None]] = [
        (table[words[position]][gender], position, at)
        for position in before
        for table in _AGREEING
        if words[position] in table
    ]
    noun = (_NOUNS[gender][words[at]], at, None)
    in_front = [word for word in agreeing if words[word[1]] not in _COLOURS]
    return [*in_front, noun, *(word for word in agreeing if word not in in_front)]


def draw_pair(chance: random.Random) -> Pair:
    """Draw a sentence of one or two clauses, 5 to 19 words, with its translation."""
    words: list[str] = []
    for clause in range(chance.randint(1, 2)):
        words += [chance.choice(list(_JOINTS))] * (clause > 0)
        words += _draw_noun_phrase(chance)
        words.append(chance.choice(list(_VERBS)))
        words += _draw_noun_phrase(chance)
    return translate(" ".join(words))


def _draw_noun_phrase(chance: random.Random) -> list[str]:
    """Draw an article, perhaps a size, perhaps a colour, and a noun."""
    words = [chance.choice(list(_ARTICLES))]
    words += [chance.choice(list(_SIZES))] * (chance.random() < 0.5)
    words += [chance.choice(list(_COLOURS))] * (chance.random() < 0.5)
    return [*words, chance.choice(list(_NOUNS[chance.randrange(2)]))]
