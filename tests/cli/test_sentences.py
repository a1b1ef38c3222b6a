"""The bar that counts translations: where there is a terminal to see it, and nowhere else."""

import itertools
import sys
from pathlib import Path

import pytest

from nmt.cli.shared.sentences import with_progress


def test_what_is_done_is_counted_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a log, nor between the results that a terminal shows."""
    for stderr, stdout, out in itertools.product((False, True), (False, True), (None, Path("a"))):
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=stdout: is_terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=stderr: is_terminal)
        assert list(with_progress(iter("abcde"), None, out)) == [*"abcde"]
        printed, err = capsys.readouterr()
        assert printed == ""
        assert ("translated: 5 sentences [" in err) == (stderr and (bool(out) or not stdout))
