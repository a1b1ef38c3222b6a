"""Lines of `source<TAB>target`, plain, compressed or in an archive."""

from collections.abc import Iterator

from nmt.corpora.readers.base import PairFile
from nmt.corpora.text_files import open_text
from nmt.errors import DataError
from nmt.types import SentencePair


class TsvReader:
    """Reads the first two tab-separated fields of each line, and ignores further fields."""

    suffixes = (".tsv",)

    def stream(self, file: PairFile) -> Iterator[SentencePair]:
        if file.columns is not None:
            raise DataError(f"{file.path}: columns: the fields of a TSV have no names")
        with open_text(file.path, file.max_bytes) as text:
            for number, line in enumerate(text.lines(), start=1):
                fields = line.split("\t", maxsplit=2)
                if len(fields) < 2:
                    where = f"{text.name}:{number}"
                    got = repr(line if len(line) <= 40 else f"{line[:39]}…")
                    raise DataError(f"{where}: expected source<TAB>target, got one field: {got}")
                yield SentencePair(fields[0], fields[1])
