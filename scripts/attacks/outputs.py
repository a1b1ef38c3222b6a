"""Outputs aimed at files that are there: no command changes one that the user did not give up."""

import os
from functools import partial
from pathlib import Path

from attacks.case import Case, Expected

RUN = ("--run", "run")
LANGUAGES = ("--src-lang", "en", "--tgt-lang", "de")
TEXT, PAIRS, OUT = "some.txt", "valid.tsv", "OUT"
WRITERS = {
    ("translate", "out"): ("translate", *RUN, "--file", TEXT, "--out", OUT),
    ("eval", "out"): ("eval", *RUN, "--no-bootstrap", "--beam", "1", "--out", OUT),
    ("score", "out"): ("score", *RUN, TEXT, TEXT, "--out", OUT),
    ("attention", "out"): ("attention", *RUN, "--file", TEXT, "--format", "text", "--out", OUT),
    ("align", "out"): ("align", *RUN, TEXT, TEXT, "--out", OUT),
    ("lexicon", "out"): ("lexicon", *RUN, "--split", "valid", "--out", OUT),
    ("curve", "out"): ("curve", *RUN, "--out", OUT),
    ("report", "out"): ("report", *RUN, "--out", OUT),
    ("card", "out"): ("card", *RUN, "--out", OUT),
    ("runs pack", "out"): ("runs", "pack", *RUN, "--out", OUT),
    ("init", "out"): ("init", "train.tsv", *LANGUAGES, "--out", OUT),
    ("corpus clean", "out"): ("corpus", "clean", PAIRS, *LANGUAGES, "--out", OUT),
    ("corpus clean", "rejected"): (
        *("corpus", "clean", PAIRS, *LANGUAGES),
        *("--out", "/dev/null", "--rejected", OUT),
    ),
}
"""By command and option: how a command writes the file OUT."""

FORCED = (
    *("train.tsv", "./run/../train.tsv", "run/../train.tsv", "link/train.tsv", "soft", "hard"),
    *("run/config.yaml", "run/run.json", "run/tokenizer/src.vocab.txt", "run/metrics.jsonl"),
    *("run/checkpoints/labels.json", "run/checkpoints/step-000004/state.json", "run/notes"),
    *("run/eval/new.txt", "run/train.log/x", "within/labels.json", "again/config.yaml", "folder"),
)
"""Outputs that not even --force allows: data, files of a run by any name, a folder."""

KEPT = ("mine.csv", "MINE.csv", "soft-mine", "hard-mine", "sealed.csv", "x/mine.csv", ".//mine.csv")
"""Outputs that are there already: they need --force."""

_ASIDE = (".tmp-new.csv", ".new.csv.part", "new.csv.part", "new.csv~", ".tmp-new.csv-1")


def cases() -> list[Case]:
    """Each command with each of these names; then their temporary files and default names."""
    made = []
    for (words, option), command in WRITERS.items():
        for name, is_forced in [*((n, True) for n in FORCED), *((n, False) for n in KEPT)]:
            made.append(_case(command, name, is_forced, f"{words} --{option}"))
        made.append(_case(command, "new.csv", False, f"{words}: a new file beside others"))
    defaults = {
        "curve.png": ("curve", *RUN),
        "report.html": ("report", *RUN),
        "run.zip": ("runs", "pack", *RUN),
        "en-de.yaml": ("init", "train.tsv", *LANGUAGES),
        "attention.png": ("attention", *RUN, "a", "--format", "png"),
        "attention/attention_000001_1.png": ("attention", *RUN, "a", "b", "--format", "png"),
        "lab/masks.png": ("lab", "masks"),
        "lab/masks.json": ("lab", "masks"),
        "v/tokenizer.json": ("vocab", "build", "attack.yaml", "--out", "v"),
        "v/src.vocab.txt": ("vocab", "build", "attack.yaml", "--out", "v"),
        "model/manifest.json": ("export", *RUN, "--out", "model"),
    }
    for name, command in defaults.items():
        made.append(_case(command, name, False, "a default name"))
    twice = {"some.out", "./some.out", "again/../some.out"}
    clean = ("corpus", "clean", PAIRS, *LANGUAGES, "--out", "some.out", "--rejected", OUT)
    return made + [_case(clean, name, False, "an output twice") for name in sorted(twice)]


def _case(command: tuple[str, ...], name: str, is_forced: bool, what: str) -> Case:
    words = tuple(name if word == OUT else word for word in command)
    words += ("--force",) * is_forced
    return Case(f"{what}: {name}", words, partial(_plant, Path(name)), Expected.KEPT)


def _plant(path: Path) -> None:
    """The user's files, of every kind of name."""
    for name in ("mine.csv", "run/notes", "sealed.csv", *_ASIDE):
        Path(name).write_text("mine")
    Path("sealed.csv").chmod(0o400)
    Path("x").mkdir()
    Path("x/mine.csv").write_text("mine")
    Path("folder").mkdir()
    links = {"soft": "train.tsv", "soft-mine": "mine.csv", "again": "run", "link": "."}
    for name, target in {**links, "within": "run/checkpoints"}.items():
        os.symlink(target, name)
    for name, target in (("hard", "train.tsv"), ("hard-mine", "mine.csv")):
        os.link(target, name)
    if not path.exists() and path.parts[0] not in ("new.csv", "run", "MINE.csv"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
