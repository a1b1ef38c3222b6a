"""The run card says what ran, on what, from which bytes."""

import datetime
import json
from pathlib import Path

from nmt.config import RunConfig, TrainConfig
from nmt.corpora.sources import DataConfig
from nmt.runs.card import run_card
from nmt.storage.atomic import digest


def test_the_card_is_json_and_complete(tmp_path: Path) -> None:
    data = tmp_path / "train.en"
    data.write_bytes(b"abc")
    config = RunConfig(
        name="x", seed=7, data=DataConfig(corpus="starter"), train=TrainConfig(epochs=1)
    )
    hardware = {"device": "cpu (2 threads)", "backend": "fused (no compiler)"}
    files = {data: digest(data)}
    card = json.loads(json.dumps(run_card(config, ["nmt", "train"], files, hardware)))
    assert card["command"] == ["nmt", "train"]
    assert card["folder"] == str(Path.cwd())
    assert card["seed"] == 7
    assert datetime.datetime.fromisoformat(card["started"]).tzinfo is not None
    assert {"nmt", "python", "torch"} <= card["versions"].keys()
    assert all(card["versions"].values())
    assert card["hardware"]["device"] == "cpu (2 threads)"
    assert card["hardware"]["backend"] == "fused (no compiler)"
    assert card["hardware"]["cpu"]
    assert card["data"] == [
        {
            "file": str(data),
            "bytes": 3,
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        }
    ]
