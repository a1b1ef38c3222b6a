"""The preparation of a group of batches and its workers: noise, sampled pieces, padding."""

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import chain, islice

import pytest
import torch

from nmt.batches import loader
from nmt.batches.batching import Batch, Batcher, EncodedCorpus, encode_pairs
from nmt.batches.loader import Group, Loader
from nmt.batches.resampling import Resampling
from nmt.corpora.sources import DataConfig
from nmt.errors import DataError
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.text.vocabulary import PAD_ID, UNK_ID
from nmt.training.distributed import ALONE, Ranks
from nmt.types import SentencePair

PAIRS = [
    SentencePair(f"The {a} {b} the moon.", f"Le {c} {d} la lune.")
    for a, c in (("dog", "chien"), ("horse", "cheval"), ("child", "garçon"))
    for b, d in (("sees", "voit"), ("hears", "entend"), ("follows", "poursuit"))
]
DATA = {"noise": {"upper": 0.5, "slip": 0.5, "copies": 0.5}, "sampling": {"src": 0.3, "tgt": 0.3}}


@cache
def tokenizers() -> Tokenizers:
    config = SentencePieceConfig(model_type="bpe", vocab_size=50, case="markup")
    return train_tokenizers(config, PAIRS, "en", "fr", seed=1)


def corpus(seed: int = 1, max_pieces: int = 100, **data: object) -> EncodedCorpus:
    config = DataConfig.model_validate({**(data or DATA), "max_pieces": max_pieces})
    plain = encode_pairs(PAIRS, tokenizers(), 100)
    return replace(plain, resampling=Resampling.of(config, tokenizers(), seed))


def rows_of(corpus: EncodedCorpus, epoch: int | None, rows: list[int]) -> list[list[int]]:
    batch = corpus.batch(rows, epoch)
    return [
        [i for i in [*src, -1, *tgt] if i]
        for src, tgt in zip(batch.src_ids.tolist(), batch.tgt_out.tolist(), strict=True)
    ]


def test_a_pair_depends_on_seed_epoch_and_row_only() -> None:
    rows = list(range(len(PAIRS)))
    one = rows_of(corpus(), 3, rows)
    assert rows_of(corpus(), 3, rows[::-1]) == one[::-1]
    assert [rows_of(corpus(), 3, [row])[0] for row in rows] == one
    others = [rows_of(corpus(), 4, rows), rows_of(corpus(seed=2), 3, rows)]
    others.append(rows_of(corpus(), None, rows))
    for other in others:
        assert sum(a != b for a, b in zip(one, other, strict=True)) > 6


def test_noise_is_the_sources_and_the_target_stays() -> None:
    noisy = corpus(noise={"upper": 1.0})
    for row, pair in enumerate(PAIRS):
        assert noisy.resampling is not None
        src, tgt = noisy.resampling.pair(noisy.src_ids[row], noisy.tgt_ids[row], 0, row)
        assert tokenizers().src.decode(src) == pair.src_text.upper()
        assert tgt == noisy.tgt_ids[row]


def test_both_texts_get_the_same_token_to_copy() -> None:
    config = SentencePieceConfig(model_type="bpe", vocab_size=300, byte_fallback=True)
    sides = train_tokenizers(config, PAIRS, "en", "fr", seed=1)
    plain = encode_pairs(PAIRS, sides, 100)
    noise = DataConfig.model_validate({"noise": {"copies": 1.0}})
    resampling = Resampling.of(noise, sides, 1)
    assert resampling is not None
    tokens = set()
    for row, pair in enumerate(PAIRS):
        src, tgt = resampling.pair(plain.src_ids[row], plain.tgt_ids[row], 0, row)
        words = [
            set(side.decode(ids).strip(".").split())
            for side, ids in ((sides.src, src), (sides.tgt, tgt))
        ]
        (token,) = words[0] - set(pair.src_text.strip(".").split())
        assert words[1] - set(pair.tgt_text.strip(".").split()) == {token}
        tokens.add(token)
    assert len(tokens) == len(PAIRS)
    poor = corpus(noise={"copies": 1.0}).resampling  # its pieces write few tokens: others stay out
    assert poor is not None
    pairs = [
        poor.pair(plain[0], plain[1], 0, row)
        for row, plain in enumerate(zip(corpus().src_ids, corpus().tgt_ids, strict=True))
    ]
    assert UNK_ID not in chain.from_iterable(chain.from_iterable(pairs))


def test_a_pair_that_gets_too_long_stays_plain() -> None:
    longest = max(map(len, (*corpus().src_ids, *corpus().tgt_ids)))
    short = corpus(max_pieces=longest, noise={}, sampling={"src": 1.0, "tgt": 1.0})
    rows = list(range(len(PAIRS)))
    plain = rows_of(encode_pairs(PAIRS, tokenizers(), 100), 1, rows)
    assert rows_of(short, 1, rows) == rows_of(corpus(), None, rows) == plain


def loader_of(batcher: Batcher, size: int, ranks: Ranks = ALONE) -> Loader:
    return Loader(batcher, batcher.plan(3), 3, size, ranks.share)


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.src_ids, other.src_ids) and torch.equal(one.tgt_out, other.tgt_out)


@pytest.mark.parametrize("start", [0, 1, 4])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_groups_are_the_batches_of_the_plan_from_any_start(start: int, size: int) -> None:
    batcher = Batcher(corpus(), 2, "sentences", seed=1)
    plan = batcher.plan(3)
    with closing(loader_of(batcher, size).groups(start)) as groups:
        prepared = list(groups)
    batches = [batch for group in prepared for batch in group.batches]
    expected = [batcher.corpus.batch(rows, 3) for rows in plan[start:]]
    assert len(batches) == sum(group.n_batches for group in prepared) == len(plan) - start
    assert all(map(same, batches, expected))
    assert [group.is_last for group in prepared] == [False] * (len(prepared) - 1) + [True]


def test_processes_share_each_group() -> None:
    batcher = Batcher(corpus(), 2, "sentences", seed=1)
    of_ranks = (loader_of(batcher, 2, Ranks(rank, 2)).groups(0) for rank in (0, 1))
    for group, *parts in zip(loader_of(batcher, 2).groups(0), *of_ranks, strict=True):
        assert {part.n_batches for part in parts} == {group.n_batches}
        assert sum(len(part.batches) for part in parts) == group.n_batches
        assert max(len(part.batches) for part in parts) == 1


class Watched(EncodedCorpus):
    """A corpus that notes which thread made each batch, and fails at the sixth."""

    threads: list[str] = []  # noqa: RUF012

    def batch(self, rows: Sequence[int], epoch: int | None = None) -> Batch:
        self.threads.append(threading.current_thread().name)
        if len(self.threads) == 6:
            raise DataError("the sixth")
        return super().batch(rows, epoch)


def test_a_thread_prepares_and_its_error_comes_in_order() -> None:
    ids = [(4, 5)] * 20
    batcher = Batcher(Watched(ids, ids), 2, "sentences", seed=1)
    Watched.threads.clear()
    done: list[Group] = []
    with pytest.raises(DataError, match="the sixth"):
        done.extend(loader_of(batcher, 1).groups(0))
    assert all(name.startswith("nmt-loader") for name in Watched.threads)
    with closing(loader_of(batcher, 1).groups(0)) as groups:
        assert len(list(islice(groups, 5))) == 5
    assert len(Watched.threads) <= 6 + 8
    assert not [t for t in threading.enumerate() if t.name.startswith("nmt-loader")]


def test_processes_prepare_the_groups_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for a GPU: the batches are padded too."""
    monkeypatch.setattr(loader, "_spare_processors", lambda: 2)
    batcher = Batcher(corpus(), 2, "sentences", 1)
    plan = batcher.plan(5)
    by_thread = Loader(batcher, plan, 5, 2, ALONE.share)
    state = torch.get_rng_state()
    by_processes = list(Loader(batcher, plan, 5, 2, ALONE.share, for_gpu=True).groups(2))
    assert torch.equal(torch.get_rng_state(), state)
    for group, expected in zip(by_processes, by_thread.groups(2), strict=True):
        assert (group.n_batches, group.is_last) == (expected.n_batches, expected.is_last)
        for batch, plain in zip(group.batches, expected.batches, strict=True):
            n_positions = batch.src_ids.shape[1]
            assert n_positions % 4 == 0 or n_positions >= batcher.longest[0]
            assert batch.n_tokens == plain.n_tokens
            assert torch.equal(batch.src_lengths, plain.src_lengths)
            width = plain.tgt_out.shape[1]
            assert torch.equal(batch.tgt_out[:, :width], plain.tgt_out)
            assert (batch.tgt_out[:, width:] == PAD_ID).all()
