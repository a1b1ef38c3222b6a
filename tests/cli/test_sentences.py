"""The bar that counts translations: where there is a terminal to see it, and nowhere else."""

import sys
from pathlib import Path

import pytest

from nmt.cli.shared.sentences import with_progress


@pytest.mark.parametrize("stderr", [False, True])
@pytest.mark.parametrize("stdout", [False, True])
@pytest.mark.parametrize("out", [None, Path("a.fr")])
def test_what_is_done_is_counted_on_a_terminal(
    stderr: bool,
    stdout: bool,
    out: Path | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither in a log, nor between the results that a terminal shows."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: stderr)
    assert list(with_progress(iter("abcde"), None, out)) == [*"abcde"]
    printed, err = capsys.readouterr()
    assert printed == ""
    assert ("translated: 5 sentences [" in err) == (stderr and (out is not None or not stdout))
