"""Fuzz the readers of text for as long as you like; the tests do the same for seconds.

    .venv/bin/python scripts/fuzz_readers.py --minutes 60

Any bytes, as plain text, gzip or zip, are lines or a DataError; pair i of two files, or of a TSV,
is line i; any damage to an archive is text or a DataError. With atheris installed (a coverage-
guided fuzzer for Python, Linux, up to Python 3.13) its search chooses the bytes, else hypothesis'.
"""

import argparse
import contextlib
import gzip
import importlib
import importlib.util
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data import text_files
from nmt.data.readers import aligned, tsv
from nmt.errors import DataError

PARTS = [
    *(b"a", b"\n", b"\r\n", b"\r", b"\t", b"\xef\xbb\xbf", b"\xff"),
    *(b"\0", b" ", b"\x1f\x8b", b"PK"),
    *(c.encode() for c in ("é", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "😀", "ح")),
]


def lines_of(content: bytes) -> list[str]:
    """The lines of `content`, by the definition in nmt/data/text_files.py."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode()
    if text.partition("\n")[0].endswith("\r") and "\n" in text:
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def check(content: bytes) -> None:
    """Check all laws on one byte string; for aligned files it is cut in two."""
    half = len(content) // 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        src, tgt, packed, zipped = (folder / n for n in ("a.en", "a.fr", "a.gz", "a.zip"))
        src.write_bytes(content[:half])
        tgt.write_bytes(content[half:])
        with contextlib.suppress(DataError):
            pairs = aligned.read_aligned(src, tgt)
            assert [pair.src_text for pair in pairs] == lines_of(content[:half])
            assert [pair.tgt_text for pair in pairs] == lines_of(content[half:])
        src.write_bytes(content)
        with contextlib.suppress(DataError):
            rows = [[pair.src_text, pair.tgt_text] for pair in tsv.read_tsv(src)]
            assert rows == [line.split("\t")[:2] for line in lines_of(content)]
        packed.write_bytes(gzip.compress(content, 1))
        with zipfile.ZipFile(zipped, "w") as archive:
            archive.writestr("a.txt", content)
        for path in (src, packed, zipped):
            with contextlib.suppress(DataError):
                assert text_files.read_lines(path) == lines_of(content)
        for path in (packed, zipped):
            path.write_bytes(content)  # bytes that are no archive, or nearly one
            with contextlib.suppress(DataError):
                text_files.read_lines(path)


def by_hypothesis(seconds: float) -> int:
    """Check random bytes for `seconds`; return the number of checks."""
    started, checked = time.monotonic(), 0
    drawn = st.binary(max_size=600) | st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)

    @given(drawn)
    @settings(max_examples=1_000, deadline=None, database=None)
    def some(content: bytes) -> None:
        nonlocal checked
        if time.monotonic() - started < seconds:
            check(content)
            checked += 1

    while time.monotonic() - started < seconds:
        some()
        print(f"{checked:,} strings of bytes, no fault", flush=True)
    return checked


def by_atheris(minutes: float, one: Callable[[bytes], None]) -> None:
    """Let atheris choose the bytes; it ends the process."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["nmt.data.text_files", "nmt.data.readers"]):
        importlib.reload(text_files)
        importlib.reload(aligned)
        importlib.reload(tsv)
    atheris.Setup([sys.argv[0], f"-max_total_time={60 * minutes:.0f}"], one)
    atheris.Fuzz()


def main() -> None:
    """Parse the arguments and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    if importlib.util.find_spec("atheris"):
        by_atheris(minutes, check)
    else:
        print("atheris is not installed: hypothesis draws the bytes", flush=True)
        by_hypothesis(60 * minutes)


if __name__ == "__main__":
    main()
