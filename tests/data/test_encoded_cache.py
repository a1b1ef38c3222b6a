"""A data set on the disk is the training set in memory, or what is wrong with it is said."""

import errno
import json
import os
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import disk
import numpy as np
import pytest

from nmt.data import encoded_cache as module
from nmt.data import shard_file, stored_pairs
from nmt.data.batching import Batcher, EncodedCorpus, encode_pairs
from nmt.data.encoded_cache import DataSet, EncodedSet, cached_corpus
from nmt.data.file_digests import FileDigests
from nmt.data.shard_file import Shard
from nmt.data.stored_pairs import StoredPairs
from nmt.errors import DataError
from nmt.storage.atomic import digest
from nmt.text import case_markup, normalisation, word_tokenizer
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


class Asking:
    """Asks for the data set, and keeps what was said and how often the pairs were read."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        path = folder / "pairs.tsv"
        path.write_text("".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in PAIRS))
        self.wanted = DataSet("pairs", (path,), "all", 8, self.pairs)
        self.said: list[str] = []
        self.n_read = 0

    def __call__(self, **changes: object) -> EncodedCorpus:
        tokenizers = changes.pop("tokenizers", TOKENIZERS)
        wanted = replace(self.wanted, **changes)  # type: ignore[arg-type]
        assert isinstance(tokenizers, Tokenizers)
        return cached_corpus(self.cache, [wanted], tokenizers, advice, self.said.append)

    def encode(self, number: int, n_shards: int) -> bool:
        return self.set().encode(number, n_shards, self.said.append)

    def set(self) -> EncodedSet:
        return EncodedSet(self.cache, self.wanted, TOKENIZERS)

    def pairs(self) -> Iterator[SentencePair]:
        self.n_read += 1
        yield from PAIRS


def advice(shard: str) -> str:
    return f"make {shard}"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr(module, "BLOCK_PAIRS", 2)
    return Asking(tmp_path)


def rows(corpus: EncodedCorpus) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return list(corpus.src_ids), list(corpus.tgt_ids)


def check(found: EncodedCorpus) -> None:
    """That `found` is what memory would hold, in the same order."""
    assert rows(found) == rows(EXPECTED)
    assert found.dropped == EXPECTED.dropped
    assert len(found) == 6
    assert found.src_ids[-1] == EXPECTED.src_ids[5]
    assert found.tgt_ids[1:4:2] == list(EXPECTED.tgt_ids[1:4:2])
    for outside in (6, -7):
        with pytest.raises(IndexError):
            found.src_ids[outside]
    for unit in ("sentences", "tokens"):
        ours, theirs = (Batcher(corpus, 9, unit, 1) for corpus in (found, EXPECTED))  # type: ignore[arg-type]
        assert ours.plan(0) == theirs.plan(0)
        assert ours.max_positions == theirs.max_positions
        assert ours.n_positions([2, 0, 5]) == theirs.n_positions([2, 0, 5])
    assert found.batch([2, 0]).src_ids.tolist() == EXPECTED.batch([2, 0]).src_ids.tolist()


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_it_is_what_memory_would_hold(
    ask: Asking, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_PAIRS", block)
    monkeypatch.setattr(stored_pairs, "_RELEASE_EVERY", 2)
    for _ in range(2):
        check(ask())
    assert ask.n_read == 1
    assert len(ask.said) == 1
    assert ask.said[0].endswith(": encoding shard 1/1: there is none yet")


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
def test_any_number_of_shards_has_the_same_rows_in_the_same_order(
    ask: Asking, n_shards: int
) -> None:
    """Seven shards of five blocks: two have no rows."""
    numbers = list(range(1, n_shards + 1))
    random.Random(1).shuffle(numbers)
    assert all(ask.encode(number, n_shards) for number in numbers)
    n_read = ask.n_read
    check(ask())
    assert not any(ask.encode(number, n_shards) for number in numbers)
    assert ask.n_read == n_read
    assert ask.said[-1].endswith("there already, and sound")


def test_several_data_sets_are_one_after_the_other(ask: Asking) -> None:
    short = replace(ask.wanted, name="short", part="first 2", pairs=lambda: iter(PAIRS[4:6]))
    found = cached_corpus(ask.cache, [short, ask.wanted], TOKENIZERS, advice, ask.said.append)
    src, tgt = rows(EXPECTED)
    assert rows(found) == (src[1:3] + src, tgt[1:3] + tgt)
    assert [n.tolist() for n in found.lengths.at(np.array([1, 2, 7]))] == [[4, 4, 2], [5, 4, 3]]


def test_missing_shards_stop_a_training_and_are_named(ask: Asking) -> None:
    ask.encode(2, 3)
    first = f"{ask.set().folder}/00001-of-00003.ids"
    with pytest.raises(DataError) as raised:
        ask()
    assert str(raised.value) == f"{first}: missing (and 1 more of 3); make 1/3"
    ask.encode(1, 3)
    with pytest.raises(DataError, match=r"00003-of-00003\.ids: missing; make 3/3$"):
        ask()
    ask.encode(3, 3)
    check(ask())


def test_another_number_of_shards_is_refused(ask: Asking) -> None:
    ask.encode(2, 3)
    for _ in range(2):
        with pytest.raises(DataError, match=r"got 2 shards, but it was begun in 3; allowed: 3, or"):
            ask.encode(1, 2)
        (ask.set().folder / "manifest.json").write_text("{}")  # the shards' names tell
    (ask.set().folder / "manifest.json").unlink()
    ask.encode(1, 3)
    ask.encode(3, 3)
    check(ask())


def test_whatever_the_ids_depend_on_makes_another_one_and_is_named(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask()
    other = train_tokenizers(WordConfig(min_freq=2), PAIRS, "en", "fr", seed=1)
    lower = Tokenizers(TOKENIZERS.src, other.tgt, joint=False)
    changes: list[tuple[dict[str, object], str]] = [
        ({"max_pieces": 7}, "another data.max_pieces than pairs-"),
        ({"part": "first 3"}, "another part of the files"),
        ({"tokenizers": lower}, "target tokenizer"),
    ]
    for changed, named in changes:
        ask(**changed)
        assert named in ask.said[-1]
    monkeypatch.setattr(module, "_text_rules", lambda langs: "other rules")
    ask()
    assert "text rules" in ask.said[-1]
    with ask.wanted.files[0].open("a") as file:
        file.write("a\tb\n")
    ask()
    assert "another file 1 pairs.tsv" in ask.said[-1]
    n_said = len(ask.said)
    assert ask.n_read == n_said == 6
    ask()
    assert len(ask.said) == n_said


@pytest.mark.parametrize(
    ("where", "name", "change"),
    [
        (normalisation, "normalise", lambda text: text.replace("&amp;", "&")),
        (normalisation, "normalise", lambda text: text.replace("5 %", "5%")),
        (case_markup, "mark_case", str.upper),
        (word_tokenizer, "split", lambda words: [*words, "x"]),
    ],
)
def test_another_rule_of_text_makes_another_data_set(
    where: ModuleType,
    name: str,
    change: Callable[[object], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = module._text_rules.__wrapped__(("en", "fr"))
    assert before != module._text_rules.__wrapped__(("en", "de"))
    real = getattr(where, name)
    monkeypatch.setattr(where, name, lambda *given: change(real(*given)))
    assert module._text_rules.__wrapped__(("en", "fr")) != before


def test_a_comment_in_the_source_of_the_rules_changes_nothing(
    ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask()
    commented = tmp_path / "normalisation.py"
    commented.write_text(f"# more\n{Path(str(normalisation.__file__)).read_text('utf-8')}", "utf-8")
    monkeypatch.setattr(normalisation, "__file__", str(commented))
    ask()
    assert ask.n_read == 1


@pytest.mark.parametrize("number", ["100000", "9" * 30, "0"])
def test_a_file_name_does_not_tell_millions_of_shards(ask: Asking, number: str) -> None:
    ask.set().folder.mkdir(parents=True)
    (ask.set().folder / f"00001-of-{number}.ids").touch()
    assert ask.set().n_shards is None


def test_a_sparse_shard_is_not_read_into_memory(ask: Asking) -> None:
    ask()
    path = ask.set().path(1, 1)
    n_index = 1 << 33
    trailer = bytearray(path.read_bytes()[-28:])
    trailer[:8] = n_index.to_bytes(8, "little")
    with path.open("r+b") as file:
        file.truncate(n_index + (1 << 20))
        file.seek(0, 2)
        file.write(trailer)
    assert "not whole" in str(ask.set().fault(1, 1))


def test_leftovers_of_no_process_stay_and_harm_nothing(ask: Asking) -> None:
    ask.cache.mkdir()
    leftover = ask.cache / f".tmp-x-{module.platform.node()}-{'9' * 20}"
    leftover.touch()
    check(ask())
    assert leftover.exists()


@pytest.mark.parametrize(
    "changes",
    [{"longest": [99, 2]}, {"total_longer": 0}, {"total_longer": 10**15}],
)
def test_forged_lengths_in_a_footer_are_refused(ask: Asking, changes: dict[str, object]) -> None:
    ask()
    shard = opened(ask)
    content = shard.path.read_bytes()
    n_before, index = 2 * shard.numbers.size, shard.index.tobytes()
    footer = json.loads(content[n_before + len(index) : -28])
    text = json.dumps(footer | changes).encode()
    crc = zlib.crc32(text, zlib.crc32(index))
    trailer = shard_file._TRAILER.pack(len(index), len(text), crc, content[-8:])
    shard.path.write_bytes(content[:n_before] + index + text + trailer)
    assert "lengths that no rows have" in str(ask.set().fault(1, 1))


def test_a_flipped_byte_anywhere_is_named_and_not_trained_on(ask: Asking) -> None:
    for number in (1, 2):
        ask.encode(number, 2)
    path = ask.set().path(2, 2)
    sound = path.read_bytes()
    for place in range(len(sound)):
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(DataError) as raised:
            stored(ask, 2).at(np.arange(6))
        assert str(raised.value).startswith(f"{path}: ")
        assert str(raised.value).endswith("; make 2/2")
        assert ask.set().fault(2, 2, is_thorough=True) is not None
    assert ask.encode(2, 2)
    assert path.read_bytes()[: len(sound) // 2] == sound[: len(sound) // 2]
    check(ask())


def test_sound_blocks_of_a_damaged_shard_are_read(ask: Asking) -> None:
    ask()
    path = ask.set().path(1, 1)
    content = bytearray(path.read_bytes())
    shard = opened(ask)
    content[2 * int(shard.sizes[:-1].sum())] ^= 1  # the last block
    path.write_bytes(content)
    found = stored(ask, 1)
    assert found.ids(0, 1) == EXPECTED.tgt_ids[0]
    with pytest.raises(DataError, match=r"00001\.ids: block 5: damaged: wrong checksum; make 1/1$"):
        found.ids(5, 0)
    assert ask.encode(1, 1)
    assert "not as it was" not in ask.said[-1]
    assert "block 5: wrong checksum" in ask.said[-1]
    check(ask())


def stored(ask: Asking, n_shards: int) -> StoredPairs:
    """Without the runtime type checks of the tests, which read a row of a sequence."""
    return StoredPairs([ask.set().shards(n_shards, advice)], advice)


def opened(ask: Asking) -> Shard:
    (shard,) = ask.set().shards(1, advice)
    return shard


def forged(change: Callable[[list[int]], None], cut: int = 0) -> Callable[[Asking], None]:
    """Other numbers in the first block, whose checksums fit."""

    def forge(ask: Asking) -> None:
        shard = opened(ask)
        numbers = shard.numbers.tolist()
        change(numbers)
        size = int(shard.sizes[0])
        block = np.array(numbers[:size], "<u2").tobytes()
        index = shard.index.copy()
        index["crc"][0] = zlib.crc32(block)
        content = shard.path.read_bytes()
        n_blocks, n_index = 2 * len(numbers), index.nbytes
        text = content[n_blocks + n_index : -28]
        trailer = bytearray(content[-28:])
        trailer[16:20] = zlib.crc32(text, zlib.crc32(index.tobytes())).to_bytes(4, "little")
        rest = content[len(block) : n_blocks]
        shard.path.write_bytes(block + rest + index.tobytes() + text + trailer)

    return forge


def at(place: int, value: int) -> Callable[[list[int]], None]:
    return lambda numbers: numbers.__setitem__(place, value)


@pytest.mark.parametrize(
    ("forge", "fault"),
    [
        (forged(at(0, 4)), "not as many ids as its lengths say"),
        (forged(at(0, 0)), "a row of a length that is not 1 to 8 pieces"),
        (forged(at(1, 9)), "a row of a length that is not 1 to 8 pieces"),
        (forged(at(2, 999)), "an id that the vocabulary lacks"),
        (forged(at(7, 65535)), "an id that the vocabulary lacks"),
    ],
)
def test_a_forged_block_is_not_trained_on(
    ask: Asking, forge: Callable[[Asking], None], fault: str
) -> None:
    ask()
    forge(ask)
    with pytest.raises(DataError, match=rf"block 1: damaged: {fault}; make 1/1$"):
        stored(ask, 1).ids(0, 0)


def with_file(change: Callable[[Path], object]) -> Callable[[Asking], object]:
    return lambda ask: change(ask.set().path(1, 1))


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        with_file(as_fifo),
        with_file(Path.unlink),
        with_file(lambda path: path.write_bytes(b"")),
        with_file(lambda path: path.write_bytes(b"x" * 500)),
        with_file(lambda path: path.write_bytes(path.read_bytes()[:-1])),
        with_file(lambda path: path.write_bytes(path.read_bytes()[2:])),
        with_file(lambda path: path.write_bytes(b"xx" + path.read_bytes())),
    ],
)
def test_a_damaged_one_is_made_again(ask: Asking, damage: Callable[[Asking], object]) -> None:
    ask()
    damage(ask)
    check(ask())
    assert ": encoding shard 1/1: " in ask.said[1]
    assert ask.n_read == 2


def test_a_shard_of_another_data_set_does_not_pass(ask: Asking) -> None:
    ask(part="first 3")
    (other,) = ask.cache.glob("pairs-*/*.ids")
    ask()
    ask.set().path(1, 1).write_bytes(other.read_bytes())
    check(ask())
    assert "it is of another data set" in ask.said[-1]


def test_power_that_fails_leaves_a_state_that_is_recognised(
    ask: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two writes of two jobs: a shard is whole, or it is said to be missing."""
    ask.cache.mkdir()
    recorder = disk.Recorder(ask.cache)
    with recorder.recording():
        for number in (1, 2):
            ask.encode(number, 2)
    chance = random.Random(1)
    for n_calls in range(len(recorder.calls) + 1):
        for keep in ("nothing", "some", "all"):
            ask.cache = tmp_path / f"{n_calls}-{keep}"
            recorder.cut(n_calls, chance, keep, ask.cache)
            encoded = ask.set()
            faults = [encoded.fault(number, 2, is_thorough=True) for number in (1, 2)]
            assert not any(faults) or n_calls < len(recorder.calls), (keep, faults)
            if encoded.n_shards is not None:
                assert encoded.n_shards == 2
                if any(faults):
                    with pytest.raises(DataError, match=r"-of-00002\.ids: .*; make [12]/2$"):
                        stored(ask, 2).at(np.arange(6))
            written = [ask.encode(number, 2) for number in (1, 2)]
            assert written == [fault is not None for fault in faults]
            check(ask())


def test_a_disk_that_is_full_is_said(ask: Asking) -> None:
    ask.cache.mkdir()
    for at_call in range(10):
        with disk.failing(ask.cache, at_call, errno.ENOSPC), pytest.raises(DataError) as raised:
            ask.encode(1, 1)
        assert str(raised.value).startswith("data.cache: ")
        assert str(raised.value).endswith(": No space left on device")
    ask.encode(1, 1)
    check(ask())


def test_a_killed_job_leaves_nothing_that_counts(ask: Asking) -> None:
    def torn() -> Iterator[SentencePair]:
        yield from PAIRS[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(pairs=torn)
    folder = ask.set().folder
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]
    host = module.platform.node()
    left = folder / f".tmp-00001-of-00001.ids-{host}-999999999"
    mine = folder / f".tmp-00001-of-00001.ids-{host}-{os.getppid()}"
    elsewhere = folder / ".tmp-00001-of-00001.ids-another.host-999999999"
    for path in (left, mine, elsewhere):
        path.touch()
    check(ask())
    assert not left.exists()
    assert mine.exists()
    assert elsewhere.exists()


def test_two_at_a_time_give_one(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of the same shard: it is whole whenever it is there, and stays what it is."""
    barrier = threading.Barrier(2, timeout=20)

    def slow() -> Iterator[SentencePair]:
        barrier.wait()
        yield from PAIRS

    found: list[EncodedCorpus] = []
    monkeypatch.setattr(module.os, "getpid", threading.get_ident)  # two threads for two processes
    monkeypatch.setattr(module.os, "kill", lambda pid, number: None)  # both are alive
    threads = [threading.Thread(target=lambda: found.append(ask(pairs=slow))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for corpus in found:
        check(corpus)
    assert len(list(ask.set().folder.iterdir())) == 2


def test_a_cache_that_cannot_be_written(ask: Asking) -> None:
    ask.cache.write_text("a file")
    with pytest.raises(DataError, match=r"^data\.cache: .*cache: got a file, allowed: a folder"):
        ask()
    assert not ask.said


def test_a_disk_that_does_not_keep_what_is_written(
    ask: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.EncodedSet, "fault", lambda *_, **__: "missing")
    with pytest.raises(DataError, match="missing as soon as it was written; is the disk sound"):
        ask()


def test_a_process_of_another_user_is_alive(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(module.os, "kill", refused)
    unfinished = ask.cache / f".tmp-pairs-{module.platform.node()}-1"
    unfinished.mkdir(parents=True)
    ask()
    assert unfinished.is_dir()


def test_a_cache_with_another_data_set_that_is_damaged(ask: Asking) -> None:
    (ask.cache / "pairs-x").mkdir(parents=True)
    (ask.cache / "pairs-x" / "manifest.json").write_text("{}")
    ask()
    assert ask.said[0].endswith("the last one is damaged")


def test_checksums_are_remembered_while_a_file_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is written over in place and given its old time."""
    from nmt.data import file_digests

    path = tmp_path / "a.txt"
    path.write_text("aaaa")
    read: list[Path] = []

    def digest(path: Path) -> str:
        read.append(path)
        return (path.read_text() * 16)[:64]

    monkeypatch.setattr(file_digests, "digest", digest)
    memory = tmp_path / "new" / file_digests.NAME

    def found() -> str:
        digests = FileDigests(memory.parent)
        sha256 = digests.of(path)
        digests.save()
        return sha256

    assert found() == "a" * 64
    assert not memory.exists()  # the file may change again within the clock's tick
    monkeypatch.setattr(file_digests, "_SETTLED", -1.0)
    assert found() == found() == "a" * 64
    assert len(read) == 2
    before = path.stat()
    path.write_text("bbbb")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found() == found() == "b" * 64
    assert len(read) == 3
    for damaged in ("[", "[]", json.dumps({str(path): 3}), json.dumps({str(path): ["x"]})):
        memory.write_text(damaged)
        assert found() == "b" * 64
    assert FileDigests(None).of(path) == "b" * 64


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux' /proc")
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """Reading the first byte is an input/output error, as on a bad disk."""
    path = Path("/proc/self/mem")
    with pytest.raises(DataError, match=r"^/proc/self/mem: cannot be read: Input/output error$"):
        FileDigests(tmp_path).of(path)
    with pytest.raises(OSError, match="Input/output") as caught:
        digest(path)
    assert caught.value.filename == str(path)
