"""Text that can be read only once, or not to its end."""

import bz2
import gzip
import lzma
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.data import text_files
from nmt.data.text_files import Text, read_lines, stream_lines
from nmt.errors import DataError


def piped(content: bytes) -> Path:
    """The reading end of a pipe that holds `content`, as a shell's `<(command)` gives it."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return Path(f"/dev/fd/{reading}")


needs_fd = pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd here")


@needs_fd
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"one\ntwo", ["one", "two"]),
        (b"", []),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", ["one\r", "two\r"]),  # which ending, is seen too late
    ],
)
def test_a_pipe_is_read_once_and_whole(content: bytes, lines: list[str]) -> None:
    assert read_lines(piped(content)) == lines


def test_a_line_is_given_as_soon_as_it_is_there() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        lines = Text(stream.read1, "pipe").lines()
        for text in ("one", "", "trois é"):
            os.write(writing, f"{text}\n".encode())
            assert next(lines) == text
        os.write(writing, b"no end")
        os.close(writing)
        assert list(lines) == ["no end"]


def test_the_lines_before_one_that_is_no_text_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for before in ([], ["one"], ["one", "", "tro\u2028is"]):
        path.write_bytes("".join(f"{line}\n" for line in before).encode() + b"caf\xe9\nmore\n")
        found: list[str] = []
        with pytest.raises(DataError) as caught:
            found.extend(stream_lines(path))
        assert found == before
        message = f"{path}:{len(before) + 1}: byte 0xe9 is not UTF-8; save the file as UTF-8"
        assert str(caught.value) == message


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
packed = pytest.mark.parametrize("ending", PACKERS)


@packed
def test_a_packed_file_reads_as_the_plain_one(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    text = "".join(f"ligne {n} \u2028 é\r\n" for n in range(50_000))
    first, second = text[:300_000], text[300_000:]
    path.write_bytes(PACKERS[ending](first.encode()) + PACKERS[ending](second.encode()))
    assert read_lines(path) == text.split("\r\n")[:-1]
    path.write_bytes(PACKERS[ending](b""))
    assert read_lines(path) == []


@packed
def test_a_packed_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED_BYTES", 1000)
    path = tmp_path / f"bomb{ending}"
    path.write_bytes(PACKERS[ending](b"aaaaaaa\n" * 1_000_000))
    with pytest.raises(DataError, match=r"bomb\..*: unpacks to more than the [\d,]+ bytes of text"):
        read_lines(path)


@packed
def test_a_packed_file_that_is_cut_or_of_another_kind_is_one_line(
    tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"a{ending}"
    whole = PACKERS[ending]("".join(f"{n * n}\n" for n in range(9999)).encode())
    for content in (whole[: len(whole) // 2], whole[:-3], b"plain text\n"):
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            read_lines(path)
        found = re.match(
            rf"{path}: (damaged or not a {ending[1:]} file|cannot be read): ", str(caught.value)
        )
        assert found
        assert "\n" not in str(caught.value)


@packed
def test_a_packed_file_of_empty_streams_is_refused(tmp_path: Path, ending: str) -> None:
    """Small streams with text in them are read, zeros between them as well."""
    path = tmp_path / f"a{ending}"
    path.write_bytes(PACKERS[ending](b"") * 3000)
    with pytest.raises(DataError, match=r"packed streams with almost no text"):
        read_lines(path)
    path.write_bytes((PACKERS[ending](b"a line of a log\n") + bytes(8)) * 3000)
    assert read_lines(path) == ["a line of a log"] * 3000


def test_an_xz_file_may_not_ask_for_any_memory_it_likes(tmp_path: Path) -> None:
    path = tmp_path / "a.xz"
    large = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    path.write_bytes(lzma.compress(b"a\n", filters=large))
    with pytest.raises(DataError, match=r"a\.xz: damaged or not a xz file: Memory usage limit"):
        read_lines(path)


@packed
def test_a_packed_file_without_its_ending_says_which_it_lacks(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(PACKERS[ending]("éé\n".encode() * 99))
    with pytest.raises(DataError, match=rf"looks like \w+, its name should end in \{ending}$"):
        read_lines(path)


def test_a_relative_path_that_is_not_there_says_where_it_was_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        read_lines(Path("a/b.en"))
    assert str(caught.value) == f"a/b.en: no such file; relative paths start in {tmp_path}"
