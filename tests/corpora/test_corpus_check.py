"""Figures of the report counted by hand, and faults put into a right corpus."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.batches.batching import encode_pairs
from nmt.corpora.cleaning import CleaningRules, judge_pairs
from nmt.corpora.corpus_report import LengthStatistics, corpus_report, render_report
from nmt.corpora.language_check import language_notes, other_language
from nmt.corpora.languages import check_language, language_of, language_pair_of
from nmt.corpora.readers import READERS
from nmt.corpora.readers.aligned import stream_aligned
from nmt.corpora.sources import DataConfig
from nmt.corpora.suspicions import Suspicions
from nmt.text.tokenizer import train_tokenizers
from nmt.text.word_tokenizer import WordConfig
from nmt.training.training_data import vocabulary_notes
from nmt.types import SentencePair

STARTER = Path(__file__).parents[2] / "data" / "starter"


def suspicions(pairs: Iterable[SentencePair], src_lang: str, tgt_lang: str) -> list[str]:
    """A line for each sign that `pairs` are not translations between these languages."""
    doubts = Suspicions(src_lang, tgt_lang)
    for pair in pairs:
        doubts.add(pair)
    return doubts.lines()


def test_figures_of_pairs_and_words() -> None:
    texts = {
        "train": ("a b|aa", "a b|bb", "a b|aa", "A, b!|cc", "|d", "dd ee ff|g g"),
        "valid": ("a b|aa", "a b.|xyz", "c|d", "z|zz"),
    }
    splits = {name: [SentencePair(*t.split("|")) for t in texts[name]] for name in texts}
    train, valid = corpus_report(splits, DataConfig())
    assert (train.name, train.pairs) == ("train", 6)
    assert train.left_out == {"duplicate": 1, "empty": 1}
    assert train.src_words == LengthStatistics(total=11, mean=11 / 6, median=2, p90=3, p99=3, max=3)
    assert LengthStatistics.of(range(1, 101)) == LengthStatistics(5050, 50.5, 50, 90, 99, 100)
    assert LengthStatistics.of([]) == LengthStatistics(0, 0.0, 0, 0, 0, 0)
    assert train.in_train is None
    assert valid.in_train == {"src": 1, "src_nearly": 2, "tgt": 2, "pair": 1}
    assert "1 (16.67%)" in render_report([train, valid])


@pytest.fixture(scope="module")
def pairs() -> list[SentencePair]:
    return list(stream_aligned(STARTER / "valid.en", STARTER / "valid.fr"))


def swapped(pairs: list[SentencePair]) -> list[SentencePair]:
    return [SentencePair(pair.tgt_text, pair.src_text) for pair in pairs]


def without_a_target(pairs: list[SentencePair], lost: int) -> list[SentencePair]:
    """The pairs where target line `lost` is missing, and every later one is too early."""
    moved = [SentencePair(a.src_text, b.tgt_text) for a, b in pairwise(pairs[lost:])]
    return [*pairs[:lost], *moved]


def test_a_right_corpus_gives_no_alarm(pairs: list[SentencePair]) -> None:
    assert suspicions(swapped(pairs), "fr", "en") == []
    nothing = [SentencePair("", "")] * 300
    for some in ([], pairs[:1], pairs[:99], nothing, pairs[:1] * 300, pairs, pairs * 9):
        assert suspicions(some, "en", "fr") == []


def test_swapped_and_foreign_sides_are_noticed(pairs: list[SentencePair]) -> None:
    (line,) = suspicions(swapped(pairs), "en", "fr")
    assert "swapped" in line
    french = [SentencePair(pair.tgt_text, pair.tgt_text + " Non.") for pair in pairs]
    assert suspicions(french, "en", "fr") == ["the source looks like fr, not en"]
    assert suspicions(swapped(pairs), "xx", "yy") == []
    chinese = [SentencePair("我喜欢吃苹果和香蕉。", pair.src_text) for pair in pairs]
    assert "swapped" in suspicions(chinese, "en", "zh")[0]
    assert suspicions(chinese, "zh-CN", "en") == []


def test_a_lost_line_is_noticed_about_where_it_is(pairs: list[SentencePair]) -> None:
    for lost, start in ((0, 1), (200, 201), (299, 301)):
        for corpus, shift in (
            (without_a_target(pairs, lost), "n-1"),
            (swapped(without_a_target(swapped(pairs), lost)), "n+1"),
        ):
            (line,) = suspicions(corpus, "en", "fr")
            assert line.startswith(f"from about pair {start} on, line n fits line {shift} of the")
    for _ in range(8):
        pairs = without_a_target(pairs, 150)
    assert "line n fits line n-8 of the other side" in suspicions(pairs, "en", "fr")[0]


def test_text_in_another_language_is_found(pairs: list[SentencePair]) -> None:
    """The surer the more there is of it; right text is never foreign."""
    for lang, other, texts in (
        ("en", "fr", [pair.src_text for pair in pairs]),
        ("fr", "en", [pair.tgt_text for pair in pairs]),
    ):
        for size, least in ((1, 0.6), (10, 0.9), (50, 1)):
            parts = [texts[start : start + size] for start in range(0, len(texts), size)]
            assert sum(other_language(p, other, lang) == lang for p in parts) >= least * len(parts)
            assert sum(bool(other_language(p, lang, other)) for p in parts) <= len(parts) / 500
    for text in ("", "OK", "3.14", "http://x.org", "Paris"):
        for lang, other in (("en", "fr"), ("fr", "en"), ("de", "ru"), ("xx", "fr")):
            assert other_language([text], lang, other) is None
    assert other_language(["Das ist nicht mein Hund.", "Wir sind da."], "en", "fr") == "de"
    (side,) = language_notes(["Vous avez une maison."], (), "eng", "fr-CA")
    assert "source" in side


def test_a_training_on_swapped_files_says_so(pairs: list[SentencePair]) -> None:
    config = WordConfig(min_freq=1)
    for langs, is_swapped in ((("fr", "en"), True), (("en", "fr"), False)):
        tokenizers = train_tokenizers(config, pairs, *langs, seed=1)
        notes = vocabulary_notes(config, tokenizers, encode_pairs(pairs, tokenizers, 100))
        assert any("swapped" in note for note in notes) == is_swapped


def test_a_file_name_tells_its_languages() -> None:
    for name, code in (
        ("train.fr.gz", "fr"),
        ("news_deu.txt.gz", "de"),
        ("train.1", ""),
    ):
        assert language_of(Path(name)) == code
    for name, codes in (
        ("fra-eng.zip", ("fr", "en")),
        ("wmt_cs_en_2014.parquet", ("cs", "en")),
    ):
        assert language_pair_of(Path(name)) == codes
    for suffix in (suffix for reader in READERS for suffix in reader.suffixes):
        assert language_pair_of(Path(f"news.de-en{suffix}.gz")) == ("de", "en")
        assert language_of(Path(f"x.fr{suffix}")) == "fr"
    with pytest.raises(ValueError, match="did you mean 'de'"):
        check_language("GERMAN")


RULES = CleaningRules("en", "fr", max_words=20)


def test_reasons_to_leave_a_pair_out() -> None:
    """With the option `placeholders`, those must be the same on both sides."""
    for src, tgt, expected in (
        ("A dog.", "Un chien.", None),
        ("", "Un chien.", "empty"),
        ("A dog.", " \u00a0", "empty"),
        ("A dog.", "Un\x00 chien.", "damaged characters"),
        ("A dog.", "A dog. ", "copy"),
        ("word " * 21, "mot " * 20, "too long"),
        ("word " * 20, "mot " * 20, None),
        ("Yes.", "o" * 22, None),
        ("Yes.", "o" * 23, "length ratio"),
        ("A dog runs.", "Собака бежит.", "another script"),
        ("Open %s at http://a.org.", "Ouvrez http://a.org à %s !", None),
        ("%d of %d, 50% off", "%d sur %d, moins 50 %", None),
        ('<b>a</b> <a title="x">b</a><br>', "<a title='y'>b</a><BR/> <b>a</b>", None),
        ("%d of %d", "%d sur %s", "placeholders"),
        ("{a} and {a}", "{a}", "placeholders"),
        ("<b>a</b>", "<i>a</i>", "placeholders"),
    ):
        pair = SentencePair(src, tgt)
        reason = None if expected == "placeholders" else expected
        assert list(judge_pairs([pair], RULES)) == [(pair, reason)]
        assert list(judge_pairs([pair], replace(RULES, placeholders=True))) == [(pair, expected)]


def test_rules_may_be_off_and_duplicates_left_out() -> None:
    good, other = SentencePair("A dog sleeps.", "Un chien dort."), SentencePair("A", "B")
    reasons = [reason for _, reason in judge_pairs([good, other, good, good], RULES)]
    assert reasons == [None, None, "duplicate", "duplicate"]
    none = CleaningRules("en", "fr", None, None, None, copies=True, duplicates=True)
    pairs = [good, good, SentencePair("x" * 999, "y"), SentencePair("да", "да")]
    assert [reason for _, reason in judge_pairs(pairs, none)] == [None] * 4
    (judged,) = judge_pairs([SentencePair("A dog.", "Собака.")], CleaningRules("en", "ja"))
    assert judged[1] == "another script"


def test_clean_writes_the_pairs_that_pass_and_counts_the_rest(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.en").write_text("A dog.\n\nA dog.\nA cat.\u2028x\nsame\n", encoding="utf-8")
    Path("raw.fr").write_text("Un chien.\nvide\nUn chien.\nUn chat.\tx\nsame\n", "utf-8")
    files = ["raw.en", "raw.fr", "--out", "a.en", "--out", "a.fr", "--rejected", "bad.tsv"]
    result = nmt("corpus", "clean", *files)
    assert result.stdout.splitlines()[0] == "kept 2 of 5 pairs (40.00%)"
    assert Path("a.en").read_bytes() == "A dog.\nA cat.\u2028x\n".encode()
    assert Path("a.fr").read_bytes() == b"Un chien.\nUn chat.\tx\n"
    rejected = [line.split("\t")[:2] for line in Path("bad.tsv").read_text().splitlines()]
    assert rejected == [["empty", "2"], ["duplicate", "3"], ["copy", "5"]]
    Path("raw.tsv").write_text("Open %s.\tOuvrez %s.\nOpen %s.\tOuvrez.\n", encoding="utf-8")
    result = nmt("corpus", "clean", "raw.tsv", "--out", "-", "--placeholders")
    assert result.stdout == "Open %s.\tOuvrez %s.\n"
    assert "--out: got a.zip" in refusal("corpus", "clean", "bad.tsv", "--out", "a.zip")
