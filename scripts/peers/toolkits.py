"""nmt as its user runs it, OpenNMT-py 3.5.1, and JoeyNMT 2.3.0."""

import json
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import yaml

from nmt.corpora.text_files import read_lines
from nmt.device import Precision
from nmt.storage.atomic import write_text
from peers.data import Exported
from peers.toolkit import LENGTH_PENALTY, Environment, Job, Settings, Toolkit, Window, write_config


class Own(Toolkit):
    """nmt reads text; its pieces are those that the others get.

    `int8` translates with 8-bit products and the same weights.
    """

    train = "-m nmt train --config {config} --run {model}"
    translate = (
        "-m nmt translate --lines --run {model} --beam {beam} --batch-size {batch} "
        "--length-penalty {penalty} --set search.max_length_factor={factor} "
        "--file {src} --out {out} --force --device cpu"
    )
    reads_pieces = False

    def __init__(self, precision: Precision, int8: bool = False) -> None:
        self.precision = precision
        self.name = "nmt-int8" if int8 else "nmt" if precision == "fp32" else f"nmt-{precision}"
        self.translate += " --int8" if int8 else ""

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        files = {f"train_{side}": data.text("train", side).resolve() for side in ("src", "tgt")}
        names = {"name": self.name, "precision": self.precision}
        write_config("nmt", folder, data, settings, **files, **names)

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """The target's share of the tokens in metrics.jsonl, which counts both sides."""
        lines = read_lines(folder / "model" / "metrics.jsonl")
        records = [record for record in map(json.loads, lines) if record["type"] == "train"]
        ends = [0.0, *(record["seconds"] for record in records)]
        share = 1 / data.both_by_target
        return [
            Window(share * record["tokens_per_second"] * (end - start), end - start)
            for record, (start, end) in zip(records, pairwise(ends), strict=True)
        ]


class OpenNMT(Toolkit):
    """OpenNMT-py.

    Each direction of its encoder has `hidden` / 2 units (onmt/encoders/rnn_encoder.py); the
    other toolkits are set to the same. Attention is Luong's order with input feeding. Its source
    sentences have no end mark. Batches are made in its process.
    """

    name = "opennmt"
    train = "-m onmt.bin.train -config {config}"
    translate = (
        "-m onmt.bin.translate -model {model} -src {src} -output {out} -gpu -1 -beam_size {beam} "
        "-batch_type sents -batch_size {batch} -max_length_ratio {factor} "
        "-length_penalty wu -alpha {penalty}"
    )
    environment = Environment(
        "opennmt",
        "pyyaml configargparse ctranslate2>=4,<5 tensorboard flask waitress pyonmttok>=1.37,<2 "
        "sacrebleu rapidfuzz pyahocorasick six sentencepiece setuptools<81",
        alone="OpenNMT-py==3.5.1",
        stand_ins={
            "spacy": "imported by the transform 'terminology', which is not used",
            "fasttext": "imported by the transform 'clean', which is not used",
        },
    )

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        write_config("opennmt", folder, data, settings, pairs=data.pairs)

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """All windows have equally many batches, so a window's tokens are an average batch's."""
        pattern = r"Step\s+\d+/\s*\d+;.*?bsz:\s*\d+/\s*(\d+)/\s*\d+;\s*\d+/\s*(\d+) tok/s;"
        matches = [(int(batch), int(rate)) for batch, rate in re.findall(pattern, log)]
        return [Window(batch, batch / max(rate, 0.5)) for batch, rate in matches]


class JoeyNMT(Toolkit):
    """JoeyNMT: attention of Bahdanau's form with input feeding, and a layer before the output.

    Its batches take the next sentences of any length, so that half of their positions are padding.
    """

    name = "joeynmt"
    environment = Environment(
        "joeynmt",
        "numpy pyyaml tensorboard sacrebleu sacremoses sentencepiece subword-nmt matplotlib "
        "seaborn six wrapt packaging pandas plotly datasets tqdm importlib_metadata future pillow "
        "setuptools<81",
        alone="joeynmt==2.3.0",
    )
    train = "-m joeynmt train {config} --skip-test"
    streams = True  # it has no options for files

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        write_config(
            "joeynmt", folder, data, settings,
            train=(data.folder / "train").resolve(),
            valid=(data.folder / "valid").resolve(),
            length_penalty=LENGTH_PENALTY,
            never=max(settings.report_every * 10_000, settings.steps),
        )  # fmt: skip

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """The log gives tokens a second and when; a window ends with its epoch."""
        pattern = (
            r"^(\S+ [\d:]+),(\d{3}) - INFO - joeynmt\.training - "
            r"(?:EPOCH|Epoch.*Tokens per Sec:\s+(\d+))"
        )
        windows, before = [], 0.0
        for when, milliseconds, rate in re.findall(pattern, log, re.MULTILINE):
            at = datetime.fromisoformat(when).timestamp() + int(milliseconds) / 1000
            if rate:
                windows.append(Window(int(rate) * (at - before), at - before))
            before = at
        return windows

    def translate_command(self, python: Path, folder: Path, job: Job) -> list[str]:
        """A config of its own for the size of the batch; sentences come by stdin."""
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        config["testing"] |= {"batch_size": job.batch, "load_model": str(job.model.resolve())}
        path = folder / f"translate-{job.batch}.yaml"
        write_text(path, yaml.safe_dump(config, sort_keys=False))
        return [str(python), "-m", "joeynmt", "translate", str(path)]
