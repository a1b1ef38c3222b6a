"""Files read within limits: the limit, damage, and links out, each in a line of its own class."""

import os
from pathlib import Path

import pytest

from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.storage.bounded import MAX_JSON_BYTES, check_inside, parse_json, read_bytes, read_json


def test_a_file_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    """Also one without an end, of which no more is read."""
    path = tmp_path / "x.bin"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5, DataError) == b"12345"
    with pytest.raises(ConfigError, match=r"x\.bin: larger than the 4 bytes allowed"):
        read_bytes(path, 4, ConfigError)
    with pytest.raises(DataError, match=r"^/dev/zero: larger than the 4,194,304 bytes"):
        read_bytes(Path("/dev/zero"), MAX_JSON_BYTES, DataError, regular=False)


def test_what_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, reason in (
        (Path("/dev/zero"), "a device, expected a regular file"),
        (tmp_path / "fifo", "a FIFO, expected a regular file"),
        (tmp_path, "Is a directory"),
        (Path("a\0b"), "embedded null byte"),
    ):
        with pytest.raises(DataError, match=f"^{path}: cannot be read: {reason}$"):
            read_json(path, DataError)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none", DataError)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_damaged_json_is_a_line(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"^state\.json: damaged: not JSON \([^\n]*\Z"):
        parse_json(content, "state.json", CheckpointError)


def test_links_may_lead_about_within_the_folder_but_not_out(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for file in (run / "deep" / "file", tmp_path / "elsewhere" / "secret"):
        file.parent.mkdir(parents=True)
        file.touch()
    links = {"within": "deep/file", "out": file, "over": "../elsewhere", "circle": "circle"}
    for name, target in (links | {"../link to run": "run"}).items():
        (run / name).symlink_to(target)
    for inside in ("within", "deep/file", "deep/../within", "not there"):
        check_inside(run / inside, run, DataError)
        check_inside(tmp_path / "link to run" / inside, run, DataError)
    for outside in ("out", "over/secret", "../elsewhere/secret"):
        with pytest.raises(DataError, match=r": a link out of .*/run, to .*elsewhere/secret; allo"):
            check_inside(run / outside, run, DataError)
    with pytest.raises(CheckpointError, match=r"circle: a link that leads nowhere$"):
        check_inside(run / "circle", run, CheckpointError)
