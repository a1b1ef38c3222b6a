"""Translate texts and streams of lines, sentence by sentence."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from nmt.documents.document import Document, SentenceReader
from nmt.documents.files import open_document
from nmt.documents.markup import copy_predicate
from nmt.documents.sentences import Splitter
from nmt.names import DocumentFormat
from nmt.translation.translator import Translator
from nmt.types import Translation


def translate_text(translator: Translator, text: str, format: DocumentFormat = "text") -> str:
    """Translate a text of any length by sentences, and keep the text between them unchanged.

    Lines of plain text are never joined. `html`, `markdown`, `srt` (subtitles) and `po` (a message
    catalogue) keep their structure. A sentence with more than `translator.max_pieces` pieces is
    cut. Raises DataError if `text` is not in the format, and ConfigError if a package is missing.

    >>> translate_text(Translator.load("runs/starter"), "I am tired. And you?")  # doctest: +SKIP
    'Je suis fatigué. Et toi ?'
    """
    document = open_document(text, format, reader_of(translator))
    return document.translated(translator.translate_stream(document.sentences))[0]


def reader_of(translator: Translator) -> SentenceReader:
    """Return the reader of sentences in the source language of a translator."""
    tokenizers = translator.tokenizers
    splitter = Splitter(
        translator.languages[0],
        lambda text: len(tokenizers.src.encode(text).ids),
        translator.max_pieces,
    )
    copies = copy_predicate(tokenizers, translator.runs[0].config.data) if translator.runs else None
    return SentenceReader(splitter, tokenizers, copies, translator.glossary)


def translate_lines(
    translate: Callable[[Iterator[str]], Iterator[Translation]],
    lines: Iterable[str],
    reader: SentenceReader,
) -> Iterator[str]:
    """Yield the translation of each line of a plain text.

    `translate` translates a stream of sentences, with an empty one for a line without sentences. If
    it reads one sentence at a time, each line is translated before the next line is read.
    """
    documents: deque[Document] = deque()

    def sentences() -> Iterator[str]:
        for line in lines:
            documents.append(Document(line, "text", reader))
            yield from documents[-1].sentences or [""]

    translations: list[Translation] = []
    for translation in translate(sentences()):
        translations.append(translation)
        if len(translations) >= len(documents[0].sentences):
            yield documents.popleft().translated(translations)[0]
            translations = []
