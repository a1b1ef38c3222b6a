"""The file of a shortlist: which target pieces the pieces of a source are translated by."""

from collections import Counter
from pathlib import Path

from nmt.corpora.text_files import stream_lines
from nmt.errors import DataError
from nmt.search.shortlist import Shortlist
from nmt.text.tokenizer import Tokenizers
from nmt.text.vocabulary import UNK_ID
from nmt.types import FilePath

FREQUENT = 200
"""Target pieces that every translation may have, the most frequent ones."""


def read_shortlist(path: FilePath, tokenizers: Tokenizers, frequent: int = FREQUENT) -> Shortlist:
    """Read the links of pieces that `nmt lexicon --pieces` writes.

    A line is a source piece, a target piece, a probability and a count, separated by tabs. A piece
    of both vocabularies may translate itself. Lines with pieces that the vocabularies lack are
    skipped. Raises DataError (file:line) for a line of another form.
    """
    src, tgt = tokenizers.src.vocab, tokenizers.tgt.vocab
    translations: dict[int, list[int]] = {}
    for id_, piece in enumerate(src.pieces):
        identical = tgt.id_of(piece)
        translations[id_] = [] if identical == UNK_ID else [identical]
    counts: Counter[int] = Counter()
    for number, line in enumerate(stream_lines(Path(path)), start=1):
        fields = line.split("\t")
        if len(fields) != 4 or not fields[3].isdecimal():
            raise DataError(
                f"{path}:{number}: got {line[:40]!r}, "
                "allowed: source piece<TAB>target piece<TAB>probability<TAB>count"
            )
        source, target = src.id_of(fields[0]), tgt.id_of(fields[1])
        if UNK_ID not in (source, target):
            translations[source].append(target)
            counts[target] += int(fields[3])
    most_frequent = [id_ for id_, _ in counts.most_common(frequent)]
    return Shortlist(translations, most_frequent, len(src), len(tgt))
