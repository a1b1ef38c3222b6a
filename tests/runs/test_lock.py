"""One writer a run: refused by name while it lives, let go of when it dies."""

import errno
import os
from pathlib import Path

import pytest

from nmt.errors import CheckpointError
from nmt.runs.lock import LOCK_NAME, is_locked, run_lock


def test_no_run_is_trained_twice_at_a_time(tmp_path: Path) -> None:
    """Neither by this process, nor by another, which test_train.py of the commands has."""
    with run_lock(tmp_path / "run"):
        with (
            pytest.raises(CheckpointError, match=rf"process {os.getpid()} is training"),
            run_lock(tmp_path / "run"),
        ):
            pytest.fail("held twice")
        with run_lock(tmp_path / "other"):
            pass
        assert is_locked(tmp_path / "run")
    assert not is_locked(tmp_path / "run")
    with run_lock(tmp_path / "run") as held:
        assert held.missing is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"pid": 7, "host": "elsewhere"}', "process 7 on elsewhere is training"),
        ("", "another process is training"),
        ("[]", "another process is training"),
        ('{"pid": "x", "host": ""}', "another process is training"),
    ],
)
def test_who_holds_it_is_said_as_far_as_it_is_known(
    tmp_path: Path, content: str, words: str
) -> None:
    with run_lock(tmp_path):
        (tmp_path / LOCK_NAME).write_text(f" {content}")
        with pytest.raises(CheckpointError, match=words), run_lock(tmp_path):
            pytest.fail("held twice")


@pytest.mark.parametrize(
    ("call", "code", "missing"),
    [
        (
            "fcntl.flock",
            errno.ENOLCK,
            "the file system has no locks (No locks available); train in one process only",
        ),
        ("os.write", errno.ENOSPC, None),
    ],
)
def test_a_disk_without_locks_or_room_does_not_hinder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, missing: str | None
) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(call, refused)
    with run_lock(tmp_path) as held:
        assert held.missing == (missing and f"{tmp_path}: {missing}")


def test_the_first_byte_of_the_lock_is_nothing_to_a_reader(tmp_path: Path) -> None:
    """Windows lets no other process read the byte that is locked."""
    with run_lock(tmp_path):
        assert (tmp_path / LOCK_NAME).read_bytes().startswith(b" {")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file/run", r"file/run: cannot be created or written to: Not a"),
        ("file", r"file: cannot be created or written to: it is a file$"),
        (".", "cannot be created or written to: Too many levels"),
    ],
)
def test_a_place_that_cannot_be_written_to(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / LOCK_NAME).symlink_to("file")
    with pytest.raises(CheckpointError, match=words), run_lock(tmp_path / name):
        pytest.fail("held")
    assert (tmp_path / "file").read_bytes() == b""


def test_a_lock_file_with_a_second_name_is_not_written(tmp_path: Path) -> None:
    precious = tmp_path / "paper.pdf"
    precious.write_text("precious")
    (tmp_path / "run").mkdir()
    os.link(precious, tmp_path / "run" / LOCK_NAME)
    with run_lock(tmp_path / "run"):
        pass
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("is_replaced", [True, False])
def test_who_holds_a_lock_notices_that_it_is_gone(tmp_path: Path, is_replaced: bool) -> None:
    with run_lock(tmp_path) as held:
        held.check()
        (tmp_path / LOCK_NAME).unlink()
        if is_replaced:
            (tmp_path / LOCK_NAME).touch()
        with pytest.raises(CheckpointError, match="deleted or replaced"):
            held.check()
