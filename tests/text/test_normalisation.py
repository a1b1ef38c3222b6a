import itertools
import os
import time
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.text_files import read_lines
from nmt.text.normalisation import compose_unicode, normalise, restore, sentence_key

CORPORA = os.environ.get("NMT_CORPORA")
needs_corpora = pytest.mark.skipif(not CORPORA, reason="NMT_CORPORA names no folder")

LANGS = st.sampled_from(["en", "fr", "de"])
# Random characters seldom meet a rule, so half of the texts are made of what the rules are about.
TEXTS = st.text() | st.text(
    "aé1 ?!‽;:«»\"'’‘.…,()-/=#&_▁<>{}[]|`$*A\\\u037e\u1fef\u0338"
    "\u00a0\u202f\u2009\u200b\u200d\u0301"
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("J’aime l‘été", "J'aime l'été"),
        ("soutien\u2010gorge, porte\u2011clés", "soutien-gorge, porte-clés"),
        ("sur \u200b\u200bla musique\u00ad", "sur la musique"),
        ("a\u2028b\u0085c\u3000d", "a b c d"),
        ("nul\x00 et\x07 non\x7f avenu", "nul et non avenu"),
        ("e\u0301te\u200b\u0301", "été"),  # composed, also across a removed character
        ("a\ud800b", "a\ufffdb"),
        ("a▁b", "a_b"),
        ("\ufeff", ""),
        ("👩\u200d🚀", "👩\u200d🚀"),  # the joiner is part of how it is spelt
    ],
)
def test_characters_are_made_plain_in_any_language(raw: str, expected: str) -> None:
    assert normalise(raw, "fr") == expected
    assert normalise(raw, "en") == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        *((raw, "Tu viens ?") for raw in ("Tu viens\u202f?", "Tu viens?", " Tu\tviens\u2009 ? \r")),
        ("Ah bon?! Si.", "Ah bon ?! Si."),
        ("Il a dit: non; puis: oui", "Il a dit : non ; puis : oui"),
        ("«Viens?»", "« Viens ? »"),
        ('"Où?"', '"Où ?"'),
        ('Il dit "oui"!', 'Il dit "oui" !'),
        ("Pardon...?", "Pardon... ?"),
        ("à 10:30, 3:2", "à 10:30, 3:2"),
        ("http://x.org/a??!b", "http://x.org/a??!b"),
        ("(!) et (?)", "(!) et (?)"),
        ("???", "???"),
    ],
)
def test_french_marks_are_set_apart_where_they_end_something(raw: str, expected: str) -> None:
    assert normalise(raw, "fr") == expected


@pytest.mark.parametrize(
    ("plain", "printed"),
    [
        ("J'aime l'été !", "J’aime l’été\u202f!"),
        ("Quoi ?!", "Quoi\u202f?!"),
        ("Ici ; là : « oui ».", "Ici\u202f; là\u00a0: «\u00a0oui\u00a0»."),
        ("aujourd'hui, l'11, d'« ami »", "aujourd’hui, l’11, d’«\u00a0ami\u00a0»"),
        ("le chien 'Spot' de 5'10", "le chien 'Spot' de 5'10"),
        ("à 10:30, 3:2, 4 :10", "à 10:30, 3:2, 4 :10"),
        ("Bien... et alors ...", "Bien... et alors ..."),
        ("Tu viens?", "Tu viens\u202f?"),  # a model that forgot the space
        ("\x01 a \x01 b \x01", "a b"),
    ],
)
def test_french_is_printed_right(plain: str, printed: str) -> None:
    assert restore(plain, "fr") == printed


@settings(max_examples=300, deadline=None)
@given(TEXTS, LANGS)
def test_laws_hold_for_any_text(text: str, lang: str) -> None:
    once = normalise(text, lang)
    assert normalise(once, lang) == once
    assert normalise(restore(text, lang), lang) == once


_MARKS = "\u0301\u0323\u0344\u0345\u0316\u0f71\u0f73"


@settings(max_examples=200, deadline=None)
@given(st.text(f"{_MARKS}aéö ;\U0001f600", max_size=60), st.text(_MARKS, max_size=60))
def test_composed_is_what_unicode_says(text: str, marks: str) -> None:
    for form in ("NFC", "NFKC"):
        assert compose_unicode(text + marks + text, form) == unicodedata.normalize(
            form, text + marks + text
        )


@pytest.mark.parametrize("unit", ["\u0301\u0323", "\u0f73\u0316", "?!", "\u0344\u0316", " ?"])
def test_the_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    text = "a" + unit * 100_000
    start = time.process_time()
    assert sentence_key(restore(normalise(text, "fr"), "fr"))
    assert time.process_time() - start < 20  # a second or two; quadratic, it is several minutes


@given(st.text(st.characters(exclude_categories=()), min_size=1), LANGS)
def test_normalised_text_is_plain(text: str, lang: str) -> None:
    plain = normalise(text, lang)
    assert plain == plain.strip()
    assert "  " not in plain
    assert all(c == " " or not c.isspace() for c in plain)
    assert not {unicodedata.category(c) for c in plain} & {"Cc", "Cs"}
    assert unicodedata.is_normalized("NFC", plain)
    plain.encode()


def _french_lines() -> list[str]:
    folder = Path(str(CORPORA))
    lines = read_lines(folder / "tatoeba" / "fra-eng.zip")
    texts = [line.split("\t")[1] for line in lines]
    for name in ("train", "val", "test_2016_flickr"):
        texts += read_lines(folder / "multi30k" / f"{name}.fr.gz")
    return texts


@needs_corpora
def test_every_french_mark_of_the_corpora_is_printed_right() -> None:
    """Counts of what stands before each mark: the few that are no U+202F or U+00A0 are right."""
    lines = _french_lines()
    assert len(lines) == 142_787 + 31_014
    marked = [line for line in lines if set(line) & set("?!‽;:«»")]
    before: Counter[tuple[str, str]] = Counter()
    for line in marked:
        plain = normalise(line, "fr")
        printed = restore(plain, "fr")
        assert normalise(plain, "fr") == normalise(printed, "fr") == plain
        for previous, character in itertools.pairwise(f" {printed} "):
            if character in "?!‽;:»":
                before[character, previous] += 1
            if previous == "«":
                before["«", character] += 1
    unusual = {key: n for key, n in before.items() if key[1] not in "\u202f\u00a0"}
    assert unusual == {
        ("?", "?"): 2,  # "Une femme avec un chapeau ???."
        ("!", "?"): 3,  # "?!"
        (":", "8"): 2,  # 8:40, 8:00
        (":", "4"): 1,  # 14:30
        (":", "2"): 2,  # 2:30
        (":", "3"): 1,  # 53:11
        (":", " "): 2,  # "4 :10", as the corpus has it
    }
    assert before["?", "\u202f"] > 23_000
    assert before[":", "\u00a0"] > 40
    assert before["«", "\u00a0"] == before["»", "\u00a0"] == 281
