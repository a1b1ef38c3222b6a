"""Headers of the pages of a parquet file: what each page unpacks to, read before any is unpacked.

The sizes in the file's metadata bind nobody: a reader allocates what the header of a page says.
The headers are structs in Thrift's compact protocol, https://parquet.apache.org/docs/file-format/.
"""

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

from nmt.text.sentencepiece_model import varint

_TYPE, _UNPACKED, _PACKED, _DATA, _DATA_V2 = 1, 2, 3, 5, 8
"""Fields of a page's header."""

_ENCODING = {_DATA: 2, _DATA_V2: 4}
"""The field of the encoding in the headers of data pages."""

_DICTIONARY, _DELTA_BYTE_ARRAY = 2, 7
"""A type of page, and an encoding, of whose text a few bytes may repeat any part."""

_MAX_DEPTH = 4
Struct = dict[int, Any]
Content = bytes | mmap.mmap


class Page(NamedTuple):
    """The size of a page once it is unpacked, and whether values may repeat its text."""

    n_bytes: int
    is_repeated: bool


def pages(content: Content, start: int, end: int) -> Iterator[Page]:
    """The pages between two places of a file. Raises ValueError or IndexError for bad headers."""
    while start < end:
        header, start = _struct(content, start, _MAX_DEPTH)
        unpacked, packed = header.get(_UNPACKED), header.get(_PACKED)
        if not (isinstance(unpacked, int) and isinstance(packed, int) and unpacked >= 0 <= packed):
            raise ValueError("a page without a size")
        data = ((header.get(kind), field) for kind, field in _ENCODING.items())
        encodings = [inner.get(field) for inner, field in data if isinstance(inner, dict)]
        is_repeated = header.get(_TYPE) == _DICTIONARY or _DELTA_BYTE_ARRAY in encodings
        yield Page(unpacked, is_repeated)
        start += packed


def _struct(content: Content, at: int, depth: int) -> tuple[Struct, int]:
    """The numbers and structs of a struct, by field, and the place after it."""
    values: Struct = {}
    field = 0
    while head := content[at]:
        at += 1
        if head >> 4:
            field += head >> 4
        else:
            field, at = _signed(content, at)
        match head & 15:
            case 1 | 2:  # a truth value
                pass
            case 4 | 5 | 6:
                values[field], at = _signed(content, at)
            case 8:  # text
                size, at = varint(content, at)
                at += size
            case 12 if depth:
                values[field], at = _struct(content, at, depth - 1)
            case kind:
                raise ValueError(f"a page's header with a field of type {kind}")
    return values, at + 1


def _signed(content: Content, at: int) -> tuple[int, int]:
    number, at = varint(content, at)
    return number >> 1 ^ -(number & 1), at
