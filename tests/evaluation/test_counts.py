"""counts.py: faults that are known, in texts where nothing else may be flagged."""

import gzip
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.evaluation.counts import count_faults, target_words
from nmt.evaluation.evaluate import score_translations
from nmt.evaluation.metric import Scoring
from nmt.types import EvalExample

KINDS = ("lost_numbers", "lost_addresses", "lost_placeholders", "repetitions", "empty_translations")


def faults(source: str, output: str, ref: str | None = None) -> dict[str, list[str]]:
    """Return the texts of the faults of one translation, by kind."""
    example = EvalExample(source, (source if ref is None else ref,))
    counts = count_faults([output], [example])
    assert tuple(counts) == KINDS
    assert all(line == 1 for count in counts.values() for line, _ in count.faults)
    return {k: [text for _, text in count.faults] for k, count in counts.items() if count.faults}


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("3.5 km", "3,5 km", {}),
        ("at 18:10", "à 18\u00a0h\u00a010", {}),
        ("at 6:10 p.m.", "à 18H10", {}),
        ("at 09:00", "à 9 h 00", {}),
        ("1,234,567 and 1,234.50", "1\u202f234\u202f567 et 1.234,50", {}),
        ("in 2010, 300 people", "300 personnes en 2010", {}),
        ("the 20th, R2D2", "le 20e, R2D2", {}),
        ("٣ ٤٥", "3 45", {}),
        ("3 cats, 12 dogs", "trois chats, douze chiens", {}),
        ("2010-05-12", "12/05/2010", {}),
        ("see https://a.org/x_(1)?q=2.", "voir https://a.org/x_(1)?q=2\u202f!", {}),
        ("Mail a.b+c@d-e.co.uk, please.", "Écrivez à a.b+c@d-e.co.uk.", {}),
        ("%s of %(n)d, ${x} {0} %1$s $HOME", "$HOME %1$s {0} ${x} %(n)d de %s", {}),
        ("50% of them", "50 % d’entre eux", {}),
        ("We met.", "Nous nous sommes vus, vous vous.", {}),
        ("", "quelque chose", {}),
        ("13 cats", "des chats", {"lost_numbers": ["13"]}),
        ("3 cats", "4 chats", {"lost_numbers": ["3"]}),
        ("3.5", "35", {"lost_numbers": ["3.5"]}),
        ("1998 1998", "1998", {"lost_numbers": ["1998"]}),
        ("18:10", "18h15", {"lost_numbers": ["6:10"]}),
        ("www.a.org/1 13", "13", {"lost_addresses": ["www.a.org/1"]}),
        ("a@b.org", "a@b.com", {"lost_addresses": ["a@b.org"]}),
        ("%d files {n}", "% d fichiers {n}", {"lost_placeholders": ["%d"]}),
        ("%5.2f", "5.2", {"lost_placeholders": ["%5.2f"]}),
        ("white hair", "des cheveux des Cheveux.", {"repetitions": ["des cheveux"]}),
        ("brown dogs", "les chiens bruns, bruns, bruns", {"repetitions": ["bruns"]}),
        ("a cat", " \u00a0", {"empty_translations": ["a cat"]}),
    ],
)
def test_faults_are_known_and_what_is_right_is_not_flagged(source, output, expected) -> None:
    assert faults(source, output) == expected


def test_what_the_reference_writes_otherwise_does_not_count() -> None:
    assert faults("42 cats", "quarante-deux chats", "quarante-deux chats") == {}
    assert faults("a loop", "encore et encore et", "encore et encore et encore") == {}
    either = EvalExample("42 cats", ("quarante-deux chats", "42 chats"))
    assert count_faults(["un chat"], [either])["lost_numbers"].faults == ((1, "42"),)


@given(st.text("0123456789.,:hH \u00a0%s{}@w/a'", max_size=60))
def test_a_copy_has_no_faults(text):
    assert faults(text, text) == {}


@given(st.integers(13, 10**9), st.sampled_from(["{:,}", "{}", "{:_}"]), st.sampled_from(" .'’,"))
def test_thousands_are_grouped_in_any_way(number, form, mark):
    output = f"{number:,}".replace(",", mark)
    assert faults(form.format(number).replace("_", "\u00a0"), output) == {}
    assert faults(str(number), str(number + 1)) == {"lost_numbers": [str(number)]}


@pytest.fixture
def data(tmp_path) -> DataConfig:
    content = "A cat.\tUn chat d'ÉTÉ.\nThe man\tL'homme e\u0301tait\n"
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(content.encode()))
    train = SplitConfig(file=tmp_path / "train.tsv.gz")
    return DataConfig(src_lang="en", tgt_lang="fr", train=train)


def test_words_that_no_training_target_has(data: DataConfig) -> None:
    examples = [EvalExample("Zork!", ("Le Glup",)), EvalExample("", ("",)), EvalExample("", ("",))]
    texts = ["Un CHAT l’été zork Glup", "L’homme était chatte", "chatte 12 猫は ชาย"]
    count = count_faults(texts, examples, target_words(data))["invented_words"]
    assert (count.faults, count.total) == (((2, "chatte"), (3, "chatte")), 11)
    assert "invented_words" not in count_faults(texts, examples)
    scoring = Scoring("fr", ("chrf",), n_bootstrap=0, tgt_words=target_words(data))
    evaluation = score_translations(texts[1:2], examples[1:2], scoring)
    assert evaluation.counts["invented_words"].faults == ((1, "chatte"),)


def test_training_text_that_cannot_be_read(data: DataConfig) -> None:
    for content in (b"one column\n", b"a\tb\n\xff\tc\n"):
        data.train.file.write_bytes(gzip.compress(content))
        assert target_words(data) is None
    data.train.file.unlink()
    assert target_words(data) is None


@pytest.mark.parametrize("unit", ["a", "1", "a ", "ab ab", "www.", "1,234", "%(a", "a@", ".h1"])
def test_long_lines_take_linear_time(unit: str) -> None:
    seconds = []
    for size in (20_000, 80_000):
        text = unit * (size // len(unit))
        start = time.process_time()
        count_faults([text], [EvalExample(text, (text,))])
        seconds.append(time.process_time() - start)
    assert seconds[1] < 8 * seconds[0] + 0.5
