"""Check a file against the checksums of the catalogue."""

import gzip
import tarfile
import zipfile
from pathlib import Path

from nmt.data.entries import Source
from nmt.errors import DataError
from nmt.storage.atomic import digest


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
