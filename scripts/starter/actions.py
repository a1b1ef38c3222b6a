"""Verbs with their complements, and how each is used in English and in French."""

from dataclasses import dataclass, replace

from starter import english
from starter import french_verbs as verbs
from starter.words import Antecedent, Noun, clitic

CLITIC_RANK = ("me te se nous vous", "le la les", "lui leur", "y", "en")
REFLEXIVE = frozenset({"se", "se*"})  # se*: the participle does not agree (elle s'est lavé ...)


@dataclass(frozen=True)
class Conjugation:
    """The use of a French verb: tense, subject, negation, adverb and object pronouns."""

    tense: str
    subject: Antecedent
    negation: str = ""
    adverb: str = ""
    objects: tuple[Antecedent, ...] = ()
    indirect: tuple[Antecedent, ...] = ()
    before: tuple[Antecedent, ...] = ()


SIMPLE = {"present": "present", "prog": "present", "imperf": "imperfect", "used": "imperfect",
          "state": "imperfect", "fut": "future", "cond": "conditional"}  # fmt: skip
IMPERATIVE = {"imp": 1, "lets": 3, "impvous": 4}


@dataclass(frozen=True)
class Action:
    """A verb with its complement, on both sides, e.g. wash her hands / se laver les mains."""

    base: str
    past: str
    done: str
    en_tail: str
    fr_verb: str
    fr_tail: str
    scope: str = ""

    def english(self, tense: str, subject: Antecedent, middle: str) -> str:
        """Return the inflected English verb without its complement."""
        person = subject.person
        if isinstance(subject, Noun):
            person = 5 if subject.plural_en else 2
        return english.verb_group((self.base, self.past, self.done), tense, person, middle)

    def french(self, use: Conjugation) -> str:
        """Return the French verb with pronouns, negation and adverb, without its complement."""
        reflexive, _, rest = self.fr_verb.partition(" ")
        verb = rest if reflexive in REFLEXIVE else self.fr_verb
        pronouns = self._pronouns(use, reflexive in REFLEXIVE)
        if use.tense in IMPERATIVE:
            return self._imperative(verb, use, pronouns)
        if use.tense == "inf":
            before = f"ne {use.negation} " if use.negation else ""
            return f"{before}{' '.join(pronouns)} {verb} {use.adverb}".strip()
        person = use.subject.person
        if use.tense in {"going", "just"}:
            helper, link = {"going": ("aller", ""), "just": ("venir", "de")}[use.tense]
            finite = verbs.conjugate(helper, "present", person)
            words = [*self._negated([finite], use), use.adverb, link, *pronouns, verb]
        elif use.tense in SIMPLE:
            finite = verbs.conjugate(verb, SIMPLE[use.tense], person)
            words = [*self._negated([*pronouns, finite], use), use.adverb]
        else:
            tense = "imperfect" if use.tense == "pluperf" else "present"
            aux = verbs.auxiliary(verb, reflexive in REFLEXIVE)
            finite = verbs.conjugate(aux, tense, person)
            done = self._participle(verb, use, reflexive)
            words = [*self._negated([*pronouns, finite], use), use.adverb, done]
        return " ".join(word for word in words if word)

    def _pronouns(self, use: Conjugation, reflexive: bool) -> list[str]:
        found = [clitic(x, False) for x in use.objects] + [clitic(x, True) for x in use.indirect]
        if reflexive:
            found.append(("me", "te", "se", "nous", "vous", "se")[use.subject.person])
        rank = {word: i for i, row in enumerate(CLITIC_RANK) for word in row.split()}
        return sorted(found, key=rank.__getitem__)

    @staticmethod
    def _negated(words: list[str], use: Conjugation) -> list[str]:
        return ["ne", *words, use.negation] if use.negation else words

    @staticmethod
    def _participle(verb: str, use: Conjugation, reflexive: str) -> str:
        """Agree with the subject after être, with a direct object placed before after avoir."""
        guide: Antecedent | None = (*use.objects, *use.before, None)[0]
        if verbs.auxiliary(verb, reflexive == "se") == "être" and reflexive != "se*":
            guide = use.subject
        if guide is None:
            return verbs.participle(verb)
        return verbs.participle(verb, guide.is_feminine, guide.plural_fr)

    def _imperative(self, verb: str, use: Conjugation, pronouns: list[str]) -> str:
        person = IMPERATIVE[use.tense]
        reflexives = {"me": "te", "te": "te", "se": "te"}
        own = ("", "te", "", "nous", "vous")[person]
        is_reflexive = self.fr_verb != verb
        pronouns = [own if is_reflexive and p in reflexives else p for p in pronouns]
        form = verbs.imperative(verb, person)
        if use.negation:
            return " ".join(["ne", *pronouns, form, use.negation])
        strong = {"te": "toi", "me": "moi"}
        return "-".join([form, *(strong.get(p, p) for p in pronouns)])

    def inverted(self, use: Conjugation) -> str:
        """Return the verb with the pronoun of its subject after it (mange-t-il, as-tu vu)."""
        pronoun = use.subject.pro.fr
        bare = replace(use, negation="", adverb="")
        words = self.french(bare).split(" ")
        n_before = len(self._pronouns(use, self.fr_verb.startswith("se")))
        if use.tense == "going":
            n_before = 0
        finite = words[n_before]
        link = "-t-" if pronoun[0] in "ie" and finite[-1] not in "td" else "-"
        words[n_before] = f"{finite}{link}{pronoun}"
        return " ".join(words)
