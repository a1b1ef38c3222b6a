"""Documents as sentences and what stands between them: nothing is lost, altered or doubled."""

import re
import time
from itertools import count

import pytest
from documents.texts import answer, by, documents, reader
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nmt.documents.document import Document

PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"
FORMATS = ("text", "html", "markdown", "srt")


def sentences(text: str, format: str) -> list[str]:
    return Document(text, format, reader(max_pieces=None)).sentences


def translated(text: str, format: str, *texts: str) -> str:
    """The document with these translations of its sentences."""
    document = Document(text, format, reader(max_pieces=None))
    pairs = zip(document.sentences, texts, strict=True)
    return document.translated(answer(sentence, text) for sentence, text in pairs)[0]


@settings(max_examples=1000, deadline=None)
@given(
    st.sampled_from(FORMATS).flatmap(lambda f: st.tuples(st.just(f), documents(f))),
    st.sampled_from(["en", "fr", "de"]),
)
def test_every_document_is_joined_as_it_was(written: tuple[str, str], lang: str) -> None:
    format, text = written
    text = TIMES + text if format == "srt" else text
    document = Document(text, format, reader(lang))
    assert "".join(part.text for part in document.parts) == text
    for translate in (by(str), lambda texts: map(answer, texts)):  # the same text; no hypothesis
        assert document.translated(translate(document.sentences)) == [text]
    numbers = count()
    marked = by(lambda _: f"\u02b0{chr(0x1E00 + next(numbers))}\u02b1")
    [joined] = document.translated(marked(document.sentences))
    marks = re.findall("\u02b0(.)\u02b1", joined)
    assert [ord(mark) - 0x1E00 for mark in marks] == list(range(len(document.sentences)))
    if all(part.source in (None, part.text) for part in document.parts):  # without inline markup
        unchanged = "".join(part.text for part in document.parts if part.source is None)
        assert re.sub("\u02b0.\u02b1", "", joined) == unchanged
    if format == "text":
        assert joined.count("\n") == text.count("\n")


@settings(max_examples=300, deadline=None)
@given(documents("blocks"))
def test_blocks_of_markdown_survive(text: str) -> None:
    def blocks(text: str) -> list[str]:
        return [token.type for token in PARSER.parse(text)]

    document = Document(text, "markdown", reader())
    [other] = document.translated(by(lambda _: "ein Wort")(document.sentences))
    assert blocks(other) == blocks(text)


MARKS = ("<a b=", "<a ", "<![", "<?", "<script>", "<!--", "</", "<a b='", '<a b="', "<style ")
MARKS = (*MARKS, "<", "&#", "&#9", "<a>", "<!-->", "<a =", "&amp", "</script", " ")


@pytest.mark.parametrize("mark", MARKS)
def test_hostile_html_takes_no_longer_than_other_html(mark: str) -> None:
    started = time.process_time()
    Document(mark * (50_000 // len(mark)), "html", reader())
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <b>c</b> d<br>e <i>f", ["a c d", "e f"]),
        ("<p>a < b</p>", ["a < b"]),
        ("<a href='x>y'>c</a>", ["c"]),
        ("<a b'>c</a>", ["c"]),
        ("<SCRIPT src='</script>'>x</Script >t", ["t"]),
        ("<scripty>a</scripty>", ["a"]),
        ("<!-- <b>x</b> -->t<!DOCTYPE html>u<?x y?>v", ["t", "u", "v"]),
        ("t <!-- <b>x</b>", ["t"]),
        ("t <a b='> u", ["t <a b='> u"]),
        ("t <p b='> u", ["t"]),
        ("<style>x</p>t", []),
        ("&nbsp;", []),
        ("&lt;b&gt; &#xe9;&eacute;", ["<b> éé"]),
        ("x &#" + "9" * 5000 + "; y", ["x &#" + "9" * 5000 + "; y"]),
    ],
)
def test_sentences_are_what_stands_between_markup(text: str, expected: list[str]) -> None:
    assert sentences(text, "html") == expected


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("text", "At bee. Cat d!\n\n e\t \n*** 5", ["At bee.", "Cat d!", "e", "*** 5"]),
        (
            "markdown",
            "---\na: B\n---\n# A *b* #\n\nC\n===\n\n> d\n> eh. F\ng",
            ["A b", "C", "d eh.", "F g"],
        ),
        ("markdown", "- [ ] a\n  b\n- c\n\n      d\n\n```\ne\n```\n<p>f</p>\n", ["a b", "c"]),
        (
            "markdown",
            "|a | b \\| c|\n|--|:-:|\n| a | `d`|\n\n[x]: y 'z'\n",
            ["a", "b | c", "a"],
        ),
        ("markdown", "> [!NOTE]\n> a\\\n> b\r\n\r\n1. 1\r\n", ["a b", "1"]),
        (
            "html",
            "<p>A\n  bee.&nbsp; C&#160;d</p><pre>e <b>f</b></pre><code>g</code>",
            ["A bee.", "C\xa0d"],
        ),
        (
            "srt",
            TIMES + "- A b.\n- C\nd\n{\\an8}<i>e\nf</i>\n♪ ♪\n\ng",
            ["A b.", "C d", "e f", "g"],
        ),
    ],
)
def test_sentences_of_a_format(format: str, text: str, expected: list[str]) -> None:
    assert sentences(text, format) == expected


@pytest.mark.parametrize(
    ("format", "text", "texts", "expected"),
    [
        ("text", " An.  B\r\n", ["c\u202f!", "d"], " c\u202f!  d\r\n"),
        ("html", "a &lt; b", ["c < d & e"], "c &lt; d &amp; e"),
        ("html", "&eacute;&nbsp;a", ["é\xa0a"], "&eacute;&nbsp;a"),
        ("markdown", "> a b\n> c d e\n", ["one two three four"], "> one two\n> three four\n"),
        ("markdown", "a\n b  \nc", ["x"], "x"),
        ("markdown", "|a|\n|-|\n|b|", ["x|y", "z"], "|x\\|y|\n|-|\n|z|"),
        ("srt", f"{TIMES}A long line\nshort", ["un deux trois un"], f"{TIMES}un deux trois\nun"),
        ("srt", f"{TIMES}- a\n- b", ["c", "d"], f"{TIMES}- c\n- d"),
    ],
)
def test_translations_take_the_form_of_the_source(
    format: str, text: str, texts: list[str], expected: str
) -> None:
    assert translated(text, format, *texts) == expected


def test_a_text_of_each_rank_repeats_the_last_hypothesis() -> None:
    document = Document("An. Be. Cat.", "text", reader())
    answers = [answer("An.", "a", "b", "c"), answer("Be.", "d"), answer("Cat.")]
    assert document.translated(answers) == ["a d Cat.", "b d Cat.", "c d Cat."]
    assert Document("\n", "text", reader()).translated([]) == ["\n"]


@pytest.mark.parametrize(
    "mark", [*MARKS, "> ", "- ", "|a", "* a\n", "```\n", "[a]: b\n", "---\n", "a  ", "a\n"]
)
def test_hostile_markdown_takes_no_longer_than_other_markdown(mark: str) -> None:
    started = time.process_time()
    Document(mark * (10_000 // len(mark)), "markdown", reader())
    assert time.process_time() - started < 5
