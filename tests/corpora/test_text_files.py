"""Every line arrives as it is, from any container, or a fault is one line with its place."""

import gzip
import io
import os
import random
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora import text_files
from nmt.corpora.text_files import Text, archive_of, read_lines, stream_lines
from nmt.errors import DataError

PARTS = [
    *(b"a", b"\n", b"\r\n", b"\r", b"\n\n", b"\xef\xbb\xbf", b"\xff", b"\0", b" ", b"\x1f\x8b"),
    *(c.encode() for c in ("é", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "😀", "ح")),
]
"""Parts of lines, and what other programs take for the end of one."""


def defined_lines(content: bytes) -> list[str]:
    """The definition at the head of text_files.py, for a file that fits into memory."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode()
    first, newline, _ = text.partition("\n")
    if newline and first.endswith("\r"):
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def write_zip(path: Path, members: Mapping[str, str | bytes], packing: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def write_tar(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_marks_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    for raw, expected in (
        (b"\n", [""]),
        (b"\xef\xbb\xbfone", ["one"]),
        (b"one\r\ntwo\nthree\r\n", ["one", "two", "three"]),
        (b"one\ntwo\r\n", ["one", "two\r"]),
        (b"one\r\r\ntwo\r", ["one\r", "two\r"]),
        ("a\u2028b\u0085c\rd\ve\x1cf\n\n".encode(), ["a\u2028b\x85c\rd\ve\x1cf", ""]),
    ):
        path.write_bytes(raw)
        assert read_lines(path) == expected == defined_lines(raw)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zip"])
@given(st.binary(max_size=300) | st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_lines_or_one_error(suffix: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        if suffix == ".zip":
            write_zip(path, {"x.txt": content})
        else:
            path.write_bytes(gzip.compress(content, 1) if suffix else content)
        try:
            lines = read_lines(path)
        except DataError:
            with pytest.raises(UnicodeDecodeError):
                content.decode()
            return
        assert lines == defined_lines(content)


def test_lines_before_one_that_is_not_utf_8_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for before in ([], ["one"], ["one", "", "tro\u2028is"]):
        path.write_bytes("".join(f"{line}\n" for line in before).encode() + b"caf\xe9\nmore\n")
        lines: list[str] = []
        with pytest.raises(DataError, match=rf"^{path}:{len(before) + 1}: byte 0xe9 is not UTF-8"):
            lines.extend(stream_lines(path))
        assert lines == before


def test_a_file_that_is_no_text_or_not_there_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for raw, hint in (
        ("Ça va".encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04\xff", r"should end in .*\.zip"),
        (b"\x7fELF\0\xff", "is not text"),
        (gzip.compress("éé\n".encode() * 99), r"should end in \.gz"),
    ):
        Path("file.txt").write_bytes(raw)
        with pytest.raises(DataError, match=rf"^file\.txt:1: .*{hint}"):
            read_lines(Path("file.txt"))
    for name in ("no.txt", "no.gz", "no.zip/member"):
        with pytest.raises(DataError, match=rf"^{name}: no such file; .* start in {tmp_path}$"):
            read_lines(Path(name))
    with pytest.raises(DataError, match=r"cannot be read: Is a directory"):
        read_lines(tmp_path)


def test_a_pipe_is_read_once_and_line_by_line() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        lines = Text(stream.read1, "pipe").lines()
        for text in ("\ufeffone", "", "trois é"):
            os.write(writing, f"{text}\n".encode())
            assert next(lines) == text.removeprefix("\ufeff")
        os.write(writing, b"no end")
        os.close(writing)
        assert list(lines) == ["no end"]


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^/dev/zero:1: a line of more than 16,777,216 bytes"):
        read_lines(Path("/dev/zero"))
    path = tmp_path / "long"
    path.write_bytes(b"a\n" + b"b" * (16 << 20) + b"\nc")
    assert [len(line) for line in read_lines(path)] == [1, 16 << 20, 1]
    path.write_bytes(b"a\nb\n" + b"c" * ((16 << 20) + 1) + b"\nd")
    with pytest.raises(DataError, match=rf"^{path}:3: a line of more than"):
        read_lines(path)


def test_a_packed_file_reads_as_the_plain_one(tmp_path: Path) -> None:
    """Of two streams, as two packed files one after the other; small ones with zeros between.

    It unpacks to no more than the known size of its text.
    """
    path = tmp_path / "a.txt.gz"
    text = "".join(f"ligne {n} \u2028 é\r\n" for n in range(20_000))
    path.write_bytes(gzip.compress(text[:99_999].encode()) + gzip.compress(text[99_999:].encode()))
    assert read_lines(path) == text.split("\r\n")[:-1]
    path.write_bytes(gzip.compress(b""))
    assert read_lines(path) == []
    path.write_bytes((gzip.compress(b"a line of a log\n") + bytes(8)) * 300)
    assert read_lines(path) == ["a line of a log"] * 300
    path.write_bytes(gzip.compress(b"a\n" * 500))
    assert len(list(stream_lines(path, 1000))) == 500
    with pytest.raises(DataError, match="unpacks to more than the 999 bytes"):
        list(stream_lines(path, 999))


def test_bombs_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a gzip stream, and in zip members that zipfile unpacks a whole block of."""
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    content = {"a.txt": (b"a" * 999 + b"\n") * 40_000}
    gz = tmp_path / "bomb.gz"
    gz.write_bytes(gzip.compress(content["a.txt"], 1))
    bombs = [(gz, r"unpacks to more than the [\d,]+ bytes", 25 << 20)]
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = write_zip(tmp_path / f"{packing}.zip", content, packing)
        bombs.append((path, r"a\.txt: compressed by a method that cannot", 5 << 20))
    for path, fault, most in bombs:
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=fault):
                for _ in stream_lines(path):
                    pass
            assert tracemalloc.get_traced_memory()[1] < most
        finally:
            tracemalloc.stop()


def test_a_zip_is_its_only_text_or_a_named_member(tmp_path: Path) -> None:
    members = {
        "_about.txt": "about",
        "fra-eng/": "",
        "fra-eng/fra.txt": "Go.\n",
        "__MACOSX/fra-eng/._fra.txt": "no",
        "../../outside.html": "x",
    }
    path = write_zip(tmp_path / "x.zip", members)
    assert read_lines(path) == ["Go."]
    assert read_lines(path / "../../outside.html") == ["x"]
    assert archive_of(path / "fra-eng" / "fra.txt") == path
    with pytest.raises(DataError, match=rf"^{path}/c.txt: no such member; it holds: _about.txt"):
        read_lines(path / "c.txt")
    for texts, fault in (
        ({"a.tsv": "a", "d/b.txt": "c"}, r"holds 2 .*a\.tsv, d/b\.txt"),
        ({"a.png": ""}, r"holds 0 .*; it holds: a\.png"),
    ):
        with pytest.raises(DataError, match=fault):
            read_lines(write_zip(tmp_path / "y.zip", texts))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.zip", "y.zip"]


MEMBERS = {
    "./training/nothing": b"",
    "training/a.de": "für\n".encode() * 9999,
    "training/a.en": b"one\r\ntwo\r\n",
    "training/" + "long" * 40 + ".en": b"a long name\n",
    "b.en.gz": gzip.compress("été\n\nfin".encode()),
}


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "X.TAR.GZ"])
def test_plain_members_of_a_tar_are_read_in_place(tmp_path: Path, name: str) -> None:
    path = write_tar(tmp_path / name, MEMBERS)
    for member, content in MEMBERS.items():
        expected = gzip.decompress(content) if member.endswith(".gz") else content
        assert read_lines(path / member) == defined_lines(expected)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match=rf"{name}/a\.en: no such member; it holds: \./tra"):
        read_lines(path / "a.en")
    with pytest.raises(DataError, match=rf"{name}: no such member; .*; name one"):
        read_lines(path)
    for kind in (tarfile.SYMTYPE, tarfile.FIFOTYPE):
        with tarfile.open(path, "w:gz" if "g" in name.lower() else "w") as archive:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        with pytest.raises(DataError, match=rf"{name}/link: not a plain file in the archive"):
            read_lines(path / "link")


def header(**changes: bytes) -> bytes:
    """The header of a member `a.en` of 3 bytes, with other fields, and the right checksum."""
    places = {"size": (124, 12), "type": (156, 1)}
    block = bytearray(tarfile.TarInfo("a.en").tobuf(tarfile.USTAR_FORMAT)[:512])
    for name, content in changes.items():
        start, length = places[name]
        block[start : start + length] = content.ljust(length, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(size=b"\xff" * 10 + b"\xfc\0", type=b"0") * 9, "a header that points backwards"),
        (header(size=b"77777777777", type=b"x"), "a header of 8,589,934,592 bytes, allowed"),
        (header(size=b"00000000001", type=b"L").ljust(1024, b"\0") * 3000, "recursion|no such"),
        (header(size=b"77777777777", type=b"0"), "unexpected end of data|unpacks"),
        (b"", "empty file"),
        (b"\xff" * 2048, "header"),
    ],
)
def test_a_hostile_tar_header_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(content, 1))
    for name in ("x.tar", "x.tgz"):
        with pytest.raises(DataError, match=message) as caught:
            read_lines(tmp_path / name / "b.en")
        assert "\n" not in str(caught.value)


def test_a_bomb_before_a_member_or_in_it_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 100_000)
    path = write_tar(tmp_path / "x.tgz", {"bomb": b"a\n" * 2_000_000, "a.en": b"one\n"})
    nested = write_tar(tmp_path / "y.tar", {"a.en.gz": gzip.compress(b"a\n" * 2_000_000)})
    for member in (path / "bomb", path / "a.en", nested / "a.en.gz"):
        with pytest.raises(DataError, match=r"unpacks to more than the [\d,]+ bytes"):
            read_lines(member)


def test_damage_anywhere_gives_a_line_or_text(tmp_path: Path) -> None:
    rng = random.Random(1)
    tar = write_tar(tmp_path / "x.tar", MEMBERS).read_bytes()
    text = "".join(f"{n}\n" for n in range(300)).encode()
    zipped = write_zip(tmp_path / "x.zip", {"x.txt": text}, zipfile.ZIP_DEFLATED).read_bytes()
    messages: list[str] = []
    files = {"y.tar": tar, "y.zip": zipped, "y.gz": gzip.compress(text)}
    for content in (b"plain\n", files["y.gz"] + b"more"):
        (tmp_path / "z.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"z\.gz: (damaged or not a gz|cannot)"):
            read_lines(tmp_path / "z.gz")
    for n in range(240):
        name = list(files)[n % 3]
        content = bytearray(files[name])
        for _ in range(rng.randint(1, 8)):
            content[rng.randrange(min(len(content), 3000))] = rng.randrange(256)
        path = tmp_path / name
        path.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
        for member in ("training/a.de", "b.en.gz") if name == "y.tar" else ("",):
            try:
                assert len(read_lines(path / member)) <= len(tar)
            except DataError as error:
                messages.append(str(error))
    assert messages
    assert "\n" not in "".join(messages)
