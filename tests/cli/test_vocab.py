"""`nmt vocab show` as typed: results on stdout, words on stderr, codes."""

from pathlib import Path

import pytest
from cli.helpers import nmt, refusal

from nmt.text.tokenizer import WordConfig, train_tokenizers
from nmt.types import SentencePair

PAIRS = [
    SentencePair("The cat.", "Le chat."),
    SentencePair("The dog?", "Le chien\u202f?"),
    SentencePair("The cat sees.", "Le chat voit."),
]
SHOW = ("vocab", "show", "--run")


@pytest.fixture(autouse=True)
def vocabularies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, with vocabularies, and a run just begun that has the same."""
    monkeypatch.chdir(tmp_path)
    tokenizers = train_tokenizers(WordConfig(min_freq=1), PAIRS, "en", "fr", seed=1)
    for folder in (Path("v"), Path("runs/x/tokenizer")):
        folder.mkdir(parents=True)
        tokenizers.save(folder)


def test_sizes_and_pieces_of_a_side_or_both() -> None:
    assert nmt(*SHOW, "v", "--side", "tgt", "--first", "6").stdout == (
        "tgt fr: 10 pieces, word\n"
        "     0  <pad>\n     1  <unk>\n     2  <s>\n     3  </s>\n     4  Le\n     5  .\n"
    )
    both = nmt(*SHOW, "v", "--first", "1").stdout
    assert [line[:6] for line in both.splitlines()[::2]] == ["src en", "tgt fr"]


def test_a_text_is_cut_into_pieces() -> None:
    assert nmt(*SHOW, "v", "--side", "tgt", "Le chat rit\u00a0?").stdout == (
        "normalised  Le chat rit ?\n"
        "pieces      Le chat rit ?\n"
        "ids         4 6 1 7\n"
        "unknown     rit\n"
        "decoded     Le chat <unk>\u202f?\n"
    )
    empty = [line.split() for line in nmt(*SHOW, "v", "").stdout.splitlines()]
    names = ("normalised", "pieces", "ids", "unknown", "decoded")
    assert empty == [[name] + ["-"] * (name in names[1:4]) for name in names]


def test_a_run_just_begun_has_vocabularies() -> None:
    assert nmt(*SHOW, "runs/x").stdout.startswith("src en: 10")
    Path("empty").mkdir()
    assert refusal(*SHOW, "empty").startswith("empty/tokenizer/tokenizer.json: no such file")
    assert refusal(*SHOW, "nowhere").startswith("nowhere: no such run")
