"""Random documents, and translations of their sentences by a function of the text."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from hypothesis import strategies as st
from translation.small import translator_of

from nmt.documents.document import SentenceReader
from nmt.documents.sentences import Splitter
from nmt.text.sentencepiece_tokenizer import SentencePieceConfig
from nmt.types import Encoded, Hypothesis, TranslatedHypothesis, Translation

_PIECES = (
    SentencePieceConfig(byte_fallback=True),
    SentencePieceConfig(vocab_size=40),
)
_ALL, _SOME = (translator_of(pieces).tokenizers for pieces in _PIECES)
NOTHING = Encoded((), (), (), ())
HYPOTHESIS = Hypothesis((), (), 0.0, np.zeros((0, 1), np.float32), True)

WORDS = ["Hello", "Dr.", "M.", "J. K.", "3.", "19", "e.g.", "end.", "end!", "“Why?”", "(no)"]
WORDS += ["l’été,", "1:", "a;", "so —", "été", "e\u0301", "😀", "你好。", "。", "...", "*"]
WORDS += ["foo.Bar", "\ud800", "\x00", "\u200b", "-", "«", "»", '"', "."]
SPACES = [" ", "  ", "\t", "\xa0", "\u202f", "\u2028", " \x0b", "", "\r", "\x85"]
HTML = ["<b>", "</b>", "<p class='a>b'>", "</p>", "<br/>", "<!-- x -->", "<pre>a. B\n</pre>"]
HTML += ["<script>1 < 2</script>", "&nbsp;", "&eacute;", "&lt;", "&", "<", "<a", "&#9;", "\n"]
HTML += ["\n  "]
MARKDOWN = ["\n", "\n\n", "\n> ", "\n- ", "\n1. ", "\n   ", "\n    ", "# ", "\n===\n", "\n---\n"]
MARKDOWN += ["\n```\n", "|", "\n|-|-|\n", "\\|", "`a. B`", "**", "[x](y)", "[x]: y\n", "<div>"]
MARKDOWN += ["<!--", "\\\n", "  \n", "\r\n", "- [ ] ", "> [!NOTE]\n> ", "\t"]
MARKDOWN += ["\n\n| a | b \\| c |\n|---|---|\n| d | e. F |\n", "---\ntitle: x\n---\n"]
BLOCKS = [mark for mark in MARKDOWN if "|" not in mark or "\n|---" in mark]
MARKS = {
    "text": ["\n", "\n\n", "\r\n"],
    "html": HTML,
    "markdown": MARKDOWN,
    "blocks": BLOCKS,
    "srt": ["\n\n7\n00:00:01,0 --> 00:00:02,0\n", "\n- ", "\n", "<i>", "</i>", "{\\an8}"],
}


def documents(format: str) -> st.SearchStrategy[str]:
    """Texts of words, white space and the marks of a format."""
    part = (
        st.sampled_from(WORDS)
        | st.sampled_from(SPACES)
        | st.sampled_from(MARKS[format])
        | st.text(st.characters(exclude_characters="|"), max_size=3)
    )
    return st.lists(part, max_size=25).map("".join)


def splitter(lang: str = "en", max_pieces: int | None = 6) -> Splitter:
    """A splitter that counts words as pieces."""
    return Splitter(lang, lambda text: len(text.split()), max_pieces)


def reader(lang: str = "en", max_pieces: int | None = 6, reads_all: bool = True) -> SentenceReader:
    """A reader of sentences with this splitter, for a model that reads all characters or a few."""
    return SentenceReader(splitter(lang, max_pieces), _ALL if reads_all else _SOME)


def answer(source: str, *texts: str) -> Translation:
    """A translation with these hypotheses."""
    return Translation(
        source, NOTHING, tuple(TranslatedHypothesis(t, NOTHING, HYPOTHESIS) for t in texts)
    )


def by(change: Callable[[str], str]) -> Callable[[Iterable[str]], Iterator[Translation]]:
    """Return what translates each sentence of a stream by a function."""
    return lambda sentences: (answer(sentence, change(sentence)) for sentence in sentences)
