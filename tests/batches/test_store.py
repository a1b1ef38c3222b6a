"""A data set on the disk is the training set in memory, or its fault is named."""

import errno
import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import disk
import numpy as np
import pytest

from nmt.batches import store as module
from nmt.batches.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.batches.store import EncodedSet, PairSource, Store, cached_corpus
from nmt.errors import DataError
from nmt.storage.atomic import lock
from nmt.text.tokenizer import Tokenizers, WordConfig, train_tokenizers
from nmt.types import SentencePair

PAIRS = [
    SentencePair("the cat sleeps", "le chat dort"),
    SentencePair("", "rien"),
    SentencePair("the cat", ""),
    SentencePair("the " * 9, "le " * 9),
    SentencePair("the dog", "le chien"),
    SentencePair("the cat sleeps", "le chat est là"),
    SentencePair("the dog sleeps", "le chien dort"),
    SentencePair("the dog", "le chat"),
    SentencePair("cat", "dort là"),
]
TOKENIZERS = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)
EXPECTED = encode_pairs(PAIRS, TOKENIZERS, max_pieces=8)


class Cache:
    """A cache of PAIRS, what was said about it, and how often the pairs were read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cache"
        path = folder / "pairs.tsv"
        path.write_text("".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in PAIRS))
        self.source = PairSource("pairs", (path,), "all", 8, self.pairs)
        self.said: list[str] = []
        self.n_read = 0

    def pairs(self) -> Iterator[SentencePair]:
        self.n_read += 1
        yield from PAIRS

    def corpus(self, tokenizers: Tokenizers = TOKENIZERS, **changes: object) -> EncodedCorpus:
        source = replace(self.source, **changes)  # type: ignore[arg-type]
        return cached_corpus(self.folder, [source], tokenizers, self.said.append)

    def store(self) -> Store:
        return Store(self.folder, self.source, TOKENIZERS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setattr(module, "_CHUNK_PAIRS", 2)
    return Cache(tmp_path)


def check(corpus: EncodedCorpus) -> None:
    """Assert that `corpus` is what memory would hold, in the same order."""
    assert list(corpus.src_ids) == list(EXPECTED.src_ids)
    assert list(corpus.tgt_ids) == list(EXPECTED.tgt_ids)
    assert corpus.dropped == EXPECTED.dropped
    assert len(corpus) == 6
    for outside in (6, -1):
        with pytest.raises(IndexError):
            corpus.src_ids[outside]
    for unit in ("sentences", "tokens"):
        stored, plain = (Batcher(c, 9, unit, 1) for c in (corpus, EXPECTED))  # type: ignore[arg-type]
        assert stored.plan(0)[:] == plain.plan(0)[:]
        assert stored.max_positions == plain.max_positions
        assert stored.fingerprint == plain.fingerprint
        assert stored.n_positions([2, 0, 5]) == plain.n_positions([2, 0, 5])
    assert corpus.batch([2, 0]).src_ids.tolist() == EXPECTED.batch([2, 0]).src_ids.tolist()


def test_a_set_has_the_rows_of_memory_and_is_encoded_once(cache: Cache) -> None:
    for _ in range(2):
        check(cache.corpus())
    assert cache.n_read == len(cache.said) == 1
    assert cache.said[0].endswith(": missing; encoding the corpus")


def test_large_vocabularies_have_ids_of_four_bytes(cache: Cache) -> None:
    config = WordConfig(joint=True, min_freq=1)
    words = SentencePair(" ".join(f"w{n}" for n in range(70_000)), "")
    tokenizers = train_tokenizers(config, [words], "en", "fr", seed=1)
    pairs = [SentencePair("w69999 w1", "w65535 w69998")]
    corpus = cache.corpus(tokenizers, pairs=lambda: iter(pairs))
    assert corpus.src_ids[0] == tokenizers.src.encode("w69999 w1").ids
    assert corpus.tgt_ids[0] == tokenizers.tgt.encode("w65535 w69998").ids


def test_whatever_ids_depend_on_makes_another_set(cache, monkeypatch) -> None:
    cache.corpus()
    other = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "fr", seed=1)
    cache.corpus(max_pieces=7)
    cache.corpus(part="first 3")
    cache.corpus(Tokenizers(TOKENIZERS.src, other.tgt, joint=False))
    monkeypatch.setattr(module, "TEXT_RULES_VERSION", 99)
    cache.corpus()
    with cache.source.files[0].open("a") as file:
        file.write("a\tb\n")
    cache.corpus()
    assert cache.n_read == len(set(cache.folder.glob("pairs-*"))) == 6
    cache.corpus()
    assert cache.n_read == 6


def test_a_flipped_byte_anywhere_is_not_trained_on(cache: Cache) -> None:
    cache.corpus()
    for path in sorted(cache.store().folder.glob("*s")):  # the arrays
        sound = path.read_bytes()
        for place in range(0, len(sound), 1 if len(sound) < 200 else 7):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            assert str(cache.store().open()).startswith("damaged: ")
        path.write_bytes(sound)
    check(cache.corpus())


def test_a_damaged_set_is_encoded_again(cache: Cache) -> None:
    damages: list[Callable[[Path], object]] = [
        lambda path: (path.unlink(), os.mkfifo(path)),
        Path.unlink,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.write_bytes(b"x" * 500),
        lambda path: os.truncate(path, 1 << 36),  # sparse: neither read nor held in memory
    ]
    cache.corpus()
    for name in ("manifest.json", "ids", "offsets"):
        for damage in damages:
            damage(cache.store().folder / name)
            check(cache.corpus())
    assert cache.n_read == 1 + 3 * 6


def test_forged_arrays_with_right_checksums_are_refused(cache: Cache) -> None:
    cache.corpus()
    folder = cache.store().folder
    manifest = folder / "manifest.json"
    for name, place, value, problem in (
        ("ids", 0, 999, "an id is not in the vocabulary"),
        ("offsets", 0, 1, "do not cover the ids"),
        ("offsets", -1, 99, "do not cover the ids"),
        ("offsets", 2, 30, "a row does not have 1 to 8 pieces"),
        ("offsets", 2, -7, "a row does not have 1 to 8 pieces"),
    ):
        sound, text = (folder / name).read_bytes(), manifest.read_text()
        array = np.frombuffer(sound, "<u2" if name == "ids" else "<i8").copy()
        array[place] = value
        (folder / name).write_bytes(array.tobytes())
        content = json.loads(text)
        content["files"][name] = array.nbytes, zlib.crc32(array.tobytes())
        manifest.write_text(json.dumps(content))
        assert problem in str(cache.store().open())
        (folder / name).write_bytes(sound)
        manifest.write_text(text)


def test_power_that_fails_leaves_a_whole_set_or_none(cache: Cache, tmp_path: Path) -> None:
    cache.folder.mkdir()
    recorder = disk.Recorder(cache.folder)
    with recorder.recording():
        cache.corpus()
    chance = random.Random(1)
    for n_calls in range(len(recorder.calls) + 1):
        for keep in {"some", ("nothing", "some", "all")[n_calls % 3]}:
            cache.folder = tmp_path / f"{n_calls}-{keep}"
            recorder.cut(n_calls, chance, keep, cache.folder)
            encoded = cache.store().open()
            assert encoded == "missing" or isinstance(encoded, EncodedSet)
            assert n_calls < len(recorder.calls) or encoded != "missing"
            check(cache.corpus())
            assert not list(cache.folder.glob(".tmp-*"))


def test_a_full_disk_or_another_writer_is_one_line(cache: Cache) -> None:
    cache.folder.mkdir()
    with (cache.folder / "lock").open("w") as file:
        lock(file.fileno())
        with pytest.raises(DataError, match=r"^data\.cache: .*cache: locked by another process$"):
            cache.corpus()
    for at_call in range(12):
        with (
            disk.failing(cache.folder, at_call, errno.ENOSPC),
            pytest.raises(DataError, match=r"^data\.cache: .*: No space left on device$"),
        ):
            cache.corpus()
    check(cache.corpus())
