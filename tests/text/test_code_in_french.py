"""French typography leaves alone what is code in strings of software."""

from html.entities import html5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.text.normalisation import normalise, restore

CODE = [
    *("&amp;", "&#160;", "&#x2026;", "&lt;b&gt;", "&amp;lsaquo;", "caf&eacute;: 5", "&nbsp;!"),
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
    ("fichier(s): %d", "fichier(s) : %d"),
    ("à 10:30; à 12:15?", "à 10:30 ; à 12:15 ?"),
    ("http://x.org/a?b=1 : oui!", "http://x.org/a?b=1 : oui !"),
    ("`a; b` ou c; d?", "`a; b` ou c ; d ?"),
    ("<b>x</b> oui?! «Non?»…", "<b>x</b> oui ?! « Non ? »…"),
]


def _printed(text: str) -> str:
    return restore(normalise(text, "fr"), "fr")


@pytest.mark.parametrize("code", CODE)
def test_code_is_neither_normalised_nor_printed(code: str) -> None:
    for text in (code, f"Oui {code} non"):
        assert normalise(text, "fr") == text
        assert _printed(text) == text


@pytest.mark.parametrize(("raw", "expected"), PROSE)
def test_prose_beside_code_is_spaced(raw: str, expected: str) -> None:
    assert normalise(raw, "fr") == expected
    assert normalise(_printed(raw), "fr") == expected


def test_each_entity_of_html_stays() -> None:
    for entity in (f"&{name}" for name in html5 if name.endswith(";") and len(name) > 2):
        text = f"Un {entity} deux {entity}"
        assert _printed(text) == text


@given(st.lists(st.sampled_from([*CODE, *(raw for raw, _ in PROSE), "Oui", "«", "»", "?"])))
def test_laws_hold_for_mixtures_of_code_and_prose(texts: list[str]) -> None:
    text = " ".join(texts)
    once = normalise(text, "fr")
    assert normalise(once, "fr") == once
    assert normalise(restore(text, "fr"), "fr") == once
