"""Batches: every pair once, little padding, an order that seed and epoch alone decide."""

import numpy as np
import pytest
import torch

from nmt.data.batching import Batcher, EncodedCorpus, batch_links, encode_pairs, make_batch
from nmt.text.tokenizer import train_tokenizers
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.text.word_tokenizer import WordConfig
from nmt.types import SentencePair


def _corpus(n: int = 997) -> EncodedCorpus:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 37, (n, 2), generator=generator).tolist()
    return EncodedCorpus(
        tuple(tuple(range(4, 4 + a)) for a, _ in lengths),
        tuple(tuple(range(4, 4 + b)) for _, b in lengths),
    )


def test_a_batch_ends_sources_with_eos_and_shifts_targets() -> None:
    batch = make_batch([(5, 6), (7,)], [(8,), (9, 10)])
    assert batch.src_ids.tolist() == [[5, 6, EOS_ID], [7, EOS_ID, PAD_ID]]
    assert batch.src_lengths.tolist() == [3, 2]
    assert batch.tgt_in.tolist() == [[BOS_ID, 8, PAD_ID], [BOS_ID, 9, 10]]
    assert batch.tgt_out.tolist() == [[8, EOS_ID, PAD_ID], [9, 10, EOS_ID]]
    assert (batch.n_src_tokens, batch.n_tokens) == (5, 5)


def test_links_share_a_target_piece_of_their_own_sentence_alone() -> None:
    pairs = [[(0, 0), (1, 2)], [(0, 0), (1, 0)]]  # the last piece of one, the first of the next
    links = batch_links([np.array(pair, np.int32) for pair in pairs])
    assert links.places.tolist() == [[0, 0, 1, 1], [0, 2, 0, 0], [0, 1, 0, 1]]
    assert links.shares.tolist() == [1, 1, 0.5, 0.5]


@pytest.mark.parametrize(("unit", "size"), [("sentences", 17), ("tokens", 500)])
def test_every_row_once_an_epoch_within_the_size(unit: str, size: int) -> None:
    corpus = _corpus()
    batcher = Batcher(corpus, size, unit, seed=1)  # type: ignore[arg-type]
    plan = batcher.plan(0)
    assert sorted(row for rows in plan for row in rows) == list(range(len(corpus)))
    for rows in plan:
        batch = corpus.batch(rows)
        widest = max(batch.src_ids.shape[1], batch.tgt_in.shape[1])
        assert len(rows) <= size if unit == "sentences" else len(rows) * widest <= size


@pytest.mark.parametrize(
    ("unit", "size"), [("sentences", 17), ("sentences", 2000), ("tokens", 500), ("tokens", 20)]
)
def test_no_batch_has_more_positions_than_is_said(unit: str, size: int) -> None:
    corpus = _corpus()
    batcher = Batcher(corpus, size, unit, seed=1)  # type: ignore[arg-type]
    batches = [corpus.batch(rows) for rows in batcher.plan(0)]
    assert [b.n_positions for b in batches] == [
        len(b.src_ids) * (b.src_ids.shape[1] + b.tgt_in.shape[1]) for b in batches
    ]
    largest = max(batch.n_positions for batch in batches)
    assert largest <= batcher.max_positions <= 1.2 * largest


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    corpus = _corpus()
    first = Batcher(corpus, 16, "sentences", seed=1)
    assert first.plan(3) == Batcher(corpus, 16, "sentences", seed=1).plan(3)
    assert first.plan(3) != first.plan(4)
    assert first.plan(3) != Batcher(corpus, 16, "sentences", seed=2).plan(3)


def test_an_epoch_continues_where_it_was_left() -> None:
    corpus = _corpus()
    batcher = Batcher(corpus, 16, "sentences", seed=1)
    whole = [corpus.batch(rows).src_ids for rows in batcher.plan(2)]
    rest = [corpus.batch(rows).src_ids for rows in batcher.plan(2)[5:]]
    assert len(rest) == len(whole) - 5
    assert all(torch.equal(a, b) for a, b in zip(whole[5:], rest, strict=True))


def test_buckets_keep_padding_small() -> None:
    corpus = _corpus(20_000)
    batcher = Batcher(corpus, 64, "sentences", seed=1)
    real = padded = 0
    for batch in map(corpus.batch, batcher.plan(0)):
        real += batch.n_src_tokens + batch.n_tokens
        padded += batch.src_ids.numel() + batch.tgt_in.numel()
    assert padded < 1.12 * real  # lengths of the two sides have nothing to do with each other


def test_a_sentence_longer_than_the_token_budget_gets_a_batch_of_its_own() -> None:
    corpus = EncodedCorpus(((4,) * 50, (4,)), ((4,), (4,)))
    plan = Batcher(corpus, 20, "tokens", seed=1).plan(0)
    assert sorted(plan) == [[0], [1]]


def test_what_is_left_out_is_counted_by_reason() -> None:
    pairs = [
        SentencePair("a b", "c d"),
        SentencePair("", "c"),
        SentencePair("a", " \u00a0"),
        SentencePair("a b a b a", "c"),
        SentencePair("a", "c d c d c"),
    ]
    tokenizers = train_tokenizers(WordConfig(min_freq=1), pairs, "en", "fr", seed=1)
    corpus = encode_pairs(pairs, tokenizers, max_pieces=4)
    assert len(corpus) == 1
    assert corpus.dropped == {
        "empty source": 1,
        "empty target": 1,
        "longer than 4 pieces": 2,
    }
