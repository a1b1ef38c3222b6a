"""Normalisation, marks of case, and French typography, which leaves alone what is code."""

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.text.case_markup import MARKS, mark_case, restore_case
from nmt.text.normalisation import compose_unicode, normalise, restore, sentence_key

LANGS = st.sampled_from(["en", "fr", "de"])
# Random characters seldom meet a rule, so half of the texts are made of what the rules are about.
TEXTS = st.text(st.characters(exclude_categories=())) | st.text(
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
        ("e\u0301te\u200b\u0301", "été"),  # composed, also across a removed character
        ("a\ud800b", "a\ufffdb"),
        ("a▁b", "a_b"),
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
        ('Il dit "oui"!', 'Il dit "oui" !'),
        ("à 10:30, 3:2", "à 10:30, 3:2"),
        ("http://x.org/a??!b", "http://x.org/a??!b"),
        ("(!) et (?)", "(!) et (?)"),
    ],
)
def test_french_marks_are_set_apart_where_they_end_something(raw: str, expected: str) -> None:
    assert normalise(raw, "fr") == expected


@pytest.mark.parametrize(
    ("plain", "printed"),
    [
        ("J'aime l'été !", "J’aime l’été\u202f!"),
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
    plain = normalise(text, lang)
    assert normalise(plain, lang) == plain
    assert normalise(restore(text, lang), lang) == plain
    assert plain == plain.strip()
    assert "  " not in plain
    assert all(c == " " or not c.isspace() for c in plain)
    assert not {unicodedata.category(c) for c in plain} & {"Cc", "Cs"}
    assert unicodedata.is_normalized("NFC", plain)


_MARKS = "\u0301\u0323\u0344\u0345\u0316\u0f71\u0f73"


@settings(max_examples=200, deadline=None)
@given(st.text(f"{_MARKS}aéö ;\U0001f600", max_size=60), st.text(_MARKS, max_size=60))
def test_composed_is_what_unicode_says(text: str, marks: str) -> None:
    for form in ("NFC", "NFKC"):
        composed = compose_unicode(text + marks + text, form)
        assert composed == unicodedata.normalize(form, text + marks + text)


@pytest.mark.parametrize("unit", ["\u0301\u0323", "\u0f73\u0316", "?!", "\u0344\u0316", " ?"])
def test_the_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    text = "a" + unit * 50_000
    start = time.process_time()
    assert sentence_key(restore(normalise(text, "fr"), "fr"))
    assert time.process_time() - start < 10  # about a second; quadratic, it is a minute


CODE = [
    *("&amp;", "&#160;", "&#x2026;", "&lt;b&gt;", "&amp;lsaquo;", "caf&eacute;: 5", "&frac12;!"),
    *("10:30", "12:15:08", "3:2", "16:9", "http://x.org/a?b=1;c#d", "https://x.org:80/?", "::1"),
    *("www.x.org/?q=a!b", "mailto:a@b.fr?subject=x", r"C:\Temp;D:\x", "/etc/passwd:/bin", "$PATH;"),
    *(":-)", ";-)", ":)", ";)", ":D", "x != y", "a?.b", "a ?: b", "a?b:c", "a::b", "std::vector"),
    *("[:alpha:]", "file.c:12:", "%s:%d:", "127.0.0.1:80:", "!important", "#REF!", "#DIV/0!"),
    *("for(;;)", "a{b:c;}", "body { color: red; margin: 0; }", "{; }", "x = 1; y = 2;", "f(x);"),
    *('printf("%d", x);', "if (a) { return b; }", 'println!("x");', "$x; $y;", "sin(x); cos(x)"),
    *("<a href='b' style=\"c: d; e: f\">", "<br/>", "<!-- a -->", "`ls; rm?`", "/[a-z]?x/"),
    *("fichier?.txt", "*?.c", "b'abc'", "f'{a}'", "%(name)s", "%1$s", "${name}", "{0:>10}"),
    *("text/html; charset=utf-8", "a|b;", "nplurals=2; plural=n>1;", "a;b;c;", "-qt-indent:0;"),
    *("#!/bin/sh", "r'\\d'"),
]  # fmt: skip

PROSE = [
    ("Rechercher &amp; remplacer?", "Rechercher &amp; remplacer ?"),
    ("Supprimer %s; «{name}»!", "Supprimer %s ; « {name} » !"),
    ("à 10:30; à 12:15?", "à 10:30 ; à 12:15 ?"),
    ("http://x.org/a?b=1 : oui!", "http://x.org/a?b=1 : oui !"),
    ("`a; b` ou c; d?", "`a; b` ou c ; d ?"),
    ("<b>x</b> oui?! «Non?»…", "<b>x</b> oui ?! « Non ? »…"),
]


@pytest.mark.parametrize("code", CODE)
def test_code_is_neither_normalised_nor_printed(code: str) -> None:
    for text in (code, f"Oui {code} non"):
        assert normalise(text, "fr") == restore(text, "fr") == text


@given(st.lists(st.sampled_from([*CODE, *(raw for raw, _ in PROSE), "Oui", "«", "»", "?"])))
def test_laws_hold_for_mixtures_of_code_and_prose(texts: list[str]) -> None:
    assert [normalise(raw, "fr") for raw, _ in PROSE] == [expected for _, expected in PROSE]
    text = " ".join(texts)
    once = normalise(text, "fr")
    assert normalise(once, "fr") == once
    assert normalise(restore(text, "fr"), "fr") == once


def restored(text: str) -> str:
    return " ".join(word for word in restore_case(text.split()) if word)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("", ""),
        ("A man's T-shirt.", "⇧ a man's⇧ t-shirt."),
        ("TWO MEN WALK!", "⇪ two men walk!"),
        ("A TV is on", "⇪ a tv⇩ is on"),
        ("the USA AND 3 UK men", " the⇪ usa and 3 uk⇩ men"),
        ('"Hello (World)', '⇧ "hello⇧ (world)'),
        ("an iPhone and McDonald", " an iPhone and McDonald"),
        ("ΣΟΦΟΣ Σοφός σοφος", "⇪ σοφος⇩⇧ σοφός σοφος"),
        # No lower case gives these back: i̇stanbul, ss, fi, and the title case of dž.
        ("İstanbul İSTANBUL ẞA ßA ﬁN ǅa", " İstanbul İSTANBUL ẞA ßA ﬁN ǅa"),
    ],
)
def test_marks_say_where_the_capitals_were(text: str, marked: str) -> None:
    assert mark_case(text) == marked
    assert restored(marked) == text


_LETTERS = st.sampled_from(
    [*"aAbBzZéÉßẞİıIiσςΣǅǆŉŒœ '\"-.3日ªﬁ", "<unk>", "MAN", "Man", "i\u0307", *MARKS]
)
_ANY = st.lists(_LETTERS, max_size=30).map("".join) | st.text()


@settings(max_examples=150, deadline=None)
@given(text=_ANY)
@example(text="A\u0345B \u0345A \u1fbc\u1fb3 ŉA")
def test_restoring_gives_every_text_back_and_no_other(text: str) -> None:
    """Doubled, dangling and unclosed marks change the case of letters, and nothing else."""
    unmarked = normalise(text, "fr")
    assert not set(MARKS) & set(unmarked)
    assert restored(mark_case(unmarked)) == unmarked
    read = restored(text)
    assert not set(MARKS) & set(read)
    plain = " ".join("".join(char for char in text if char not in MARKS).split())
    assert read.upper() == plain.upper() or "<unk>" in text
