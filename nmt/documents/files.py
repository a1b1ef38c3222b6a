"""The format of a document from its file name, and message catalogues (PO)."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from nmt.corpora.readers.po import forms_of, parse_catalogue
from nmt.corpora.text_files import has_crlf
from nmt.documents.document import Document, SentenceReader
from nmt.errors import DataError
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
    """Return the format for the ending of a path, or `text` if the ending is not known."""
    return _ENDINGS.get(path.suffix.lower(), "text")


def open_document(
    text: str, format: DocumentFormat, reader: SentenceReader, name: str | None = None
) -> "Document | MessageCatalogue":
    """Parse `text`, the content of a document in the given format.

    Raises DataError, which begins with `name`, if `text` is not in this format. Raises ConfigError
    if a package of the optional dependencies `files` is missing.
    """
    try:
        return MessageCatalogue(text, reader) if format == "po" else Document(text, format, reader)
    except DataError as error:
        raise error if name is None else DataError(f"{name}: {error}") from None


class MessageCatalogue:
    """A message catalogue (PO). Messages without a translation get one, and are marked as fuzzy.

    The rest is unchanged, except that polib may break the lines of long strings differently.
    """

    def __init__(self, text: str, reader: SentenceReader) -> None:
        self._text, self._file = text, parse_catalogue(text)
        self._messages: list[tuple[Document, Any, int | None]] = []
        for entry in self._file:
            for index, source, translation in () if entry.obsolete else forms_of(entry):
                if not translation:
                    self._messages.append((Document(source, "text", reader), entry, index))

    @property
    def sentences(self) -> list[str]:
        """The sentences of the untranslated messages, in order."""
        return [sentence for message, *_ in self._messages for sentence in message.sentences]

    def translated(self, translations: Iterable[Translation]) -> list[str]:
        """Return the catalogue with the best translation of each sentence, as the only item."""
        if not self._messages:
            return [self._text]
        remaining = iter(translations)
        for message, entry, index in self._messages:
            text = message.translated(islice(remaining, len(message.sentences)))[0]
            if index is None:
                entry.msgstr = text
            else:
                entry.msgstr_plural[index] = text
            entry.fuzzy = True
        content = str(self._file)
        if self._file.metadata_is_fuzzy == 0:  # not the flags of a header: polib adds an empty one
            content = content.replace('\nmsgid ""\nmsgstr ""\n', "\n", 1).removeprefix("#\n\n")
        content = content.removeprefix("" if self._text.startswith("#") else "#\n")
        return [content.replace("\n", "\r\n") if has_crlf(self._text) else content]
