"""JoeyNMT 2.3.0.

What differs: attention is of Bahdanau's form with input feeding, and a layer before the output.
It makes batches of whatever sentences come next, so that about half of its positions are padding.
"""

import re
from pathlib import Path

import yaml

from nmt.atomic import write_text
from peers.data import Exported
from peers.settings import Settings
from peers.toolkit import Environment, Job, Toolkit

_WINDOW = re.compile(r"Tokens per Sec:\s+([\d.]+)")


class JoeyNMT(Toolkit):
    """Batches by sentences, as the others have them."""

    name = "joeynmt"
    environment = Environment(
        packages=(
            "numpy", "pyyaml", "tensorboard", "sacrebleu", "sacremoses", "sentencepiece",
            "subword-nmt", "matplotlib", "seaborn", "six", "wrapt", "packaging", "pandas",
            "plotly", "datasets", "tqdm", "importlib_metadata", "future", "pillow",
            "setuptools<81",
        ),
        alone=("joeynmt==2.3.0",),
    )  # fmt: skip

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
        config = {
            "name": "peer",
            "joeynmt_version": "2.3.0",
            "model_dir": str((folder / "model").resolve()),
            "use_cuda": False,
            "fp16": False,
            "random_seed": settings.seed,
            "data": _data(data),
            "testing": _testing(settings, settings.batch),
            "training": _training(settings),
            "model": {
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

    def windows(self, folder: Path, log: str, data: Exported) -> list[float]:
        """Target tokens of the window, its end marks included."""
        return [float(rate) for rate in _WINDOW.findall(log)]

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """A config of its own for the size of the batch; sentences come by stdin."""
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        config["testing"] = _testing(job.settings, job.batch)
        config["testing"]["load_model"] = str(job.model.resolve())
        path = folder / f"translate-{job.batch}.yaml"
        write_text(path, yaml.safe_dump(config, sort_keys=False))
        return [str(python), "-m", "joeynmt", "translate", str(path)]


def _data(data: Exported) -> dict[str, object]:
    def side(name: str) -> dict[str, object]:
        return {"lang": name, "level": "word", "voc_file": str(data.vocabulary(name).resolve())}

    return {
        "train": str((data.folder / "train").resolve()),
        "dev": str((data.folder / "valid").resolve()),
        "dataset_type": "plain",
        "src": side("src"),
        "trg": side("tgt"),
        "special_symbols": {},  # its own names are ours; its order is its own
    }


def _training(settings: Settings) -> dict[str, object]:
    # It validates at these steps only; 10,000 windows lie beyond any run.
    never = settings.report_every * 10_000
    return {
        "optimizer": "adam",
        "learning_rate": settings.lr,
        "scheduling": "exponential",  # it wants one; this one's factor leaves the rate as it is
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
        "shuffle": True,
        "print_valid_sents": [0],
    }


def _testing(settings: Settings, batch: int) -> dict[str, object]:
    return {
        "batch_size": batch,
        "batch_type": "sentence",
        "beam_size": settings.beam,
        "beam_alpha": 0.6,
        "max_output_length": settings.max_length,
        "eval_metrics": [],
    }
