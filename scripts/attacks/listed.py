"""Attacks by lists: links and FIFOs, small files that expand, texts that steer a terminal."""

import gzip
import itertools
import json
import lzma
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from forging import (
    billion_words,
    bomb,
    forge_config,
    forge_manifest,
    forge_vocabulary,
    overlapping_zip,
)

from attacks.material import ATTENTION, COMMANDS, PACKED, TRAIN, TRANSLATE, Case, Expected

RUN = Path("run")
STEP = "checkpoints/step-000004"
PATHS = (
    *("train.log", "metrics.jsonl", "config.yaml", "run.json", "run.lock", ".tmp-run.json"),
    *("tokenizer", "tokenizer/tokenizer.json", "tokenizer/src.vocab.txt", ".tmp-metrics.jsonl"),
    *("checkpoints", STEP, f"{STEP}/state.json", f"{STEP}/model.safetensors"),
    *(f"{STEP}/state.safetensors", "checkpoints/.tmp-step-000006", "checkpoints/labels.json"),
    *("checkpoints/step-000006", "eval", "eval/test.json"),
    *("checkpoints/.tmp-labels.json", "samples", "samples/step-000004.jsonl"),
)


def links() -> list[Case]:
    """Each path of a run in each of these ways, with one command after the other."""
    ways = list(itertools.product(("moved", "victim", "folder", "FIFO"), PATHS))
    cases = []
    for more in range(len(COMMANDS)):
        for number, (how, name) in enumerate(ways):
            command = COMMANDS[(number + more) % len(COMMANDS)]
            cases.append(Case(f"run/{name}: {how}", command, partial(_put, RUN / name, how)))
    return cases


def _put(path: Path, how: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    outside = Path("outside").resolve()
    if how == "moved" and path.exists():
        os.rename(path, outside / "moved")
        path.symlink_to(outside / "moved")
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if how == "FIFO":
        os.mkfifo(path)
    else:
        targets = {"folder": "folder", "moved": "new.txt", "victim": "victim.txt"}
        path.symlink_to(outside / targets[how])


DEEP = 100_000
SEARCHES = (
    "{max_length: 9223372036854775807, max_length_extra: 1000000000000}",
    "{max_length: 9223372036854775807, max_length_factor: 1.0e+308}",
    "{beam: 1000000000}",
    "{batch_size: 1000000000000, beam: 9}",
)


def bombs() -> list[Case]:
    """Small files that would expand to large, deep or endless ones."""
    files: dict[str, Callable[[], object]] = {
        "b.gz": bomb("b.gz"),
        "b.zip": bomb("b.zip"),
        "lzma.zip": _lzma_zip,
        "b.tgz/a.txt": _tar,
        "b.tar/a.txt": _tar_header,
        "empty.gz": _writer("empty.gz", gzip.compress(b"") * 300_000),
        "empty.xz": _writer("empty.xz", lzma.compress(b"") * 300_000),
    }
    packed = [Case(f"packed: {n}", (*TRANSLATE[:4], n), make) for n, make in files.items()]
    members = [f"m{n}" for n in range(3000)]
    overlap = partial(overlapping_zip, Path("packed.zip"), members, bytes(1 << 20))
    packed.append(Case("packed run: overlapping members", PACKED, overlap))
    texts = {
        "aliases": billion_words(),
        "brackets": "a: " + "[" * DEEP,
        "many keys": "".join(f"k{n}: 1\n" for n in range(19_000)),
        "a long number": f"name: x\nseed: {'9' * 100_000}\n",
    }
    check = ("corpus", "check", "x.yaml", "--no-pieces")
    yaml = [Case(f"YAML: {n}", check, _writer("x.yaml", t.encode())) for n, t in texts.items()]
    deep = ('{"a": ' + "[" * DEEP + "]" * DEEP + "}").encode()
    nested = [
        Case(f"{name}: nested", command, _writer(f"run/{name}", deep))
        for name, command in (
            ("run.json", TRAIN),
            ("tokenizer/tokenizer.json", TRANSLATE),
            (f"{STEP}/state.json", TRANSLATE),
            ("metrics.jsonl", TRAIN),
        )
    ]
    searches = [Case(f"search: {key}", TRANSLATE, partial(_search, key)) for key in SEARCHES]
    forged = [Case("a huge vocabulary", command, _huge_vocabulary) for command in COMMANDS[:2]]
    return [*packed, *yaml, *nested, *searches, *forged]


def _writer(name: str, content: bytes) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(content)


def _search(keys: str) -> None:
    def change(text: str) -> str:
        head, _, rest = text.partition("\nsearch:")
        after = [line for line in rest.split("\n")[1:] if not line.startswith(" ")]
        return "\n".join([head, f"search: {keys}", *after])

    forge_config(RUN, change)


def _tar() -> None:
    """A member of gigabytes before the one that is asked for."""
    with gzip.open("b.tgz", "wb", 1) as out:
        member = tarfile.TarInfo("b.txt")
        member.size = 8 << 30
        out.write(member.tobuf())
        for _ in range(100):
            out.write(bytes(1 << 20))


def _tar_header() -> None:
    header = tarfile.TarInfo("b.txt")
    header.type, header.size = tarfile.XHDTYPE, (8 << 30) - 1
    Path("b.tar").write_bytes(header.tobuf(tarfile.USTAR_FORMAT))


def _lzma_zip() -> None:
    with zipfile.ZipFile("lzma.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.txt", b"a" * (400 << 20))


def _huge_vocabulary() -> None:
    """80 MB of pieces, with the right checksum."""
    raw = (RUN / "tokenizer" / "tgt.vocab.txt").read_bytes()
    more = b"".join(b"%x\n" % number for number in range(11_000_000))
    forge_vocabulary(RUN, "tgt", raw + more)


SEQUENCES = (
    *("\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x08\x08", "\r", "\x7f", "\x0e"),
    *("\u202e", "\u2066", "\x1bc", "\x85"),
)


def escapes() -> list[Case]:
    """Every place from which foreign text is printed, each with one sequence after the other."""
    return [
        door(f"ev{SEQUENCES[(turn + number) % len(SEQUENCES)]}il")
        for turn in range(len(SEQUENCES))
        for number, door in enumerate(DOORS)
    ]


def _door(
    what: str,
    command: Callable[[str], tuple[str, ...]] | tuple[str, ...],
    prepare: Callable[[str], object] = lambda evil: None,
    stdin: bytes = b"",
) -> Callable[[str], Case]:
    def case(evil: str) -> Case:
        words = command(evil) if callable(command) else command
        return Case(what, words, partial(prepare, evil), Expected.ESCAPED, stdin=stdin)

    return case


def _vocabulary(evil: str) -> None:
    """Insert it into every word of a vocabulary, with the right checksum."""
    words = (RUN / "tokenizer" / "tgt.vocab.txt").read_bytes().decode().split("\n")
    text = "\n".join([*words[:4], *(word and f"{word}{evil}" for word in words[4:])])
    forge_vocabulary(RUN, "tgt", text.encode())


def _catalog(evil: str) -> None:
    splits = {split: {"file": "a.tsv"} for split in ("train", "valid", "test")}
    files = {"a.tsv": {"sources": [{"sha256": "0" * 64}]}}
    entry = {"src_lang": "en", "tgt_lang": "de", "splits": splits, "files": files}
    text = json.dumps({evil: {**entry, "description": evil}})
    Path("data/catalog.yaml").write_text(text)


def _rename_run(evil: str) -> None:
    Path("runs").mkdir()
    os.rename("run", f"runs/{evil}")


def _card(evil: str) -> None:
    path = RUN / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "started": evil}))


def _corpus(evil: str) -> None:
    Path("train.tsv").write_bytes(f"a\tb {evil}\n{evil} no tab\n".encode())


def _config(evil: str) -> None:
    Path("x.yaml").write_bytes(f"{json.dumps(evil)}: 1\n".encode())


ATTEND = ("attention", "--run", "run", "--format", "text")
DOORS = (
    _door("vocabulary: translate", TRANSLATE, _vocabulary),
    _door("vocabulary: translate --json", (*TRANSLATE, "--json"), _vocabulary),
    _door("vocabulary: attention", ATTENTION, _vocabulary),
    _door("vocabulary: vocab show", ("vocab", "show", "--run", "run"), _vocabulary),
    _door("vocabulary: samples of a training", TRAIN, _vocabulary),
    _door("text: attention", lambda evil: (*ATTEND, f"a {evil}")),
    _door("text: translate", lambda evil: ("translate", "--run", "run", "--json", f"a {evil}")),
    _door("name of a corpus", ("corpus", "list", "--data", "data"), _catalog),
    _door("run.json: card", ("card", "run"), _card),
    _door("name of a run", ("translate", "a"), _rename_run),
    _door("name of a new run", lambda evil: (*TRAIN[:4], evil, *TRAIN[5:])),
    _door("a file's name", lambda evil: ("config", "check", evil)),
    _door("a command", lambda evil: (evil,)),
    _door("an option", lambda evil: ("translate", f"--{evil}")),
    _door("a language, as a prompt", ("translate", "--run", "run"),
          lambda evil: forge_manifest(RUN, src_lang=evil), b"a\n\n"),
    _door("a corpus that is checked", ("corpus", "check", "attack.yaml", "--no-pieces"), _corpus),
    _door("a key of a config", ("config", "check", "x.yaml"), _config),
)  # fmt: skip
