"""Translation memories (TMX), parsed as a stream by expat."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from xml.parsers import expat

from nmt.corpora.languages import find_language
from nmt.corpora.readers.base import PairFile, one_line
from nmt.corpora.text_files import MAX_LINE_BYTES, open_text
from nmt.errors import DataError
from nmt.types import SentencePair

_MAX_DEPTH = 50
"""Largest number of nested elements. expat keeps each open one in memory."""

_VARIANT_BYTES = 64
"""Bytes that a segment adds to its text in the size of a unit."""


class TmxReader:
    """Reads the units that have a segment in both languages.

    `columns` names other language tags. Of several segments of a language in a unit, the first with
    the very tag of the config is read, or else the first. The content of inline elements is text.
    """

    suffixes = (".tmx",)

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        languages = file.columns or file.languages
        seen: dict[str, None] = {}
        is_empty = True
        with open_text(file.path, file.max_bytes) as text:
            for unit in _UnitParser(text.name).parse(text.chunks()):
                src, tgt = (find_language(unit, lang) for lang in languages)
                if src is not None and tgt is not None and src != tgt:
                    is_empty = False
                    yield SentencePair(unit[src], unit[tgt])
                elif len(seen) < 12:
                    seen.update(dict.fromkeys(unit))
        if is_empty:
            raise DataError(
                f"{file.path}: no translation unit in {' and '.join(languages)}; it has "
                f"{', '.join(tag[:40] for tag in list(seen)[:12]) or 'no languages'}"
            )


class _UnitParser:
    """Parses translation units into texts by language tag."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._check_doctype
        parser.SkippedEntityHandler = self._refuse_entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        self._units: list[Mapping[str, str]] = []
        self._unit: dict[str, str] = {}
        self._tag = ""
        self._text: list[str] | None = None  # of the open <seg>
        self._depth = self._size = 0

    def parse(self, chunks: Iterable[bytes]) -> Iterator[Mapping[str, str]]:
        """Yield the units. Raises DataError (file:line) at a fault."""
        n_bytes = 0
        for chunk in chain(chunks, (b"",)):
            n_bytes += len(chunk)
            try:
                self._parser.Parse(chunk, not chunk)
            except (expat.ExpatError, LookupError) as error:  # LookupError: an unknown encoding
                reason = str(error).partition(": line")[0]
                raise self._error(f"not XML: {reason}") from None
            if n_bytes - self._parser.CurrentByteIndex > MAX_LINE_BYTES:
                raise self._error(f"markup of more than {MAX_LINE_BYTES:,} bytes")
            yield from self._units
            self._units.clear()

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self._name}:{self._parser.CurrentLineNumber}: {problem}")

    def _check_doctype(self, _root: str, _system: str, _public: str, has_subset: int) -> None:
        if has_subset:
            raise self._error("declares entities or attributes, allowed: the name of a DTD")

    def _refuse_entity(self, name: str, _is_parameter: int) -> None:
        raise self._error(f"&{name[:40]}; is not defined, allowed: the entities of XML")

    def _start(self, element: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} nested elements")
        if element == "tu":
            self._unit, self._size = {}, 0
        elif element == "tuv":
            self._tag = attributes.get("xml:lang") or attributes.get("lang", "")
            if not self._tag:
                raise self._error("<tuv> without xml:lang")
            self._grow(_VARIANT_BYTES + len(self._tag))
        elif element == "seg" and self._text is None:
            self._text = []

    def _end(self, element: str) -> None:
        self._depth -= 1
        if element == "seg" and self._text is not None:
            self._unit.setdefault(self._tag, one_line("".join(self._text)))
            self._text = None
        elif element == "tu":
            self._units.append(self._unit)

    def _add_text(self, text: str) -> None:
        if self._text is not None:
            self._grow(len(text))
            self._text.append(text)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_LINE_BYTES:
            raise self._error(f"a unit of more than {MAX_LINE_BYTES:,} characters")
