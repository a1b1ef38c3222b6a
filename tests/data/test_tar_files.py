"""Members of tar archives and segments of SGM: read where sound, refused in a line where not."""

import contextlib
import gzip
import io
import random
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from nmt.data import text_files
from nmt.data.text_files import read_lines
from nmt.errors import DataError


def write_tar(path: Path, members: Mapping[str, bytes]) -> Path:
    """An archive of these members, packed where its name says so."""
    mode = "w:" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


MEMBERS = {
    "./training/nothing": b"",
    "training/a.de": "für\n".encode() * 9999,
    "training/a.en": b"one\r\ntwo\r\n",
    "training/" + "long" * 40 + ".en": b"a long name\n",
    "b.en.gz": gzip.compress("été\n\nfin".encode()),
}


@pytest.mark.parametrize("name", ["x.tar", "x.tgz", "X.TAR.GZ"])
def test_each_member_is_read_in_place(tmp_path: Path, name: str) -> None:
    path = write_tar(tmp_path / name, MEMBERS)
    assert read_lines(path / "training" / "nothing") == []
    assert read_lines(path / "training" / "a.de") == ["für"] * 9999
    assert read_lines(path / "training" / "a.en") == ["one", "two"]
    assert read_lines(path / "training" / ("long" * 40 + ".en")) == ["a long name"]
    assert read_lines(path / "b.en.gz") == ["été", "", "fin"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_member_that_is_not_there_is_told_what_is(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tgz", {**MEMBERS, **{f"{n}.en": b"" for n in range(9)}})
    with pytest.raises(DataError, match=r"x\.tgz/a\.en: no such member; it holds: \./tra.*\.\.\."):
        read_lines(path / "a.en")
    with pytest.raises(DataError, match=r"x\.tgz: holds several files; name one as .*tgz/MEMBER"):
        read_lines(path)


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for kind, name in ((tarfile.SYMTYPE, "link"), (tarfile.FIFOTYPE, "fifo")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    for name in ("link", "fifo"):
        with pytest.raises(DataError, match=rf"x\.tgz/{name}: not a plain file in the archive"):
            read_lines(path / name)


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
        (header(size=b"\xff" * 10 + b"\xfc\0", type=b"0") * 9, "a header that leads backwards"),
        (header(size=b"77777777777", type=b"x"), "a header of 8,589,934,592 bytes, allowed"),
        (header(size=b"77777777777", type=b"L"), "a header of 8,589,934,592 bytes, allowed"),
        (header(size=b"00000000001", type=b"L").ljust(1024, b"\0") * 3000, "recursion|no such"),
        (header(size=b"77777777777", type=b"0"), "unexpected end of data"),
        (b"no archive", "truncated header"),
        (b"", "empty file"),
        (b"\xff" * 2048, "header"),
    ],
)
def test_a_hostile_header_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(content, 1))
    for name in ("x.tar", "x.tgz"):
        with pytest.raises(DataError, match=message) as caught:
            read_lines(tmp_path / name / "b.en")
        assert "\n" not in str(caught.value)


def test_a_bomb_before_the_member_or_in_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 100_000)
    path = write_tar(tmp_path / "x.tgz", {"bomb": b"a\n" * 4_000_000, "a.en": b"one\n"})
    for name in ("bomb", "a.en"):
        with pytest.raises(DataError, match=r"unpacks to more than the [\d,]+ bytes"):
            read_lines(path / name)
    nested = write_tar(tmp_path / "y.tar", {"a.en.gz": gzip.compress(b"a\n" * 4_000_000)})
    with pytest.raises(DataError, match=r"unpacks to more than the [\d,]+ bytes of text"):
        read_lines(nested / "a.en.gz")


def test_damage_anywhere_gives_an_error_or_the_text(tmp_path: Path) -> None:
    rng = random.Random(1)
    sound = write_tar(tmp_path / "x.tar", MEMBERS).read_bytes()
    path = tmp_path / "y.tar"
    for _ in range(300):
        content = bytearray(sound)
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(sound)) if rng.random() < 0.5 else rng.randrange(3000)
            content[place] = rng.randrange(256)
        path.write_bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
        for name in ("training/a.de", "b.en.gz"):
            with contextlib.suppress(DataError):
                assert len(read_lines(path / name)) <= len(sound)


SGM = """\
<?xml version="1.0" encoding="UTF-8"?>
<srcset setid="newstest2014" srclang="any">
<doc docid="1" genre="news" origlang="en">
<hl>
<seg id="1"> A &amp; B, 1 < 2 </seg>
</hl>
<p>
<SEG id="2">l’été</SEG>
  <seg id="3"></seg>
</p>
</doc>
</srcset>
"""


def test_the_segments_of_a_test_set_are_its_lines(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "test.tgz", {"test/a.sgm": SGM.encode()})
    assert read_lines(path / "test" / "a.sgm") == ["A &amp; B, 1 < 2", "l’été", ""]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain text", "'plain text'"),
        ('<seg id="1">two', "'<seg id=\"1\">two'"),
        ('<p><seg id="1">one</seg></p>', "'<p><seg id=\"1\">one</seg></p>'"),
        ("x" * 50, f"'{'x' * 39}…'"),
    ],
)
def test_a_segment_that_is_not_a_line_is_an_error(tmp_path: Path, line: str, shown: str) -> None:
    path = tmp_path / "a.sgm"
    path.write_text(f"<doc>\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_lines(path)
    assert str(caught.value) == (
        f"{path}:2: expected a line with one <seg ...>...</seg>, or with other tags, got {shown}"
    )
