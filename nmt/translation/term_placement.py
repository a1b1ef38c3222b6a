"""Terms put into a translation, in the place that attention gives.

A search that must write a word which its model finds improbable writes it where it costs least:
often at the end, or beside the usual translation of the term. The attention of the translation
without the term tells where this usual translation is, which the term then replaces.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from nmt.search.constraints import Constraint
from nmt.search.search_config import SearchConfig
from nmt.text.determiners import leading_determiner, with_determiners
from nmt.text.normalisation import has_typography, normalise
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import EOS_ID, UNK_ID
from nmt.translation.batched import BatchedModel, with_text
from nmt.translation.glossary import Glossary, Term, missed_terms
from nmt.translation.word_alignment import balanced, best_range, word_weights, words_of
from nmt.types import Encoded, Hypothesis, TranslatedHypothesis

_MAX_VARIANTS = 16  # largest number of combinations of forms that the model compares


class Sentence(NamedTuple):
    """A text as the model reads it, its pieces, and the constraint on its translation."""

    text: str
    source: Encoded
    constraint: Constraint


class _Variant(NamedTuple):
    """The pieces of a translation with its terms, for hypothesis `rank` of a sentence."""

    sentence: int
    rank: int
    ids: tuple[int, ...]


def place_terms(
    batched: BatchedModel,
    sentences: Sequence[Sentence],
    beams: list[list[Hypothesis]],
    glossary: Glossary,
    config: SearchConfig,
) -> dict[int, list[Term]]:
    """Replace the words aligned with a term by the term, in hypotheses that lack it.

    Changes `beams`, except for sentences whose best hypothesis has no place for a term, or whose
    constraint has attention weights. Other hypotheses without a place are left out; the order
    stays. The model selects the forms, among those that the constraint allows.

    Returns all terms of each sentence that still has a hypothesis without one of them.
    """
    tokenizers = batched.tokenizers
    lacking: dict[int, list[Term]] = {}
    variants: list[_Variant] = []
    best: dict[tuple[int, int], Hypothesis] = {}  # by sentence and rank
    for i, (sentence, hypotheses) in enumerate(zip(sentences, beams, strict=True)):
        terms = [term for term in glossary.terms_of(sentence.text) if term.words]
        missed = [missed_terms(terms, hypothesis, tokenizers) for hypothesis in hypotheses]
        if any(missed):
            lacking[i] = terms
            best |= {(i, rank): h for rank, h in enumerate(hypotheses) if not missed[rank]}
            variants += _variants(i, sentence, hypotheses, missed, tokenizers, config.allow_unk)
    sources = [sentences[variant.sentence].source for variant in variants]
    for n, hypothesis in batched.force(sources, [variant.ids for variant in variants], config):
        key = variants[n].sentence, variants[n].rank
        if key not in best or hypothesis.score > best[key].score:
            best[key] = hypothesis
    for i in {variant.sentence for variant in variants}:
        if (i, 0) in best:
            row = [best[i, rank] for rank in range(len(beams[i])) if (i, rank) in best]
            beams[i] = list({hypothesis.ids: hypothesis for hypothesis in row}.values())
            if not any(missed_terms(lacking[i], h, tokenizers) for h in beams[i]):
                del lacking[i]
    return lacking


def _variants(
    index: int,
    sentence: Sentence,
    hypotheses: Sequence[Hypothesis],
    missed: Sequence[Sequence[Term]],
    tokenizers: Tokenizers,
    allow_unk: bool,
) -> Iterator[_Variant]:
    """Yield the variants of each hypothesis with the terms that it lacks, `missed`."""
    text, source, constraint = sentence
    order = -1 if tokenizers.reverse_target else 1
    limit = max(1, _MAX_VARIANTS // len(hypotheses))
    for rank, (hypothesis, terms) in enumerate(zip(hypotheses, missed, strict=True)):
        if not terms or constraint.attention:
            continue
        output = with_text(hypothesis, tokenizers.tgt)
        end = (EOS_ID,) if hypothesis.finished else ()
        for variant in texts_with_terms(text, source, output, terms, tokenizers, limit):
            ids = (*tokenizers.tgt.encode(variant).ids, *end)
            if (allow_unk or UNK_ID not in ids) and constraint.is_met(ids[::order]):
                yield _Variant(index, rank, ids)


def texts_with_terms(
    text: str,
    source: Encoded,
    output: TranslatedHypothesis,
    terms: Sequence[Term],
    tokenizers: Tokenizers,
    limit: int = _MAX_VARIANTS,
) -> list[str]:
    """Return the translation `output` of `text` with each term in place of its usual translation.

    There is a text for each combination of forms, and in French of the determiners before them, at
    most `limit`. The list is empty if no word of the translation is aligned with a term. A term
    that the source repeats is put in each of its places.
    """
    slots = _slots(text, source, output, terms, tokenizers)
    if {index for _, _, index in slots} != set(range(len(terms))):
        return []
    parts: list[list[str]] = []
    position = 0
    for start, end, index in slots:
        before, variants = output.text[position:start], list(terms[index].forms)
        if has_typography(tokenizers.tgt.lang):
            before, variants = with_determiners(before, variants)
        is_first = not output.text[: position + len(before)].strip()
        if is_first and output.text.lstrip()[0].isupper():
            variants = [f[0].upper() + f[1:] if f == f.lower() else f for f in variants]
        parts += [[before], variants]
        position = end
    parts.append([output.text[position:]])
    return ["".join(choice) for choice in islice(product(*parts), limit)]


def _slots(
    text: str,
    source: Encoded,
    output: TranslatedHypothesis,
    terms: Sequence[Term],
    tokenizers: Tokenizers,
) -> list[tuple[int, int, int]]:
    """Return, in order, the bounds of the characters to replace, and the index of the term."""
    text = normalise(text, tokenizers.src.lang)
    sources = words_of(text, tokenizers.src.lang)
    targets = words_of(output.text, tokenizers.tgt.lang)
    if not targets:
        return []
    attention = word_weights(sources, targets, source, output, tokenizers)
    weights = balanced(attention)
    starts, ends = zip(*(word.span() for word in sources), strict=True)
    is_free = np.array([w.lastgroup == "word" and not w[0][0].isdigit() for w in targets])
    slots = []
    for index, term in enumerate(terms):
        is_placed = False
        for first, last in sorted(term.spans):
            i, j = bisect_right(ends, first), bisect_left(starts, last)
            if "-" in text[starts[i] : first] + text[last : ends[j - 1]]:  # a part of a word
                continue
            shares = np.where(is_free, weights[:, i:j].sum(axis=1), -len(targets))
            a, b = best_range(shares)
            greatest = attention[a:b, i:j].sum(axis=1).max(initial=0)
            # The translation may have the words of a repeated term only once.
            if greatest > (0.5 if is_placed else 0.1):
                start, end = targets[a].start(), targets[b - 1].end()
                if has_typography(tokenizers.tgt.lang):
                    start += leading_determiner(output.text[start:end])
                slots.append((start, end, index))
                is_free[a:b], is_placed = False, True
    return sorted(slots)
