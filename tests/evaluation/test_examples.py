"""examples.py: which split a name means, and files of equal length."""

from pathlib import Path

import pytest

from nmt.corpora.sources import DataConfig, SplitConfig
from nmt.errors import ConfigError, DataError
from nmt.evaluation.examples import files_as_test_set, read_translations, split_named
from nmt.types import EvalExample

OWN = SplitConfig(src=Path("en"), tgt=Path("fr"))


def test_a_split_is_the_runs_own_or_one_of_the_corpus_it_names():
    data = DataConfig(corpus="multi30k-en-fr", test=OWN)
    assert split_named(data, "test") == OWN
    named = DataConfig(train=OWN, test=SplitConfig(corpus="multi30k-en-fr", split="test"))
    for any_data in (data, named):
        expected = SplitConfig(corpus="multi30k-en-fr", split="test_2017_flickr")
        assert split_named(any_data, "test_2017_flickr") == expected
    with pytest.raises(ConfigError, match="no test set"):
        split_named(DataConfig(train=OWN), "test")
    with pytest.raises(ConfigError, match="got 'dev', allowed: train, valid, test"):
        split_named(DataConfig(train=OWN), "dev")


def test_every_line_has_all_its_references_unaltered(tmp_path):
    for name, text in {"en": "a\n\n", "fr": " Oui\u202f! \n\n", "fr2": "l’été\nx\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    refs = [tmp_path / "fr", tmp_path / "fr2"]
    assert files_as_test_set(tmp_path / "en", refs).examples == [
        EvalExample("a", (" Oui\u202f! ", "l’été")),
        EvalExample("", ("", "x")),
    ]
    examples = files_as_test_set(None, refs).examples
    assert [(e.src_text, e.ref_texts[1]) for e in examples] == [("", "l’été"), ("", "x")]


def test_translations_are_read_as_they_are_and_counted(tmp_path):
    (tmp_path / "hyp").write_text("a\n\n b\u2028c\n", encoding="utf-8")
    assert read_translations(tmp_path / "hyp", 3, "x") == ["a", "", " b\u2028c"]
    with pytest.raises(DataError, match=r"hyp has 3 lines, but the test set has 2"):
        read_translations(tmp_path / "hyp", 2, "the test set")
