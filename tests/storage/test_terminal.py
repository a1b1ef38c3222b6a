"""Printed text cannot steer a terminal, and keeps its meaning."""

import json
import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nmt.storage.terminal import TerminalStream, escape_controls, one_line, terminal_stream

STEERING = st.sampled_from("\x1b\r\x07\x08\x00\x7f\x9b\x85\u2028\u202e\u2066")
TEXTS = st.lists(STEERING | st.characters(), max_size=20).map("".join)
ORDER = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def steers(char: str) -> bool:
    """By the character database: a control, a line end, or one that turns the order of a line."""
    category = unicodedata.category(char)
    return category in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(char) in ORDER


@given(TEXTS)
def test_what_steers_is_removed_and_the_rest_keeps_its_meaning(text: str) -> None:
    shown = escape_controls(text)
    assert not any(steers(char) and char not in "\n\t" for char in shown.replace("\r\n", "\n"))
    printable = [char for char in text if not steers(char) or char in "\n\t"]
    assert escape_controls("".join(printable)) == "".join(printable)
    assert json.loads(escape_controls(json.dumps(text, ensure_ascii=False))) == text
    assert len(one_line(text).splitlines()) <= 1
    assert escape_controls(one_line(text)) == one_line(text)


def test_a_stream_escapes_what_is_written_whichever_way(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file:
        stream = terminal_stream(file.fileno(), "surrogateescape", line_buffering=False)
        print("a\x1b[31m\r", "é\u202f!\tb", file=stream)
        stream.writelines(["c\x9b\r\n", "\udcff\n"])
        stream.write("\rbar\r\x1b[A")
        stream.close()
        assert isinstance(stream, TerminalStream)
        file.write(b"open")
    expected = "a\\u001b[31m\\u000d é\u202f!\tb\nc\\u009b\r\n".encode() + b"\xff\n"
    assert path.read_bytes() == expected + b"\rbar\\u000d\\u001b[Aopen"
