"""A data set on the disk is the training set in memory, or its fault is named."""

import errno
import json
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import disk
import numpy as np
import pytest

from nmt.batches import store as module
from nmt.batches.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.batches.store import DataSet, EncodedSet, Shard, cached_corpus
from nmt.corpora import checksums
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
        self.source = DataSet("pairs", (path,), "all", 8, self.pairs)
        self.said: list[str] = []
        self.n_read = 0

    def pairs(self) -> Iterator[SentencePair]:
        self.n_read += 1
        yield from PAIRS

    def corpus(self, tokenizers: Tokenizers = TOKENIZERS, **changes: object) -> EncodedCorpus:
        source = replace(self.source, **changes)  # type: ignore[arg-type]
        return cached_corpus(self.folder, [source], tokenizers, advice, self.said.append)

    def set(self) -> EncodedSet:
        return EncodedSet(self.folder, self.source, TOKENIZERS)

    def encode(self, number: int, n_shards: int) -> bool:
        return self.set().encode(number, n_shards, self.said.append)

    def shard(self) -> Path:
        return self.set().path(1, 1)


def advice(shard: str) -> str:
    return f"make {shard}"


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
    assert corpus.src_ids[-1] == EXPECTED.src_ids[5]
    assert corpus.tgt_ids[1:4:2] == list(EXPECTED.tgt_ids[1:4:2])
    for outside in (6, -7):
        with pytest.raises(IndexError):
            corpus.src_ids[outside]
    for unit in ("sentences", "tokens"):
        stored, plain = (Batcher(c, 9, unit, 1) for c in (corpus, EXPECTED))  # type: ignore[arg-type]
        assert stored.plan(0) == plain.plan(0)
        assert stored.max_positions == plain.max_positions
        assert stored.fingerprint == plain.fingerprint
        assert stored.n_positions([2, 0, 5]) == plain.n_positions([2, 0, 5])
    assert corpus.batch([2, 0]).src_ids.tolist() == EXPECTED.batch([2, 0]).src_ids.tolist()


@pytest.mark.parametrize("n_shards", [1, 2, 3, 12])
def test_shards_have_the_rows_of_memory_in_its_order(cache: Cache, n_shards: int) -> None:
    """Twelve shards of nine pairs: some have no rows."""
    numbers = list(range(1, n_shards + 1))
    random.Random(1).shuffle(numbers)
    assert all(cache.encode(number, n_shards) for number in numbers)
    n_read = cache.n_read
    check(cache.corpus())
    assert not any(cache.encode(number, n_shards) for number in numbers)
    assert cache.n_read == n_read


def test_training_encodes_a_set_once(cache: Cache) -> None:
    for _ in range(2):
        check(cache.corpus())
    assert cache.n_read == len(cache.said) == 1
    assert cache.said[0].endswith(": encoding shard 1/1: missing")


def test_large_vocabularies_have_ids_of_four_bytes(cache: Cache, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("".join(f"w{n}\n" for n in range(70_000)))
    config = WordConfig(joint=True, src_vocab=words)
    tokenizers = train_tokenizers(config, [], "en", "fr", seed=1)
    pairs = [SentencePair("w69999 w1", "w65535 w69998")]
    corpus = cache.corpus(tokenizers, pairs=lambda: iter(pairs))
    assert corpus.src_ids[0] == tokenizers.src.encode("w69999 w1").ids
    assert corpus.tgt_ids[0] == tokenizers.tgt.encode("w65535 w69998").ids


def test_sets_of_a_mixture_follow_one_another(cache: Cache) -> None:
    short = replace(cache.source, name="short", part="2", pairs=lambda: iter(PAIRS[4:6]))
    corpus = cached_corpus(cache.folder, [short, cache.source], TOKENIZERS, advice, print)
    assert list(corpus.src_ids) == [*EXPECTED.src_ids[1:3], *EXPECTED.src_ids]
    assert corpus.sizes == (2, 6)
    assert [side.tolist() for side in corpus.lengths_at(np.array([1, 2, 7]), 0)] == [
        [4, 4, 2],
        [5, 4, 3],
    ]


def test_missing_shards_are_named_with_their_command(cache: Cache) -> None:
    cache.encode(2, 3)
    with pytest.raises(DataError, match=r"00001-of-00003: missing \(and 1 more of 3\); make 1/3$"):
        cache.corpus()
    with pytest.raises(DataError, match="got 2 shards, but it was begun in 3"):
        cache.encode(1, 2)
    cache.encode(1, 3)
    cache.encode(3, 3)
    check(cache.corpus())


def test_whatever_ids_depend_on_makes_another_set(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.corpus()
    other = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "fr", seed=1)
    cache.corpus(max_pieces=7)
    cache.corpus(part="first 3")
    cache.corpus(Tokenizers(TOKENIZERS.src, other.tgt, joint=False))
    monkeypatch.setattr(module, "TEXT_RULES", 99)
    cache.corpus()
    with cache.source.files[0].open("a") as file:
        file.write("a\tb\n")
    cache.corpus()
    assert cache.n_read == len(set(cache.folder.glob("pairs-*"))) == 6
    cache.corpus()
    assert cache.n_read == 6


def test_a_flipped_byte_anywhere_is_not_trained_on(cache: Cache) -> None:
    for number in (1, 2):
        cache.encode(number, 2)
    for path in sorted(cache.set().path(2, 2).iterdir()):
        sound = path.read_bytes()
        for place in range(0, len(sound), 1 if len(sound) < 200 else 7):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            with pytest.raises(DataError, match=r"00002-of-00002: damaged: .*; make 2/2$"):
                cache.corpus()
        path.write_bytes(sound)
    check(cache.corpus())


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[Callable[[Path], object]] = [
    as_fifo,
    Path.unlink,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-3]),
    lambda path: path.write_bytes(b"x" * 500),
    lambda path: os.truncate(path, 1 << 36),  # sparse: neither read nor held in memory
]


@pytest.mark.parametrize("name", ["manifest.json", "src.ids", "tgt.offsets"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_set_is_encoded_again(
    cache: Cache, name: str, damage: Callable[[Path], object]
) -> None:
    cache.corpus()
    damage(cache.shard() / name)
    check(cache.corpus())
    assert cache.n_read == 2


@pytest.mark.parametrize(
    ("name", "place", "value", "fault"),
    [
        ("src.ids", 0, 999, "an id that the vocabulary lacks"),
        ("tgt.offsets", 0, 1, "not as many ids"),
        ("tgt.offsets", -1, 99, "not as many ids"),
        ("src.offsets", 2, 3, "a row that has not 1 to 8 pieces"),
        ("src.offsets", 2, -7, "a row that has not 1 to 8 pieces"),
    ],
)
def test_forged_arrays_with_right_checksums_are_refused(
    cache: Cache, name: str, place: int, value: int, fault: str
) -> None:
    cache.corpus()
    path = cache.shard() / name
    array = np.frombuffer(path.read_bytes(), "<u2" if name.endswith("ids") else "<i8").copy()
    array[place] = value
    path.write_bytes(array.tobytes())
    manifest = cache.shard() / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"][name] = array.nbytes, zlib.crc32(array.tobytes())
    manifest.write_text(json.dumps(content))
    assert fault in str(cache.set().open(1, 1))


def test_a_shard_of_another_set_is_refused(cache: Cache) -> None:
    cache.corpus(part="first 3")
    (other,) = cache.folder.glob("pairs-*/00001-of-00001")
    cache.set().folder.mkdir()
    other.rename(cache.shard())
    assert "another data set" in str(cache.set().open(1, 1))
    check(cache.corpus())


def test_power_that_fails_leaves_whole_shards_or_none(cache: Cache, tmp_path: Path) -> None:
    cache.folder.mkdir()
    recorder = disk.Recorder(cache.folder)
    with recorder.recording():
        for number in (1, 2):
            cache.encode(number, 2)
    chance = random.Random(1)
    for n_calls in range(len(recorder.calls) + 1):
        for keep in {"some", ("nothing", "some", "all")[n_calls % 3]}:
            cache.folder = tmp_path / f"{n_calls}-{keep}"
            recorder.cut(n_calls, chance, keep, cache.folder)
            opened = [cache.set().open(number, 2) for number in (1, 2)]
            assert set(opened) <= {"missing"} | {s for s in opened if isinstance(s, Shard)}
            if n_calls == len(recorder.calls):
                assert "missing" not in opened
            written = [cache.encode(number, 2) for number in (1, 2)]
            assert written == [shard == "missing" for shard in opened]
            check(cache.corpus())


def test_a_full_disk_is_one_line(cache: Cache) -> None:
    cache.folder.mkdir()
    for at_call in range(12):
        with (
            disk.failing(cache.folder, at_call, errno.ENOSPC),
            pytest.raises(DataError, match=r"^data\.cache: .*: No space left on device$"),
        ):
            cache.encode(1, 1)
    cache.encode(1, 1)
    check(cache.corpus())


def test_leftovers_of_killed_jobs_are_removed(cache: Cache) -> None:
    def torn() -> Iterator[SentencePair]:
        yield from PAIRS[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.corpus(pairs=torn)
    folder = cache.set().folder
    assert not list(folder.iterdir())
    host = module.platform.node()
    endings = {f"{host}-999999999", f"{host}-{os.getppid()}", f"{host}-{'9' * 20}", "other-9"}
    for ending in endings:
        (folder / f".tmp-00001-of-00001-{ending}").mkdir()
    check(cache.corpus())
    left = {path.name.partition("00001-of-00001-")[2] for path in folder.glob(".tmp-*")}
    assert left == endings - {f"{host}-999999999"}


def test_two_jobs_of_one_shard_leave_one(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2, timeout=20)

    def slow() -> Iterator[SentencePair]:
        barrier.wait()
        yield from PAIRS

    corpora: list[EncodedCorpus] = []
    monkeypatch.setattr(module.os, "getpid", threading.get_ident)  # two threads for two processes
    monkeypatch.setattr(module.os, "kill", lambda pid, number: None)  # both are alive
    threads = [
        threading.Thread(target=lambda: corpora.append(cache.corpus(pairs=slow))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(corpora) == 2
    for corpus in corpora:
        check(corpus)
    assert len(list(cache.set().folder.iterdir())) == 1


def test_a_file_in_place_of_the_cache_is_refused(cache: Cache) -> None:
    cache.folder.write_text("a file")
    with pytest.raises(DataError, match=r"^data\.cache: .*cache: got a file, allowed: a folder"):
        cache.corpus()


def test_a_file_is_hashed_again_where_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    digests = []
    for text in ("aaaa", "bbbb"):
        path.write_text(text)
        digests.append(checksums.file_digest(path))
    assert len(set(digests)) == 2
    monkeypatch.setattr(checksums, "digest", lambda path: pytest.fail("read again"))
    assert checksums.file_digest(path) == digests[1]
    with pytest.raises(DataError, match=r"no\.txt: cannot be read"):
        checksums.file_digest(tmp_path / "no.txt")
