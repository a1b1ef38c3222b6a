"""The kinds of words a sentence is made of; each knows its English and its French."""

from __future__ import annotations

from dataclasses import dataclass, replace

from starter import english, french

SUBJECT_FR = ("je", "tu", "il", "nous", "vous", "ils")
OBJECT_EN = ("me", "you", "him", "us", "you", "them")
STRONG_FR = ("moi", "toi", "lui", "nous", "vous", "eux")
OWNER_EN = ("my", "your", "his", "our", "your_vous", "their")


@dataclass(frozen=True)
class Phrase:
    """A fixed expression; both sides may hold slots of their own."""

    en: str
    fr: str


@dataclass(frozen=True)
class Adjective:
    """An adjective; `before` says that the French one stands before its noun."""

    en: str
    fr: str
    fem: str = ""
    before: bool = False


@dataclass(frozen=True)
class Noun:
    """A noun, perhaps with an adjective; number is kept apart for the two languages."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    is_feminine: bool
    plural_en: bool = False
    plural_fr: bool = False
    mass: bool = False
    adjective: Adjective | None = None

    @property
    def pl(self) -> Noun:
        """Return the noun in the plural."""
        return replace(self, plural_en=True, plural_fr=True)

    def owned(self, owner: str) -> Noun:
        """Return the plural when several people own one each (they forget their hats)."""
        return self.pl if owner in {"our", "their", "your_all"} else self

    @property
    def person(self) -> int:
        """Return the person of the French verb."""
        return 5 if self.plural_fr else 2

    @property
    def pro(self) -> Phrase:
        """Return the subject pronoun for a thing."""
        fr = ("elle" if self.is_feminine else "il") + ("s" if self.plural_fr else "")
        return Phrase("they" if self.plural_en else "it", fr)

    @property
    def it(self) -> str:
        """Return the English pronoun for a thing."""
        return "them" if self.plural_en else "it"

    def english(self, spec: str, owner: str) -> str:
        """Return the English noun phrase for a determiner."""
        core = self.en_plural if self.plural_en else self.en
        if self.adjective:
            core = f"{self.adjective.en} {core}"
        kind = spec.removeprefix("to ").removeprefix("of ")
        if kind == "poss":
            kind = owner
        if kind == "a":
            return core if self.plural_en or self.mass else english.article(core)
        if kind == "this":
            return f"{'these' if self.plural_en else 'this'} {core}"
        word = {"bare": "", "de": "", "your_vous": "your", "your_all": "your"}.get(kind, kind)
        return f"{word} {core}".strip()

    def french(self, spec: str, owner: str, negated: bool = False) -> str:
        """Return the French noun phrase for a determiner, contracted but not elided."""
        core = self._french_core()
        preposition = spec[:2] if spec.startswith(("to ", "of ")) else ""
        kind = spec[3:] if preposition else spec
        if kind == "poss":
            kind = owner
        if kind == "a" and self.mass:
            kind = "some"
        if kind in {"a", "some"} and (negated or self._takes_de()):
            kind = "de"
        word = french.determiner(kind, self.is_feminine, self.plural_fr, core)
        phrase = f"{word}{'' if word.endswith('’') else ' '}{core}".strip()
        if preposition:
            return french.with_preposition({"to": "à", "of": "de"}[preposition], phrase)
        return phrase

    def _takes_de(self) -> bool:
        return self.plural_fr and self.adjective is not None and self.adjective.before

    def _french_core(self) -> str:
        noun = self.fr_plural if self.plural_fr else self.fr
        if self.adjective is None:
            return noun
        form = self.agreed(self.adjective)
        if not self.adjective.before:
            return f"{noun} {form}"
        if not self.is_feminine and not self.plural_fr and french.starts_with_vowel(noun):
            form = french.LIAISON.get(self.adjective.fr, form)
        return f"{form} {noun}"

    def agreed(self, adjective: Adjective) -> str:
        """Return the French adjective agreeing with this noun."""
        return french.agree(adjective.fr, self.is_feminine, self.plural_fr, adjective.fem)


@dataclass(frozen=True)
class Subject:
    """A person, or several, as the subject of a clause: pronoun, name or noun phrase."""

    en: str
    fr: str
    person: int
    is_feminine: bool = False
    is_pronoun: bool = False
    polite: bool = False

    @property
    def plural_fr(self) -> bool:
        """Say whether adjectives and participles take the plural."""
        return self.person > 2 and not self.polite

    @property
    def pro(self) -> Subject:
        """Return the pronoun that stands for this subject."""
        she = self.is_feminine and self.person in (2, 5)
        fr = {2: "elle", 5: "elles"}[self.person] if she else SUBJECT_FR[self.person]
        en = ("I", "you", "she" if she else "he", "we", "you", "they")[self.person]
        return replace(self, en=en, fr=fr, is_pronoun=True)

    @property
    def article(self) -> str:
        """Return the article of the French superlative."""
        return "les" if self.plural_fr else "la" if self.is_feminine else "le"

    @property
    def owner(self) -> str:
        """Return the key of the possessive."""
        if self.person == 4 and not self.polite:
            return "your_all"
        return "her" if self.is_feminine and self.person == 2 else OWNER_EN[self.person]

    @property
    def obj(self) -> Phrase:
        """Return the pronoun after a preposition (with him, avec lui)."""
        she = self.is_feminine and self.person in (2, 5)
        fr = {2: "elle", 5: "elles"}[self.person] if she else STRONG_FR[self.person]
        return Phrase("her" if she and self.person == 2 else OBJECT_EN[self.person], fr)

    def agreed(self, adjective: Adjective) -> str:
        """Return the French adjective agreeing with this subject."""
        return french.agree(adjective.fr, self.is_feminine, self.plural_fr, adjective.fem)


Antecedent = Noun | Subject


def clitic(target: Antecedent, indirect: bool) -> str:
    """Return the object pronoun that stands for `target` before a French verb."""
    if target.person == 2 and indirect:
        return "lui"
    if target.person == 5:
        return "leur" if indirect else "les"
    if target.person == 2:
        return "la" if target.is_feminine else "le"
    return ("me", "te", "", "nous", "vous")[target.person]
