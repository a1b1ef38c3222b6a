"""Runs whose pieces are those of a user's file: trained, translated, resumed, also without it."""

import io
from pathlib import Path

import pytest
import sentencepiece
from training.toy import assert_same_checkpoint, tiny_config, train_tiny

from nmt.errors import ConfigError
from nmt.training.loop import train
from nmt.translation.translator import Translator


@pytest.fixture
def corpus(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with reversals and a SentencePiece model of them, in which the process runs."""
    monkeypatch.chdir(corpus)
    (corpus / "own.model").write_bytes(model(corpus))
    return corpus


def model(corpus: Path, vocab_size: int = 20) -> bytes:
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((corpus / "train.tsv").read_text().split("\n")),
        model_writer=buffer,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        unk_surface="<unk>",
        minloglevel=2,
    )
    return buffer.getvalue()


TOKENIZER = {"kind": "sentencepiece", "joint": True, "src_model": "own.model"}


def test_a_run_goes_on_without_the_file_and_in_another_folder(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The path is relative, so that it leads nowhere from there; the end is the unbroken run's."""
    train_tiny(corpus, "unbroken", tokenizer=TOKENIZER)
    train_tiny(corpus, stop_after=1, tokenizer=TOKENIZER)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (corpus / "run").rename(elsewhere / "run")
    (corpus / "own.model").unlink()
    monkeypatch.chdir(elsewhere)
    train(tiny_config(corpus, tokenizer=TOKENIZER), elsewhere / "run", quiet=True)
    assert_same_checkpoint(elsewhere / "run", corpus / "unbroken")
    translator = Translator.load(elsewhere / "run")
    assert translator.translate(["a b c"])[0].src_text == "a b c"


def test_another_file_is_refused_on_a_begun_run(corpus: Path) -> None:
    train_tiny(corpus, stop_after=1, tokenizer=TOKENIZER)
    (corpus / "own.model").write_bytes(model(corpus, vocab_size=16))
    with pytest.raises(ConfigError, match=r"not of the file that tokenizer.src_model names, own"):
        train_tiny(corpus, tokenizer=TOKENIZER)
