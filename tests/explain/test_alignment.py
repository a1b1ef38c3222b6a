"""Word links from weights, their symmetrisation, AER and a lexicon: definitions and laws."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.alignments import Gold, Links
from nmt.explain import lexicon as lexicon_file
from nmt.explain.alignment import (
    SYMMETRISATIONS,
    alignment_score,
    grow_diag,
    links_above,
    strongest_links,
)
from nmt.explain.lexicon import lexicon
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.types import SentencePair


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(7)))
def test_a_permutation_is_aligned_as_it_is(order: list[int]) -> None:
    """Target j looks at source order[j]; a target that looks at eos has no link."""
    weights = np.full((8, 8), 0.01, dtype=np.float32)
    weights[range(7), order] = 0.9
    weights[7, 7] = 0.9
    links = {(source, target) for target, source in enumerate(order)}
    assert strongest_links(weights) == links_above(weights, 0.9) == links


LINKS = st.frozensets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)


@settings(max_examples=40, deadline=None)
@given(LINKS, LINKS, LINKS)
def test_the_rates_are_those_of_och_and_ney(links: Links, sure: Links, more: Links) -> None:
    score = alignment_score([links], [Gold(sure, sure | more)])
    total = len(links) + len(sure)
    right = len(links & sure) + len(links & (sure | more))
    assert score.aer == pytest.approx(1 - right / total if total else 0)
    assert 0 <= score.aer <= 1
    for perfect in (sure, sure | more):  # the sure links alone, or all
        score = alignment_score([perfect], [Gold(sure, sure | more)])
        assert (score.aer, score.precision, score.recall) == (0, 1, 1)


def test_counts_are_summed_over_the_corpus() -> None:
    gold = [Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)})), Gold(frozenset(), frozenset())]
    score = alignment_score([frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(5, 5)})], gold)
    assert (score.n_links, score.n_sure, score.n_sure_found, score.n_possible_found) == (4, 1, 1, 2)
    assert (score.aer, score.precision, score.recall) == pytest.approx((0.4, 0.5, 1))


@settings(max_examples=40, deadline=None)
@given(LINKS, LINKS)
def test_each_symmetrisation_lies_between_intersection_and_union(one: Links, other: Links) -> None:
    by_name = {name: join(one, other) for name, join in SYMMETRISATIONS.items()}
    assert all(join(one, one) == one for join in SYMMETRISATIONS.values())
    assert by_name["intersection"] <= one <= by_name["union"]
    assert by_name["intersection"] <= by_name["grow-diag"] <= by_name["grow-diag-final-and"]
    assert by_name["grow-diag-final"] <= by_name["union"]
    assert by_name["grow-diag-final-and"] <= by_name["union"]
    for words in (0, 1):  # final: every word that a direction has linked is linked
        linked = {link[words] for link in by_name["grow-diag-final"]}
        assert linked == {link[words] for link in one | other}


def test_growing_takes_neighbours_in_turn() -> None:
    one = frozenset({(0, 0), (1, 1), (5, 5)})
    other = frozenset({(0, 0), (2, 1), (9, 5)})
    assert grow_diag(one, other) == {(0, 0), (1, 1), (2, 1)}  # (2, 1) is a neighbour of (1, 1)
    both = SYMMETRISATIONS["grow-diag-final-and"](one, other)
    assert both == {(0, 0), (1, 1), (2, 1), (5, 5)}
    final = SYMMETRISATIONS["grow-diag-final"](one, other)
    assert final == both | {(9, 5)}  # 9 has no link yet, but 5 has one


PAIRS = [
    SentencePair("the cat sleeps.", "le chat dort."),
    SentencePair("the dog sleeps!", "le chien dort !"),
    SentencePair("a cat", "un chat"),
    SentencePair("the end", "la fin"),
]


def test_links_of_a_lexicon_are_counted_and_shared_out(monkeypatch) -> None:
    """By attention along the diagonal, which depends on no model."""

    def weights(translator, sources, targets, reading) -> list[np.ndarray]:
        sizes = [(len(t.ids), len(s.ids) + 1) for s, t in zip(sources, targets, strict=True)]
        return [np.eye(*size, dtype=np.float32) for size in sizes]

    monkeypatch.setattr(lexicon_file, "piece_weights", weights)
    tokenizers = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)
    diagonal = SimpleNamespace(tokenizers=tokenizers)
    entries = lexicon(diagonal, PAIRS, min_count=1)
    counts = " ".join(f"{entry.source}:{entry.target}:{entry.count}" for entry in entries)
    assert counts == "a:un:1 cat:chat:2 dog:chien:1 end:fin:1 sleeps:dort:2 the:le:2 the:la:1"
    assert sum(e.probability for e in entries if e.source == "the") == pytest.approx(1)
    frequent = lexicon(diagonal, PAIRS)
    assert [e.source for e in frequent] == ["cat", "sleeps", "the"]
    assert frequent[-1].probability == pytest.approx(2 / 3)  # of all links, rare ones too
    [only] = [e for e in lexicon(diagonal, PAIRS, min_count=1, best=1) if e.source == "the"]
    assert only.target == "le"
