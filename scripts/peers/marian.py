"""Marian 1.12, through pymarian.

Differences: its decoder cell is Nematus' conditional GRU, two steps of a GRU around attention, and
its layer before the output is deep. Its threads share a batch out among them.
"""

import re
from pathlib import Path

import yaml

from nmt.data.sources import DataConfig
from nmt.storage.atomic import write_json, write_text
from nmt.text.vocabulary import EOS_ID, RESERVED, UNK_ID
from peers.data import Exported
from peers.settings import LENGTH_FACTOR, LENGTH_PENALTY, Settings
from peers.toolkit import Environment, Job, Toolkit, Window

_WINDOW = re.compile(r"\* ([\d,]+) @ .*? : Time ([\d.]+)s")
"""Labels, and seconds."""
_WORKSPACE_MIB = 512


class Marian(Toolkit):
    """The RNN model 's2s', in its own defaults but for the sizes."""

    name = "marian"
    environment = Environment("marian", packages=("numpy", "pyyaml", "pymarian==1.12.42"))

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """See Toolkit."""
        vocabularies = [_vocabulary(data, folder, side) for side in ("src", "tgt")]
        config = {
            "type": "s2s",
            "train-sets": [str(data.pieces("train", side).resolve()) for side in ("src", "tgt")],
            "vocabs": [str(path.resolve()) for path in vocabularies],
            "dim-vocabs": [settings.vocabulary, settings.vocabulary],
            "model": str((folder / "model.npz").resolve()),
            "overwrite": True,
            "no-reload": True,  # else it would resume the model of the last round
            "dim-emb": settings.embedding,
            "dim-rnn": settings.hidden,
            "enc-type": "bidirectional",
            "enc-cell": "gru",
            "dec-cell": "gru",
            "enc-depth": 1,
            "dec-depth": 1,
            "dropout-rnn": settings.dropout,
            "optimizer": "adam",
            "learn-rate": settings.lr,
            "clip-norm": settings.clip,
            "mini-batch": settings.batch,
            "max-length": DataConfig().max_pieces + 1,  # it counts end marks; else it drops some
            "shuffle-in-ram": True,
            "sync-sgd": True,
            "after-batches": settings.steps,
            "disp-freq": settings.report_every,
            "disp-label-counts": True,
            "save-freq": f"{settings.steps}u",
            "workspace": _WORKSPACE_MIB,
            "cpu-threads": self.threads,
            "seed": settings.seed,
        }
        write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def train_command(self, python: Path, folder: Path) -> list[str]:
        """See Toolkit."""
        return [str(python), "-m", "pymarian", "train", "--config", str(folder / "config.yaml")]

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """Labels are target pieces, end marks included."""
        found = _WINDOW.findall(log)
        return [Window(int(n.replace(",", "")), float(seconds)) for n, seconds in found]

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """See Toolkit."""
        vocabularies = [str(folder / f"vocab.{side}.yml") for side in ("src", "tgt")]
        return [
            str(python), "-m", "pymarian", "decode", "--models", str(job.model),
            "--vocabs", *vocabularies, "--input", str(job.src), "--output", str(job.out),
            "--beam-size", str(job.settings.beam), "--mini-batch", str(job.batch),
            "--maxi-batch", "100", "--maxi-batch-sort", "src", "--normalize", str(LENGTH_PENALTY),
            "--max-length-factor", str(LENGTH_FACTOR), "--cpu-threads", str(self.threads),
            "--quiet-translation",
        ]  # fmt: skip


def _vocabulary(data: Exported, folder: Path, side: str) -> Path:
    """Marian's own list: a YAML mapping in which the end mark and the unknown come first."""
    pieces = data.vocabulary(side).read_text(encoding="utf-8").split("\n")[:-1]
    entries = [RESERVED[EOS_ID], RESERVED[UNK_ID], *pieces]
    path = folder / f"vocab.{side}.yml"
    write_json(path, {piece: i for i, piece in enumerate(entries)})  # JSON is YAML
    return path
