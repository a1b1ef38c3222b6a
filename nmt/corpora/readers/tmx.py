"""Translation memories (TMX), parsed as a stream by expat."""

from collections.abc import Iterator, Mapping
from itertools import chain
from xml.parsers import expat

from nmt.corpora.languages import find_sides
from nmt.corpora.readers.base import PairFile, join_lines
from nmt.corpora.text_files import open_text
from nmt.errors import DataError
from nmt.types import SentencePair

_MAX_UNIT_BYTES = 4 << 20  # largest number of bytes without the end of a translation unit
_MAX_DEPTH = 50  # largest number of nested elements, since expat keeps open ones in memory


def stream_tmx(file: PairFile) -> Iterator[SentencePair]:
    """Yield pairs of units that have both languages, or both language tags in `columns`.

    If several segments fit, the one with an equal language tag is read, or else the first. The
    content of inline elements is read as text.
    """
    tags: dict[str, None] = {}
    has_pairs = False
    with open_text(file.path, file.max_bytes) as text:
        parser = _UnitParser(text.name)
        for unit in chain.from_iterable(map(parser.parse, chain(text.chunks(), (b"",)))):
            sides = find_sides(tuple(unit), file.columns or file.languages)
            if sides is not None:
                has_pairs = True
                yield SentencePair(*map(unit.__getitem__, sides))
            elif len(tags) < 12:
                tags.update(dict.fromkeys(unit))
        if not has_pairs:
            file.find_columns(list(tags), text.name)


class _UnitParser:
    """Parser of translation units into texts by language tag."""

    def __init__(self, name: str) -> None:
        self._name, self._parser = name, expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._add_text
        self._units: list[Mapping[str, str]] = []
        self._unit: dict[str, str] = {}
        self._text: list[str] | None = None  # of the open segment
        self._tag, self._depth, self._size = "", 0, 0

    def parse(self, chunk: bytes) -> list[Mapping[str, str]]:
        """Return the units that end in a chunk; b"" ends the file. Raises DataError for bad TMX."""
        self._units = []
        try:
            self._parser.Parse(chunk, not chunk)
        except (expat.ExpatError, LookupError) as error:  # LookupError: an unknown encoding
            raise self._error(f"not XML: {str(error).partition(': line')[0]}") from None
        self._size = 0 if self._units else self._size + len(chunk)
        if self._size > _MAX_UNIT_BYTES:
            raise self._error(f"{_MAX_UNIT_BYTES:,} bytes without the end of a translation unit")
        return self._units

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self._name}:{self._parser.CurrentLineNumber}: {problem}")

    def _check_doctype(self, *doctype: object) -> None:
        if doctype[3]:  # an internal subset, which could define entities and attributes
            raise self._error("the DOCTYPE has declarations, allowed: none")

    def _refuse_entity(self, name: str, _is_parameter: int) -> None:
        raise self._error(f"&{name[:40]}; is not an entity of XML")

    def _start(self, element: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"more than {_MAX_DEPTH} nested elements")
        if element == "tu":
            self._unit = {}
        elif element == "tuv":
            self._tag = attributes.get("xml:lang") or attributes.get("lang", "")
            if not self._tag:
                raise self._error("<tuv> without xml:lang")
        elif element == "seg":
            self._text = []

    def _end(self, element: str) -> None:
        self._depth -= 1
        if element == "seg":
            self._unit.setdefault(self._tag, join_lines("".join(self._text or ())))
            self._text = None
        elif element == "tu":
            self._units.append(self._unit)

    def _add_text(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
