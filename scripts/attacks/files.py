"""Corpora, packed runs and encoded data sets that ask for more than they hold."""

import bz2
import gzip
import json
import lzma
import os
import random
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import zstandard
from forging import forge_tensors, overlapping_zip
from pyarrow import parquet

from attacks.case import CHECKPOINT, TRAIN, TRANSLATE, Case, Expected
from attacks.forged import change_tensors
from nmt.storage.atomic import lock

MIB = 1 << 20
PACKED = ("translate", "--run", "packed.zip", "--file", "some.txt")
CACHED = (*TRAIN, "--set", "data.cache=cache")
_LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
INIT = ("init", "b.parquet", *_LANGUAGES, "--no-timing", "--out", "data/x.yaml")
NEW = ("train", "--config", "attack.yaml", "--run", "data/new", "--steps", "2")
FROM_RUN = (*NEW, "--set", "train.init_from=run@last", "--set", "train.init_tokenizers=false")
OTHER_PIECES = (*FROM_RUN, "--set", "tokenizer.max_size=8")
TABLE = "encoder.embedding.weight"
_HELD: list[int] = []


def cases() -> list[Case]:
    """All of them."""
    tables = [Case(f"parquet: {what}", INIT, make) for what, make in _PARQUET.items()]
    packed = [Case(f"packed run: {what}", PACKED, make) for what, make in _PACKED.items()]
    in_data = (*PACKED[:2], "data/packed.zip", *PACKED[3:])
    packed.append(Case("packed run: a long table of contents", in_data, _table_of_contents))
    streams = [
        Case(f"{name}: empty streams", (*TRANSLATE[:4], name), partial(_write, name, content))
        for name, content in (
            ("e.gz", gzip.compress(b"") * 300_000),
            ("e.xz", lzma.compress(b"") * 300_000),
            ("e.zst", b"\x50\x2a\x4d\x18\0\0\0\0" * 2_000_000),
            ("z.zst", zstandard.ZstdCompressor().compress(bytes(99 * MIB))),
        )
    ]
    cached = [Case(f"data.cache: {what}", CACHED, make) for what, make in _CACHED.items()]
    named = [
        Case(f"pattern: {pattern}", (*NEW, "--set", f"data.train.file={pattern}"), _circle)
        for pattern in ("lp/**/*.tsv", "/".join(["lp", *"*" * 40, "*.tsv"]), "/proc/self/[m]em")
    ]
    shapes = [
        Case(
            f"init_from: {what}",
            command,
            partial(forge_tensors, CHECKPOINT, "model", change),
            Expected.REFUSED,
        )
        for what, change in _TENSORS.items()
        for command in (FROM_RUN, OTHER_PIECES)
    ]
    others = [
        Case("run.lock deleted", TRAIN, _delete_lock, Expected.REFUSED),
        Case("a home that is none", ("init", "~.en", "~.fr", "--no-timing"), _home_names),
        Case(
            "LRU_CACHE_CAPACITY", TRANSLATE, lambda: None, environment={"LRU_CACHE_CAPACITY": "x"}
        ),
    ]
    return [*tables, *packed, *streams, *cached, *named, *shapes, *others]


def case(chance: random.Random) -> Case:
    """A file of one of these kinds, damaged or forged at random."""
    how = chance.choice(tuple(_DRAWN))
    return _DRAWN[how](how, random.Random(chance.random()))


def _write(name: str, content: bytes) -> None:
    Path(name).write_bytes(content)


def _parquet(text: str, n_rows: int, **options: Any) -> None:
    numbers = pyarrow.array([0]).take(pyarrow.array([0] * n_rows))
    column = pyarrow.DictionaryArray.from_arrays(numbers, [text])
    if options:
        column = column.dictionary_decode()
    table = pyarrow.table({"en": column, "de": column})
    options = {"compression": "zstd", "store_schema": False, **options}
    parquet.write_table(table, "b.parquet", **options)
    del table, column, numbers
    pyarrow.default_memory_pool().release_unused()


def _lists() -> None:
    values = pyarrow.array(["a"]).take(pyarrow.array([0] * 5_000_000))
    column = pyarrow.ListArray.from_arrays([0, len(values)], values)
    parquet.write_table(pyarrow.table({"en": column, "de": column}), "b.parquet")


_PARQUET: dict[str, Callable[[], object]] = {
    "a text in every row": partial(_parquet, "a" * MIB, 10_000),
    "shared prefixes": partial(
        _parquet, "a" * MIB, 70, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
    ),
    "compressed": partial(_parquet, "a" * MIB, 70, use_dictionary=False),
    "a long text": partial(_parquet, "a" * (17 * MIB), 1),
    "empty texts": partial(_parquet, "", 3_000_000),
    "lists": _lists,
}


def _members(n_members: int, size: int) -> None:
    names = [f"run/tokenizer/{a}{b}{c}.json" for a in LETTERS for b in LETTERS for c in LETTERS]
    overlapping_zip(Path("packed.zip"), names[:n_members], b"x" * size)


def _table_of_contents() -> None:
    """A sparse archive, at whose end stands the size of a table of contents."""
    path = Path("data/packed.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run/config.yaml", "")
    end = bytearray(path.read_bytes()[-22:])
    struct.pack_into("<LL", end, 12, 3 << 30, 0)
    with path.open("r+b") as file:
        file.truncate(3 << 30)
        file.seek(0, os.SEEK_END)
        file.write(end)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PACKED: dict[str, Callable[[], object]] = {
    "overlapping members": partial(_members, 60, 20 * MIB),
    "many members": partial(_members, 17_000, 1),
}


def _data_set() -> Path:
    (folder,) = (path for path in Path("cache").iterdir() if path.is_dir())
    return folder


def _shard_count(name: str) -> None:
    folder = _data_set()
    (folder / "manifest.json").unlink()
    for path in folder.glob("*.ids"):
        path.rename(folder / name)


def _manifest_count() -> None:
    path = _data_set() / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "shards": 99_999}))


def _sparse_shard() -> None:
    (path,) = _data_set().glob("*.ids")
    trailer = bytearray(path.read_bytes()[-28:])
    trailer[:8] = (20 << 30).to_bytes(8, "little")
    with path.open("r+b") as file:
        file.truncate((20 << 30) + MIB)
        file.seek(0, os.SEEK_END)
        file.write(trailer)


def _leftover() -> None:
    (path,) = _data_set().glob("*.ids")
    path.unlink()
    Path("cache", f".tmp-x-{os.uname().nodename}-{'9' * 20}").touch()


_CACHED: dict[str, Callable[[], object]] = {
    "50,000,000 shards": partial(_shard_count, "00001-of-50000000.ids"),
    "10^30 shards": partial(_shard_count, f"00001-of-{10**30}.ids"),
    "99,999 shards": _manifest_count,
    "a sparse shard": _sparse_shard,
    "a leftover of no process": _leftover,
}


def _circle() -> None:
    Path("lp").mkdir()
    for name in ("here", "there"):
        Path("lp", name).symlink_to(".")


_TENSORS: dict[str, Callable[[Any], object]] = {
    "fewer rows": lambda tensors: tensors.update({TABLE: tensors[TABLE][:3].clone()}),
    "whole numbers": lambda tensors: tensors.update({TABLE: tensors[TABLE].long()}),
    "a scalar": lambda tensors: tensors.update({TABLE: tensors[TABLE].sum()}),
    "another name": lambda tensors: tensors.update(evil=tensors.pop(TABLE)),
}


def _delete_lock() -> None:
    """Another training, as which this process holds the directory, lost its file."""
    _HELD.append(os.open("run", os.O_RDONLY))
    lock(_HELD[-1])
    Path("run/run.lock").unlink(missing_ok=True)


def _home_names() -> None:
    for name in ("~.en", "~.fr"):
        Path(name).write_text("a b\n" * 30)


def _damaged(path: Path, chance: random.Random, places: tuple[int, int] | None = None) -> None:
    """Flip, overwrite, cut, repeat or leave out some bytes, all of the file or in `places`."""
    content = bytearray(path.read_bytes())
    first, last = places or (0, len(content))
    first = max(0, first if first >= 0 else len(content) + first)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(first, max(first + 1, min(last, len(content))))
        how = chance.randrange(5)
        if how == 0:
            content[at : at + 1] = bytes([content[at] ^ 1 << chance.randrange(8)])
        elif how == 1:
            number = chance.choice((0, 1, 255, 2**16 - 1, 2**31 - 1, 2**32 - 1))
            content[at : at + 4] = number.to_bytes(4, "little")
        elif how == 2:
            del content[at : at + chance.choice((1, 8, 500))]
        elif how == 3:
            content[at:at] = content[at : at + chance.choice((4, 64, 4096))]
        else:
            content[at : at + 8] = chance.randbytes(8)
        if len(content) <= first:
            break
    path.write_bytes(content)


def _drawn_packed(how: str, chance: random.Random) -> Case:
    end = chance.random() < 0.6  # the table of contents
    places = (-1200, 1 << 40) if end else None
    damage = partial(_damaged, Path("packed.zip"), chance, places)
    return Case(f"{how} damaged, {places}", PACKED, damage, Expected.SAME, ("packed.zip",))


def _drawn_parquet(how: str, chance: random.Random) -> Case:
    def make() -> None:
        rows = [f"a {chance.choice('bcd')} {n % 7}" for n in range(chance.choice((1, 50, 3000)))]
        encoding = chance.choice((None, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"))
        parquet.write_table(
            pyarrow.table({"en": rows, "de": rows}),
            "b.parquet",
            compression=chance.choice(("none", "snappy", "zstd", "gzip")),
            use_dictionary=encoding is None,
            column_encoding=encoding,
            data_page_version=chance.choice(("1.0", "2.0")),
        )
        places = chance.choice((None, (4, 60), (-900, 1 << 40)))
        _damaged(Path("b.parquet"), chance, places)

    return Case(f"{how} damaged", INIT, make)


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    **{".gz": gzip.compress, ".tgz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress},
    ".zst": zstandard.ZstdCompressor().compress,
}


def _drawn_stream(how: str, chance: random.Random) -> Case:
    ending = chance.choice((".gz", ".xz", ".bz2", ".zst", ".tgz", ".zip"))

    def make() -> None:
        text = b"".join(b"a b %d\n" % n for n in range(chance.choice((1, 100, 9000))))
        path = Path(f"d{ending}")
        if ending == ".zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a.txt", text)
        else:
            path.write_bytes(_PACKERS[ending](text) * chance.choice((1, 1, 3)))
        _damaged(path, chance)

    name = f"d{ending}" + ("/a.txt" if ending == ".tgz" else "")
    return Case(f"{how} {ending} damaged", (*TRANSLATE[:4], name), make)


def _drawn_pattern(how: str, chance: random.Random) -> Case:
    parts = ("*", "**", "?", "[a-c]", ".*", "a", "..", "[", "*.tsv", "**x", "lp")
    pattern = "/".join(["lp", *chance.choices(parts, k=chance.choice((1, 3, 8, 30)))])

    def make() -> None:
        folders = [Path("lp")]
        for name in "abcdef":
            folders.append(chance.choice(folders) / name)
            folders[-1].mkdir(parents=True, exist_ok=True)
            (folders[-1] / f"{name}.tsv").write_text("a\tb\n" * 9)
        for number in range(chance.randrange(6)):
            at = chance.choice(folders) / f"x{number}"
            at.symlink_to(chance.choice((".", "..", "../..", "/proc/self", str(at.absolute()))))

    command = (*NEW, "--set", f"data.train={json.dumps({'tsv': pattern})}")
    return Case(f"{how} {pattern}", command, make)


def _drawn_cache(how: str, chance: random.Random) -> Case:
    def make() -> None:
        path = chance.choice(sorted(_data_set().iterdir()))
        _damaged(path, chance, chance.choice((None, (-300, 1 << 40))))

    return Case(f"{how} damaged", CACHED, make)


def _drawn_tensors(how: str, chance: random.Random) -> Case:
    command = chance.choice((FROM_RUN, OTHER_PIECES))
    return Case(f"{how} forged", command, partial(change_tensors, "model.safetensors", chance))


_DRAWN: dict[str, Callable[[str, random.Random], Case]] = {
    "packed run": _drawn_packed,
    "parquet": _drawn_parquet,
    "compressed file": _drawn_stream,
    "pattern": _drawn_pattern,
    "data.cache": _drawn_cache,
    "init_from": _drawn_tensors,
}
