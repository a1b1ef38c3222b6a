"""typography.py: translations take the form of their references, and only that."""

import gzip
import os
from pathlib import Path

import pytest

from nmt.evaluation.typography import typography_of, write_as

PLAIN = ["L'été est là !", "Qu'as-tu dit ?", "Oui."]
PRINTED = ["L’été est là\u202f!", "Qu’as-tu dit\u202f?", "Oui."]


def test_the_form_is_that_of_most_texts():
    assert typography_of(PLAIN, "fr") == "plain"
    assert typography_of(PRINTED, "fr") == "printed"
    assert typography_of([*PRINTED, *PRINTED, *PLAIN], "fr") == "printed"
    assert typography_of(["Oui."], "fr") == "plain"
    assert typography_of([], "fr") == "plain"


@pytest.mark.parametrize("texts", [PLAIN, PRINTED])
def test_either_form_is_written_as_either(texts):
    assert write_as("plain", texts, "fr") == PLAIN
    assert write_as("printed", texts, "fr") == PRINTED


def test_a_language_without_rules_has_its_apostrophe_only():
    assert typography_of(["It’s here!", "Yes."], "en") == "printed"
    assert typography_of(["It's here!", "Yes."], "en") == "plain"
    assert write_as("printed", ["it's 'here'!"], "en") == ["it’s 'here'!"]
    assert write_as("plain", ["it’s here!"], "en") == ["it's here!"]


def test_only_the_typography_of_a_plain_text_changes():
    text = "mot?  deux\u2010trois \u00ab a\u0301\u200b \u00bb"
    assert write_as("plain", [text], "fr") == [text]


@pytest.mark.skipif("NMT_CORPORA" not in os.environ, reason="NMT_CORPORA is not set")
def test_multi30k_is_in_plain_form():
    path = Path(os.environ["NMT_CORPORA"]) / "multi30k" / "test_2016_flickr.fr.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        assert typography_of(file.read().split("\n"), "fr") == "plain"
