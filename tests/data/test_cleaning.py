"""Cleaning a corpus: each reason, and that what passes is unaltered."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.data.cleaning import CleaningRules, judged
from nmt.types import SentencePair

RULES = CleaningRules("en", "fr", max_words=20)
GOOD = SentencePair("A dog sleeps.", "Un chien dort.")


def reason(src: str, tgt: str, rules: CleaningRules = RULES) -> str | None:
    ((each),) = judged([SentencePair(src, tgt)], rules)
    assert (each.pair.src_text, each.pair.tgt_text) == (src, tgt)
    return each.reason


@pytest.mark.parametrize(
    ("src", "tgt", "expected"),
    [
        ("A dog.", "Un chien.", None),
        ("", "Un chien.", "empty"),
        ("A dog.", " \u00a0", "empty"),
        ("A d\ufffdg.", "Un chien.", "damaged characters"),
        ("A dog.", "Un\x00 chien.", "damaged characters"),
        ("A dog.", "A dog. ", "copy"),
        ("word " * 21, "mot " * 20, "too long"),
        ("word " * 20, "mot " * 20, None),
        ("Yes.", "o" * 22, None),
        ("Yes.", "o" * 23, "length ratio"),
        ("A dog runs.", "Собака бежит.", "another script"),
        ("10 %", "10 %!", None),
    ],
)
def test_each_reason(src: str, tgt: str, expected: str | None) -> None:
    assert reason(src, tgt) == expected


def test_the_first_of_equal_pairs_stays() -> None:
    other = SentencePair("A dog sleeps.", "Le chien dort.")
    found = judged([GOOD, other, GOOD, GOOD], RULES)
    assert [each.reason for each in found] == [None, None, "duplicate", "duplicate"]


def test_a_rule_that_is_off_leaves_nothing_out() -> None:
    none = CleaningRules("en", "fr", None, None, None, copies=True, duplicates=True)
    pairs = [GOOD, GOOD, SentencePair("x" * 999, "y"), SentencePair("да", "да")]
    assert [each.reason for each in judged(pairs, none)] == [None] * 4


def test_an_unknown_language_has_any_script() -> None:
    assert reason("A dog runs.", "Собака бежит.", CleaningRules("en", "xx")) is None
    assert reason("A dog runs.", "犬が走る。", CleaningRules("en", "ja")) is None
    assert reason("A dog runs.", "Un chien court.", CleaningRules("en", "ru")) == "another script"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    src = ["A dog.", "", "A dog.", "A cat.\u2028x", "same"]
    tgt = ["Un chien.", "vide", "Un chien.", "Un chat.\tx", "same"]
    (tmp_path / "raw.en").write_text("\n".join(src) + "\n", encoding="utf-8")
    (tmp_path / "raw.fr").write_text("\n".join(tgt) + "\n", encoding="utf-8")
    return tmp_path


def clean(folder: Path, *arguments: str) -> tuple[int, str, str]:
    typed = [str(folder / a) if "." in a and not a.startswith("-") else a for a in arguments]
    result = CliRunner().invoke(app, ["corpus", "clean", *typed])
    return result.exit_code, result.stdout, result.stderr


def test_what_passes_is_written_and_the_rest_counted(corpus: Path) -> None:
    files = ["raw.en", "raw.fr", "--out", "a.en", "--out", "a.fr", "--rejected", "bad.tsv"]
    code, out, _ = clean(corpus, *files)
    assert code == 0
    assert out.splitlines()[0] == "kept 2 of 5 pairs (40.00%)"
    assert (corpus / "a.en").read_bytes() == "A dog.\nA cat.\u2028x\n".encode()
    assert (corpus / "a.fr").read_bytes() == b"Un chien.\nUn chat.\tx\n"
    rejected = [line.split("\t")[:2] for line in (corpus / "bad.tsv").read_text().splitlines()]
    assert rejected == [["empty", "2"], ["duplicate", "3"], ["copy", "5"]]
    code, out, _ = clean(corpus, *files, "--json", "--force")
    assert json.loads(out) == {
        "pairs": 5,
        "kept": 2,
        "left_out": {"empty": 1, "duplicate": 1, "copy": 1},
    }


def test_cleaning_again_changes_nothing(corpus: Path) -> None:
    clean(corpus, "raw.en", "raw.fr", "--out", "a.en", "--out", "a.fr")
    code, out, _ = clean(corpus, "a.en", "a.fr", "--out", "b.en", "--out", "b.fr")
    assert (code, out) == (0, "kept 2 of 2 pairs (100.00%)\n")
    assert (corpus / "b.en").read_bytes() == (corpus / "a.en").read_bytes()


def test_a_tsv_gives_a_tsv(corpus: Path) -> None:
    (corpus / "raw.tsv").write_text("Go.\tVa !\t#1\n\tx\t\n", encoding="utf-8")
    code, _, _ = clean(corpus, "raw.tsv", "--out", "a.tsv", "--src-lang", "en", "--tgt-lang", "fr")
    assert code == 0
    assert (corpus / "a.tsv").read_text(encoding="utf-8") == "Go.\tVa !\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["raw.en", "raw.fr", "--out", "a.en"], "got 2 files and 1 of --out"),
        (["raw.en", "raw.fr", "--out", "raw.en", "--out", "a.fr"], "raw.en"),
        (["raw.en", "raw.fr", "--out", "a.en", "--out", "a.en"], "another file each"),
        (["raw.en", "none.fr", "--out", "a.en", "--out", "a.fr"], "none.fr: no such file"),
        (["raw.en", "raw.fr", "--out", "a.en", "--out", "a.fr", "--max-ratio=0.5"], "at least 1"),
        (["raw.en", "raw.fr", "--out", "a.en", "--out", "a.fr", "--max-words=1"], "too long"),
    ],
)
def test_wrong_uses_leave_every_file_as_it_is(
    corpus: Path, arguments: list[str], words: str
) -> None:
    before = (corpus / "raw.en").read_bytes()
    code, _, said = clean(corpus, *arguments)
    assert code == 2
    assert words in said
    assert (corpus / "raw.en").read_bytes() == before
    assert not (corpus / "a.en").exists()
