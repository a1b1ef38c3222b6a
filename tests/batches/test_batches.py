"""Batches: every row once, little padding, and an order that seed and epoch alone decide."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.batches import plan as module
from nmt.batches.batching import Batcher, EncodedCorpus, batch_links, encode_pairs, make_batch
from nmt.batches.plan import EpochPlan, Rows, Unit, mixture_of, permutation
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.text.word_tokenizer import WordConfig
from nmt.types import SentencePair

Lengths = list[tuple[int, int]]


def reference_plan(lengths: Lengths, size: int, unit: Unit, seed: str) -> list[list[int]]:
    """The definition, with lists."""

    def key(row: int) -> tuple[int, int]:
        src, tgt = lengths[row]
        return tgt, src if tgt % 2 else -src

    rng = random.Random(seed)
    rows = list(range(len(lengths)))
    rng.shuffle(rows)
    mean = sum(map(max, lengths)) / len(lengths) if lengths else 1.0
    pool = 256 * (size if unit == "sentences" or not lengths else max(1, round(size / mean)))
    batches: list[list[int]] = []
    for start in range(0, len(rows), pool):
        batch: list[int] = []
        for row in sorted(rows[start : start + pool], key=key):
            width = max(max(lengths[i]) for i in (*batch, row))
            cost = len(batch) + 1 if unit == "sentences" else (len(batch) + 1) * width
            if batch and cost > size:
                batches.append(batch)
                batch = []
            batch.append(row)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def planned(lengths: Lengths, size: int, unit: Unit, seed: str = "1/0") -> EpochPlan:
    columns = np.array(lengths, dtype=np.uint16).reshape(-1, 2)
    mean = int(columns.max(axis=1).sum()) / len(lengths) if lengths else 1.0

    def at(rows: Rows) -> tuple[Rows, Rows]:
        return columns[rows, 0], columns[rows, 1]

    return EpochPlan(at, len(lengths), mean, (size, unit), seed)


def flat(batches: Sequence[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), max_size=300)
UNITS = st.sampled_from(["sentences", "tokens"])


@given(lengths=LENGTHS, size=st.integers(1, 90), unit=UNITS, seed=st.sampled_from(["1/0", "7/1"]))
@settings(max_examples=40, deadline=None)
def test_a_plan_is_its_definition(lengths: Lengths, size: int, unit: Unit, seed: str) -> None:
    expected = reference_plan(lengths, size, unit, seed)
    plan = planned(lengths, size, unit, seed)
    assert plan[:] == expected
    assert len(plan) == len(expected)
    assert plan[1:3] == expected[1:3]


@pytest.mark.parametrize(("size", "unit"), [(40, "sentences"), (700, "tokens")])
def test_a_large_corpus_is_shuffled_by_numpy(size, unit, monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_PYTHON_SHUFFLE", 1000)
    monkeypatch.setattr(module, "POOL_BATCHES", 16)
    rng = random.Random(1)
    lengths = [(n := rng.randint(2, 30), n + rng.randint(0, 5)) for _ in range(5003)]
    plan = planned(lengths, size, unit)[:]
    assert sorted(flat(plan)) == list(range(len(lengths)))
    assert plan == planned(lengths, size, unit)[:]
    assert flat(plan) != flat(planned(lengths, size, unit, "1/1")[:])
    padded = sum(len(b) * sum(max(lengths[r][i] for r in b) for i in (0, 1)) for b in plan)
    assert padded < 1.2 * sum(map(sum, lengths))
    monkeypatch.setattr(module, "MAX_PYTHON_SHUFFLE", 5003)
    assert plan != planned(lengths, size, unit)[:]


def test_a_permutation_is_the_same_for_ever() -> None:
    """A run goes on with it: no version of NumPy may change it."""
    assert permutation(10, "1/0").tolist() == [7, 5, 8, 9, 4, 3, 1, 0, 2, 6]
    for n in (0, 1, 2, 4097):
        assert sorted(permutation(n, "7/3").tolist()) == list(range(n))
    assert len({tuple(permutation(50, f"1/{epoch}").tolist()) for epoch in range(100)}) == 100


def test_a_batch_ends_sources_with_eos_and_shifts_targets() -> None:
    batch = make_batch([(5, 6), (7,)], [(8,), (9, 10)])
    assert batch.src_ids.tolist() == [[5, 6, EOS_ID], [7, EOS_ID, PAD_ID]]
    assert batch.src_lengths.tolist() == [3, 2]
    assert batch.tgt_in.tolist() == [[BOS_ID, 8, PAD_ID], [BOS_ID, 9, 10]]
    assert batch.tgt_out.tolist() == [[8, EOS_ID, PAD_ID], [9, 10, EOS_ID]]
    assert (batch.n_src_tokens, batch.n_tokens) == (5, 5)


def test_links_share_a_piece_of_their_own_sentence_alone() -> None:
    # The last piece of one sentence, and the first of the next.
    links = batch_links(list(np.array([[(0, 0), (1, 2)], [(0, 0), (1, 0)]], np.int32)))
    assert links.indices.tolist() == [[0, 0, 1, 1], [0, 2, 0, 0], [0, 1, 0, 1]]
    assert links.shares.tolist() == [1, 1, 0.5, 0.5]
    assert batch_links([]).indices.shape == (3, 0)


def test_no_batch_has_more_positions_than_the_bound() -> None:
    chance = random.Random(1)
    corpus = EncodedCorpus(*([(4,) * chance.randint(1, 36) for _ in range(997)] for _ in "st"))
    unit: Unit
    for unit, size in (("sentences", 17), ("sentences", 2000), ("tokens", 500), ("tokens", 20)):
        batcher = Batcher(corpus, size, unit, seed=1)
        largest = max(corpus.batch(rows).n_positions for rows in batcher.plan(0)[:])
        assert largest <= batcher.max_positions <= 1.2 * largest


def test_pairs_that_are_left_out_are_counted_by_reason() -> None:
    texts = [("a b", "c d"), ("", "c"), ("a", " \u00a0"), ("a b a b a", "c"), ("a", "c d c d c")]
    pairs = [SentencePair(*text) for text in texts]
    tokenizers = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "fr", seed=1)
    corpus = encode_pairs(pairs, tokenizers, max_pieces=4)
    assert len(corpus) == 1
    assert corpus.dropped == {"empty source": 1, "empty target": 1, "longer than 4 pieces": 2}


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_mixture_draws_every_row_once_a_pass(sizes: list[int], data: st.DataObject) -> None:
    """After any number of epochs the rows of a corpus have come equally often, but for one."""
    n = len(sizes)
    share = st.one_of(st.just(0.0), st.floats(0.01, 100))
    weights = data.draw(st.lists(share, min_size=n, max_size=n).filter(any))
    mixture = mixture_of(sizes, weights, None, seed=1)
    if mixture is None:
        return
    assert sum(mixture.quotas) == sum(sizes)
    shares = np.array(weights) / sum(weights) * sum(sizes)
    assert np.abs(np.array(mixture.quotas) - shares).max() < 1
    counts: Counter[int] = Counter()
    bounds = np.cumsum([0, *sizes])
    for epoch in range(4):
        counts.update(mixture.rows(np.arange(sum(sizes)), epoch).tolist())
        for i, quota in enumerate(mixture.quotas):
            of_corpus = [counts[row] for row in range(bounds[i], bounds[i + 1])]
            assert sum(of_corpus) == (epoch + 1) * quota
            assert max(of_corpus) - min(of_corpus) <= 1


def test_the_temperature_flattens_the_shares() -> None:
    sizes = [10_000, 100]
    assert mixture_of(sizes, None, None, 1) is mixture_of(sizes, None, 1.0, 1) is None
    assert mixture_of(sizes, [1e4, 100.0], None, 1) is None  # each pair once an epoch
    quotas = [mixture_of(sizes, None, t, 1).quotas for t in (2.0, 1e9)]  # type: ignore[union-attr]
    assert quotas == [(9182, 918), (5050, 5050)]  # 100 to 10, 1 to 1


def test_lengths_are_those_of_the_drawn_rows() -> None:
    ids = [(5,) * (1 + n % 7) for n in range(40)] + [(6,) * 9] * 4
    corpus = EncodedCorpus(ids, ids, mixture=mixture_of([40, 4], [1.0, 1.0], None, seed=1))
    batcher = Batcher(corpus, 5, "sentences", seed=1)
    for epoch in (0, 1):
        second = 0
        for rows in batcher.plan(epoch)[:]:
            batch = corpus.batch(rows, epoch)
            assert batch.n_positions == batcher.n_positions(rows, epoch)
            second += int((batch.src_ids == 6).any(dim=1).sum())
        assert second == 22
