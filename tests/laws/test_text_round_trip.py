"""Text -> ids -> text on every line of the real corpora; the share that comes back, exactly."""

import os
import zipfile
from pathlib import Path

import pytest

from nmt.corpora.text_files import read_lines
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
        with zipfile.ZipFile(folder / "fra-eng.zip") as archive:
            rows = archive.read("fra.txt").decode().rstrip("\n").split("\n")
        return [SentencePair(*row.split("\t")[:2]) for row in rows]
    parts = ("train", "val", "test_2016_flickr")
    sides = [
        [line for part in parts for line in read_lines(folder / f"{part}.{lang}.gz")]
        for lang in ("en", "fr")
    ]
    return [SentencePair(*texts) for texts in zip(*sides, strict=True)]


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


@pytest.mark.parametrize(("name", "every"), [("tatoeba", 71), ("multi30k", 15)])
def test_two_thousand_lines_come_back(name: str, every: int) -> None:
    pairs = corpus(name)[::every]
    assert len(pairs) > 2000
    assert altered(SentencePieceConfig(vocab_size=500), pairs) == (0, 0)
    # Words lose a stray space, such as the one in "longue .": 1 line in 1,000 at most.
    assert max(altered(WordConfig(min_freq=1), pairs)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_lines", "of_words"), [("tatoeba", 142_787, (1, 5)), ("multi30k", 31_014, (5, 7))]
)
def test_pieces_give_every_line_back_and_words_nearly_all(
    name: str, n_lines: int, of_words: tuple[int, int]
) -> None:
    """The others have a stray space before a mark, or quotation marks that are not paired."""
    pairs = corpus(name)
    assert len(pairs) == n_lines
    for model_type in ("unigram", "bpe"):
        keys = {"vocab_size": 4000, "model_type": model_type}
        assert altered(SentencePieceConfig.model_validate(keys), pairs) == (0, 0)
    for lower in (False, True):
        assert altered(WordConfig(min_freq=1, lower=lower), pairs) == of_words
