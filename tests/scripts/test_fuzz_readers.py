"""The long fuzzing run in short."""

import fuzz_readers


def test_it_runs_and_finds_nothing() -> None:
    assert fuzz_readers.by_hypothesis(seconds=0.5) > 0
    for content in (b"", b"\xf0\x17", b"a\tb\r\nc\td\r\n", b"\x1f\x8b\x08", b"PK\x03\x04"):
        fuzz_readers.check(content)
