"""Subtitles and message catalogues: what is not a sentence to translate stays."""

import sys
from pathlib import Path

import polib
import pytest
from documents.texts import by, reader

from nmt.documents.files import format_of, open_document
from nmt.errors import ConfigError, DataError
from nmt.names import DocumentFormat

FILM = """1
00:00:01,000 --> 00:00:03,500
A man in blue
sleeps. He

2
00:00:04,000 --> 00:00:06,000 X1:100
- Hello Mr. Fox.
- <i>Well!</i>

9
0:01:00.250 --> 00:01:02,000


{\\an8}♪ ♪
"""
MESSAGES = r"""# A comment.
msgid ""
msgstr ""
"Language: fr\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\n"

#: a.c:1
#, c-format
msgid "A man. Two \"dogs\".\n"
msgstr ""

msgctxt "menu"
msgid "Done"
msgstr "Fini"

#, fuzzy
msgid "A car"
msgstr "Une auto"

msgid "one dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

#~ msgid "Old"
#~ msgstr ""
"""


def translated(text: str, format: DocumentFormat) -> str:
    document = open_document(text, format, reader())
    return document.translated(by(str.upper)(document.sentences))[0]


def test_captions_are_translated_and_times_stay() -> None:
    expected = FILM
    for text in ("A man in blue\nsleeps. He", "Hello Mr. Fox.", "Well!"):
        expected = expected.replace(text, text.upper())
    for end in ("\n", "\r\n"):
        assert translated(FILM.replace("\n", end), "srt") == expected.replace("\n", end)
    assert translated("", "srt") == ""


def test_messages_without_a_translation_get_a_fuzzy_one() -> None:
    sentences = ["A man.", 'Two "dogs".', "one dog", "dogs"]
    assert open_document(MESSAGES, "po", reader()).sentences == sentences
    catalogue = polib.pofile(translated(MESSAGES, "po"))
    assert catalogue.metadata == polib.pofile(MESSAGES).metadata
    assert catalogue.header == polib.pofile(MESSAGES).header
    first, done, car, dogs, old = catalogue
    assert (first.msgstr, first.flags) == ('A MAN. TWO "DOGS".\n', ["fuzzy", "c-format"])
    assert (done.msgctxt, done.msgstr, done.flags) == ("menu", "Fini", [])
    assert (car.msgstr, car.flags) == ("Une auto", ["fuzzy"])
    assert (dogs.msgstr_plural, dogs.fuzzy) == ({0: "ONE DOG", 1: "%d DOGS"}, True)
    assert (old.obsolete, old.msgstr) == (True, "")
    crlf = translated(MESSAGES.replace("\n", "\r\n"), "po")
    assert crlf == translated(MESSAGES, "po").replace("\n", "\r\n")
    only = 'msgid "one dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\n'
    assert polib.pofile(translated(only, "po"))[0].msgstr_plural == {0: "%d DOGS"}


@pytest.mark.parametrize("text", ["", "\n", "# A comment.\r\n", 'msgid "A"\r\nmsgstr "B"'])
def test_a_catalogue_without_work_stays(text: str) -> None:
    """A catalogue with work gets no header that it lacks."""
    assert translated(text, "po") == text
    message = 'msgid "A"\nmsgstr ""\n'
    assert translated(message, "po") == '#, fuzzy\nmsgid "A"\nmsgstr "A"\n'


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("srt", "1\n00:00:01,000 -> 00:00:02,000\na\n"),
        ("po", "no messages"),
        ("po", 'msgid "a"\nmsgid "b"\n'),
        ("po", 'msgid "a"\nmsgid_plural "b"\nmsgstr[x] ""\n'),
        ("po", "test_files.py"),
    ],
)
def test_another_format_is_refused_in_a_line(format: DocumentFormat, text: str) -> None:
    with pytest.raises(DataError, match=r"\A.+\Z"):
        open_document(text, format, reader())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polib", None)
    with pytest.raises(ConfigError, match=r"need polib: pip install 'attention-nmt\[files\]'"):
        open_document(MESSAGES, "po", reader())


def test_an_ending_says_the_format() -> None:
    formats = {"a.HTML": "html", "b.md": "markdown", "c.srt": "srt", "d.po": "po"}
    formats |= dict.fromkeys(("e.txt", "f", "g.md.gz", "a.po/b"), "text")
    assert {name: format_of(Path(name)) for name in formats} == formats
