"""JoeyNMT 2.3.0.

Differences: attention is of Bahdanau's form with input feeding, and there is a layer before the
output. Its batches take the next sentences of any length, so that half of their positions are
padding. Hence two forms: unchanged, and with files sorted into batches of similar lengths and
without shuffling.
"""

import random
import re
from datetime import datetime
from pathlib import Path

import yaml

from nmt.storage.atomic import write_text
from nmt.storage.output import write_lines
from peers.data import Exported
from peers.settings import LENGTH_PENALTY, Settings
from peers.toolkit import Environment, Job, Toolkit, Window

_MARK = re.compile(
    r"^(\S+ [\d:]+),(\d{3}) - INFO - joeynmt\.training - "
    r"(?:EPOCH|Epoch.*Tokens per Sec:\s+(\d+))",
    re.MULTILINE,
)
"""The time, and target tokens per second since the last mark; none at an epoch's start."""


class JoeyNMT(Toolkit):
    """Batches by sentences, as the others have; of similar lengths if `helped`."""

    environment = Environment(
        "joeynmt",
        packages=(
            "numpy", "pyyaml", "tensorboard", "sacrebleu", "sacremoses", "sentencepiece",
            "subword-nmt", "matplotlib", "seaborn", "six", "wrapt", "packaging", "pandas",
            "plotly", "datasets", "tqdm", "importlib_metadata", "future", "pillow",
            "setuptools<81",
        ),
        alone=("joeynmt==2.3.0",),
    )  # fmt: skip
    streams = True  # it has no options for files

    def __init__(self, helped: bool = True) -> None:
        self.helped = helped
        self.sorts = not helped  # it sorts nothing; the unchanged form gets unsorted sentences
        self.name = "joeynmt" if helped else "joeynmt-as-it-is"

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """See Toolkit."""
        rnn = {
            "type": "recurrent",
            "rnn_type": "gru",
            "embeddings": {"embedding_dim": settings.embedding, "dropout": settings.dropout},
            "hidden_size": settings.hidden,
            "num_layers": 1,
            "dropout": settings.dropout,
        }
        train = (folder if self.helped else data.folder) / "train"
        if self.helped:
            _write_in_batches(train, data, settings)
        config = {
            "name": "peer",
            "joeynmt_version": "2.3.0",
            "model_dir": str((folder / "model").resolve()),
            "use_cuda": False,
            "fp16": False,
            "random_seed": settings.seed,
            "data": _data(train, data),
            "testing": _testing(settings, settings.batch),
            "training": {**_training(settings), "shuffle": not self.helped},
            "model": {
                # Its default, Xavier's rule over the whole vocabulary, learns next to nothing at
                # first; this is OpenNMT-py's.
                "initializer": "uniform",
                "init_weight": 0.1,
                "embed_initializer": "uniform",
                "embed_init_weight": 0.1,
                "encoder": {**rnn, "bidirectional": True},
                "decoder": {
                    **rnn,
                    "hidden_dropout": settings.dropout,
                    "init_hidden": "bridge",
                    "input_feeding": True,
                    "attention": "bahdanau",
                },
            },
        }
        write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def train_command(self, python: Path, folder: Path) -> list[str]:
        """See Toolkit."""
        config = str(folder / "config.yaml")
        return [str(python), "-m", "joeynmt", "train", config, "--skip-test"]

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """The log gives tokens a second and when; a window ends with its epoch."""
        windows, before = [], 0.0
        for when, milliseconds, rate in _MARK.findall(log):
            at = datetime.fromisoformat(when).timestamp() + int(milliseconds) / 1000
            if rate:
                windows.append(Window(int(rate) * (at - before), at - before))
            before = at
        return windows

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """A config of its own for the size of the batch; sentences come by stdin."""
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        config["testing"] = _testing(job.settings, job.batch)
        config["testing"]["load_model"] = str(job.model.resolve())
        path = folder / f"translate-{job.batch}.yaml"
        write_text(path, yaml.safe_dump(config, sort_keys=False))
        return [str(python), "-m", "joeynmt", "translate", str(path)]


def _write_in_batches(to: Path, data: Exported, settings: Settings) -> None:
    """The training set in batches of similar lengths, the batches in random order.

    A batch that is not full comes last, so that the others keep their bounds.
    """
    sides = [
        data.pieces("train", side).read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("src", "tgt")
    ]
    chance = random.Random(settings.seed)
    pairs = list(zip(*sides, strict=True))
    chance.shuffle(pairs)
    pairs.sort(key=lambda pair: (pair[1].count(" "), pair[0].count(" ")))
    full = len(pairs) // settings.batch * settings.batch
    batches = [pairs[at : at + settings.batch] for at in range(0, full, settings.batch)]
    chance.shuffle(batches)
    ordered = [pair for batch in batches for pair in batch] + pairs[full:]
    for i, side in enumerate(("src", "tgt")):
        write_lines((pair[i] for pair in ordered), to.with_suffix(f".{side}"), force=True)


def _data(train: Path, data: Exported) -> dict[str, object]:
    def side(name: str) -> dict[str, object]:
        return {"lang": name, "level": "word", "voc_file": str(data.vocabulary(name).resolve())}

    return {
        "train": str(train.resolve()),
        "dev": str((data.folder / "valid").resolve()),
        "dataset_type": "plain",
        "src": side("src"),
        "trg": side("tgt"),
        "special_symbols": {},  # the names are the same as ours; the order differs
    }


def _training(settings: Settings) -> dict[str, object]:
    # It validates at these steps only; 10,000 windows lie beyond any run.
    never = settings.report_every * 10_000
    return {
        "optimizer": "adam",
        "learning_rate": settings.lr,
        "scheduling": "exponential",  # required; this factor keeps the rate constant
        "decrease_factor": 1.0,
        "clip_grad_norm": settings.clip,
        "batch_size": settings.batch,
        "batch_type": "sentence",
        "normalization": "tokens",
        "epochs": 1000,
        "updates": settings.steps,
        "logging_freq": settings.report_every,
        "validation_freq": never if settings.steps < never else settings.steps,
        "early_stopping_metric": "loss",
        "overwrite": True,
        "print_valid_sents": [0],
    }


def _testing(settings: Settings, batch: int) -> dict[str, object]:
    return {
        "batch_size": batch,
        "batch_type": "sentence",
        "beam_size": settings.beam,
        "beam_alpha": LENGTH_PENALTY,
        "max_output_length": -1,  # LENGTH_FACTOR times the source
        "eval_metrics": [],
    }
