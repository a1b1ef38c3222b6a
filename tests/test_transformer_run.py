"""A Transformer by the commands: trained, copied, and the maps of all its heads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.helpers import nmt
from training.toy import toy_config, write_reversal

from nmt.config import dump_config
from nmt.errors import ConfigError
from nmt.models.catalog import build_model
from nmt.models.recurrent.rnn import RNNConfig
from nmt.translation.dump import read_npz
from nmt.translation.translator import Translator


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates, which lies elsewhere than where it was trained."""
    folder = tmp_path_factory.mktemp("transformer")
    write_reversal(folder, n_train=60, n_test=3)
    size = {"size": 32, "heads": 4, "layers": 1, "decoder_layers": 2, "dropout": 0.0}
    model = {"kind": "transformer", **size}
    config = toy_config(folder, model=model, train={"steps": 2, "epochs": None})
    (folder / "toy.yaml").write_text(dump_config(config), encoding="utf-8")
    nmt("train", "--config", folder / "toy.yaml", "--run", folder / "run", "--quiet")
    (folder / "run").rename(folder / "elsewhere")
    return folder / "elsewhere"


def test_self_attention_of_every_layer_and_head(run: Path, tmp_path: Path) -> None:
    """As Python gives it, of all hypotheses of the beam; the same with or without a batch."""
    path = tmp_path / "dump.npz"
    options = ("--beam", "3", "--heads", "all", "--out", path)
    nmt("attention", "a b c d", "", "h g", "--run", run, *options)
    dumped = list(read_npz(path))
    assert len(dumped) == 6
    translator = Translator.load(run, "cpu", search={"beam": 3})
    plain = translator.translate(["a b c d", "h g"], n_best=3)
    alone = [translator.with_self_attention([text])[0] for text in plain]
    hypotheses = [hypothesis for translation in alone for hypothesis in translation.hypotheses]
    for record, hypothesis in zip(dumped, hypotheses, strict=True):
        names = tuple(f"layer {m} head {n}" for m in (1, 2) for n in (1, 2, 3, 4))
        assert (len(record.heads), record.head_names) == (8, names)
        np.testing.assert_allclose(record.heads[:4].mean(axis=0), record.weights, atol=1e-4)
        encoder, decoder = record.self_attention["encoder"], record.self_attention["decoder"]
        assert encoder.labels == record.source.pieces
        assert decoder.labels == ("<s>", *hypothesis.target.pieces)
        assert encoder.head_names == tuple(f"encoder layer 1 head {n}" for n in (1, 2, 3, 4))
        assert decoder.head_names[4] == "decoder layer 2 head 1"
        for name, attention in record.self_attention.items():
            expected = hypothesis.hypothesis.self_heads[name]
            np.testing.assert_allclose(attention.heads, expected, atol=1e-5)
            np.testing.assert_allclose(attention.heads.sum(axis=2), 1, atol=1e-5)
        assert (np.triu(decoder.heads, 1) == 0).all()
    assert [replace(h.hypothesis, self_heads={}) for h in hypotheses] == [
        h.hypothesis for attention in plain for h in attention.hypotheses
    ]


def test_self_attention_as_text_and_its_refusals(run: Path) -> None:
    options = ("--run", run, "--heads", "decoder.2.3", "--format", "text")
    lines = nmt("attention", "a b", *options, "--target", "b a").stdout.splitlines()
    assert lines[2] == "decoder layer 2 head 3"
    assert [line.split()[0] for line in lines[6:9]] == ["<s>", "b", "a"]
    translator = Translator.load(run, "cpu")
    assert list(translator.model.names_by_attention) == ["encoder", "decoder", "cross"]
    recurrent = build_model(RNNConfig(embedding=7, hidden=5), 20, 20)
    other = Translator(recurrent, translator.tokenizers, torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"^with_self_attention: this model has none: it is rec"):
        other.with_self_attention([])
