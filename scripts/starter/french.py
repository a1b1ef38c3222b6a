"""French words and spelling: gender, number, determiners, elision, contraction, typography."""

import re
import unicodedata

NNBSP, NBSP, APOSTROPHE = "\u202f", "\u00a0", "\u2019"
# words before which nothing is elided: aspirated h, and onze, oui, yaourt
ASPIRATED = (
    "hamster", "hamburger", "handball", "hanche", "haricot", "harpe", "hasard", "haut", "hérisson",
    "héros", "hibou", "hockey", "homard", "honte", "huit", "hangar", "hache", "haie", "halte",
)  # fmt: skip
FEMININES = {
    "beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche",
    "sec": "sèche", "frais": "fraîche", "long": "longue", "doux": "douce", "gros": "grosse",
    "gentil": "gentille", "bon": "bonne", "fou": "folle", "jaloux": "jalouse", "public": "publique",
    "grec": "grecque", "favori": "favorite", "épais": "épaisse", "bas": "basse", "turc": "turque",
    "inquiet": "inquiète", "complet": "complète", "secret": "secrète", "mignon": "mignonne",
    "violet": "violette", "muet": "muette", "net": "nette", "gras": "grasse",
}  # fmt: skip
LIAISON = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
INVARIABLE = frozenset({"marron", "orange", "bon marché", "en colère", "en retard", "en avance"})
OU_PLURALS = frozenset({"genou", "hibou", "bijou", "chou"})
POSSESSIVES = {
    "my": ("mon", "ma", "mes"), "your": ("ton", "ta", "tes"), "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"), "its": ("son", "sa", "ses"), "our": ("notre", "notre", "nos"),
    "your_vous": ("votre", "votre", "vos"), "your_all": ("votre", "votre", "vos"),
    "their": ("leur", "leur", "leurs"),
}  # fmt: skip
_ELIDABLE = "je|me|te|se|le|la|ne|de|que|jusque|lorsque|puisque"
_ELISION = re.compile(rf"(?<![\w{APOSTROPHE}-])({_ELIDABLE}) (?=(\w+))", re.IGNORECASE)


def starts_with_vowel(word: str) -> bool:
    """Say whether `word` calls for elision: a vowel or a mute h."""
    lower = word.lower()
    if lower.startswith(("onze", "oui", *ASPIRATED)):
        return False
    if lower == "y":
        return True
    first = unicodedata.normalize("NFD", lower)[:1]
    return first in "aeiouhœæ" and first != ""


def plural(word: str) -> str:
    """Return the regular plural of a noun or of a masculine adjective."""
    head, _, rest = word.partition(" ")
    if rest.startswith(("de ", "d’", "à ", "photo")):
        return f"{plural(head)} {rest}"
    if rest:
        return f"{plural(head)} {plural(rest)}"
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith(("eau", "eu")) and word not in {"bleu", "pneu"}:
        return word + "x"
    if word.endswith("al") and word not in {"bal", "festival", "carnaval"}:
        return word[:-2] + "aux"
    return word + ("x" if word in OU_PLURALS else "s")


def feminine(adjective: str) -> str:
    """Return the feminine singular of a masculine adjective or name of a trade."""
    if adjective in INVARIABLE:
        return adjective
    if adjective in FEMININES:
        return FEMININES[adjective]
    for ending, form in (("eux", "euse"), ("teur", "trice"), ("eur", "euse"), ("er", "ère"),
                         ("ien", "ienne"), ("el", "elle"), ("if", "ive")):  # fmt: skip
        if adjective.endswith(ending):
            return adjective.removesuffix(ending) + form
    return adjective if adjective.endswith("e") else adjective + "e"


def agree(adjective: str, is_feminine: bool, is_plural: bool, fem: str = "") -> str:
    """Return `adjective` in gender and number; `fem` overrides the rule for the feminine."""
    if adjective in INVARIABLE:
        return adjective
    if adjective.startswith("trop "):
        return "trop " + agree(adjective.removeprefix("trop "), is_feminine, is_plural, fem)
    if is_feminine:
        form = fem or feminine(adjective)
        return form + "s" if is_plural and not form.endswith("s") else form
    return plural(adjective) if is_plural else adjective


def determiner(kind: str, is_feminine: bool, is_plural: bool, following: str) -> str:
    """Return the determiner of `kind` before the word `following`, not yet elided."""
    vowel = starts_with_vowel(following)
    row = 2 if is_plural else 1 if is_feminine else 0
    if kind in POSSESSIVES:
        return POSSESSIVES[kind][0 if row == 1 and vowel else row]
    if kind == "this":
        return ("cet" if vowel else "ce", "cette", "ces")[row]
    if kind == "some":
        return "de l’" if vowel and not is_plural else ("du", "de la", "des")[row]
    table = {"a": ("un", "une", "des"), "the": ("le", "la", "les"), "de": ("de",) * 3,
             "which": ("quel", "quelle", "quels"), "all the": ("tout le", "toute la", "tous les"),
             "bare": ("",) * 3}  # fmt: skip
    if is_plural and is_feminine and kind in {"which", "all the"}:
        return {"which": "quelles", "all the": "toutes les"}[kind]
    return table[kind][row]


def with_preposition(preposition: str, phrase: str) -> str:
    """Put à or de before a noun phrase, contracting it with the article le or les."""
    article, _, rest = phrase.partition(" ")
    row = {"à": ("au", "aux"), "de": ("du", "des")}[preposition]
    if article == "le" and not starts_with_vowel(rest):
        return f"{row[0]} {rest}"
    if article == "les":
        return f"{row[1]} {rest}"
    if article in {"des", "du"} or phrase.startswith(("de la ", "de l’")):
        raise ValueError(f"partitive after a preposition: {phrase!r}")
    return f"{preposition} {phrase}"


def elide(text: str) -> str:
    """Write j’, l’, d’, qu’, n’ ... and s’il where French asks for them."""

    def cut(match: re.Match[str]) -> str:
        word = match.group(1)
        return word[:-1] + APOSTROPHE if starts_with_vowel(match.group(2)) else match.group(0)

    for _ in range(2):  # "de le avoir" needs a second pass
        text = _ELISION.sub(cut, text)
    return re.sub(r"\b([Ss])i (?=ils?\b)", rf"\1{APOSTROPHE}", text)


def finish(text: str) -> str:
    """Return the sentence as printed: elision, apostrophes, spaces, capitals."""
    text = elide(text.replace("'", APOSTROPHE)).replace(APOSTROPHE + " ", APOSTROPHE)
    text = re.sub(r"\s*([?!;])", rf"{NNBSP}\1", text)
    text = re.sub(r"\s*:", f"{NBSP}:", text)
    text = re.sub(r" +", " ", text).strip()
    return re.sub(r"(^|[.?!] )(\w)", lambda m: m.group(1) + m.group(2).upper(), text)
