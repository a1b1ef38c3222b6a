"""Text -> ids -> text on every line of the real corpora; the share that comes back, exactly."""

import os
from pathlib import Path

import pytest

from nmt.corpora.corpora import read_split
from nmt.corpora.readers.aligned import stream_aligned
from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.text.normalisation import normalise
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.text.tokenizer import TokenizerConfig, train_tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.text.word_tokenizer import WordConfig
from nmt.types import SentencePair

CORPORA = os.environ.get("NMT_CORPORA")
pytestmark = pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")


def corpus(name: str) -> list[SentencePair]:
    folder = Path(CORPORA or "", name)
    if name == "tatoeba":
        return list(read_split(SplitConfig(file=folder / "fra-eng.zip"), DataConfig()))
    sides = [
        [folder / f"{part}.{lang}.gz" for part in ("train", "val", "test_2016_flickr")]
        for lang in ("en", "fr")
    ]
    return [pair for paths in zip(*sides, strict=True) for pair in stream_aligned(*paths)]


def altered(config: TokenizerConfig, pairs: list[SentencePair]) -> tuple[int, int]:
    """How many texts of each side come back otherwise than normalised; none has an unknown id."""
    tokenizers = train_tokenizers(config, pairs, "en", "fr", seed=1)
    counts = []
    for tokenizer, texts in (
        (tokenizers.src, [pair.src_text for pair in pairs]),
        (tokenizers.tgt, [pair.tgt_text for pair in pairs]),
    ):
        n_altered = 0
        for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
            plain = normalise(text, tokenizer.lang)
            lower = isinstance(config, WordConfig) and config.lower
            assert UNK_ID not in ids
            n_altered += tokenizer.decode(ids, restore=False) != (plain.lower() if lower else plain)
        counts.append(n_altered)
    return counts[0], counts[1]


@pytest.mark.parametrize(
    ("name", "every", "model_type"),
    [
        ("tatoeba", 71, "unigram"),
        ("multi30k", 15, "bpe"),
        pytest.param("tatoeba", 1, "bpe", marks=pytest.mark.slow),
        pytest.param("multi30k", 1, "unigram", marks=pytest.mark.slow),
    ],
)
def test_pieces_give_every_line_back(name: str, every: int, model_type: str) -> None:
    """Words nearly all: they lose a stray space, such as the one in "longue .", and odd quotes."""
    pairs = corpus(name)[::every]
    assert len(pairs) > 2000
    keys = {"vocab_size": 4000 if every == 1 else 500, "model_type": model_type}
    assert altered(SentencePieceConfig.model_validate(keys), pairs) == (0, 0)
    for lower in (False, True):
        assert max(altered(WordConfig(min_freq=1, lower=lower), pairs)) <= len(pairs) / 1000
