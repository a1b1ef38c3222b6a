"""`nmt lexicon` over a small run: its file is what `nmt translate --lexicon` reads."""

from pathlib import Path

import pytest
import typer
from training.toy import toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.command import Command
from nmt.cli.lexicon import lexicon
from nmt.inference.unknown_words import read_lexicon
from nmt.runs.trained_run import TrainedRun
from nmt.text.tokenizer import Tokenizers
from nmt.training.loop import train

app = typer.Typer()
app.command(cls=Command)(lexicon)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lexicon")
    write_reversal(folder, n_train=40, n_test=5)
    train(toy_config(folder, train={"steps": 1}), folder / "run", ["nmt"], quiet=True)
    return folder / "run"


def test_a_dictionary_of_the_training_pairs(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "lexicon.tsv"
    flags = [str(run), "--min-count", "1", "--per-word", "2", "--out", str(out)]
    result = CliRunner().invoke(app, flags)
    assert result.exit_code == 0, result.output
    entries = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    assert entries
    assert [entry[0] for entry in entries] == sorted(entry[0] for entry in entries)
    for source, target, probability, count in entries:
        assert source in "abcdefgh"
        assert target in "abcdefgh"
        assert 0 < float(probability) <= 1 <= int(count)
    tokenizers = Tokenizers.load(TrainedRun.open(run).directory.tokenizer_path)
    assert set(read_lexicon(out, tokenizers)) == {entry[0] for entry in entries}
    first = CliRunner().invoke(app, [str(run), "--first", "3", "--min-count", "1"])
    counts = [int(line.split("\t")[3]) for line in first.stdout.splitlines()]
    assert 0 < sum(counts) <= 3 * 6
