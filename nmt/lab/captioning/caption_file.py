"""Captions of image files: `image<TAB>caption` a line, or Flickr8k's `image,caption`."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.data.text_files import stream_lines
from nmt.errors import DataError, counted, did_you_mean

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_CSV_HEADER = "image,caption"
_NUMBER = re.compile(r"#\d+$")  # `photo.jpg#0` in Flickr8k.token.txt: the caption's number


@dataclass(frozen=True)
class CaptionedImage:
    """An image file and all of its captions, as their file has them."""

    path: Path
    captions: tuple[str, ...]


def read_captions(images: Path, captions: Path) -> list[CaptionedImage]:
    """The images of a folder, in the order of their names, with their captions.

    A line of the file `captions` is the image's path inside the folder, a tab and one caption; an
    image may have several lines. A file whose first line is `image,caption` is a CSV of these.
    Raises DataError for a line of another form, without a caption or about an image that is not
    there, and for an image without a caption.
    """
    known = _images_in(images)
    found: dict[str, list[str]] = {}
    for number, name, caption in _rows(captions):
        where = f"{captions}:{number}"
        if name not in known:
            hint = did_you_mean(name, known)
            raise DataError(f"{where}: no image '{name}' in {images}{hint}")
        if not caption.strip():
            raise DataError(f"{where}: '{name}' has an empty caption")
        found.setdefault(name, []).append(caption)
    without = sorted(known - found.keys())
    if without:
        raise DataError(
            f"{images / without[0]}: no caption in {captions}; each image needs one "
            f"({counted(len(without), 'image')} of {len(known):,} without)"
        )
    return [CaptionedImage(images / name, tuple(found[name])) for name in sorted(found)]


def _images_in(folder: Path) -> set[str]:
    """The image files in a folder and those inside it, by their paths there."""
    if not folder.is_dir():
        why = "not a folder" if folder.exists() else "no such folder"
        raise DataError(f"{folder}: {why}; allowed: a folder of images")
    files = (file for file in folder.rglob("*") if file.suffix.lower() in _SUFFIXES)
    names = {file.relative_to(folder).as_posix() for file in files}
    if not names:
        raise DataError(f"{folder}: no image in it; allowed: {', '.join(_SUFFIXES)}")
    return names


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, image and caption of every line."""
    lines = stream_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path}: no captions in it")
    if first.strip() == _CSV_HEADER:
        yield from _csv_rows(lines, path)
        return
    for number, line in enumerate([first, *lines], start=1):
        if not line.strip():
            continue
        name, tab, caption = line.partition("\t")
        if not tab:
            raise DataError(f"{path}:{number}: got no tab, allowed: image<TAB>caption")
        yield number, _NUMBER.sub("", name), caption


def _csv_rows(lines: Iterable[str], path: Path) -> Iterator[tuple[int, str, str]]:
    """The rows below the header of a CSV."""
    reader = csv.reader(lines)
    try:
        for row in reader:
            number = reader.line_num + 1
            if row and len(row) != 2:
                raise DataError(f"{path}:{number}: got {len(row)} columns, allowed: {_CSV_HEADER}")
            if row:
                yield number, row[0], row[1]
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num + 1}: {error}") from None
