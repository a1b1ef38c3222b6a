"""Output files: each is complete or absent, and a file that must stay is never replaced."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nmt.errors import ConfigError, DataError
from nmt.storage.output import atomic_output, check_apart, is_direct, write_lines

OPEN_FILES = Path("/proc/self/fd")


def test_the_file_appears_with_its_folders_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.bin"
    with atomic_output(path) as stream:
        stream.write(b"abc")
        assert not path.exists()
    assert path.read_bytes() == b"abc"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_and_no_rest(
    kind: type[BaseException], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise kind(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    expected = DataError if kind is OSError else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_lines(["new"], path, force=True)
    if kind is OSError:
        assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    for path in (tmp_path, tmp_path / "file" / "z", tmp_path / "x"):
        with pytest.raises(DataError, match=f"^cannot write {path}: "):
            write_lines(["new"], path, force=True)
    assert (tmp_path / "x").is_symlink()


def test_without_hard_links_no_file_is_replaced_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def appearing() -> Iterator[str]:
        (tmp_path / "y").write_text("precious")
        yield "second"

    monkeypatch.setattr(os, "link", refuse)
    write_lines(["first"], tmp_path / "x")
    with pytest.raises(DataError, match="exists"):
        write_lines(appearing(), tmp_path / "y")
    assert (tmp_path / "y").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "y"]


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def late() -> Iterator[str]:
        write_lines(["second"], path)
        yield "first"

    with pytest.raises(DataError, match="exists"):
        write_lines(late(), path)
    assert path.read_bytes() == b"second\n"
    with atomic_output(path, force=True) as stream:
        write_lines(["third"], path, force=True)
        stream.write(b"last")
    assert path.read_bytes() == b"last"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    far = tmp_path / "far" / "x"
    far.parent.mkdir()
    far.write_text("old")
    far.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(far)
    write_lines(["new"], link, force=True)
    assert (link.is_symlink(), far.read_text()) == (True, "new\n")
    assert far.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_directly(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in ("/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/2", "-"):
        assert is_direct(Path(name)), name
    for name in (tmp_path / "x", tmp_path, Path("/dev/shm/x")):
        assert not is_direct(Path(name)), name
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_lines(["through"], pipe)
    assert os.read(reader, 99) == b"through\n"
    os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]
    write_lines(["said"], Path("/dev/stdout"))
    assert capfdbinary.readouterr().out == b"said\n"
    with pytest.raises(DataError, match=r"^cannot write /dev/full: No space left on device$"):
        write_lines(["much"], Path("/dev/full"))


@pytest.mark.parametrize("name", ["read", "../folder/read", "symlink", "hardlink"])
def test_an_input_is_no_output_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    read, out = folder / "read", folder / name
    read.write_text("precious")
    (folder / "symlink").symlink_to(read)
    (folder / "hardlink").hardlink_to(read)
    with pytest.raises(ConfigError) as caught:
        check_apart(out, {"--lexicon": [], "--file": [read]}, "`out`")
    assert str(caught.value) == (
        f"`out`: {out} is read as well (--file: {read}); one of the two must be another file"
    )


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="needs Linux's /proc")
def test_a_file_is_closed_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows renames no open file, and has no os.fchmod."""
    path, real = tmp_path / "à lire.txt", os.replace

    def replace(source: str, target: str) -> None:
        is_open = [os.path.realpath(link) == str(source) for link in OPEN_FILES.iterdir()]
        assert not any(is_open)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.delattr(os, "fchmod")
    for text in ("old", "new"):
        write_lines([text], path, force=True)
        assert path.read_text(encoding="utf-8") == f"{text}\n"
    assert list(tmp_path.iterdir()) == [path]
