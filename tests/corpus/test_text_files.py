"""Text that can be read only once, or not to its end."""

import os
from pathlib import Path

import pytest

from nmt.corpus.text_files import Text, read_lines, stream_lines
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
