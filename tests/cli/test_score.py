"""`nmt score`: the probability of given translations, line by line."""

import json
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal, write_lines

from nmt.translation.translator import Translator

SOURCES = ["a b c d", "c b a", "", "d e f"]
TARGETS = ["d c b a", "a b c", "x", "f e d"]
SCORE = ("score", "a.en", "a.de", "--run", "run")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write_lines(Path("a.en"), SOURCES)
    write_lines(Path("a.de"), TARGETS)


def test_a_line_is_the_log_probability_of_its_pair() -> None:
    result = nmt(*SCORE)
    lines = result.stdout.splitlines()
    translator = Translator.load(Path("run"))
    forced = [
        translation.hypotheses[0].hypothesis.log_probs if translation.hypotheses else ()
        for translation in translator.force(SOURCES, TARGETS)
    ]
    assert lines[2] == ""
    scores = translator.score(SOURCES, TARGETS)
    assert scores[2] is None
    wanted = [score for score in scores if score is not None]
    assert [float(line) for line in lines if line] == pytest.approx(wanted, abs=1e-5)
    n = sum(map(len, forced))
    assert f"{n} pieces, {sum(wanted) / n:.4f} nats each" in result.stderr
    flags = ("--json", "--per-piece", "--batch-size", "1")
    records = [json.loads(line) for line in nmt(*SCORE, *flags).stdout.splitlines()]
    assert [record["source"] for record in records] == SOURCES
    assert records[2]["score"] is None
    for record, log_probs in zip(records[:2], forced[:2], strict=True):
        assert record["log_probs"] == pytest.approx(log_probs, abs=1e-5)
        assert record["pieces"][-1] == "</s>"
        assert record["score"] == pytest.approx(sum(log_probs) / len(log_probs), abs=1e-5)


def test_files_of_other_lengths_and_two_stdins_are_errors() -> None:
    write_lines(Path("short.de"), ["a"])
    for arguments, words in (
        (("a.en", "short.de"), "short.de: it has no line 2, but"),
        (("-", "-"), "got - twice"),
    ):
        assert words in refusal("score", *arguments, "--run", "run")
