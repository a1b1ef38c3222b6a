"""nmt as its user runs it, OpenNMT-py 3.5.1, JoeyNMT 2.3.0, and Marian 1.12 through pymarian."""

import json
import random
import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import yaml

from nmt.corpora.sources import DataConfig
from nmt.corpora.text_files import read_lines
from nmt.device import Precision
from nmt.storage.atomic import write_json, write_text
from nmt.storage.output import write_lines
from nmt.text.vocabulary import EOS_ID, RESERVED, UNK_ID
from peers.data import Exported
from peers.toolkit import LENGTH_PENALTY, Environment, Job, Settings, Toolkit, Window, write_config


class Own(Toolkit):
    """nmt reads text; its pieces are those that the others get.

    It has its default model. `int8` translates with 8-bit products and the same weights.
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

    Its encoder's directions have half of `hidden` each (onmt/encoders/rnn_encoder.py), so that its
    annotations are 512 numbers where ours are 1,024; attention is Luong's order with input feeding.
    Its source sentences have no end mark. Batches are made in its process.
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
    Hence two forms: unchanged, and with files sorted into batches of similar lengths and without
    shuffling.
    """

    environment = Environment(
        "joeynmt",
        "numpy pyyaml tensorboard sacrebleu sacremoses sentencepiece subword-nmt matplotlib "
        "seaborn six wrapt packaging pandas plotly datasets tqdm importlib_metadata future pillow "
        "setuptools<81",
        alone="joeynmt==2.3.0",
    )
    train = "-m joeynmt train {config} --skip-test"
    streams = True  # it has no options for files

    def __init__(self, helped: bool = True) -> None:
        self.helped = helped
        self.sorts = not helped  # it sorts nothing; the unchanged form gets unsorted sentences
        self.name = "joeynmt" if helped else "joeynmt-as-it-is"

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        train = (folder if self.helped else data.folder) / "train"
        if self.helped:
            _write_in_batches(train, data, settings)
        write_config(
            "joeynmt", folder, data, settings,
            train=train.resolve(),
            valid=(data.folder / "valid").resolve(),
            length_penalty=LENGTH_PENALTY,
            never=max(settings.report_every * 10_000, settings.steps),
            shuffle=str(not self.helped).lower(),
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


def _write_in_batches(to: Path, data: Exported, settings: Settings) -> None:
    """Write the training set in batches of similar lengths, the batches in random order.

    A batch that is not full comes last, so that the others keep their bounds.
    """
    sides = (read_lines(data.pieces("train", side)) for side in ("src", "tgt"))
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


class Marian(Toolkit):
    """The RNN model 's2s', in its own defaults but for the sizes.

    Its decoder cell is Nematus' conditional GRU, two steps of a GRU around attention, and its layer
    before the output is deep. Its threads share a batch out among them.
    """

    name = "marian"
    train = "-m pymarian train --config {config}"
    translate = (
        "-m pymarian decode --models {model} --vocabs {folder}/vocab.src.yml "
        "{folder}/vocab.tgt.yml --input {src} --output {out} --beam-size {beam} "
        "--mini-batch {batch} --maxi-batch 100 --maxi-batch-sort src --normalize {penalty} "
        "--max-length-factor {factor} --quiet-translation --cpu-threads "
    )
    environment = Environment("marian", "numpy pyyaml pymarian==1.12.42")

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.translate += str(threads)

    def write(self, folder: Path, data: Exported, settings: Settings) -> None:
        vocabularies = {}
        for side in ("src", "tgt"):  # its own list: a mapping with the end mark and unk first
            entries = [RESERVED[EOS_ID], RESERVED[UNK_ID], *read_lines(data.vocabulary(side))]
            path = folder / f"vocab.{side}.yml"
            write_json(path, {piece: i for i, piece in enumerate(entries)})  # JSON is YAML
            vocabularies[f"vocab_{side}"] = path.resolve()
        longest = DataConfig().max_pieces + 1
        write_config(
            "marian", folder, data, settings, **vocabularies,
            max_length=longest, threads=self.threads,
        )  # fmt: skip

    def windows(self, folder: Path, log: str, data: Exported) -> list[Window]:
        """Labels are target pieces, end marks included."""
        matches = re.findall(r"\* ([\d,]+) @ .*? : Time ([\d.]+)s", log)
        return [Window(int(n.replace(",", "")), float(seconds)) for n, seconds in matches]
