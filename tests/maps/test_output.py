from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.maps.output import atomic_output, write_lines


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


def test_lines_are_utf8_and_end_in_a_newline(tmp_path: Path) -> None:
    write_lines(["œuvre\u2028été", ""], tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_bytes() == "œuvre\u2028été\n\n".encode()
