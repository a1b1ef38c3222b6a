"""Links and FIFOs planted in a run or a data folder: nothing outside of it may change."""

import hashlib
import itertools
import json
import os
import shutil
from functools import partial
from pathlib import Path

from attacks.case import COMMANDS, Case

STEP = "checkpoints/step-000004"
PATHS = (
    *("train.log", "metrics.jsonl", "config.yaml", "run.json", "run.lock", ".tmp-run.json"),
    *("tokenizer", "tokenizer/tokenizer.json", "tokenizer/src.vocab.txt", ".tmp-metrics.jsonl"),
    *("checkpoints", STEP, f"{STEP}/state.json", f"{STEP}/model.safetensors"),
    *(f"{STEP}/state.safetensors", "checkpoints/.tmp-step-000006", "checkpoints/labels.json"),
    *("checkpoints/step-000006", "tensorboard", "eval", "eval/test.json"),
    *("checkpoints/.tmp-labels.json", "samples", "samples/step-000004.jsonl"),
)
FETCHED = ("", "small.tsv", "small.tsv.part", "small.tsv.part.json", "fetched.json")
HOWS = ("moved", "victim", "folder", "FIFO")
FETCH = ("corpus", "fetch", "small", "--data", "data", "--from", "shelf")


def cases() -> list[Case]:
    """Each path of a run in each of these ways, with one command after the other."""
    made = []
    for number, (how, name) in enumerate(itertools.product(HOWS, PATHS)):
        for more in range(len(COMMANDS)):
            command = COMMANDS[(number + more) % len(COMMANDS)]
            if name == "tensorboard" and command[0] == "train":
                command = (*command, "--set", "train.tensorboard=true")
            prepare = partial(_put, Path("run") / name, how)
            made.append((more, Case(f"run/{name}: {how}", command, prepare)))
    for how, name in itertools.product(HOWS, FETCHED):
        prepare = partial(_plant_data, name, how)
        made.append((0, Case(f"data/small/{name}: {how}", FETCH, prepare)))
    return [case for _, case in sorted(made, key=lambda pair: pair[0])]


def _plant_data(name: str, how: str) -> None:
    Path("shelf").mkdir()
    raw = b"a\tb\n" * 10
    Path("shelf/small.tsv").write_bytes(raw)
    Path("data/small").mkdir(parents=True)
    source = {"sha256": hashlib.sha256(raw).hexdigest()}
    splits = {split: {"file": "small.tsv"} for split in ("train", "valid", "test")}
    entry = {"src_lang": "en", "tgt_lang": "de", "splits": splits}
    entry["files"] = {"small.tsv": {"sources": [source]}}
    Path("data/catalog.yaml").write_text(json.dumps({"small": entry}))
    _put(Path("data/small") / name, how)


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
        goals = {"folder": "folder", "moved": "new.txt", "victim": "victim.txt"}
        path.symlink_to(outside / goals[how])
