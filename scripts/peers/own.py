"""nmt itself, as its user runs it: `nmt train` with a config, `nmt translate` with a file."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Literal

import yaml

from nmt.device import Precision
from nmt.storage.atomic import write_text
from peers.data import Exported
from peers.settings import LENGTH_FACTOR, LENGTH_PENALTY, Settings
from peers.toolkit import Job, Toolkit, Window

Form = Literal["plain", "half", "deep"]


class Own(Toolkit):
    """nmt reads text; its pieces are those that the others get.

    `plain` is nmt's default model. `half` gives each direction of the encoder half of `hidden`, as
    OpenNMT-py's brnn does. `deep` has a tanh layer over state and context before the vocabulary
    layer, as all the others have. `int8` translates with 8-bit products and the weights of `plain`.
    """

    environment = None
    reads_pieces = False

    def __init__(self, precision: Precision, form: Form = "plain", int8: bool = False) -> None:
        self.precision = precision
        self.form = form
        self.int8 = int8
        parts = ["nmt", form, precision, "int8" if int8 else "plain"]
        self.name = "-".join(part for part in parts if part not in ("plain", "fp32"))

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """See Toolkit."""
        files = {side: str(data.text("train", side).resolve()) for side in ("src", "tgt")}
        deep = {"kind": "deep", "size": settings.hidden, "activation": "tanh"}
        config = {
            "name": self.name,
            "seed": settings.seed,
            "data": {"train": files},
            "tokenizer": {"model_type": "bpe", "vocab_size": settings.vocabulary},
            "model": {
                "embedding": settings.embedding,
                "hidden": settings.hidden,
                "encoder": {"hidden": settings.hidden // 2 if self.form == "half" else None},
                "decoder": {"readout": deep if self.form == "deep" else {"kind": "plain"}},
                "dropout": settings.dropout,
            },
            "train": {
                "steps": settings.steps,
                "batch_size": settings.batch,
                "lr": settings.lr,
                "clip_norm": settings.clip,
                "precision": self.precision,
                "device": "cpu",
                "log_every": settings.report_every,
            },
        }
        write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def train_command(self, python: Path, folder: Path) -> list[str]:
        """See Toolkit."""
        config, run = str(folder / "config.yaml"), str(folder / "model")
        return [str(python), "-m", "nmt", "train", "--config", config, "--run", run]

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """The target's share of the tokens in metrics.jsonl, which counts both sides."""
        lines = (folder / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [record for record in map(json.loads, lines) if record["type"] == "train"]
        ends = [0.0, *(record["seconds"] for record in records)]
        share = 1 / data.counts.both_by_target
        return [
            Window(share * record["tokens_per_second"] * (end - start), end - start)
            for record, (start, end) in zip(records, pairwise(ends), strict=True)
        ]

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """See Toolkit."""
        search = ["--beam", str(job.settings.beam), "--batch-size", str(job.batch)]
        search += ["--length-penalty", str(LENGTH_PENALTY)]
        search += ["--set", f"search.max_length_factor={LENGTH_FACTOR}"]
        search += ["--int8"] if self.int8 else []
        files = ["--file", str(job.src), "--out", str(job.out), "--force"]
        command = [str(python), "-m", "nmt", "translate", "--run", str(job.model)]
        return [*command, *search, *files, "--device", "cpu"]
