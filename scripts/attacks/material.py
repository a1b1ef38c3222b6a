"""The targets: small trained runs, in a scratch folder with a tree that must not change."""

import hashlib
import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kill_test import record_differences, tensor_differences, timeless, write_corpus

from attacks.process import Outcome, run

TRAIN = ("train", "--config", "attack.yaml", "--run", "run", "--steps", "6")
TRANSLATE = ("translate", "--run", "run", "--checkpoint", "last", "--file", "some.txt")
EVAL = ("eval", "--run", "run", "--no-bootstrap")
COMMANDS = (TRAIN, TRANSLATE, EVAL)
"""In a scratch folder, whose run has made 4 updates."""

PACKED = ("translate", "--run", "packed.zip", "--file", "some.txt")
CHECKPOINT = Path("run/checkpoints/step-000004")


class Expected(Enum):
    """The required outcome of a case, besides that nothing breaks."""

    NOTHING = "nothing more"
    REFUSED = "an error, or a word about the file"
    SAME = "the result of a clean run, an error, or a word about the file"


@dataclass(frozen=True)
class Case:
    """An attack: `prepare` is called in the scratch folder, then the command is run there.

    A warning about the file would contain one of `about`.
    """

    what: str
    command: tuple[str, ...]
    prepare: Callable[[], object]
    expected: Expected = Expected.NOTHING
    about: tuple[str, ...] = ()
    kind: str = "word"


CONFIG = """
name: attacked
data: {{src_lang: en, tgt_lang: de, train: {{file: train.tsv}}, valid: {{file: valid.tsv}},
  test: {{file: valid.tsv}}}}
tokenizer: {tokenizer}
model: {{embedding: 8, hidden: 8, dropout: 0.3}}
train: {{steps: 4, batch_size: 8, accumulate: 2, lr: 0.003, save_every: 2, log_every: 1,
  keep_last: 2, device: cpu}}
valid: {{every: 2, samples: 1, max_examples: 5}}
search: {{batch_size: 8, max_length: 12}}
"""
KINDS = {"word": "{kind: word}", "sentencepiece": "{kind: sentencepiece, vocab_size: 20}"}
CHANGEABLE = frozenset({"run", "data"})
"""Folders that a command may change."""

TEXT = "a b c\nd\n\nh g f e\nz\n"
_LATE_IMPORTS = """
sacrebleu torch.optim.adam nmt.training.loop nmt.translation.translator
"""


class Material:
    """The folder of clean runs, and the result of each command there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "HOME": str(folder / "home"),
            "OMP_NUM_THREADS": "1",
            "TERM": "xterm",
        }
        self.clean: dict[str, Outcome] = {}

    def make(self) -> None:
        """Train the runs, and import in this process the modules that a command needs."""
        for name in ("cache", "clean", "home"):
            (self.folder / name).mkdir()
        for kind, tokenizer in KINDS.items():
            base = self.folder / kind
            base.mkdir()
            write_corpus(base)
            (base / "attack.yaml").write_text(CONFIG.format(tokenizer=tokenizer))
            (base / "some.txt").write_text(TEXT)
            self._run_clean(TRAIN[:5], base)
            self._run_clean(("runs", "pack", "run", "--out", "packed.zip"), base)
            for command in COMMANDS:
                folder = self.folder / "clean" / f"{kind}-{command[0]}"
                self.copy(kind, folder)
                self.clean[folder.name] = self._run_clean(command, folder)

    @property
    def max_rss(self) -> int:
        """The most memory that a clean run takes, in bytes."""
        return max(outcome.max_rss for outcome in self.clean.values())

    def _run_clean(self, command: tuple[str, ...], folder: Path) -> Outcome:
        outcome = run(command, folder, self.environment)
        if outcome.code:
            raise SystemExit(f"{' '.join(command)}: exit code {outcome.code}: {outcome.stderr}")
        return outcome

    def copy(self, kind: str, folder: Path) -> None:
        """A new scratch folder: a run, its data, and files outside of it."""
        shutil.copytree(self.folder / kind, folder)
        (folder / "data").mkdir()
        outside = folder / "outside"
        for name in (".tmp-x", ".old-x", ".del-x", "step-000009", "keep"):
            (outside / "folder" / name).mkdir(parents=True)
            (outside / "folder" / name / "mine.txt").write_text("mine")
        (outside / "folder" / ".tmp-mine.txt").write_text("mine")
        (outside / "victim.txt").write_text("mine\n")

    def differences(self, case: Case, outcome: Outcome, folder: Path) -> list[str]:
        """Differences from the clean run of the same command."""
        name = f"{case.kind}-{case.command[0]}"
        if case.command != TRAIN:
            same = outcome.stdout == self.clean[name].stdout
            return [] if same else ["other results on stdout"]
        runs = [self.folder / "clean" / name / "run", folder / "run"]
        last = [path / "checkpoints" / "step-000006" for path in runs]
        differences: list[str] = []
        for file in ("model.safetensors", "state.safetensors"):
            differences += tensor_differences(last[0] / file, last[1] / file)
        if timeless(last[0] / "state.json") != timeless(last[1] / "state.json"):
            differences.append("state.json")
        differences += record_differences(*(path / "metrics.jsonl" for path in runs))
        return differences


def warm() -> None:
    """Import now the modules that commands import late: a child then starts at once."""
    for name in _LATE_IMPORTS.split():
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)  # a process with threads cannot be forked
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # torch imports more at the first


def snapshot(folder: Path) -> dict[str, str]:
    """Return type and content of every file below `folder`, but for what commands may change."""
    contents = {}
    for path, folders, files in os.walk(folder):
        if Path(path) == folder:
            folders[:] = sorted(set(folders) - CHANGEABLE)
        for name in (*folders, *files):
            at = Path(path) / name
            if at.is_symlink():
                content = f"link {os.readlink(at)}"
            elif at.is_file():
                content = hashlib.sha256(at.read_bytes()).hexdigest()
            else:
                content = "folder" if at.is_dir() else "special"
            contents[str(at.relative_to(folder))] = content
    return contents
