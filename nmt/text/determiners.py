"""French determiners, which depend on the gender and the first letter of the next word."""

import re
import unicodedata

_KINDS = (
    (("le ", "la "), ("l’",)),
    (("un ", "une "), ("un ", "une ")),
    (("du ", "de la "), ("de l’",)),
    (("au ", "à la "), ("à l’",)),
    (("ce ", "cette "), ("cet ", "cette ")),
    *(((f"{letter}on ", f"{letter}a "), (f"{letter}on ",)) for letter in "mts"),
    *(((f"{word}e ",), (f"{word}’",)) for word in ("d", "j", "m", "n", "qu", "s", "t")),
)
"""Words that differ by the next word only: those before a consonant, and those before a vowel."""

_KIND_OF = {form: kind for kind in _KINDS for forms in kind for form in forms}
_ANY = "|".join(sorted(_KIND_OF, key=len, reverse=True))
_LAST = re.compile(rf"\b(?:{_ANY})\Z", re.IGNORECASE)
_LEADING = re.compile(rf"(?:{_ANY})+(?=.)", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:je|tu|ils?|elles?|on|nous|vous|ne) \Z", re.IGNORECASE)
"""A word after which le and la are pronouns, whose gender does not depend on the next word."""


def leading_determiner(text: str) -> int:
    """Return the number of characters of the determiners at the beginning of a text."""
    match = _LEADING.match(text)
    return match.end() if match else 0


def with_determiners(before: str, forms: list[str]) -> tuple[str, list[str]]:
    """Return the text before a noun without its determiner, and the forms of the noun with one.

    `before` is unchanged if it ends with no determiner. Otherwise each of `forms` is returned with
    every determiner of the same kind that can precede it, for either gender, the present one first.

    >>> with_determiners("C’est la ", ["avenue", "boulevard"])
    ('C’est ', ['l’avenue', 'la boulevard', 'le boulevard'])
    """
    match = _LAST.search(before)
    if match is None:
        return before, forms
    determiner, before = match[0].lower(), before[: match.start()]
    consonant, vowel = _KIND_OF[determiner]
    variants = []
    for form in forms:
        initial = unicodedata.normalize("NFD", form)[0].lower()
        both = dict.fromkeys(consonant + vowel)  # h and y may count as a consonant or as a vowel
        options = list(both if initial in "hy" else vowel if initial in "aeiouœæ" else consonant)
        if determiner in options and _PRONOUN.search(before):
            options = [determiner]
        options.sort(key=lambda option: option != determiner)
        variants += [f"{option}{form}" for option in options]
    if match[0][0].isupper():
        variants = [variant[0].upper() + variant[1:] for variant in variants]
    return before, variants
