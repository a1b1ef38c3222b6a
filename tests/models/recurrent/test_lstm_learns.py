"""An encoder-decoder of LSTMs learns what one of GRUs does."""

from pathlib import Path

import pytest
from training.toy import toy_config, write_reversal

from nmt.data.sources import read_tsv
from nmt.inference.translator import Translator
from nmt.training.loop import train

LSTM = {"encoder": {"cell": "lstm"}, "decoder": {"kind": "bahdanau", "cell": "lstm"}}


@pytest.mark.slow
def test_an_lstm_learns_to_reverse_unseen_sentences(tmp_path: Path) -> None:
    write_reversal(tmp_path)
    config = toy_config(tmp_path, model=LSTM, train={"epochs": 6})
    train(config, tmp_path / "run", ["nmt", "train"], quiet=True)
    pairs = read_tsv(tmp_path / "test.tsv")
    found = Translator.load(tmp_path / "run").translate([pair.src_text for pair in pairs])
    right = sum(t.text == pair.tgt_text for t, pair in zip(found, pairs, strict=True))
    assert right >= 98
