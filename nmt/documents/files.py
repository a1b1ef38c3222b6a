"""Files by their ending: HTML, Markdown, subtitles (SRT) and message catalogues (PO)."""

import importlib
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.documents.document import Document
from nmt.documents.sentences import Splitter
from nmt.errors import ConfigError, DataError, pip_install
from nmt.names import DocumentFormat
from nmt.types import Translation

_ENDINGS: dict[str, DocumentFormat] = {
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "srt",
    ".po": "po",
    ".pot": "po",
}


def format_of(path: Path) -> DocumentFormat:
    """Return the format that the ending of a path says; `text` for any other ending."""
    return _ENDINGS.get(path.suffix.lower(), "text")


class EntryFile:
    """A file of texts, each a Document. `compose` returns the file with their translations."""

    def __init__(self, documents: list[Document], compose: Callable[[list[str]], str]) -> None:
        self._documents, self._compose = documents, compose

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of all texts as the model reads them, in order."""
        return [sentence for document in self._documents for sentence in document.sentences]

    def translated(self, translations: Iterable[Translation]) -> list[str]:
        """Return the file with the best translation of each sentence, as the only item."""
        remaining = iter(translations)
        texts = [
            document.translated(islice(remaining, len(document.sentences)))[0]
            for document in self._documents
        ]
        return [self._compose(texts)]


def open_document(text: str, format: DocumentFormat, splitter: Splitter) -> Document | EntryFile:
    """Return the document whose content in the given format is `text`.

    Raises DataError if `text` is not in this format, and ConfigError without the extra `files`.
    """
    if format == "srt":
        return _subtitles(text, splitter)
    if format == "po":
        return _catalogue(text, splitter)
    return Document(text, format, splitter)


def _subtitles(text: str, splitter: Splitter) -> EntryFile:
    """Return the captions of a film. Their numbers and times stay, and so do their line breaks."""
    srt = _library("srt")
    try:
        captions = list(srt.parse(text))
    except (srt.SRTParseError, srt.TimestampParseError, ValueError) as error:
        raise DataError(f"not a file of subtitles (SRT): {str(error).splitlines()[0]}") from None

    def compose(texts: list[str]) -> str:
        for caption, content in zip(captions, texts, strict=True):
            caption.content = content
        line_end = "\r\n" if "\r\n" in text else "\n"
        result: str = srt.compose(captions, reindex=False, strict=False, eol=line_end)
        return result

    return EntryFile([Document(c.content, "caption", splitter) for c in captions], compose)


def _catalogue(text: str, splitter: Splitter) -> EntryFile:
    """Return the messages of a catalogue that have no translation. They will be marked fuzzy."""
    polib = _library("polib")
    try:
        catalogue = polib.pofile(f"{text}\n")  # a text in one line might be the name of a file
    except (OSError, ValueError) as error:
        raise DataError(f"not a message catalogue (PO): {error}") from None
    places: list[tuple[Any, int | None]] = []
    sources = []
    for entry in catalogue:
        plurals = entry.msgstr_plural
        if entry.obsolete:
            continue
        for index in plurals or [None]:
            if not (entry.msgstr if index is None else plurals[index]):
                is_singular = index is None or (index == 0 and len(plurals) > 1)
                places.append((entry, index))
                sources.append(entry.msgid if is_singular else entry.msgid_plural)

    def compose(texts: list[str]) -> str:
        for (entry, index), message in zip(places, texts, strict=True):
            if index is None:
                entry.msgstr = message
            else:
                entry.msgstr_plural[index] = message
            entry.fuzzy = True
        return str(catalogue)

    return EntryFile([Document(source, "text", splitter) for source in sources], compose)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(f"this format needs {name}: {pip_install('files')}") from None
