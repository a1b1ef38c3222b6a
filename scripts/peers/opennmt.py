"""OpenNMT-py 3.5.1.

Differences: its encoder's directions have half of `hidden` each (`onmt/encoders/rnn_encoder.py`),
so that its annotations are 512 numbers where ours are 1,024; attention is Luong's order with input
feeding. Its source sentences have no end mark.
"""

import re
from pathlib import Path

import yaml

from nmt.storage.atomic import write_text
from peers.data import Exported
from peers.settings import LENGTH_FACTOR, LENGTH_PENALTY, Settings
from peers.toolkit import Environment, Job, Toolkit, Window

_WINDOW = re.compile(r"Step\s+\d+/\s*\d+;.*?bsz:\s*\d+/\s*(\d+)/\s*\d+;\s*\d+/\s*(\d+) tok/s;")
"""Target tokens of an average batch, and of a second."""


class OpenNMT(Toolkit):
    """Buckets as large as the corpus, so that it pads least; batches are made in its process."""

    name = "opennmt"
    environment = Environment(
        "opennmt",
        packages=(
            "pyyaml", "configargparse", "ctranslate2>=4,<5", "tensorboard", "flask", "waitress",
            "pyonmttok>=1.37,<2", "sacrebleu", "rapidfuzz", "pyahocorasick", "six", "sentencepiece",
            "setuptools<81",
        ),
        alone=("OpenNMT-py==3.5.1",),
        stand_ins={
            "spacy": "imported by the transform 'terminology', which is not used",
            "fasttext": "imported by the transform 'clean', which is not used",
        },
    )  # fmt: skip

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        """See Toolkit."""
        files = {f"path_{side}": str(data.pieces("train", side).resolve()) for side in _SIDES}
        config = {
            "data": {"corpus": files},
            "src_vocab": str(data.vocabulary("src").resolve()),
            "tgt_vocab": str(data.vocabulary("tgt").resolve()),
            "save_model": str((folder / "model").resolve()),
            "overwrite": True,
            "save_checkpoint_steps": settings.steps,
            "keep_checkpoint": 1,
            "train_steps": settings.steps,
            "report_every": settings.report_every,
            "seed": settings.seed,
            "batch_type": "sents",
            "batch_size": settings.batch,
            "normalization": "tokens",
            "bucket_size": data.counts.pairs,
            "num_workers": 0,
            "optim": "adam",
            "learning_rate": settings.lr,
            "max_grad_norm": settings.clip,
            "dropout": [settings.dropout],
            "attention_dropout": [0.0],
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "GRU",
            "global_attention": "mlp",
            "input_feed": 1,
            "layers": 1,
            "hidden_size": settings.hidden,
            "word_vec_size": settings.embedding,
        }
        write_text(folder / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def train_command(self, python: Path, folder: Path) -> list[str]:
        """See Toolkit."""
        return [str(python), "-m", "onmt.bin.train", "-config", str(folder / "config.yaml")]

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """Windows hold as many batches each: tokens are those of an average batch."""
        found = [(int(batch), int(rate)) for batch, rate in _WINDOW.findall(log)]
        return [Window(batch, batch / max(rate, 0.5)) for batch, rate in found]

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """See Toolkit."""
        return [
            str(python), "-m", "onmt.bin.translate", "-model", str(job.model),
            "-src", str(job.src), "-output", str(job.out), "-gpu", "-1",
            "-beam_size", str(job.settings.beam), "-batch_type", "sents",
            "-batch_size", str(job.batch), "-max_length_ratio", str(LENGTH_FACTOR),
            "-length_penalty", "wu", "-alpha", str(LENGTH_PENALTY),
        ]  # fmt: skip


_SIDES = ("src", "tgt")
