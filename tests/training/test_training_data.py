"""The training set from the disk is the one in memory: the same run, bit for bit."""

import itertools
from pathlib import Path

import pytest
from training.toy import assert_same_checkpoint, log_of, train_tiny

from nmt.batches.batching import EncodedCorpus
from nmt.errors import DataError
from nmt.training import training_data as module
from nmt.types import SentencePair


def test_a_run_from_the_cache_is_the_run_from_memory(corpus: Path) -> None:
    """Begun from memory, stopped in an epoch and gone on from the cache as well."""
    disk = {"data": {"cache": str(corpus / "cache")}}
    keys = {"train": {"epochs": 2, "batch_by": "tokens", "batch_size": 101}}
    train_tiny(corpus, "memory", **keys)
    train_tiny(corpus, "disk", **keys, **disk)
    train_tiny(corpus, "both", stop_after=3, **keys)
    train_tiny(corpus, "both", **keys, **disk)
    for name in ("disk", "both"):
        assert_same_checkpoint(corpus / "memory", corpus / name)
    assert "encoding: missing" in log_of(corpus / "disk")
    assert "encoding" not in log_of(corpus / "both")


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (4, 4), (9, 5), (99, 10)])
def test_vocabularies_are_learned_from_pairs_at_equal_distances(count: int, expected: int) -> None:
    pairs = [SentencePair(str(i), str(i)) for i in range(10)]
    spaced = list(module._spaced(lambda: pairs, count))
    assert len(spaced) == expected
    places = [int(pair.src_text) for pair in spaced]
    assert len({b - a for a, b in itertools.pairwise(places)}) <= 1
    assert places[0] == 0


@pytest.mark.parametrize("cache", [None, "cache"])
def test_pairs_of_which_none_is_fit_for_training(corpus: Path, cache: str | None) -> None:
    data = {"max_pieces": 1, "cache": cache and str(corpus / cache)}
    with pytest.raises(DataError, match=r"none of 100 pairs is fit for training: 100 longer than"):
        train_tiny(corpus, data=data)


def test_a_mixture_from_the_cache_is_the_mixture_from_memory(corpus: Path) -> None:
    parts = [{"file": str(corpus / f"{name}.tsv")} for name in ("train", "test")]
    for name, cache in (("memory", None), ("disk", str(corpus / "cache"))):
        data = {"train": {"mix": parts, "temperature": 5.0}, "cache": cache}
        train_tiny(corpus, name, data=data)
    assert_same_checkpoint(corpus / "memory", corpus / "disk")
    assert len(list((corpus / "cache").glob("*-*"))) == 2


def test_a_corpus_without_pairs_gives_a_reason(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a forged data set of data.cache may be."""
    monkeypatch.setattr(module, "cached_corpus", lambda *_: EncodedCorpus((), (), {}))
    with pytest.raises(DataError, match=r"none of 0 pairs is fit for training: \w"):
        train_tiny(corpus, data={"cache": str(corpus / "cache")})
