"""One writer a run: refused by name while it lives, let go of when it dies."""

import errno
import os
from pathlib import Path

import pytest

from nmt.errors import CheckpointError
from nmt.runs.lock import LOCK_NAME, is_locked, run_lock


def assert_refused(run: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message), run_lock(run):
        pytest.fail("held")


def test_no_run_is_trained_twice_at_a_time(tmp_path: Path) -> None:
    """Neither by this process, nor by another, which test_train.py of the commands has."""
    with run_lock(tmp_path / "run"):
        assert_refused(tmp_path / "run", f"process {os.getpid()} is training")
        with run_lock(tmp_path / "other"):
            pass
        assert is_locked(tmp_path / "run")
        # Windows lets no other process read the byte that is locked, which is the first.
        assert (tmp_path / "run" / LOCK_NAME).read_bytes().startswith(b" {")
    assert not is_locked(tmp_path / "run")
    with run_lock(tmp_path / "run") as held:
        assert held.missing is None


def test_who_holds_it_is_said_as_far_as_it_is_known(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        for content, words in (
            ('{"pid": 7, "host": "elsewhere"}', "process 7 on elsewhere is training"),
            ("", "another process is training"),
            ('{"pid": "x", "host": ""}', "another process is training"),
        ):
            (tmp_path / LOCK_NAME).write_text(f" {content}")
            assert_refused(tmp_path, words)


@pytest.mark.parametrize(
    ("call", "code"), [("fcntl.flock", errno.ENOLCK), ("os.write", errno.ENOSPC)]
)
def test_a_disk_without_locks_or_room_does_not_hinder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(call, refused)
    with run_lock(tmp_path) as held:
        assert ("no locks" in (held.missing or "")) == (code == errno.ENOLCK)


@pytest.mark.parametrize(
    ("name", "reason"), [("file/run", "Not a"), ("file", "it is a file$"), (".", "Too many levels")]
)
def test_a_place_that_cannot_be_written_to(tmp_path: Path, name: str, reason: str) -> None:
    """And a lock file that is a link or a second name of another file is not written."""
    precious = tmp_path / "file"
    precious.write_text("precious")
    (tmp_path / LOCK_NAME).symlink_to("file")
    assert_refused(tmp_path / name, f"cannot be created or written to: {reason}")
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
