"""Outputs where the system renames no open file, as Windows does: simulated by /proc."""

import os
from pathlib import Path

import pytest

from nmt.storage.output import write_lines

OPEN_FILES = Path("/proc/self/fd")
pytestmark = pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="needs Linux's /proc")


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.replace and os.unlink of an open file fail; there is no os.fchmod."""

    def refuse_open(path: object) -> None:
        for link in OPEN_FILES.iterdir():
            if os.path.islink(link) and os.readlink(link) == os.path.realpath(str(path)):
                raise PermissionError(13, "used by another process", str(path))

    real_replace, real_unlink = os.replace, os.unlink

    def replace(source: str, target: str) -> None:
        refuse_open(source)
        refuse_open(target)
        real_replace(source, target)

    def unlink(path: str) -> None:
        refuse_open(path)
        real_unlink(path)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "unlink", unlink)
    monkeypatch.delattr(os, "fchmod")


def test_a_file_replaces_another_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "à lire.txt"
    for text in ("old", "new"):
        write_lines([text], path, force=True)
        assert path.read_text(encoding="utf-8") == f"{text}\n"
    assert list(tmp_path.iterdir()) == [path]
