"""The vocabulary: which piece has which id. Ids 0 to 3 are reserved in every vocabulary."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from nmt.errors import DataError

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
RESERVED = ("<pad>", "<unk>", "<s>", "</s>")
NO_SURFACES: Mapping[int, str] = MappingProxyType({})
"""Every piece reads as the vocabulary has it (Tokenizer.decode)."""

MAX_SIZE = 1_000_000
"""Pieces of a vocabulary at most: it takes half a gigabyte."""


@dataclass(frozen=True)
class Vocab:
    """The pieces by id, the reserved four first, none twice; else DataError."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pieces[: len(RESERVED)] != RESERVED:
            raise DataError(
                f"a vocabulary begins with {' '.join(RESERVED)}, "
                f"this one with {' '.join(self.pieces[: len(RESERVED)])!r}"
            )
        if len(self._ids) != len(self.pieces):
            twice = next(p for i, p in enumerate(self.pieces) if self._ids[p] != i)
            raise DataError(f"a vocabulary has each piece once, this one has {twice!r} twice")

    @classmethod
    def of(cls, pieces: Iterable[str]) -> "Vocab":
        """The vocabulary of the reserved four and then `pieces`."""
        return cls(RESERVED + tuple(pieces))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: i for i, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    def id_of(self, piece: str) -> int:
        """The id of `piece`, or UNK_ID."""
        return self._ids.get(piece, UNK_ID)

    def real_ids(self, ids: Iterable[int]) -> list[int]:
        """`ids` without pad, bos and eos; those beyond the vocabulary become UNK_ID."""
        size = len(self.pieces)  # rows beyond it only pad a model's table
        return [i if i < size else UNK_ID for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID)]

    def piece_of(self, id_: int) -> str:
        """The piece of an id; one beyond the vocabulary reads as `<unk>`."""
        return self.pieces[id_ if 0 <= id_ < len(self.pieces) else UNK_ID]
