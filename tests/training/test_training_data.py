"""The training set from the disk is the one in memory: the same run, bit for bit."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from training.toy import last_checkpoint, toy_config, write_reversal

from nmt.batches.batching import EncodedCorpus
from nmt.errors import DataError
from nmt.training import training_data as module
from nmt.training.loop import train
from nmt.types import SentencePair

COMMAND = ["nmt", "train"]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return last_checkpoint(run).model_tensors


def test_a_run_from_the_cache_is_the_run_from_memory(tmp_path: Path) -> None:
    """Begun from memory, stopped in an epoch and gone on from the cache as well."""
    write_reversal(tmp_path, n_train=200, n_test=10)

    def run(name: str, cache: bool, stop: Callable[[], bool] = lambda: False) -> Path:
        data = {"cache": str(tmp_path / "cache")} if cache else {}
        sections = {"data": data, "train": {"epochs": 2, "batch_by": "tokens", "batch_size": 150}}
        train(toy_config(tmp_path, **sections), tmp_path / name, COMMAND, stop, quiet=True)
        return tmp_path / name

    memory, disk = run("memory", False), run("disk", True)
    asked = iter([False] * 5)
    run("both", False, lambda: next(asked, True))
    both = run("both", True)
    for other in (disk, both):
        ours, theirs = weights(memory), weights(other)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    log = (disk / "train.log").read_text(encoding="utf-8")
    assert "encoding: missing" in log
    assert "encoding" not in (both / "train.log").read_text(encoding="utf-8")


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
    config = toy_config(tmp_path, data=data)
    with pytest.raises(DataError, match=r"none of 20 pairs is fit for training: 20 longer than 1"):
        train(config, tmp_path / "run", COMMAND, quiet=True)


def test_a_mixture_from_the_cache_is_the_mixture_from_memory(tmp_path: Path) -> None:
    write_reversal(tmp_path, n_train=30, n_test=10)
    parts = [{"file": str(tmp_path / f"{name}.tsv")} for name in ("train", "test")]

    def run(name: str, cache: str | None) -> Path:
        data = {"train": {"mix": parts, "temperature": 5.0}, "cache": cache}
        config = toy_config(tmp_path, data=data, train={"epochs": 2, "batch_size": 8})
        train(config, tmp_path / name, COMMAND, quiet=True)
        return tmp_path / name

    ours, theirs = weights(run("memory", None)), weights(run("disk", str(tmp_path / "cache")))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert len(list((tmp_path / "cache").glob("*-*"))) == 2


def test_a_corpus_without_pairs_gives_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a forged data set of data.cache may be."""
    write_reversal(tmp_path, n_train=20, n_test=5)
    monkeypatch.setattr(module, "cached_corpus", lambda *_: EncodedCorpus((), (), {}))
    config = toy_config(tmp_path, data={"cache": str(tmp_path / "cache")})
    with pytest.raises(DataError, match=r"none of 0 pairs is fit for training: \w"):
        train(config, tmp_path / "run", quiet=True)
