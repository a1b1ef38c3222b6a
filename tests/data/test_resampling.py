from dataclasses import replace
from functools import cache

import pytest
import torch

from nmt.config import config_of
from nmt.data.batching import EncodedCorpus, encode_pairs
from nmt.data.resampling import Resampling
from nmt.data.sources import DataConfig
from nmt.errors import ConfigError
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import Tokenizers, train_tokenizers
from nmt.types import SentencePair

PAIRS = [
    SentencePair(f"The {a} {b} the moon.", f"Le {c} {d} la lune.")
    for a, c in (("dog", "chien"), ("horse", "cheval"), ("child", "garçon"))
    for b, d in (("sees", "voit"), ("hears", "entend"), ("follows", "poursuit"))
]
DATA = {"noise": {"upper": 0.5, "slip": 0.5}, "sampling": {"src": 0.3, "tgt": 0.3}}


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


def test_without_an_epoch_and_without_keys_batches_are_plain() -> None:
    plain = encode_pairs(PAIRS, tokenizers(), 100)
    rows = [4, 1]
    expected = plain.batch(rows)
    assert torch.equal(corpus().batch(rows).src_ids, expected.src_ids)
    off = corpus(noise={}, sampling={})
    assert off.resampling is None
    assert torch.equal(off.batch(rows, 1).tgt_out, expected.tgt_out)


def test_noise_is_the_sources_and_the_target_stays() -> None:
    noisy = corpus(noise={"upper": 1.0})
    for row, pair in enumerate(PAIRS):
        assert noisy.resampling is not None
        src, tgt = noisy.resampling.pair(noisy.src_ids[row], noisy.tgt_ids[row], 0, row)
        assert tokenizers().src.decode(src) == pair.src_text.upper()
        assert tgt == noisy.tgt_ids[row]


def test_a_pair_that_gets_too_long_stays_plain() -> None:
    longest = max(map(len, (*corpus().src_ids, *corpus().tgt_ids)))
    short = corpus(max_pieces=longest, noise={}, sampling={"src": 1.0, "tgt": 1.0})
    rows = list(range(len(PAIRS)))
    assert rows_of(short, 1, rows) == rows_of(short, None, rows)


@pytest.mark.parametrize("key", ["data.noise", "data.sampling"])
def test_whole_words_have_neither(key: str) -> None:
    values = {
        "name": "x",
        "data": {"corpus": "starter", **{key.partition(".")[2]: DATA[key.partition(".")[2]]}},
        "tokenizer": {"kind": "word"},
        "train": {"epochs": 1},
    }
    with pytest.raises(ConfigError, match=rf"{key}: needs tokenizer\.kind: sentencepiece, got wo"):
        config_of(values)
