"""Conjugates the French verbs of the lexicon: rules for -er, -ir, -re, a table for the others."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
PRESENT_ER = ("e", "es", "e", "ons", "ez", "ent")
PRESENT_IR = ("is", "is", "it", "issons", "issez", "issent")
PRESENT_RE = ("s", "s", "", "ons", "ez", "ent")
GRAVE_E = frozenset({"acheter", "lever", "promener", "amener", "emmener", "enlever", "peser"})
DOUBLED = frozenset({"appeler", "jeter", "rappeler"})
ETRE_VERBS = frozenset((
    "aller", "venir", "arriver", "partir", "sortir", "entrer", "rester", "tomber", "naître",
    "mourir", "monter", "descendre", "revenir", "devenir", "rentrer", "retourner",
))  # fmt: skip
IMPERATIVES = {"être": ("sois", "soyons", "soyez"), "avoir": ("aie", "ayons", "ayez")}


class Paradigm(NamedTuple):
    """The forms from which all tenses follow."""

    present: tuple[str, ...]
    future_stem: str
    participle: str


def table_lines(path: Path) -> list[str]:
    """Return the lines of a table without its comments."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


@cache
def _table() -> dict[str, Paradigm]:
    path = Path(__file__).parent / "lexicon" / "verbs_fr.tsv"
    table = {}
    for line in table_lines(path):
        infinitive, present, stem, participle, prefixes = (x.strip() for x in line.split("|"))
        for prefix in ("", *prefixes.split()):
            forms = tuple(prefix + form for form in present.split())
            table[prefix + infinitive] = Paradigm(forms, prefix + stem, prefix + participle)
    return table


def _mute_stem(infinitive: str) -> str:
    """Return the stem of an -er verb before a mute e (achète, préfère, nettoie, jette)."""
    stem = infinitive[:-2]
    if infinitive in DOUBLED:
        return stem + stem[-1]
    if infinitive in GRAVE_E:
        return stem[:-2] + "è" + stem[-1]
    if stem[-1] == "y":
        return stem[:-1] + "i"
    for size in (1, 2):
        if len(stem) > size and stem[-1 - size] == "é" and stem[-1] not in "eéi":
            return stem[: -1 - size] + "è" + stem[-size:]
    return stem


def _er_paradigm(infinitive: str) -> Paradigm:
    stem, mute = infinitive[:-2], _mute_stem(infinitive)
    hard = {"g": stem + "e", "c": stem[:-1] + "ç"}.get(stem[-1], stem)
    stems = (mute, mute, mute, hard, stem, mute)
    present = tuple(s + ending for s, ending in zip(stems, PRESENT_ER, strict=True))
    # préférer keeps its é in the future; acheter, appeler and nettoyer change theirs
    accent_stays = stem != mute and "é" in stem[-3:] and infinitive not in GRAVE_E | DOUBLED
    future = infinitive if accent_stays else mute + "er"
    if infinitive.endswith("envoyer"):
        future = infinitive[:-4] + "err"
    return Paradigm(present, future, stem + "é")


@cache
def paradigm(infinitive: str) -> Paradigm:
    """Return the principal forms of `infinitive`; raises KeyError for an unknown ending."""
    irregular = _table().get(infinitive)
    if irregular is not None:
        return irregular
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        return _er_paradigm(infinitive)
    if infinitive.endswith("ir") and not infinitive.endswith("oir"):
        return Paradigm(tuple(stem + e for e in PRESENT_IR), infinitive, stem + "i")
    if infinitive.endswith("dre"):
        return Paradigm(tuple(stem + e for e in PRESENT_RE), infinitive[:-1], stem + "u")
    raise KeyError(f"no rule for the verb {infinitive!r}")


def conjugate(infinitive: str, tense: str, person: int) -> str:
    """Return one simple form; tense is present, imperfect, future or conditional; person 0..5."""
    forms = paradigm(infinitive)
    if tense == "present":
        return forms.present[person]
    if tense == "future":
        return forms.future_stem + FUTURE[person]
    if tense == "conditional":
        return forms.future_stem + IMPERFECT[person]
    if tense != "imperfect":
        raise KeyError(f"no simple tense {tense!r}")
    if infinitive == "être":
        return "ét" + IMPERFECT[person]
    stem = forms.present[3].removesuffix("ons")
    if person in (3, 4) and infinitive.endswith(("ger", "cer")):
        stem = infinitive[:-2]
    return stem + IMPERFECT[person]


def imperative(infinitive: str, person: int) -> str:
    """Return the imperative for tu (1), nous (3) or vous (4)."""
    if infinitive in IMPERATIVES:
        return IMPERATIVES[infinitive][{1: 0, 3: 1, 4: 2}[person]]
    form = paradigm(infinitive).present[person]
    drops_s = person == 1 and form.endswith(("es", "vas"))
    return form[:-1] if drops_s else form


def participle(infinitive: str, feminine: bool = False, plural: bool = False) -> str:
    """Return the past participle in the given gender and number."""
    form = paradigm(infinitive).participle
    if feminine:
        form = ("du" if form == "dû" else form) + "e"
    return form if not plural or form.endswith("s") else form + "s"


def auxiliary(infinitive: str, reflexive: bool = False) -> str:
    """Return the auxiliary of the compound tenses."""
    return "être" if reflexive or infinitive in ETRE_VERBS else "avoir"
