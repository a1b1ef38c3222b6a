"""The bar that counts translations: where there is a terminal to see it, and nowhere else."""

import gzip
import sys
from pathlib import Path

import pytest

from nmt.cli.shared.sentences import with_progress


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("stdout", [False, True])
@pytest.mark.parametrize("out", [None, Path("-"), Path("a.fr")])
def test_what_is_done_is_counted_on_a_terminal(
    stderr: bool,
    stdout: bool,
    out: Path | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither in a log, nor between the results that a terminal shows."""
    source = tmp_path / "a.en"
    source.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: stderr)
    assert list(with_progress(iter("abcde"), source, out)) == [*"abcde"]
    printed, err = capsys.readouterr()
    assert printed == ""
    to_file = out == Path("a.fr")
    if stderr and (to_file or not stdout):
        assert "5/5 [" in err
    else:
        assert err == ""
    packed = tmp_path / "a.en.gz"  # has no known end
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    assert list(with_progress(iter("ab"), packed, out)) == ["a", "b"]
    shown = "translated: 2 sentences [" in capsys.readouterr().err
    assert shown == (stderr and (to_file or not stdout))
