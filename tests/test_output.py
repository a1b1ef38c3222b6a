import errno
import os
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.output import atomic_output, write_lines


def test_the_file_appears_with_its_folders_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.bin"
    with atomic_output(path) as stream:
        stream.write(b"abc")
        assert not path.exists()
    assert path.read_bytes() == b"abc"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")

    def fail() -> None:
        with atomic_output(path) as stream:
            stream.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match="it is a folder; give the name of a file"),
        atomic_output(tmp_path),
    ):
        pass


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DataError, match=r"cannot write .*file/x: "),
        atomic_output(tmp_path / "file" / "x"),
    ):
        pass


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_is_one_line_and_leaves_no_rest(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        with pytest.raises(DataError) as caught:
            write_lines(["new"], path)
    assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_about_another_file_is_not_said_of_this_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_output(tmp_path / "x"):
        (tmp_path / "absent").read_text()
    assert caught.value.filename == str(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said_of_the_file_asked_for(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot write .*/x: Permission denied$"):
        write_lines([], tmp_path / "x")
    tmp_path.chmod(0o700)


def test_a_link_planted_aside_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".tmp-x").symlink_to("victim")
    with pytest.raises(DataError, match=r"cannot write .*/x: "):
        write_lines(["new"], tmp_path / "x")
    assert (tmp_path / "victim").read_text() == "precious"


def test_lines_are_utf8_and_end_in_a_newline(tmp_path: Path) -> None:
    write_lines(["œuvre\u2028été", ""], tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_bytes() == "œuvre\u2028été\n\n".encode()
