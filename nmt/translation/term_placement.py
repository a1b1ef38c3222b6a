"""Terms put into a translation, in the place that attention gives.

A search that must write a word which its model finds improbable writes it where it costs least:
often at the end, or beside the usual translation of the term. The attention of the translation
without the term tells where this usual translation is, which the term then replaces.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
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


class _Variant(NamedTuple):
    """The pieces of a translation with its terms, for one hypothesis of a text."""

    text: int
    rank: int
    ids: tuple[int, ...]


def place_terms(
    batched: BatchedModel,
    sentences: Sequence[tuple[str, Encoded, Constraint]],
    beams: list[list[Hypothesis]],
    glossary: Glossary,
    config: SearchConfig,
) -> None:
    """Put terms that hypotheses lack in the place of their usual translations.

    `sentences` has a text, its pieces and the constraint on its translation for each of `beams`.
    Changes `beams`, but no text whose best hypothesis has no place for a term, or whose constraint
    has attention weights. Its other hypotheses without a place are left out. The model selects the
    forms, of those that the constraint allows. The order of the hypotheses stays.
    """
    tokenizers = batched.tokenizers
    order = -1 if tokenizers.reverse_target else 1
    variants: list[_Variant] = []
    best: dict[tuple[int, int], Hypothesis] = {}  # by text and rank
    for i, (text, source, constraint) in enumerate(sentences):
        if constraint.attention:
            continue
        terms = [term for term in glossary.terms_of(text) if term.words]
        limit = max(1, _MAX_VARIANTS // max(1, len(beams[i])))
        for rank, hypothesis in enumerate(beams[i]):
            missed = missed_terms(terms, hypothesis, tokenizers)
            if not missed:
                best[i, rank] = hypothesis
                continue
            output = with_text(hypothesis, tokenizers.tgt)
            end = (EOS_ID,) if hypothesis.finished else ()
            for new in texts_with_terms(text, source, output, missed, tokenizers, limit):
                ids = (*tokenizers.tgt.encode(new).ids, *end)
                is_writable = config.allow_unk or UNK_ID not in ids
                if is_writable and constraint.is_met(ids[::order]):
                    variants.append(_Variant(i, rank, ids))
    sources = [sentences[variant.text][1] for variant in variants]
    pairs = sources, [variant.ids for variant in variants]
    for n, hypothesis in batched.force(*pairs, config):
        key = variants[n][:2]
        if key not in best or hypothesis.score > best[key].score:
            best[key] = hypothesis
    for i in {variant.text for variant in variants}:
        if (i, 0) in best:
            row = [best[i, rank] for rank in range(len(beams[i])) if (i, rank) in best]
            beams[i] = list({hypothesis.ids: hypothesis for hypothesis in row}.values())


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
            variants = [v[0].upper() + v[1:] if v == v.lower() else v for v in variants]
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
