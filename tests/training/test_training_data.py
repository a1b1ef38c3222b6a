"""The training set from the disk is the one in memory: the same run, bit for bit."""

import itertools
from pathlib import Path

import pytest
from training.toy import assert_same_checkpoint, log_of, train_tiny, write_reversal

from nmt.batches.batching import EncodedCorpus
from nmt.errors import DataError
from nmt.training import training_data as module
from nmt.types import SentencePair


def test_a_run_from_the_cache_is_the_run_from_memory(tmp_path: Path) -> None:
    """Begun from memory, stopped in an epoch and gone on from the cache as well."""
    write_reversal(tmp_path, n_train=200, n_test=10)
    disk = {"data": {"cache": str(tmp_path / "cache")}}
    keys = {"train": {"epochs": 2, "batch_by": "tokens", "batch_size": 150}}
    train_tiny(tmp_path, "memory", **keys)
    train_tiny(tmp_path, "disk", **keys, **disk)
    train_tiny(tmp_path, "both", stop_after=5, **keys)
    train_tiny(tmp_path, "both", **keys, **disk)
    for name in ("disk", "both"):
        assert_same_checkpoint(tmp_path / "memory", tmp_path / name)
    assert "encoding: missing" in log_of(tmp_path / "disk")
    assert "encoding" not in log_of(tmp_path / "both")


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (4, 4), (9, 5), (99, 10)])
def test_vocabularies_are_learned_from_pairs_at_equal_distances(count: int, expected: int) -> None:
    pairs = [SentencePair(str(i), str(i)) for i in range(10)]
    spaced = list(module._spaced(lambda: pairs, count))
    assert len(spaced) == expected
    places = [int(pair.src_text) for pair in spaced]
    assert len({b - a for a, b in itertools.pairwise(places)}) <= 1
    assert places[0] == 0


@pytest.mark.parametrize("cache", [None, "cache"])
def test_pairs_of_which_none_is_fit_for_training(tmp_path: Path, cache: str | None) -> None:
    write_reversal(tmp_path, n_train=20, n_test=5)
    data = {"max_pieces": 1, "cache": cache and str(tmp_path / cache)}
    with pytest.raises(DataError, match=r"none of 20 pairs is fit for training: 20 longer than 1"):
        train_tiny(tmp_path, data=data)


def test_a_mixture_from_the_cache_is_the_mixture_from_memory(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=30, n_test=10)
    parts = [{"file": str(tmp_path / f"{name}.tsv")} for name in ("train", "test")]
    for name, cache in (("memory", None), ("disk", str(tmp_path / "cache"))):
        data = {"train": {"mix": parts, "temperature": 5.0}, "cache": cache}
        train_tiny(tmp_path, name, data=data, train={"batch_size": 8})
    assert_same_checkpoint(tmp_path / "memory", tmp_path / "disk")
    assert len(list((tmp_path / "cache").glob("*-*"))) == 2


def test_a_corpus_without_pairs_gives_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a forged data set of data.cache may be."""
    write_reversal(tmp_path, n_train=20, n_test=5)
    monkeypatch.setattr(module, "cached_corpus", lambda *_: EncodedCorpus((), (), {}))
    with pytest.raises(DataError, match=r"none of 0 pairs is fit for training: \w"):
        train_tiny(tmp_path, data={"cache": str(tmp_path / "cache")})
