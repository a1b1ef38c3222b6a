"""Correct captions of arrangements, in English and French."""

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
    """A word of a caption, its aspect, and the index of the thing that it describes.

    `thing` is None for words of a relation. `d'une` counts as a number word.
    """

    text: str
    aspect: Aspect
    thing: int | None


_ENGLISH_PLURALS = {"cross": "crosses"}  # the other plurals add s

_FRENCH_NOUNS = {  # singular, plural, whether feminine
    "circle": ("cercle", "cercles", False),
    "square": ("carré", "carrés", False),
    "triangle": ("triangle", "triangles", False),
    "heart": ("cœur", "cœurs", False),
    "star": ("étoile", "étoiles", True),
    "cross": ("croix", "croix", True),
    "moon": ("lune", "lunes", True),
}

_FRENCH_ADJECTIVES = {  # masculine, feminine; plurals add s, except orange, the name of a fruit
    "big": ("grand", "grande"),
    "small": ("petit", "petite"),
    "red": ("rouge", "rouge"),
    "orange": ("orange", "orange"),
    "yellow": ("jaune", "jaune"),
    "green": ("vert", "verte"),
    "blue": ("bleu", "bleue"),
    "purple": ("violet", "violette"),
}

_RELATIONS: dict[Relation, dict[Language, str]] = {
    "above": {"en": "above", "fr": "au-dessus de"},
    "below": {"en": "below", "fr": "au-dessous de"},
    "left": {"en": "to the left of", "fr": "à gauche de"},
    "right": {"en": "to the right of", "fr": "à droite de"},
    "between": {"en": "between", "fr": "entre"},
}


def caption(arrangement: Arrangement, language: Language) -> list[Word]:
    """Return the correct caption. In French, `de` and the next article form one word, `d'un`."""
    first, *others = arrangement.things
    words = _phrase(first, 0, arrangement.relation == "alike", language)
    for second in others:
        tokens = _RELATIONS[arrangement.relation][language].split()
        number, *rest = _phrase(second, 1, arrangement.relation == "between", language)
        if tokens[-1] == "de":
            tokens.pop()
            number = Word(f"d'{number.text}", number.aspect, number.thing)
        words += [Word(token, "relation", None) for token in tokens]
        words += [number, *rest]
    return words


def _phrase(thing: Thing, index: int, is_plural: bool, language: Language) -> list[Word]:
    """Return the words for a thing, or for two copies if `is_plural`, in the language's order."""
    size = "big" if thing.is_big else "small"
    texts: dict[Aspect, str]
    if language == "en":
        plural_noun = _ENGLISH_PLURALS.get(thing.shape, f"{thing.shape}s")
        number, shape = ("two", plural_noun) if is_plural else ("a", thing.shape)
        texts = {"number": number, "size": size, "colour": thing.colour, "shape": shape}
    else:
        singular, plural_noun, is_feminine = _FRENCH_NOUNS[thing.shape]

        def adjective(name: str) -> str:
            return _FRENCH_ADJECTIVES[name][is_feminine] + "s" * (is_plural and name != "orange")

        texts = {
            "number": "deux" if is_plural else "une" if is_feminine else "un",
            "size": adjective(size),
            "shape": plural_noun if is_plural else singular,
            "colour": adjective(thing.colour),
        }
    return [Word(text, aspect, index) for aspect, text in texts.items()]


class CaptionVocabulary:
    """The vocabulary of both languages, with a start token for each language.

    Instead of bos, the decoder's first input is a start token, which selects the language.
    """

    def __init__(self) -> None:
        captions = (caption(a, language) for a in all_arrangements() for language in LANGUAGES)
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
