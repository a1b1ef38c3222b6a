"""Captions of arrangements in English and French, with the thing that each word describes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nmt.lab.captioning.scenes import Arrangement, Relation, Thing, all_arrangements
from nmt.text.vocabulary import EOS_ID, Vocab

Language = Literal["en", "fr"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Aspect = Literal["number", "size", "colour", "shape", "relation"]


@dataclass(frozen=True)
class Word:
    """A word of a caption, its aspect, and the index of the thing that the word describes.

    `thing` is None for the words of a relation. The aspect of `d'une` is the number.
    """

    text: str
    aspect: Aspect
    thing: int | None


@dataclass(frozen=True)
class _Noun:
    singular: str
    plural: str
    feminine: bool


_FRENCH_NOUNS = {
    "circle": _Noun("cercle", "cercles", feminine=False),
    "square": _Noun("carré", "carrés", feminine=False),
    "triangle": _Noun("triangle", "triangles", feminine=False),
    "heart": _Noun("cœur", "cœurs", feminine=False),
    "star": _Noun("étoile", "étoiles", feminine=True),
    "cross": _Noun("croix", "croix", feminine=True),
    "moon": _Noun("lune", "lunes", feminine=True),
}

_ENGLISH_PLURALS = {"cross": "crosses"}  # the other plurals end with s

_FRENCH_ADJECTIVES = {  # masculine, feminine; masculine plural, feminine plural
    "big": ("grand", "grande", "grands", "grandes"),
    "small": ("petit", "petite", "petits", "petites"),
    "red": ("rouge", "rouge", "rouges", "rouges"),
    "orange": ("orange", "orange", "orange", "orange"),  # invariable: the name of a fruit
    "yellow": ("jaune", "jaune", "jaunes", "jaunes"),
    "green": ("vert", "verte", "verts", "vertes"),
    "blue": ("bleu", "bleue", "bleus", "bleues"),
    "purple": ("violet", "violette", "violets", "violettes"),
}

_RELATIONS: dict[Language, dict[Relation, str]] = {
    "en": {
        "above": "above",
        "below": "below",
        "left": "to the left of",
        "right": "to the right of",
        "between": "between",
    },
    "fr": {
        "above": "au-dessus de",
        "below": "au-dessous de",
        "left": "à gauche de",
        "right": "à droite de",
        "between": "entre",
    },
}


def caption(arrangement: Arrangement, language: Language) -> list[Word]:
    """Return the correct caption. In French, `de` and the next article form one word, `d'un`."""
    first, *others = arrangement.things
    words = _phrase(first, 0, arrangement.relation == "alike", language)
    for second in others:
        tokens = _RELATIONS[language][arrangement.relation].split()
        number, *rest = _phrase(second, 1, arrangement.relation == "between", language)
        if tokens[-1] == "de":
            tokens.pop()
            number = Word(f"d'{number.text}", number.aspect, number.thing)
        words += [Word(token, "relation", None) for token in tokens]
        words += [number, *rest]
    return words


def _phrase(thing: Thing, index: int, plural: bool, language: Language) -> list[Word]:
    """Return the words for a thing, or for two copies if `plural`, in the language's order."""
    size = "big" if thing.big else "small"
    texts: dict[Aspect, str]
    if language == "en":
        many = _ENGLISH_PLURALS.get(thing.shape, f"{thing.shape}s")
        number, shape = ("two", many) if plural else ("a", thing.shape)
        texts = {"number": number, "size": size, "colour": thing.colour, "shape": shape}
    else:
        noun = _FRENCH_NOUNS[thing.shape]
        form = 2 * plural + noun.feminine
        texts = {
            "number": "deux" if plural else "une" if noun.feminine else "un",
            "size": _FRENCH_ADJECTIVES[size][form],
            "shape": noun.plural if plural else noun.singular,
            "colour": _FRENCH_ADJECTIVES[thing.colour][form],
        }
    return [Word(text, aspect, index) for aspect, text in texts.items()]


class Lexicon:
    """The vocabulary of both languages, with a start token for each language.

    The decoder's first input is the start token instead of bos. One model thus serves both
    languages, and nothing else in the model depends on the language.
    """

    def __init__(self) -> None:
        captions = (caption(a, lang) for a in all_arrangements() for lang in LANGUAGES)
        texts = {word.text for words in captions for word in words}
        self.vocab = Vocab.of([*(f"<{language}>" for language in LANGUAGES), *sorted(texts)])

    def first_id(self, language: Language) -> int:
        """Return the id of the start token of `language`."""
        return self.vocab.id_of(f"<{language}>")

    def ids(self, arrangement: Arrangement, language: Language) -> list[int]:
        """Return the ids of the start token, the caption and eos."""
        words = [self.vocab.id_of(word.text) for word in caption(arrangement, language)]
        return [self.first_id(language), *words, EOS_ID]

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the words of generated ids, without eos."""
        return [self.vocab.piece_of(id_) for id_ in ids if id_ != EOS_ID]
