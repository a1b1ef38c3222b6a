"""The bar that counts translations: where there is a terminal to see it, and nowhere else."""

import gzip
import sys
from pathlib import Path

import pytest

from nmt.cli.shared.sentences import with_progress


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("stdout", [False, True])
@pytest.mark.parametrize("to_file", [False, True])
def test_what_is_done_is_counted_on_a_terminal(
    stderr: bool,
    stdout: bool,
    to_file: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither in a log, nor between the results that a terminal shows."""
    source = tmp_path / "a.en"
    source.write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: stderr)
    texts = with_progress(iter("cde"), source, to_file=to_file, n_done=2)
    assert list(texts) == ["c", "d", "e"]
    out, err = capsys.readouterr()
    assert out == ""
    if stderr and (to_file or not stdout):
        assert "translated:  40%" in err
        assert "2/5 [" in err
        assert "5/5 [" in err
    else:
        assert err == ""
    packed = tmp_path / "a.en.gz"  # has no known end
    packed.write_bytes(gzip.compress(b"a\nb\n"))
    assert list(with_progress(iter("ab"), packed, to_file=to_file)) == ["a", "b"]
    shown = "translated: 2 sentences [" in capsys.readouterr().err
    assert shown == (stderr and (to_file or not stdout))
