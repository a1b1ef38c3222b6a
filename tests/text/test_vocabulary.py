import pytest

from nmt.errors import DataError
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Vocab


def test_reserved_ids_are_what_every_model_counts_on() -> None:
    vocab = Vocab.of(["chat"])
    assert (PAD_ID, UNK_ID, BOS_ID, EOS_ID) == (0, 1, 2, 3)
    assert vocab.pieces == ("<pad>", "<unk>", "<s>", "</s>", "chat")
    assert [vocab.id_of(p) for p in ("<pad>", "<unk>", "<s>", "</s>", "chat")] == [0, 1, 2, 3, 4]


def test_unknown_pieces_and_padding_rows_read_as_unknown() -> None:
    vocab = Vocab.of(["chat"])
    assert vocab.id_of("chien") == UNK_ID
    assert vocab.piece_of(4) == "chat"
    assert [vocab.piece_of(i) for i in (1, 5, 63, -1)] == ["<unk>"] * 4


@pytest.mark.parametrize("n", [4, 63, 64, 8003])
def test_the_reserved_four_are_counted(n: int) -> None:
    assert len(Vocab.of(map(str, range(n - 4)))) == n


def test_a_vocabulary_that_begins_otherwise_is_refused() -> None:
    with pytest.raises(DataError, match="begins with <pad> <unk> <s> </s>, this one with '<unk> a"):
        Vocab(("<unk>", "a", "b"))


def test_a_piece_that_stands_twice_is_refused() -> None:
    with pytest.raises(DataError, match="has each piece once, this one has 'a' twice"):
        Vocab.of(["a", "b", "a"])
