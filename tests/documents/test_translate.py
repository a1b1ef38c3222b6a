"""Streams of documents, and texts translated by a small model as its sentences one by one."""

import html
from collections.abc import Iterator
from copy import copy
from itertools import islice

import pytest
from documents.texts import by, reader
from hypothesis import given
from hypothesis import strategies as st
from translation.small import TEXTS, translator_of

import nmt
from nmt.documents.translate import reader_of, translate_lines
from nmt.translation.translator import Translator

SENTENCES = [text for text in TEXTS if text]
LINES = st.lists(st.sampled_from(["", "  ", "One. Two!", "One", " One. Two. Six. ", "***"]))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return translator_of()


@given(LINES)
def test_each_line_is_answered_before_the_next_is_read(lines: list[str]) -> None:
    """With a translator that reads one sentence at a time."""
    events: list[str] = []

    def read() -> Iterator[str]:
        for line in lines:
            events.append(f"read {line}")
            yield line

    for line in translate_lines(by(str), read(), reader()):
        events.append(f"write {line}")
    assert events == [f"{event} {line}" for line in lines for event in ("read", "write")]


@given(LINES, st.integers(1, 9))
def test_no_line_is_lost_whatever_is_read_at_once(lines: list[str], size: int) -> None:
    def translate(sentences: Iterator[str]) -> Iterator:  # type: ignore[type-arg]
        while chunk := list(islice(sentences, size)):
            yield from by(str.upper)(chunk)

    answers = list(translate_lines(translate, lines, reader()))
    assert answers == [line.upper() for line in lines]


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
