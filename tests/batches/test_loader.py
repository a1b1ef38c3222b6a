"""The preparation of a group of batches and its workers: noise, sampled pieces, padding."""

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import chain, islice

import numpy as np
import pytest
import torch

from nmt.batches import loader
from nmt.batches.batching import Batch, Batcher, EncodedCorpus, encode_pairs
from nmt.batches.loader import Group, Loader
from nmt.batches.plan import Mixture
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
PAIRS.append(  # room for others to be merged
    SentencePair(" ".join(p.src_text for p in PAIRS[:3]), " ".join(p.tgt_text for p in PAIRS[:3]))
)
NOISE = {"upper": 0.5, "slip": 0.5, "copies": 0.5, "merge": 0.5}
DATA = {"noise": NOISE, "sampling": {"src": 0.3, "tgt": 0.3}}


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
    one, plain = rows_of(corpus(), 3, rows), rows_of(corpus(), None, rows)
    assert rows_of(corpus(), 3, rows[::-1]) == one[::-1]
    assert [rows_of(corpus(), 3, [row])[0] for row in rows] == one
    for other in (rows_of(corpus(), 4, rows), rows_of(corpus(seed=2), 3, rows), plain):
        assert sum(a != b for a, b in zip(one, other, strict=True)) > 6
    longest = max(map(len, (*corpus().src_ids, *corpus().tgt_ids)))
    short = corpus(max_pieces=longest, noise={}, sampling={"src": 1.0, "tgt": 1.0})
    assert rows_of(short, 1, rows) == plain, "a pair that gets too long stays plain"


def test_noise_is_the_sources_and_the_target_stays() -> None:
    noisy = corpus(noise={"upper": 1.0})
    for row, pair in enumerate(PAIRS):
        assert noisy.resampling is not None
        src, tgt = noisy.resampling.resample(noisy.src_ids[row], noisy.tgt_ids[row], 0, row)
        assert tokenizers().src.decode(src) == pair.src_text.upper()
        assert tgt == noisy.tgt_ids[row]


def test_both_texts_get_the_same_token_to_copy() -> None:
    config = SentencePieceConfig(model_type="bpe", vocab_size=300, byte_fallback=True)
    sides = train_tokenizers(config, PAIRS, "en", "fr", seed=1)
    plain = encode_pairs(PAIRS, sides, 100)
    resampling = Resampling.of(DataConfig.model_validate({"noise": {"copies": 1.0}}), sides, 1)
    assert resampling is not None
    tokens = set()
    src_lengths, tgt_lengths = resampling.token_lengths(np.arange(len(PAIRS)), 0)
    for row, pair in enumerate(PAIRS):
        src, tgt = resampling.resample(plain.src_ids[row], plain.tgt_ids[row], 0, row)
        copies = []
        for side, ids, text, before, lengths in (
            (sides.src, src, pair.src_text, plain.src_ids, src_lengths),
            (sides.tgt, tgt, pair.tgt_text, plain.tgt_ids, tgt_lengths),
        ):
            copies.append({*side.decode(ids).strip(".").split()} - {*text.strip(".").split()})
            # The plan counts the pieces of the token alone; beside a word they may differ.
            assert abs(len(ids) - len(before[row]) - lengths[row]) <= 2
        assert copies[0] == copies[1]
        tokens |= copies[0]
    assert len(tokens) > 5
    poor = corpus(noise={"copies": 1.0}).resampling  # its pieces write few tokens: others stay out
    assert poor is not None
    for row, (src, tgt) in enumerate(zip(corpus().src_ids, corpus().tgt_ids, strict=True)):
        assert UNK_ID not in chain(*poor.resample(src, tgt, 0, row))


def test_merged_pairs_are_two_of_the_epoch_on_both_sides() -> None:
    """The plan knows their lengths, and none is longer than the longest plain pair."""
    merged, rows = corpus(noise={"merge": 1.0}), np.arange(len(PAIRS))
    src_texts, tgt_texts = [p.src_text for p in PAIRS], [p.tgt_text for p in PAIRS]
    all_seconds = set()
    for epoch in range(15):
        firsts, seconds = merged.rows_at(rows, epoch)
        assert (firsts == rows).all()
        all_seconds.add(seconds[0])
        batch, lengths = merged.batch(rows.tolist(), epoch), merged.lengths_at(rows, epoch)
        assert batch.src_lengths.tolist() == lengths[0].tolist()
        assert (lengths[0].max(), lengths[1].max()) == merged.longest
        for side, texts, ids in (
            (tokenizers().src, src_texts, batch.src_ids),
            (tokenizers().tgt, tgt_texts, batch.tgt_out),
        ):
            pairs = zip(firsts, seconds, strict=True)
            expected = [" ".join(texts[i] for i in dict.fromkeys(pair)) for pair in pairs]
            assert [side.decode(row) for row in ids.tolist()] == expected
    assert len(all_seconds) > 5
    mixture = Mixture((5, len(PAIRS) - 5), (len(PAIRS), 0), seed=1)
    mixed = replace(corpus(noise={"merge": 1.0}), mixture=mixture)
    vars(mixed)["longest"] = (1000, 1000)
    firsts, seconds = mixed.rows_at(rows, 3)
    assert max(*firsts, *seconds) < 5, "within the mixture"
    assert (firsts != seconds).any()


def test_capitals_end_with_their_pair_and_unfit_pairs_stay_apart() -> None:
    sides = tokenizers()
    capitals, plain, unknown = (
        (sides.src.encode(src).ids, sides.tgt.encode(tgt).ids)
        for src, tgt in (("THE DOG", "LE CHIEN"), ("the dog", "le chien"), ("the dog", "€"))
    )
    resampling = corpus(noise={"merge": 1.0}).resampling
    assert resampling is not None
    src, tgt = resampling.merge(capitals, plain)
    assert (sides.src.decode(src), sides.tgt.decode(tgt)) == (
        "THE DOG the dog",
        "LE CHIEN le chien",
    )
    assert resampling.merge(plain, unknown) == plain
    assert resampling.merge(unknown, plain) == unknown
    assert replace(resampling, max_pieces=len(src) - 1).merge(capitals, plain) == capitals


def loader_of(batcher: Batcher, size: int, ranks: Ranks = ALONE) -> Loader:
    return Loader(batcher, batcher.plan(3), 3, size, ranks.share)


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.src_ids, other.src_ids) and torch.equal(one.tgt_out, other.tgt_out)


@pytest.mark.parametrize(("start", "size"), [(0, 1), (1, 2), (4, 9), (4, 2)])
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


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on one core
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
            assert n_positions % 4 == 0 or n_positions >= batcher.corpus.longest[0]
            assert batch.n_tokens == plain.n_tokens
            assert torch.equal(batch.src_lengths, plain.src_lengths)
            width = plain.tgt_out.shape[1]
            assert torch.equal(batch.tgt_out[:, :width], plain.tgt_out)
            assert (batch.tgt_out[:, width:] == PAD_ID).all()
