"""Options that no result can be computed with are an error in one line."""

from pathlib import Path

import pytest

from nmt.errors import NMTError
from nmt.lab.perform import perform

SHORT_CUES = ("updates=3", "tests=9", "batch=2")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cues", (*SHORT_CUES, "lr=1e30"), "^cues: got NaN or infinity with these options"),
        (
            "kernel-regression",
            ("draws=1", "epochs=1", "points=5", "lr=1e30"),
            "^SGD diverged to the width [^;]*; take a smaller lr",
        ),
        ("masks", ("sentence=cat", "padding=0"), "sentence: got 'cat', allowed: 2 to 12 words"),
        ("key-size", ("items=65",), r"items: got 65, allowed: at most names \(64\)"),
        ("key-size", (f"seed={2**62}",), f"seed: got {2**62}, allowed: < {2**48}$"),
        ("curves", ("attention={kind: dot}", "annotation=32"), "attention.kind: 'dot' needs"),
    ],
)
def test_an_impossible_option_is_a_line(
    name: str, options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(NMTError, match=message) as caught:
        perform(name, options, tmp_path)
    assert "\n" not in str(caught.value)


def test_an_answer_that_depends_on_no_item_has_no_influence(tmp_path: Path) -> None:
    report = perform("cues", (*SHORT_CUES, "hidden=1", "seed=2"), tmp_path)
    assert "NaN" not in report.json
