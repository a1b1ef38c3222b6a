"""Languages that the names of files tell."""

from pathlib import Path

import pytest

from nmt.data.languages import NAMES, language_of, language_pair_of


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("train.en", "en"),
        ("train.fr.gz", "fr"),
        ("fr", "fr"),
        ("europarl-v7.fr-en.en", "en"),
        ("newstest2014-fren-src.fr.sgm", "fr"),
        ("corpus.xx.zst", "xx"),  # any two letters that end a name are a language
        ("news_deu.txt.xz", "de"),
        ("train-Spanish.txt", "es"),
        ("corpus/*.cs", "cs"),
        ("train.TXT", ""),
        ("notes.txt", ""),
        ("train.1", ""),
    ],
)
def test_the_end_of_a_name_is_a_language(name: str, code: str) -> None:
    assert language_of(Path(name)) == code


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("fra-eng.zip", ("fr", "en")),
        ("news.de-en.tsv.gz", ("de", "en")),
        ("wmt_cs_en_2014.parquet", ("cs", "en")),
        ("English-Swahili.txt", ("en", "sw")),
        ("en-en.tsv", None),
        ("pairs.tsv", None),
        ("made-in-france.tsv", None),
        ("fr-2-en.tsv", None),
    ],
)
def test_two_languages_side_by_side_are_a_pair(name: str, pair: tuple[str, str] | None) -> None:
    assert language_pair_of(Path(name)) == pair


def test_each_language_has_a_code_of_its_own_and_a_name() -> None:
    assert all(len(code) == 2 and name.istitle() for code, name in NAMES.items())
    assert len(set(NAMES.values())) == len(NAMES)
    assert language_pair_of(Path("ger-fre.txt")) == language_pair_of(Path("deu-fra.txt"))
