"""A data set on the disk is the training set in memory, or it is made again and why is said."""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmt.data import encoded_cache as module
from nmt.data.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.data.encoded_cache import DataSet, cached_corpus
from nmt.errors import DataError
from nmt.text.tokenizer import Tokenizers, WordConfig, train_tokenizers
from nmt.types import SentencePair

PAIRS = [
    SentencePair("the cat sleeps", "le chat dort"),
    SentencePair("", "rien"),
    SentencePair("the cat", ""),
    SentencePair("the " * 9, "le " * 9),
    SentencePair("the dog", "le chien"),
    SentencePair("the cat sleeps", "le chat est là"),
]
TOKENIZERS = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)


@pytest.fixture
def wanted(tmp_path: Path) -> DataSet:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in PAIRS))
    return DataSet("pairs", (path,), "all", max_pieces=8)


class Asking:
    """Asks for the data set, and keeps what was said and how often the pairs were read."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.said: list[str] = []
        self.n_read = 0

    def __call__(self, wanted: DataSet, tokenizers: Tokenizers = TOKENIZERS) -> EncodedCorpus:
        return cached_corpus(self.cache, wanted, tokenizers, self.pairs, self.said.append)

    def pairs(self) -> Iterator[SentencePair]:
        self.n_read += 1
        yield from PAIRS


@pytest.fixture
def ask(tmp_path: Path) -> Asking:
    return Asking(tmp_path / "cache")


def rows(corpus: EncodedCorpus) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return list(corpus.src_ids), list(corpus.tgt_ids)


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_it_is_what_memory_would_hold(
    ask: Asking, wanted: DataSet, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_PAIRS", chunk)
    expected = encode_pairs(PAIRS, TOKENIZERS, max_pieces=8)
    for _ in range(2):
        found = ask(wanted)
        assert rows(found) == rows(expected)
        assert found.dropped == expected.dropped
        assert len(found) == 3
        assert Batcher(found, 9, "tokens", 1).plan(0) == Batcher(expected, 9, "tokens", 1).plan(0)
        assert found.batch([2, 0]).src_ids.tolist() == expected.batch([2, 0]).src_ids.tolist()
    assert ask.n_read == 1
    assert len(ask.said) == 1
    assert ask.said[0].endswith(": encoding the training set: there is none yet")


def test_whatever_the_ids_depend_on_makes_another_one_and_is_named(
    ask: Asking, wanted: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(wanted)
    other = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "fr", seed=1)
    lower = Tokenizers(TOKENIZERS.src, other.tgt, joint=False)
    for changed, tokenizers, named in (
        (replace(wanted, max_pieces=7), TOKENIZERS, "another data.max_pieces than pairs-"),
        (replace(wanted, part="first 3"), TOKENIZERS, "another part of the files"),
        (wanted, lower, "target tokenizer"),
    ):
        ask(changed, tokenizers)
        assert named in ask.said[-1]
    monkeypatch.setattr(module, "_text_rules", lambda: "other rules")
    ask(wanted)
    assert "text rules" in ask.said[-1]
    with wanted.files[0].open("a") as file:
        file.write("a\tb\n")
    ask(wanted)
    assert "another file 1 pairs.tsv" in ask.said[-1]
    n_said = len(ask.said)
    assert ask.n_read == n_said == 6
    ask(wanted)
    assert len(ask.said) == n_said


def forged(name: str, *numbers: int) -> Callable[[Path], None]:
    """Another content of a file, with its checksum."""

    def forge(folder: Path) -> None:
        path = folder / name
        path.write_bytes(np.array(numbers, "<u2").tobytes())
        checksums = json.loads((folder / "meta.json").read_text())["sha256"]
        checksums[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        edit(folder / "meta.json", sha256=checksums)

    return forge


def as_fifo(name: str) -> Callable[[Path], None]:
    def plant(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return plant


def edited(**changes: object) -> Callable[[Path], None]:
    return lambda folder: edit(folder / "meta.json", **changes)


@pytest.mark.parametrize(
    "damage",
    [
        forged("src.lengths", 3, 2),
        forged("src.lengths", 3, 2, 2),
        forged("src.lengths", 3, 0, 4),
        forged("src.lengths", 9, 2, 3),
        forged("src.ids"),
        forged("src.ids", *range(4, 11), 999),
        forged("tgt.ids", *range(65520, 65535)),
        as_fifo("src.ids"),
        as_fifo("meta.json"),
        edited(sha256={"/dev/zero": "0"}),
        edited(sha256={}),
        edited(sha256=[]),
        edited(dtypes={}),
        edited(dtypes={"lengths": "<u2", "src.ids": "<u2", "tgt.ids": ">f8"}),
        edited(dropped={"x": -1}),
        edited(dropped={"x": "y"}),
        edited(pairs="x"),
        edited(origin=[]),
        lambda folder: (folder / "src.ids").write_bytes(b"\xff\xff"),
        lambda folder: (folder / "tgt.lengths").unlink(),
        lambda folder: (folder / "meta.json").write_text("{}"),
        lambda folder: (folder / "meta.json").write_text("["),
        lambda folder: (folder / "meta.json").unlink(),
        lambda folder: edit(folder / "meta.json", dtypes={"src.ids": "O", "tgt.ids": "O"}),
    ],
)
def test_a_damaged_one_is_made_again(ask: Asking, wanted: DataSet, damage: object) -> None:
    expected = rows(ask(wanted))
    (folder,) = ask.cache.iterdir()
    damage(folder)  # type: ignore[operator]
    assert rows(ask(wanted)) == expected
    assert f"{folder}: not as it was written" in ask.said[1]
    assert ask.n_read == 2


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_killed_build_leaves_nothing_that_counts(
    ask: Asking, wanted: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def torn(*_: object) -> Iterator[SentencePair]:
        yield PAIRS[0]
        raise Killed

    with pytest.raises(Killed):
        cached_corpus(ask.cache, wanted, TOKENIZERS, torn, ask.said.append)
    assert list(ask.cache.iterdir()) == []
    left = ask.cache / f".tmp-pairs-abc-{module.platform.node()}-999999999"
    left.mkdir()
    mine = ask.cache / f".tmp-pairs-def-{module.platform.node()}-{os.getppid()}"
    mine.mkdir()
    elsewhere = ask.cache / ".tmp-pairs-abc-another.host-999999999"
    elsewhere.mkdir()
    ask(wanted)
    assert not left.exists()
    assert mine.exists()
    assert elsewhere.exists()


def test_two_at_a_time_give_one(
    ask: Asking, wanted: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower finds the place taken, and takes what is there."""
    barrier = threading.Barrier(2, timeout=20)

    def slow() -> Iterator[SentencePair]:
        barrier.wait()
        yield from PAIRS

    found: list[EncodedCorpus] = []
    monkeypatch.setattr(module.os, "getpid", threading.get_ident)  # two threads for two processes
    monkeypatch.setattr(module.os, "kill", lambda pid, number: None)  # both are alive

    def one() -> None:
        found.append(cached_corpus(ask.cache, wanted, TOKENIZERS, slow, ask.said.append))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert rows(found[0]) == rows(found[1]) == rows(encode_pairs(PAIRS, TOKENIZERS, 8))
    assert [path.name[:6] for path in ask.cache.iterdir()] == ["pairs-"]


def test_a_cache_that_cannot_be_written(ask: Asking, wanted: DataSet) -> None:
    ask.cache.write_text("a file")
    with pytest.raises(DataError, match=r"^data\.cache: .*cache.*: (Not a directory|File exists)"):
        ask(wanted)


def test_a_disk_that_does_not_keep_what_is_written(
    ask: Asking, wanted: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_open", lambda *_: None)
    with pytest.raises(DataError, match="damaged as soon as it was written; is the disk sound"):
        ask(wanted)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_rename_that_is_refused(
    ask: Asking, wanted: DataSet, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process' data set, which is taken; or for good."""
    rename = os.rename

    def refused(source: Path, target: Path) -> None:
        if is_there:
            rename(source, target)
        raise OSError(39, "Directory not empty", str(target))

    monkeypatch.setattr(module.os, "rename", refused)
    if is_there:
        assert len(ask(wanted)) == 3
    else:
        with pytest.raises(DataError, match=r"^data\.cache: .*pairs-.*: Directory not empty$"):
            ask(wanted)


def test_a_process_of_another_user_is_alive(
    ask: Asking, wanted: DataSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(module.os, "kill", refused)
    unfinished = ask.cache / f".tmp-pairs-{module.platform.node()}-1"
    unfinished.mkdir(parents=True)
    ask(wanted)
    assert unfinished.is_dir()


def test_a_cache_with_another_data_set_that_is_damaged(ask: Asking, wanted: DataSet) -> None:
    (ask.cache / "pairs-x").mkdir(parents=True)
    (ask.cache / "pairs-x" / "meta.json").write_text("{}")
    ask(wanted)
    assert ask.said[0].endswith("the last one is damaged")
