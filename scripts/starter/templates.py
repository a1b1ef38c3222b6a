"""Fills the slots of a bilingual sentence pattern.

A slot is {name:spec}. The same name stands for the same word on both sides:
  {fruit:a}        a noun of the class, with a determiner; {fruit.pl:the}; French {town:to the}
  {fruit+colour:a} a noun with an adjective; {colour:=fruit} an adjective agreeing (French)
  {n_dog:the} {a_red} the noun or adjective with that English name
  {S} {S.pro} {S.obj} {S:to} {S:of}   the subject, its pronouns, the subject after à or de
  {S.be} {S.was} {S.have} {S.do}      English auxiliaries of questions
  {eat:past not ~freq @T +X -X ^X}    an action: tense, negation, adverb class, other subject,
                                      direct (+) and indirect (-) object pronoun, and the noun
                                      before it with which a participle agrees (^)
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starter import english, french
from starter.actions import Action, Conjugation
from starter.lexicon import Dealer
from starter.words import Adjective, Antecedent, Noun, Phrase, Subject

NEGATIONS = {"not": ("not", "pas", ""), "never": ("never", "jamais", ""),
             "nolonger": ("no longer", "plus", ""), "notyet": ("not", "pas encore", " yet"),
             "nothing": ("", "rien", ""), "ne": ("", " ", "")}  # fmt: skip


class Fill(string.Formatter):
    """Fills one pattern in one language; words are drawn once and kept for the other side."""

    def __init__(self, lang: str, drawn: dict[str, Any], dealer: Dealer) -> None:
        self.lang, self.drawn, self.dealer = lang, drawn, dealer
        self.subject: Antecedent = drawn["S"]
        self.negated = False
        self.scope = ""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the word for a slot name, drawing it at its first use."""
        name = str(key)
        slot = name if name == "S" else self.scope + name
        if slot not in self.drawn:
            if "+" in name:
                noun, adjective = (self.get_value(part, args, kwargs) for part in name.split("+"))
                self.drawn[slot] = replace(noun, adjective=adjective)
            else:
                word = self.dealer.draw(name, self.drawn)
                is_action = isinstance(word, Action)
                self.drawn[slot] = replace(word, scope=slot + "/") if is_action else word
        return self.drawn[slot]

    def get_field(
        self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, str]:
        """Resolve name.attribute; the auxiliaries of a subject are looked up here."""
        name, _, attribute = field_name.partition(".")
        value = self.get_value(name, args, kwargs)
        if attribute in {"be", "was", "have", "do"}:
            return self._auxiliary(value, attribute), name
        return (getattr(value, attribute) if attribute else value), name

    @staticmethod
    def _auxiliary(value: Antecedent, attribute: str) -> str:
        person = value.person if isinstance(value, Subject) else 5 if value.plural_en else 2
        if attribute in {"be", "was"}:
            return english.BE["present" if attribute == "be" else "past"][person]
        return {"have": ("have", "has"), "do": ("do", "does")}[attribute][person == 2]

    def format_field(self, value: Any, format_spec: str) -> str:
        """Write one word in the language of this side."""
        if isinstance(value, Noun):
            return self._noun(value, format_spec or "bare")
        if isinstance(value, Adjective):
            return self._adjective(value, format_spec)
        if isinstance(value, Action):
            return self._action(value, format_spec)
        if isinstance(value, Phrase):
            return self.vformat(value.en if self.lang == "en" else value.fr, (), {})
        if isinstance(value, Subject):
            return self._subject(value, format_spec)
        return str(value)

    def _noun(self, noun: Noun, spec: str) -> str:
        owner = self.subject.owner if isinstance(self.subject, Subject) else "its"
        if spec == "own":
            noun, spec = noun.owned(owner), "poss"
        if self.lang == "fr":
            return noun.french(spec, owner, self.negated)
        return noun.english("any" if spec == "some" and self.negated else spec, owner)

    def _adjective(self, adjective: Adjective, spec: str) -> str:
        if self.lang == "en":
            forms = {"a": english.article, "er": english.comparative, "est": english.superlative}
            return forms[spec](adjective.en) if spec in forms else adjective.en
        guide = self.get_field(spec[1:], (), {})[0] if spec else None
        if spec == "=S":
            guide = self.subject
        return guide.agreed(adjective) if guide is not None else adjective.fr

    def _subject(self, subject: Subject, spec: str) -> str:
        if self.lang == "en":
            return subject.en
        if spec in {"to", "of"}:
            return french.with_preposition({"to": "à", "of": "de"}[spec], subject.fr)
        return subject.fr

    def _action(self, action: Action, spec: str) -> str:
        tense, *options = spec.split()
        subject: Antecedent = self.drawn["S"]
        negation, adverb = ("", "", ""), None
        marked: dict[str, list[Antecedent]] = {"+": [], "-": [], "^": []}
        denied = "denied" in options
        for option in options:
            if option in NEGATIONS:
                negation = NEGATIONS[option]
            elif option == "denied":
                continue
            elif option[0] == "@":
                subject = self.get_field(option[1:], (), {})[0]
            elif option[0] == "~":
                adverb = self.get_value(option[1:], (), {})
            else:
                marked[option[0]].append(self.get_field(option[1:], (), {})[0])
        saved, self.subject = self.subject, subject
        self.negated = denied or (bool(negation[1]) and action.fr_verb != "être")
        if self.lang == "en":
            middle = " ".join(x for x in (negation[0], adverb.en if adverb else "") if x)
            tail = self._tail(action.en_tail, action.scope)
            text = f"{action.english(tense, subject, middle)} {tail}{negation[2]}"
        else:
            use = Conjugation(tense.removeprefix("inv_"), subject, negation[1],
                              adverb.fr if adverb else "", tuple(marked["+"]),
                              tuple(marked["-"]), tuple(marked["^"]))  # fmt: skip
            verb = action.inverted(use) if tense.startswith("inv_") else action.french(use)
            text = f"{verb} {self._tail(action.fr_tail, action.scope)}"
        self.subject, self.negated = saved, False
        return text.strip()

    def _tail(self, tail: str, scope: str) -> str:
        """Write the complement; its slots are its own, so two actions never share a noun."""
        saved, self.scope = self.scope, scope
        text = self.vformat(tail, (), {}) if tail else ""
        self.scope = saved
        return text


def fill(pattern: tuple[str, str], drawn: dict[str, Any], dealer: Dealer) -> tuple[str, str]:
    """Return the raw English and French of one pattern with freshly drawn words."""
    en = Fill("en", drawn, dealer).vformat(pattern[0], (), {})
    fr = Fill("fr", drawn, dealer).vformat(pattern[1], (), {})
    return en, re.sub(r" +", " ", fr)
