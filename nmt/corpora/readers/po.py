"""Message catalogues (PO): messages in the language of a program, and their translations."""

import re
from collections.abc import Iterator
from typing import Any

from nmt.corpora.languages import find_language
from nmt.corpora.readers.base import PairFile, join_lines
from nmt.corpora.text_files import open_text
from nmt.errors import ConfigError, DataError, pip_install
from nmt.types import SentencePair

_MAX_LINES = 1000  # largest number of lines of a string or comment: polib takes quadratic time

_STRING = re.compile(r'[^"]*+"(?>(?:[^"\\]|\\.)*)"\s*+')
_KEYWORD = re.compile(r"(#[~|]\s*)?msg")


def stream_po(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of translated messages with their plurals, except fuzzy and obsolete messages.

    The header `Language` tells which side the translations are. Without it, they are the target.
    """
    src, tgt = file.languages
    with open_text(file.path, file.max_bytes) as text:
        content = text.content()
    try:
        catalogue = parse_catalogue(content)
    except (ConfigError, DataError) as error:
        raise DataError(f"{text.name}: {error}") from None
    language = catalogue.metadata.get("Language") or tgt
    side = find_language((tgt, src), language)
    if side is None or file.columns is not None:
        got = "columns" if file.columns else f"the language {language[:40]!a}"
        raise DataError(f"{text.name}: got {got}, allowed: {src} or {tgt}, without columns")
    for entry in catalogue:
        for _, *texts in () if entry.fuzzy or entry.obsolete else forms_of(entry):
            if all(texts):
                message, translation = map(join_lines, texts)
                sides = (message, translation) if side == tgt else (translation, message)
                yield SentencePair(*sides)


class _Lines(str):
    """A text that polib splits only at line feeds, and not at other separators such as U+2028."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def parse_catalogue(text: str) -> Any:
    """Parse a polib.POFile. Raises DataError if `text` is not PO, and ConfigError without polib."""
    try:
        import polib
    except ImportError:
        raise ConfigError(f"message catalogues need polib: {pip_install('files')}") from None
    n_lines = 0
    for number, line in enumerate(text.split("\n"), start=1):
        n_lines = 0 if _KEYWORD.match(line) else n_lines + bool(line.strip())
        if n_lines > _MAX_LINES:
            raise DataError(f"line {number}: a string or comment of more than {_MAX_LINES} lines")
        if not line.startswith("#") and '"' in line and not _STRING.fullmatch(line):
            raise DataError(f"line {number}: expected one string in quotation marks")
    text = re.sub("^#,(?=[^ \n])", "#, ", text, flags=re.MULTILINE)  # polib needs the space
    try:
        return polib.pofile(_Lines(f"{text}\n"))  # a single line might be the name of a file
    except (OSError, ValueError) as error:
        raise DataError(f"not a message catalogue (PO): {error}") from None


def forms_of(entry: Any) -> Iterator[tuple[int | None, str, str]]:
    """Yield (index, source, translation) of each plural form, or of the only form (index None)."""
    forms = entry.msgstr_plural or {None: entry.msgstr}
    for index, translation in forms.items():
        is_singular = index is None or (index == 0 and len(forms) > 1)
        yield index, entry.msgid if is_singular else entry.msgid_plural, translation
