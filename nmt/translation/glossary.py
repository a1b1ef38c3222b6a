"""Glossaries: terms of the source language, and how translations must write them.

A term that a translation lacks is put in the place that attention gives (term_placement.py).
Without such a place it becomes a required word of a second search (search/words.py), of which one
of several forms must occur (a disjunctive constraint). Other texts keep the best translation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError
from nmt.search.constraints import Constraint
from nmt.search.words import Word, continues
from nmt.text.normalisation import normalise
from nmt.text.numbers import number_forms
from nmt.text.tokenizer import Tokenizers
from nmt.text.word_tokenizer import letter_words
from nmt.translation.batched import without_eos
from nmt.translation.constraint import word_of
from nmt.types import FilePath, Hypothesis

MAX_CHARACTERS = 200
"""Largest length of a form of a term; each piece of it takes a step of the search."""

_MAX_NUMBERS = 20
"""The most numbers that a search may require; for more, its beam has too few banks."""


class Term(NamedTuple):
    """A term as it is written in a text, and its translations, one of which is required.

    `words` has the `forms` in lower case also with a capital. It is empty if the term is to be
    copied but the vocabulary cannot write it. `spans` are the bounds of all its occurrences in the
    normalised text.
    """

    source: str
    words: tuple[Word, ...]
    forms: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


class Glossary:
    """The terms of a file with lines `source<TAB>target`, or of a dict, for these tokenizers.

    In a file, `|` separates forms of a term; in a dict, the target may be a sequence of forms. An
    empty target copies the source as it is in the text. A term is found at word boundaries of the
    normalised text. Upper and lower case are not distinguished, unless the term has a capital
    after its first letter. Of overlapping terms, the longest is used. Raises DataError for a
    malformed line, an empty or overlong term, a source with two translations, and a target that the
    vocabulary cannot write.
    """

    def __init__(
        self, terms: FilePath | Mapping[str, str | Sequence[str]], tokenizers: Tokenizers
    ) -> None:
        self._tokenizers = tokenizers
        self._targets: dict[str, tuple[str, ...]] = {}
        self._longest: dict[str, int] = {}  # the largest number of words, by the first word
        if isinstance(terms, Mapping):
            for source, forms in terms.items():
                self._add("glossary", [source], [forms] if isinstance(forms, str) else forms)
            return
        for number, line in enumerate(stream_lines(Path(terms)), start=1):
            if line.strip():
                fields, where = line.split("\t"), f"{terms}:{number}"
                if len(fields) != 2:
                    got = f"{len(fields) - 1} tabs"
                    raise DataError(f"{where}: expected source<TAB>target, got {got}")
                self._add(where, *(field.split("|") for field in fields))

    def _add(self, where: str, sources: Sequence[str], targets: Sequence[str]) -> None:
        src, tgt = self._tokenizers.src.lang, self._tokenizers.tgt.lang
        sources = [normalise(form, src) for form in sources]
        targets = tuple(normalise(form, tgt) for form in targets)
        if targets == ("",):
            targets = ()
        for form in (*sources, *targets):
            if not 0 < len(form) <= MAX_CHARACTERS:
                got = f"a term of {len(form):,} characters"
                raise DataError(f"{where}: got {got}, allowed: 1 to {MAX_CHARACTERS}")
        for form in targets or sources:
            if self._word(form) is None:
                allowed = f"what the {tgt} vocabulary can write"
                raise DataError(f"{where}: got '{form}', allowed: {allowed}")
        for form in sources:
            key = form if form[1:] != form[1:].lower() else form.casefold()
            if self._targets.setdefault(key, targets) != targets:
                raise DataError(f"{where}: '{form}' has a different translation in an earlier line")
            (start, end), *_ = spans = _word_spans(key)
            first = key[start:end].casefold()
            self._longest[first] = max(self._longest.get(first, 0), len(spans))

    def _word(self, text: str) -> Word | None:
        return word_of(self._tokenizers.tgt, text, self._tokenizers.reverse_target)

    @cached_property
    def source_words(self) -> frozenset[str]:
        """The words of all sources, casefolded."""
        return frozenset(word.casefold() for key in self._targets for word in letter_words(key))

    def terms_of(self, text: str) -> list[Term]:
        """Return the glossary's terms in a source text, longest first, without repetitions."""
        text = normalise(text, self._tokenizers.src.lang)
        spans = _word_spans(text)
        matches = []
        for i, (start, end) in enumerate(spans):
            longest = self._longest.get(text[start:end].casefold(), 0)
            for j, (_, end) in enumerate(spans[i : i + longest], start=i + 1):
                source = text[start:end]
                key = source if source in self._targets else source.casefold()
                if key in self._targets:
                    matches.append((i, j, source, self._targets[key]))
        terms: dict[tuple[str, ...], Term] = {}
        is_free = [True] * len(spans)
        for i, j, source, targets in sorted(matches, key=lambda match: match[0] - match[1]):
            if all(is_free[i:j]):
                is_free[i:j] = [False] * (j - i)
                forms = targets or (source,)
                term = terms.setdefault(forms, Term(source, self._words(forms), forms))
                span = spans[i][0], spans[j - 1][1]
                terms[forms] = term._replace(spans=(*term.spans, span))
        return list(terms.values())

    def _words(self, forms: Sequence[str]) -> tuple[Word, ...]:
        """Return the words of the forms; forms in lower case also with a capital first letter."""
        words: list[Word] = []
        capitalised = (form[0].upper() + form[1:] for form in forms if form == form.lower())
        for word in filter(None, map(self._word, (*forms, *capitalised))):
            # With inline casing, a capitalised word contains the word in lower case.
            if not any(other.occurs_in(word.ids) for other in words):
                words.append(word)
        return tuple(words)


def missed_terms(
    terms: Sequence[Term], hypothesis: Hypothesis, tokenizers: Tokenizers
) -> list[Term]:
    """Return the `terms` that do not occur in a translation."""
    order = -1 if tokenizers.reverse_target else 1
    ids, tgt = hypothesis.ids[::order], tokenizers.tgt
    missed = [term for term in terms if not any(word.occurs_in(ids) for word in term.words)]
    if not any(term.forms and term.words for term in missed):
        return missed
    # After an apostrophe, a capital has no mark of case, so the pieces differ: qu'Anne.
    text = normalise(tgt.decode(without_eos(hypothesis)), tgt.lang)
    return [term for term in missed if not (term.words and _is_in(text, term.forms))]


def _is_in(text: str, forms: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) for form in forms)


def number_terms(text: str, tokenizers: Tokenizers) -> list[Term]:
    """Return a term for each distinct number in digits, if the target vocabulary can write it.

    Returns [] for more than _MAX_NUMBERS numbers.
    """
    tgt, is_reversed, terms = tokenizers.tgt, tokenizers.reverse_target, []
    for forms in dict.fromkeys(number_forms(text)):
        words = tuple(filter(None, (word_of(tgt, form, is_reversed) for form in forms)))
        if words:
            terms.append(Term(forms[0], words))
    return terms if len(terms) <= _MAX_NUMBERS else []


def add_terms(constraint: Constraint, terms: Sequence[Term]) -> Constraint:
    """Return the constraint with `terms` as required words, except forms that it excludes."""
    words = constraint.words
    excluded = {word.text for word in words.must_not}
    forms = (tuple(w for w in term.words if w.text not in excluded) for term in terms)
    words = replace(words, must=(*words.must, *filter(None, forms)))
    return replace(constraint, words=words)


def _word_spans(text: str) -> list[tuple[int, int]]:
    """Return the bounds of the words of a text; a punctuation mark or symbol counts as a word."""
    runs = groupby(range(len(text)), key=lambda i: -1 if continues(text[i]) else i)
    spans = ((run[0], run[-1] + 1) for _, group in runs if (run := list(group)))
    return [(start, end) for start, end in spans if text[start] != " "]
