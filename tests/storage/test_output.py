"""Output files: each is complete or absent, and a file that must stay is never replaced."""

import errno
import os
from pathlib import Path

import pytest

from nmt.errors import ConfigError, DataError
from nmt.storage.output import atomic_output, check_not_input, is_written_directly, write_lines

OPEN_FILES = Path("/proc/self/fd")


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
    message = f"^cannot write {path}: No space left on device$" if kind is OSError else None
    with pytest.raises(DataError if kind is OSError else kind, match=message):
        write_lines(["new"], path, force=True)
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

    monkeypatch.setattr(os, "link", refuse)
    write_lines(["first"], tmp_path / "x")
    with pytest.raises(DataError, match="exists"), atomic_output(tmp_path / "y"):
        (tmp_path / "y").write_text("precious")
    assert (tmp_path / "y").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "y"]


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x"
    with pytest.raises(DataError, match="exists"), atomic_output(path):
        write_lines(["second"], path)
    assert path.read_bytes() == b"second\n"
    with atomic_output(path, force=True) as stream:
        write_lines(["third"], path, force=True)
        stream.write(b"last")
    assert path.read_bytes() == b"last"
    assert list(path.parent.iterdir()) == [path]


def test_a_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x", tmp_path / "link"
    path.touch(0o600)
    link.symlink_to("x")
    write_lines(["new"], link, force=True)
    assert (link.is_symlink(), path.read_text()) == (True, "new\n")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_written_directly(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    names = ("/dev/null", "/dev/fd/1", "/proc/self/fd/2", "-", "/dev/shm/x", tmp_path)
    assert [is_written_directly(Path(name)) for name in names] == [True] * 4 + [False] * 2
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        write_lines(["through"], pipe)
        assert reader.read() == "through\n"
    assert list(tmp_path.iterdir()) == [pipe]
    write_lines(["said"], Path("/dev/stdout"))
    assert capfdbinary.readouterr().out == b"said\n"
    with pytest.raises(DataError, match=r"^cannot write /dev/full: No space left on device$"):
        write_lines(["much"], Path("/dev/full"))


def test_an_input_is_no_output_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "read"
    path.write_text("precious")
    (tmp_path / "symlink").symlink_to(path)
    (tmp_path / "hardlink").hardlink_to(path)
    for name in ("read", f"../{tmp_path.name}/read", "symlink", "hardlink"):
        out = tmp_path / name
        message = rf"^`out`: {out} is also an input \(--file: {path}\); give two different files"
        with pytest.raises(ConfigError, match=message):
            check_not_input(out, {"--lexicon": [], "--file": [path]}, "`out`")


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
