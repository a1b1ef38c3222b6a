"""Documents as sentences and what stands between them: nothing is lost, altered or doubled."""

import html
import re
import time
from collections.abc import Iterator
from copy import copy
from itertools import islice

import pytest
from documents.texts import answer, by, documents, reader, splitter
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from translation.small import TEXTS, translator_of

import nmt
from nmt.documents.document import Document
from nmt.documents.translate import reader_of, translate_lines
from nmt.translation.translator import Translator

IMAGE = "<img alt='Dr. A. Be. Cat. Dog. Eh. Fan. Go. He. I. Jay.'>"
TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"


def sentences(text: str, format: str) -> list[str]:
    return Document(text, format, reader(max_pieces=None)).sentences


def translated(text: str, format: str, *texts: str) -> str:
    """The document with these translations of its sentences."""
    document = Document(text, format, reader(max_pieces=None))
    pairs = zip(document.sentences, texts, strict=True)
    return document.translated(answer(sentence, text) for sentence, text in pairs)[0]


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(["text", "html", "markdown", "srt"]),
    st.data(),
    st.sampled_from(["en", "fr", "de"]),
    st.booleans(),
)
def test_every_document_is_joined_as_it_was(format, data, lang, reads_all) -> None:
    text = (TIMES if format == "srt" else "") + data.draw(documents(format))
    document = Document(text, format, reader(lang, reads_all=reads_all))
    assert "".join(part.text for part in document.parts) == text
    for translate in (by(str), lambda texts: map(answer, texts)):  # the same text; no hypothesis
        assert document.translated(translate(document.sentences)) == [text]
    marks = [chr(0x1E00 + i) for i in range(len(document.sentences))]
    places = zip(document.sentences, marks, strict=True)
    [joined] = document.translated(answer(text, f"\u02b0{mark}\u02b1") for text, mark in places)
    assert re.findall("\u02b0(.)\u02b1", joined) == marks
    if all(part.source in (None, part.text) for part in document.parts):  # without inline markup
        unchanged = "".join(part.text for part in document.parts if part.source is None)
        assert re.sub("\u02b0.\u02b1", "", joined) == unchanged
    if format == "text":
        assert joined.count("\n") == text.count("\n")


@settings(max_examples=300, deadline=None)
@given(documents("blocks"))
@example("Hello\n\ud800<!--")
@example("Hello*\ud800`a. B`Hello")
def test_blocks_of_markdown_survive(text) -> None:
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    document = Document(text, "markdown", reader())
    [other] = document.translated(by(lambda _: "ein Wort")(document.sentences))
    assert [token.type for token in parser.parse(other)] == [t.type for t in parser.parse(text)]


MARKS = ("<a b=", "<a ", "<![", "<?", "<script>", "<!--", "</", "<a b='", '<a b="', "<style ")
MARKS = (*MARKS, "<", "&#", "&#9", "<a>", "<!-->", "<a =", "&amp", "</script", " ")
HOSTILE = [*(("html", mark, 50_000, 2) for mark in MARKS)]
HOSTILE += [("markdown", mark, 10_000, 5) for mark in (*MARKS, "> ", "- ", "|a", "* a\n", "```\n")]
HOSTILE += [("markdown", mark, 10_000, 5) for mark in ("[a]: b\n", "---\n", "a  ", "a\n")]


@pytest.mark.parametrize(("format", "mark", "size", "seconds"), HOSTILE)
def test_hostile_text_takes_no_longer_than_other_text(format, mark, size, seconds) -> None:
    started = time.process_time()
    Document(mark * (size // len(mark)), format, reader())
    assert time.process_time() - started < seconds


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("text", "At bee. Cat d!\n\n e\t \n*** 5", ["At bee.", "Cat d!", "e"]),
        ("markdown", "---\na: B\n---\n# A *b* #\n\nC\n===\n", ["A b", "C"]),
        ("markdown", "\ufeff---\na: B\n---\n# A", ["A"]),
        ("markdown", "> d\n> eh. F\ng", ["d eh.", "F g"]),
        ("markdown", "- [ ] a\n  b\n- c\n\n      d\n\n```\ne\n```\n<p>f</p>\n", ["a b", "c"]),
        ("markdown", "|a | b \\| c|\n|--|:-:|\n| a | `d`|\n\n[x]: y\n", ["a", "b | c", "a"]),
        ("markdown", "> [!NOTE]\n> a\\\n> b\r\n\r\n1. 1\r\n", ["a b"]),
        ("html", "a <b>c</b> d<br>e <i>f", ["a c d", "e f"]),
        ("html", "<a href='x>y'>c</a>", ["c"]),
        ("html", "<SCRIPT src='</script>'>x</Script >t", ["t"]),
        ("html", "<!-- <b>x</b> -->t<!DOCTYPE html>u<?x y?>v", ["t u v"]),
        ("html", "t <a b='> u", ["t <a b='> u"]),
        ("html", "t <p b='> u", ["t"]),
        ("html", "<style>x</p>t", []),
        ("html", "&lt;b&gt; &#xe9;&eacute;", ["<b> éé"]),
        ("html", "x &#" + "9" * 5000 + "; y", ["x &#" + "9" * 5000 + "; y"]),
        ("html", "<p>A\n  bee.&nbsp; C&#160;d</p><pre>e <b>f</b></pre>", ["A bee.", "C\xa0d"]),
        ("srt", f"\ufeff{TIMES}A b.", ["A b."]),
        ("srt", f"{TIMES}- A b.\n- C\nd\n{{\\an8}}<i>e\nf</i>\n♪ ♪\n", ["A b.", "C d", "e f"]),
    ],
)
def test_sentences_of_a_format(format, text, expected) -> None:
    assert sentences(text, format) == expected


@pytest.mark.parametrize(
    ("format", "text", "texts", "expected"),
    [
        ("text", "\ufeffa", ["b"], "\ufeffb"),
        ("text", " An.  B\r\n", ["c\u202f!", "d"], " c\u202f!  d\r\n"),
        ("html", "a &lt; b", ["c < d & e"], "c &lt; d &amp; e"),
        ("html", f"&nbsp;An. &nbsp;{IMAGE}Be.", ["c", "d"], f"&nbsp;c &nbsp;{IMAGE}d"),
        ("markdown", f"+++\nA\n+++\n# An. {IMAGE}Be.", ["c", "d"], f"+++\nA\n+++\n# c {IMAGE}d"),
        ("markdown", "> a b\n> cat.\n> Dog\n", ["o t three.", "E"], "> o t\n> three.\n> E\n"),
        ("markdown", "a b\nc d e", ["x - y"], "x -\ny"),
        ("markdown", "a b\nc d", ["x yy 1. z"], "x\nyy 1. z"),
        ("markdown", "|a|\n|-|\n|b|", ["x|y", "z"], "|x\\|y|\n|-|\n|z|"),
        ("srt", f"{TIMES}A long line\nshort", ["un deux trois un"], f"{TIMES}un deux trois\nun"),
        ("srt", f"{TIMES}a\nb c", ["x - y z"], f"{TIMES}x -\ny z"),
        ("srt", f"{TIMES}- a\n- b", ["c", "d"], f"{TIMES}- c\n- d"),
    ],
)
def test_translations_take_the_form_of_the_source(format, text, texts, expected) -> None:
    assert translated(text, format, *texts) == expected


def test_a_text_of_each_rank_repeats_the_last_hypothesis() -> None:
    document = Document("An. Be. Cat.", "text", reader())
    answers = answer("An.", "a", "b", "c"), answer("Be.", "d"), answer("Cat.")
    assert document.translated(answers) == ["a d Cat.", "b d Cat.", "c d Cat."]
    assert Document("\n", "text", reader()).translated([]) == ["\n"]


SENTENCES = [text for text in TEXTS if text]
LINES = st.lists(st.sampled_from(["", "  ", "One. Two!", "One", " One. Two. Six. ", "***"]))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@given(LINES)
def test_each_line_is_answered_before_the_next_is_read(lines: list[str]) -> None:
    """With a translator that reads one sentence at a time."""
    events: list[str] = []
    reading = (events.append(f"read {line}") or line for line in lines)
    for line in translate_lines(by(str), reading, reader()):
        events.append(f"write {line}")
    assert events == [f"{event} {line}" for line in lines for event in ("read", "write")]


@given(LINES, st.integers(1, 9))
def test_no_line_is_lost_whatever_is_read_at_once(lines: list[str], size: int) -> None:
    def translate(sentences: Iterator[str]) -> Iterator:  # type: ignore[type-arg]
        while chunk := list(islice(sentences, size)):
            yield from by(str.upper)(chunk)

    assert [*translate_lines(translate, lines, reader())] == [line.upper() for line in lines]


def test_a_text_is_its_sentences(translator: Translator) -> None:
    first, second, *others = (h.text for h in translator.translate(SENTENCES))
    text = f"{SENTENCES[0]}  {SENTENCES[1]}\n\n\t{SENTENCES[2]}"
    assert nmt.translate_text(translator, text) == f"{first}  {second}\n\n\t{others[0]}"
    text = f"<p>{SENTENCES[0]}\n  {SENTENCES[1]}</p>"
    first, second = (html.escape(text, quote=False) for text in (first, second))
    assert nmt.translate_text(translator, text, "html") == f"<p>{first}\n  {second}</p>"
    assert nmt.translate_text(translator, "") == ""


def test_sentences_are_cut_at_the_limit_of_the_training(translator: Translator) -> None:
    short = copy(translator)
    short.max_pieces = 20
    parts = reader_of(short).splitter.split(
        "The garden is here, the cats see the dogs; he sees two of them."
    )
    assert parts == ["The garden is here, ", "the cats see the dogs; ", "he sees two of them."]
    assert reader_of(translator).splitter.split("".join(parts)) == ["".join(parts)]


LANGS = st.sampled_from(["en", "fr", "de", "ja", "ru", "hi", "x y", ""])


@settings(max_examples=500, deadline=None)
@given(documents("text") | st.text(), LANGS, st.integers(0, 9))
def test_sentences_joined_are_the_text(text: str, lang: str, limit: int) -> None:
    for sentence in (sentences := splitter(lang, limit).split(text)):
        assert len(sentence.split()) <= max(1, limit)
    assert "".join(sentences) == text
    assert all(sentences)


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("en", "Mr. Fox met Dr. Lee at 3 p.m. on Friday!  |“Hello.” |She left."),
        ("en", "Node.JS isn't Foo.Bar. |See www.example.COM now. |It helps me. |Or us."),
        ("en", "J.\u00a0Smith is here.\u2009|Is he?\u2028|Yes."),
        ("fr", "Il voit M. Dupont et A. Martin.\u00a0|« Bonjour. » dit-il."),
        ("fr", "Oui. |Av. J.-C. il y eut ? |"),
        ("de", "Am 3. Mai kam Dr. Müller z. B. nach Berlin. |Im 19. Jahrhundert."),
        ("ja", "私は猫です。|名前はまだない。"),
    ],
)
def test_sentences_of_a_language(lang: str, text: str) -> None:
    """A bar stands where a sentence ends."""
    sentences = [sentence for sentence in text.split("|") if sentence]
    assert splitter(lang, None).split("".join(sentences)) == sentences


@pytest.mark.parametrize(
    ("limit", "parts"),
    [
        (5, ["It was late (he said). ", "So he left."]),
        (3, ["one two; ", "three, four: ", "five six"]),
        (3, ["one two — ", "three - ", "four 5-6"]),
        (3, ["one two, ", "three four"]),
        (1, ["12:30;a,b"]),
        (0, ["one ", "two"]),
    ],
)
def test_a_long_sentence_is_cut_between_clauses(limit: int, parts: list[str]) -> None:
    assert list(splitter("en", limit)._cut("".join(parts))) == parts


def test_a_long_line_is_split_like_a_short_one() -> None:
    sentences = [f"{'A word ' * (n % 90)}{n} is the end. " for n in range(400)]
    assert splitter("en", None).split("".join(sentences)) == sentences
    word = "x" * 10_000
    assert "".join(splitter("en", 5).split(f"{word} A b. {word}")) == f"{word} A b. {word}"


@pytest.mark.parametrize("mark", ["«", "“a. ", "A. ", "1. ", "a. ", "; ", "a ", "\u00a0", '". '])
def test_time_grows_with_the_length_only(mark: str) -> None:
    started = time.process_time()
    splitter("fr", 50).split(mark * (100_000 // len(mark)))
    assert time.process_time() - started < 10
