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

    `half` gives each direction of the encoder half of `hidden`, as OpenNMT-py's brnn does. `deep`
    lets the vocabulary layer read tanh of a layer over state and context, as it does in all of
    the others; `plain` is the model as nmt has it unless told otherwise. `int8` translates with
    8-bit products, by the model that plain trained.
    """

    environment = None

    def __init__(self, precision: Precision, form: Form = "plain", int8: bool = False) -> None:
        self.precision = precision
        self.form = form
        self.int8 = int8
        parts = ["nmt", form if form != "plain" else "", precision if precision != "fp32" else ""]
        parts.append("int8" if int8 else "")
        self.name = "-".join(filter(None, parts))

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """See Toolkit."""
        files = {
            "src": str(data.text("train", "src").resolve()),
            "tgt": str(data.text("train", "tgt").resolve()),
        }
        config = {
            "name": self.name,
            "seed": settings.seed,
            "data": {"train": files},
            "tokenizer": {"model_type": "bpe", "vocab_size": settings.vocabulary},
            "model": {
                "embedding": settings.embedding,
                "hidden": settings.hidden,
                "encoder": {"hidden": settings.hidden // 2 if self.form == "half" else None},
                "decoder": {
                    "readout": (
                        {"kind": "deep", "size": settings.hidden, "activation": "tanh"}
                        if self.form == "deep"
                        else {"kind": "plain"}
                    )
                },
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
        """From metrics.jsonl, whose speed counts the source too: the corpus' share is taken."""
        lines = (folder / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        records = [record for record in map(json.loads, lines) if record["type"] == "train"]
        ends = [0.0, *(record["seconds"] for record in records)]
        found = [
            (record["tokens_per_second"] / data.counts.both_by_target, end - start)
            for record, (start, end) in zip(records, pairwise(ends), strict=True)
        ]
        return [Window(rate * seconds, seconds) for rate, seconds in found]

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """See Toolkit."""
        search = ["--beam", str(job.settings.beam), "--batch-size", str(job.batch)]
        search += ["--length-penalty", str(LENGTH_PENALTY)]
        search += ["--set", f"search.max_length_factor={LENGTH_FACTOR}"]
        search += ["--int8"] if self.int8 else []
        files = ["--file", str(job.src), "--out", str(job.out)]
        command = [str(python), "-m", "nmt", "translate", "--run", str(job.model)]
        return [*command, *search, *files, "--device", "cpu"]

    def reads_pieces(self) -> bool:
        """It reads text."""
        return False
