"""Small files that are replaced whole."""

import errno
import math
import os
from pathlib import Path

import pytest

from nmt.storage.atomic import open_no_follow, remove, write_bytes, write_json, write_text


def test_a_second_name_of_a_file_keeps_its_content(tmp_path: Path) -> None:
    """A hard link from a temporary name to the user's file once led to its loss."""
    precious = tmp_path / "folder" / "train.tsv"
    precious.parent.mkdir()
    precious.write_text("precious")
    (tmp_path / "link").symlink_to("folder")
    remove(tmp_path / "link")
    for name in (".tmp-a.json", "c", "d"):
        os.link(precious, tmp_path / name)
    write_json(tmp_path / "a.json", {})
    write_bytes(tmp_path / "c", b"new")
    with open_no_follow(tmp_path / "d", append=False) as stream:
        stream.write(b"new")
    assert precious.read_text() == "precious"


def test_what_fails_leaves_the_old_text_and_nothing_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for failing in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, failing, refused)
            with pytest.raises(OSError, match="Input/output") as caught:
                write_text(path, "new")
        assert caught.value.filename == str(path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, math.nan)
    assert path.read_text() == "old"


def test_a_short_write_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    write_bytes(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_on_windows_a_reader_of_the_old_file_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real, refusals = tmp_path / "labels.json", os.replace, [0]

    def refuse_at_first(source: str, target: str) -> None:
        refusals[0] += 1
        if refusals[0] <= 3:
            raise PermissionError(errno.EACCES, "used by another process", source)
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse_at_first)
    monkeypatch.setattr("nmt.storage.atomic._TRY_SECONDS", 0.0)
    with pytest.raises(PermissionError):  # elsewhere it means what it says
        write_text(path, "new")
    refusals[0] = 0
    monkeypatch.setattr("nmt.storage.atomic.IS_WINDOWS", True)
    write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    monkeypatch.setattr(os, "replace", lambda *_: real(tmp_path / "absent", path))
    with pytest.raises(FileNotFoundError):  # any other error is passed on at once
        write_text(path, "newer")
    assert list(tmp_path.iterdir()) == [path]
