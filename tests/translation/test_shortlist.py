"""The file of a shortlist: links of pieces, as `nmt lexicon --pieces` writes them."""

from pathlib import Path

import pytest
import torch

from nmt.errors import DataError
from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.text.vocabulary import RESERVED
from nmt.translation.shortlist import read_shortlist
from nmt.types import SentencePair

PAIRS = [SentencePair("the cat sleeps in Paris", "le chat dort dans Paris")]
TOKENIZERS = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)


def allowed(path: Path, text: str, frequent: int) -> set[str]:
    """The pieces that a translation of `text` may have, but for the reserved ones."""
    ids = torch.tensor([TOKENIZERS.src.encode(text).ids])
    [row] = read_shortlist(path, TOKENIZERS, frequent).allowed(ids)
    return {TOKENIZERS.tgt.vocab.piece_of(int(id_)) for id_ in row.nonzero()} - {*RESERVED}


def test_links_frequent_pieces_and_the_piece_itself(tmp_path: Path) -> None:
    path = tmp_path / "links.tsv"
    lines = ["cat\tchat\t1.0\t3", "the\tle\t0.9\t9", "sleeps\tdort\t1.0\t2", "dog\tchien\t1.0\t1"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert allowed(path, "cat sleeps", frequent=0) == {"chat", "dort"}
    assert allowed(path, "cat", frequent=1) == {"chat", "le"}
    assert allowed(path, "Paris", frequent=0) == {"Paris"}


@pytest.mark.parametrize("line", ["cat\tchat", "cat\tchat\t1.0\tmany"])
def test_another_form_is_an_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "links.tsv"
    path.write_text(f"cat\tchat\t1.0\t3\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"links\.tsv:2"):
        read_shortlist(path, TOKENIZERS)
