"""Vocabularies, which map pieces to ids and back. Ids 0 to 3 are the four RESERVED pieces."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from nmt.errors import DataError

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
RESERVED = ("<pad>", "<unk>", "<s>", "</s>")

MAX_SIZE = 1_000_000  # pieces in a vocabulary, which then takes half a gigabyte of memory


@dataclass(frozen=True)
class Vocab:
    """Pieces by id. Raises DataError unless RESERVED come first and all pieces differ."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        first = self.pieces[: len(RESERVED)]
        if first != RESERVED:
            start, got = " ".join(RESERVED), " ".join(first)
            raise DataError(f"a vocabulary begins with {start}, this one with {got!r}")
        if len(self._ids) != len(self.pieces):
            piece = next(p for i, p in enumerate(self.pieces) if self._ids[p] != i)
            raise DataError(f"a vocabulary has each piece once, this one has {piece!r} twice")

    @classmethod
    def of(cls, pieces: Iterable[str]) -> "Vocab":
        return cls(RESERVED + tuple(pieces))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    def id_of(self, piece: str) -> int:
        """Return the id of `piece`, or UNK_ID if it is unknown."""
        return self._ids.get(piece, UNK_ID)

    def real_ids(self, ids: Iterable[int]) -> list[int]:
        """Return `ids` without pad, bos and eos. Ids beyond the vocabulary become UNK_ID."""
        size = len(self.pieces)  # an embedding table may have extra rows
        return [i if i < size else UNK_ID for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID)]

    def piece_of(self, id_: int) -> str:
        """Return the piece of an id, or `<unk>` if the id is not in the vocabulary."""
        return self.pieces[id_ if 0 <= id_ < len(self.pieces) else UNK_ID]
