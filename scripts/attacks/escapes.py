"""Texts that would steer a terminal, in every place from which foreign text is printed."""

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from forging import forge_manifest, forge_vocabulary

from attacks.case import ATTENTION, EVAL, TRAIN, TRANSLATE, Case, Expected

SEQUENCES = (
    *("\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x08\x08", "\r", "\x7f", "\x0e"),
    *("\u202e", "\u2066", "\x1bc", "\x85"),
)
RAW = b"a\tb\n"
RUN = Path("run")
CATALOG = {
    "src_lang": "en",
    "tgt_lang": "de",
    "splits": {split: {"file": "a.tsv"} for split in ("train", "valid", "test")},
    "files": {"a.tsv": {"sources": [{"sha256": hashlib.sha256(RAW).hexdigest()}]}},
}
Make = Callable[[str], Case]
_SHOW = ("vocab", "show", "--run", "run")
_ATTEND = ("attention", "--run", "run")
_LIST = ("corpus", "list", "--data", "data")


def cases() -> list[Case]:
    """Every such place, each with one sequence after the other."""
    made = []
    for turn in range(len(SEQUENCES)):
        for number, door in enumerate(DOORS):
            sequence = SEQUENCES[(turn + number) % len(SEQUENCES)]
            made.append(door(f"ev{sequence}il"))
    return made


def _case(
    what: str,
    command: tuple[str, ...],
    prepare: Callable[[], object] = lambda: None,
    stdin: bytes = b"",
) -> Case:
    return Case(what, command, prepare, Expected.ESCAPED, stdin=stdin)


def _vocabulary(side: str, evil: str) -> None:
    """Insert it into every word of a vocabulary, with the right checksum."""
    words = (RUN / "tokenizer" / f"{side}.vocab.txt").read_bytes().decode().split("\n")
    text = "\n".join([*words[:4], *(word and f"{word}{evil}" for word in words[4:])])
    forge_vocabulary(RUN, side, text.encode())


def _write(name: str, text: str) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(text.encode())


def _catalog(name: str, **changes: object) -> None:
    Path("a.tsv").write_bytes(RAW)
    _write("data/catalog.yaml", json.dumps({name: {**CATALOG, **changes}}))


def _runs(name: str) -> None:
    Path("runs").mkdir()
    os.rename("run", f"runs/{name}")


def _forge_card(evil: str) -> None:
    path = Path("run/run.json")
    card = json.loads(path.read_bytes())
    path.write_text(json.dumps({**card, "started": evil}), encoding="utf-8")


def _forge_samples(evil: str) -> None:
    _write("run/samples/step-000004.jsonl", json.dumps({"format": f"{evil}\nerror: x"}))


def _vocab_door(what: str, command: tuple[str, ...], side: str = "tgt") -> Make:
    return lambda evil: _case(f"vocabulary: {what}", command, partial(_vocabulary, side, evil))


DOORS: tuple[Make, ...] = (
    _vocab_door("translate", TRANSLATE),
    _vocab_door("translate --json", (*TRANSLATE, "--json")),
    _vocab_door("translate --n-best", (*TRANSLATE, "--n-best", "2")),
    _vocab_door("translate --show-attention", (*TRANSLATE, "--show-attention")),
    _vocab_door("attention", ATTENTION),
    _vocab_door("attention jsonl", (*ATTENTION[:5], "--format", "jsonl")),
    _vocab_door("vocab show", _SHOW),
    _vocab_door("vocab show --json", (*_SHOW, "--json")),
    _vocab_door("samples of a training", TRAIN),
    lambda evil: _case("text: vocab show", (*_SHOW, "--side", "src", "--", f"a {evil}")),
    lambda evil: _case("text: attention", (*_ATTEND, "--format", "text", f"a {evil}")),
    lambda evil: _case("text: translate", ("translate", "--run", "run", "--json", f"a {evil}")),
    lambda evil: _case("description of a corpus", _LIST, partial(_catalog, "x", description=evil)),
    lambda evil: _case("name of a corpus", _LIST, partial(_catalog, evil)),
    lambda evil: _case(
        "licence of a corpus, fetched",
        ("corpus", "fetch", "x", "--data", "data", "--from", "."),
        partial(_catalog, "x", licence=evil),
    ),
    lambda evil: _case("run.json: card", ("card", "run"), partial(_forge_card, evil)),
    lambda evil: _case("samples: report", ("report", "run"), partial(_forge_samples, evil)),
    lambda evil: _case("name of a run", ("translate", "a"), partial(_runs, evil)),
    lambda evil: _case("name of a new run", (*TRAIN[:4], evil, *TRAIN[5:])),
    lambda evil: _case("a file's name", ("config", "check", evil)),
    lambda evil: _case("a command", (evil,)),
    lambda evil: _case("an option", ("translate", f"--{evil}")),
    lambda evil: _case(
        "a language, as a prompt",
        ("translate", "--run", "run"),
        partial(forge_manifest, RUN, src_lang=evil),
        b"a\n\n",
    ),
    lambda evil: _case(
        "a corpus that is checked",
        ("corpus", "check", "attack.yaml", "--no-pieces"),
        partial(_write, "train.tsv", f"a\tb {evil}\n{evil} no tab\n"),
    ),
    lambda evil: _case(
        "a key of a config",
        ("config", "check", "x.yaml"),
        partial(_write, "x.yaml", f"{json.dumps(evil)}: 1\n"),
    ),
    lambda evil: _case("an evaluation of a file's name", (*EVAL, "--hyp", evil)),
)
