"""Small tasks that a whole run learns in seconds."""

import random
import shutil
from pathlib import Path
from typing import Any

import torch

from nmt.config import RunConfig
from nmt.data.batching import Batcher, EncodedCorpus
from nmt.models.catalog import build_model
from nmt.runs.checkpoints import CheckpointState
from nmt.runs.directory import RunDirectory
from nmt.training.state import TrainingState

SYMBOLS = "abcdefgh"


def write_reversal(folder: Path, n_train: int = 2000, n_test: int = 100) -> None:
    """train.tsv, valid.tsv, test.tsv: 2 to 6 different symbols, and the same backwards.

    No source stands in two of the files.
    """
    rng = random.Random(5)
    sources: list[str] = []
    while len(sources) < n_train + 2 * n_test:
        source = " ".join(rng.sample(SYMBOLS, rng.randint(2, 6)))
        if source not in sources:
            sources.append(source)
    ends = {"train": n_train, "valid": n_train + n_test, "test": n_train + 2 * n_test}
    start = 0
    for name, end in ends.items():
        lines = [f"{s}\t{' '.join(reversed(s.split()))}\n" for s in sources[start:end]]
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
        start = end


def copy_begun(begun: Path, folder: Path) -> Path:
    """Copy what `write_reversal` and a training left in `begun`, to be changed; gives `folder`."""
    for path in begun.glob("*.tsv"):
        shutil.copy(path, folder)
    shutil.copytree(begun / "run", folder / "run")
    return folder


def last_checkpoint(run: Path) -> CheckpointState:
    """All that the last checkpoint of a run holds."""
    return RunDirectory(run).checkpoint_folder.load("last")


def toy_state(**train: Any) -> TrainingState:
    """The state of a small untrained model on a corpus of one pair; `train` replaces keys."""
    config = toy_config(Path(), train=train)
    model = build_model(config.model, 10, 10)
    batcher = Batcher(EncodedCorpus([(5, 6)], [(7,)]), 32, "sentences", seed=1)
    return TrainingState.new(model, config.train, batcher, torch.device("cpu"))


def toy_config(folder: Path, **sections: Any) -> RunConfig:
    """A small run on the files of `write_reversal`; `sections` replace or add keys."""
    tree: dict[str, Any] = {
        "name": "toy",
        "data": {
            "src_lang": "en",
            "tgt_lang": "de",
            **{name: {"file": str(folder / f"{name}.tsv")} for name in ("train", "valid", "test")},
        },
        "tokenizer": {"kind": "word", "min_freq": 1},
        "model": {"kind": "rnn", "embedding": 16, "hidden": 32, "dropout": 0.0},
        "train": {"epochs": 12, "batch_size": 32, "lr": 0.005, "device": "cpu"},
        "valid": {"samples": 1},
    }
    for name, section in sections.items():
        anew = not isinstance(section, dict) or "kind" in section
        tree[name] = section if anew else {**tree.get(name, {}), **section}
    return RunConfig.model_validate(tree)
