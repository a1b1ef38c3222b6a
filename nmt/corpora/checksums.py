"""Checksums of corpus files, computed and as the catalogue states them."""

import functools
import gzip
import tarfile
import zipfile
from pathlib import Path

from nmt.corpora.entries import Source
from nmt.errors import DataError
from nmt.storage.atomic import digest


def file_digest(path: Path) -> str:
    """Return the sha256 of a regular file, in hexadecimal. Raises DataError if it is not readable.

    A process reads a file again only if its size or one of its times is another.
    """
    try:
        status = path.stat()
        return _digest(path.absolute(), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


@functools.lru_cache
def _digest(path: Path, *_: int) -> str:
    return digest(path)


def verify(path: Path, sources: tuple[Source, ...], shown: str | None = None) -> Source:
    """The source whose checksum `path` has, else the first source without a checksum.

    A file without a checksum must at least be of the kind that its name says: an error page may be
    saved as .zip. Raises DataError, which names the file by `shown`, with got and allowed.
    """
    shown = shown or str(path)
    for source in sources:
        if source.checked and all(
            digest(path, kind) == wanted for kind, wanted in source.checksums.items()
        ):
            return source
    loose = [source for source in sources if not source.checked]
    if not loose:
        wanted = [f"{s.name}: {next(iter(s.checksums.values()))}" for s in sources]
        kind = next(iter(sources[0].checksums))
        raise DataError(
            f"{shown}: wrong checksum: {kind} {digest(path, kind)}, allowed {', '.join(wanted)}"
        )
    name = path.name.removesuffix(".part").lower()
    if name.endswith(".zip") and not zipfile.is_zipfile(path):
        raise DataError(f"{shown}: not a zip file")
    if name.endswith(".tar") and not tarfile.is_tarfile(path):
        raise DataError(f"{shown}: not a tar file")
    if name.endswith((".gz", ".tgz")):
        try:
            with gzip.open(path) as file:
                file.read(1)
        except (OSError, EOFError):
            raise DataError(f"{shown}: not a gzip file") from None
    return loose[0]
