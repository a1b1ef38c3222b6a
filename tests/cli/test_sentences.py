"""The bar that counts translations: where there is a terminal to see it, and nowhere else."""

import gzip
import sys
from pathlib import Path

import pytest

from nmt.cli.sentences import with_progress


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.en"
    path.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    return path


def terminals(monkeypatch: pytest.MonkeyPatch, stdout: bool, stderr: bool) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: stderr)


@pytest.mark.parametrize(("stdout", "to_file"), [(True, True), (False, True), (False, False)])
def test_on_a_terminal_what_is_done_is_counted(
    source: Path,
    stdout: bool,
    to_file: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminals(monkeypatch, stdout=stdout, stderr=True)
    made = with_progress(iter("cde"), source, to_file=to_file, n_done=2)
    assert list(made) == ["c", "d", "e"]
    out, err = capsys.readouterr()
    assert out == ""
    assert "translated:  40%" in err
    assert "2/5 [" in err
    assert "5/5 [" in err


def test_a_packed_file_has_no_known_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.en.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    terminals(monkeypatch, stdout=False, stderr=True)
    assert list(with_progress(iter("ab"), path)) == ["a", "b"]
    assert "translated: 2 sentences [" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stdout", "stderr", "to_file"),
    [(False, False, True), (True, False, True), (True, True, False)],
)
def test_elsewhere_nothing_is_said(
    source: Path,
    stdout: bool,
    stderr: bool,
    to_file: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a log, or between the results that a terminal shows."""
    terminals(monkeypatch, stdout=stdout, stderr=stderr)
    assert list(with_progress(iter("ab"), source, to_file=to_file)) == ["a", "b"]
    assert capsys.readouterr() == ("", "")
