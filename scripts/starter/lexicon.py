"""Loads the lexicon and deals its words; every deal follows from a seed."""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from starter import english, french
from starter.actions import Action
from starter.french_verbs import table_lines
from starter.words import Adjective, Noun, Phrase, Subject

FOLDER = Path(__file__).parent / "lexicon"
SUBJECT_MIX = {
    "any": ("pron", "pron", "pron", "pron", "name", "name", "family", "role", "group"),
    "third": ("third_pron", "third_pron", "name", "name", "family", "role", "group"),
    "human": ("name", "family", "role", "group"),
    "one": ("name", "family", "role", "he_she"),
    "personal": ("name", "family", "he_she"),
    "singular": ("name", "family", "role"),
    "named": ("name", "name", "he_she"),
    "T": ("name", "family", "role"),
    "ask": ("askable", "askable", "askable", "name", "family", "group"),
}
Lexicon = dict[str, list[Any]]


def rows(name: str) -> Iterator[list[str]]:
    """Yield the fields of each line of a table of the lexicon."""
    for line in table_lines(FOLDER / name):
        yield [field.strip() for field in line.split("|")]


def _sections(name: str) -> Iterator[tuple[str, str]]:
    section = ""
    for (line,) in rows(name):
        if line.startswith("["):
            section = line.strip("[]")
        else:
            yield section, line


def _noun(line: str) -> Noun:
    left, right = (side.strip() for side in line.split("="))
    fr, gender, *rest = _fields(right)
    flags = "".join(rest)
    en, _, en_plural = left.partition("/")
    fr, _, fr_plural = fr.partition("/")
    if "P" in flags:
        en_plural = en
    return Noun(
        en, en_plural or english.plural(en), fr,
        fr if "Q" in flags else fr_plural or french.plural(fr), gender == "f",
        plural_en="P" in flags, plural_fr="Q" in flags, mass="M" in flags,
    )  # fmt: skip


def _fields(right: str) -> list[str]:
    """Split 'pomme de terre f MQ' into the word, the gender and the flags."""
    words = right.split(" ")
    size = 1 if words[-1] in {"m", "f"} else 2
    return [" ".join(words[:-size]), *words[-size:]]


def _adjective(line: str) -> Adjective:
    en, right = (side.strip() for side in line.split("="))
    before = right.endswith("<")
    fr, _, fem = right.rstrip("< ").partition("/")
    return Adjective(en, fr, fem, before)


def _classes(name: str, make: Any, prefix: str) -> Lexicon:
    """Read a file of sections; lines without = name words of other sections."""
    found: Lexicon = {}
    later: list[tuple[str, str]] = []
    for section, line in _sections(name):
        if "=" in line:
            word = make(line)
            found.setdefault(section, []).append(word)
            found.setdefault(prefix + word.en.replace(" ", "_"), [word])
        else:
            later += [(section, ref.strip()) for ref in line.split(",")]
    for section, ref in later:
        found.setdefault(section, []).append(found[prefix + ref.replace(" ", "_")][0])
    return found


def _actions() -> Lexicon:
    parts = (line.split() for (line,) in rows("verbs_en.tsv"))
    irregular = {base: (past, done) for base, past, done in parts}
    found: Lexicon = {}
    for tags, base, en_tail, fr_verb, fr_tail in rows("actions.tsv"):
        head, _, particle = base.partition(" ")
        past, done = irregular.get(head, ("", ""))
        end = f" {particle}" if particle else ""
        forms = (past + end, done + end) if past else (english.regular_past(base),) * 2
        for tag in tags.split():
            action = Action(base, forms[0], forms[1], en_tail, fr_verb, fr_tail)
            found.setdefault(tag, []).append(action)
    return found


def _subjects(nouns: Lexicon) -> Lexicon:
    found: Lexicon = {}
    for kind, en, fr, person, gender in rows("subjects.tsv"):
        is_pronoun = kind in {"pron", "third_pron", "he_she", "askable", "you", "I", "we"}
        is_pronoun = is_pronoun or en in {"I", "you", "we"}
        found.setdefault(kind, []).append(Subject(en, fr, int(person), gender == "f", is_pronoun))
    for noun in nouns["familym"] + nouns["familyf"]:
        for owner in ("my", "my", "your", "his", "her", "our"):
            en, fr = noun.english(owner, owner), noun.french(owner, owner)
            found.setdefault("family", []).append(Subject(en, fr, 2, noun.is_feminine))
    for title in ("sir", "madam"):
        vous = Subject("you", "vous", 4, title == "madam", True, polite=True)
        found.setdefault(f"vous_{title}", []).append(vous)
    return found


@cache
def load() -> Lexicon:
    """Return all words by class."""
    nouns = _classes("nouns.txt", _noun, "n_")
    adjectives = _classes("adjectives.txt", _adjective, "a_")
    phrases: Lexicon = {}
    for section, line in _sections("phrases.txt"):
        en, fr = (side.strip() for side in line.split("="))
        phrases.setdefault(section, []).append(Phrase(en, fr))
    trades = [
        Noun(a.en, english.plural(a.en), a.fr, french.plural(a.fr), False)
        for a in adjectives["job"]
    ]
    actions = _actions()
    merged: Lexicon = {
        "jobman": trades,
        "past": actions["event"] + actions["mishap"],
        "effort": [action for action in actions["duty"] if action in actions["activity"]],
    }
    for part in (nouns, adjectives, phrases, actions, _subjects(nouns)):
        clash = merged.keys() & part.keys()
        if clash:
            raise ValueError(f"class named twice: {sorted(clash)}")
        merged.update(part)
    return merged


class Dealer:
    """Deals the words of each class in shuffled rounds, so that all come up equally often."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._lexicon = load()
        self._decks: dict[str, list[Any]] = {}

    def draw(self, name: str, drawn: dict[str, Any]) -> Any:
        """Return the next word of a class; digits at the end of a name tell two slots apart."""
        kind = name.rstrip("0123456789")
        if kind in SUBJECT_MIX:
            kind = self._random.choice(SUBJECT_MIX[kind])
        for _ in range(20):
            word = self._next(kind)
            if not any(word == other for other in drawn.values()):
                return word
        return word

    def _next(self, kind: str) -> Any:
        deck = self._decks.get(kind)
        if not deck:
            deck = list(self._lexicon[kind])
            self._random.shuffle(deck)
            self._decks[kind] = deck
        return deck.pop()
