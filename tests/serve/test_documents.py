"""HTML as sentences and markup: nothing is lost, and time grows with the length."""

import time

import pytest

from nmt.serve.documents import Document

MARKS = ("<a b=", "<a ", "<![", "<?", "<script>", "<!--", "</", "<a b='", '<a b="', "<style ")
MARKS = (*MARKS, "<", "&#", "&#9", "<a>", "<!-->", "<a =", "&amp", "</script", " ")


@pytest.mark.parametrize("mark", MARKS)
def test_hostile_html_takes_no_longer_than_other_html(mark: str) -> None:
    started = time.process_time()
    Document(mark * (50_000 // len(mark)), "html")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("a <b>c</b> d", ["a", "c", "d"]),
        ("<p>a < b</p>", ["a < b"]),
        ("<a href='x>y'>c</a>", ["c"]),
        ("<a b'>c</a>", ["c"]),
        ("<SCRIPT src='</script>'>x</Script >t", ["t"]),
        ("<scripty>a</scripty>", ["a"]),
        ("<!-- <b>x</b> -->t<!DOCTYPE html>u<?x y?>v", ["t", "u", "v"]),
        ("t <!-- <b>x</b>", ["t"]),
        ("t <a b='> u", ["t"]),
        ("<style>x</p>t", []),
        ("&nbsp;", []),
        ("&lt;b&gt; &#xe9;&eacute;", ["<b> éé"]),
        ("x &#" + "9" * 5000 + "; y", ["x \ufffd y"]),
    ],
)
def test_sentences_are_what_stands_between_markup(text: str, sentences: list[str]) -> None:
    assert Document(text, "html").sentences == sentences


@pytest.mark.parametrize("text", ["<A b='>'>x</A ><br/>y<!-- z -->\n<script>1 < 2</script> <x", ""])
def test_all_of_html_stays(text: str) -> None:
    assert "".join(part.text for part in Document(text, "html").parts) == text
