"""A Transformer through every command: trained, copied, read back, asked, scored, drawn."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result
from training.toy import toy_config, write_reversal
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.config import dump_config, load_config
from nmt.models.transformer.transformer import TransformerConfig
from nmt.runs.directory import RunDirectory

MODEL = {
    "kind": "transformer",
    "size": 32,
    "heads": 4,
    "layers": 1,
    "decoder_layers": 2,
    "dropout": 0.0,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that learned to reverse."""
    folder = tmp_path_factory.mktemp("transformer")
    write_reversal(folder, n_train=1500, n_test=50)
    train = {"epochs": 7, "lr": 5e-3, "schedule": {"kind": "cosine", "warmup": 40}}
    config = toy_config(folder, model=MODEL, train=train, valid={"every": 150})
    (folder / "toy.yaml").write_text(dump_config(config), encoding="utf-8")
    _nmt("train", "--config", folder / "toy.yaml", "--run", folder / "run", "--quiet")
    return folder


def _nmt(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def nmt(folder: Path, tmp_path: Path) -> Callable[..., Result]:
    """Asks a copy of the run that lies elsewhere."""
    shutil.copytree(folder / "run", tmp_path / "copy")
    return lambda command, *rest: _nmt(command, *rest, "--run", tmp_path / "copy")


def test_translations_of_unseen_sentences_are_right(nmt: Callable[..., Result]) -> None:
    result = nmt("translate", "a b c d", "h g f e d", "c a")
    assert result.stdout == "d c b a\nd e f g h\na c\n"


def test_bleu_on_the_test_set_is_nearly_perfect(nmt: Callable[..., Result]) -> None:
    scores = json.loads(nmt("eval", "--split", "test", "--json").stdout)
    assert scores["scores"]["bleu"]["score"] > 97


def test_maps_of_each_head_and_their_mean(nmt: Callable[..., Result]) -> None:
    rows = [
        json.loads(line)
        for line in nmt("attention", "a b c d", "--heads", "all", "--beam", "1").stdout.splitlines()
    ]
    (row,) = rows
    assert row["head_names"] == [f"layer {m} head {n}" for m in (1, 2) for n in (1, 2, 3, 4)]
    heads, mean = torch.tensor(row["heads"]), torch.tensor(row["weights"])
    torch.testing.assert_close(heads[:4].mean(0), mean, rtol=0, atol=1e-4)
    torch.testing.assert_close(heads.sum(-1), torch.ones(8, 5), rtol=0, atol=1e-3)


def test_another_layer_can_be_asked_of_a_trained_run(folder: Path, tmp_path: Path) -> None:
    """What maps show is a setting, not a weight: config.yaml may be edited afterwards, without the
    checksum in its first line.
    """
    shutil.copytree(folder / "run", tmp_path / "run")
    path = tmp_path / "run" / "config.yaml"
    assert "attention_layer: null" in path.read_text(encoding="utf-8")
    _, _, text = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(text.replace("_layer: null", "_layer: 2"))
    out = _nmt("attention", "a b", "--heads", "all", "--beam", "1", "--run", tmp_path / "run")
    row = json.loads(out.stdout)
    heads, mean = torch.tensor(row["heads"]), torch.tensor(row["weights"])
    torch.testing.assert_close(heads[4:].mean(0), mean, rtol=0, atol=1e-4)


def test_the_run_says_what_it_is(folder: Path) -> None:
    config = load_config(folder / "run" / "config.yaml")
    assert config.model == TransformerConfig.model_validate(MODEL)
    state = RunDirectory(folder / "run").checkpoint_folder.load("last")
    assert "decoder.layers.1.source.W_k.weight" in state.model_tensors
