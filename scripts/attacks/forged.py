"""Checkpoints forged with the right checksums, and files damaged by accident, by chance."""

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from forging import forge_tensors, seal

from attacks.material import CHECKPOINT, EVAL, PACKED, TRAIN, TRANSLATE, Case, Expected

Tensors = dict[str, torch.Tensor]
NUMBERS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0, -1.0, 2.0**31)
VALUES: tuple[object, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../../x", "\x1b[31m", "\ud800", [], {}, [[]], [0], {"": 0}, [1] * 10_000),
)
FILES = (
    *("run/config.yaml", "run/run.json", "run/metrics.jsonl", "run/run.lock", "packed.zip"),
    *("run/tokenizer/src", "run/tokenizer/tgt", "run/tokenizer/tokenizer.json"),
    *(f"run/checkpoints/step-00000{step}/{name}"
      for step in (2, 4) for name in ("model.safetensors", "state.safetensors", "state.json")),
)  # fmt: skip


def forged(chance: random.Random) -> Case:
    """A checkpoint with another content in one of its three files."""
    again = random.Random(chance.random())
    if chance.random() < 0.4:
        command = TRAIN if chance.random() < 0.8 else TRANSLATE
        return Case("state.json", command, partial(_forge_json, again))
    name = chance.choice(("state.safetensors", "state.safetensors", "model.safetensors"))
    command = TRANSLATE if name == "model.safetensors" and chance.random() < 0.5 else TRAIN
    how = chance.choice(tuple(_CHANGES))
    is_strict = how in ("shape", "dropped", "renamed")
    expected = Expected.REFUSED if is_strict else Expected.NOTHING
    prepare = partial(_forge_tensors, name, _CHANGES[how], again)
    return Case(f"{name}: {how}", command, prepare, expected, (name, CHECKPOINT.name))


def damage(chance: random.Random) -> Case:
    """A file of a run changed in one way; no checksum is made right."""
    file = chance.choice(FILES)
    kind = chance.choice(("word", "sentencepiece"))
    if file.endswith(("src", "tgt")):
        file += {"word": ".vocab.txt", "sentencepiece": ".model"}[kind]
    how = chance.choice(("flipped", "flipped", "cut", "swapped", "zeroed", "longer", "empty"))
    command = PACKED if file == "packed.zip" else chance.choice((TRAIN, TRANSLATE, EVAL))
    names = (Path(file).name, Path(file).parent.name if "step-" in file else Path(file).name)
    prepare = partial(_damage, Path(file), how, random.Random(chance.random()))
    return Case(f"{file} {how}", command, prepare, Expected.SAME, names, kind)


def _damage(path: Path, how: str, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    size = len(content)
    if how == "flipped":
        for _ in range(chance.choice((1, 1, 3, 8)) if size else 0):
            content[chance.randrange(size)] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[chance.randrange(size + 1) :]
    elif how == "swapped":
        first, second = sorted(chance.randrange(size + 1) for _ in range(2))
        content = content[:first] + content[second:] + content[first:second]
    elif how == "zeroed":
        first = chance.randrange(size + 1)
        part = content[first : first + chance.choice((1, 16, 512))]
        content[first : first + len(part)] = bytes(len(part))
    elif how == "longer":
        content += chance.randbytes(chance.choice((1, 100)))
    else:
        content.clear()
    path.write_bytes(content)


def _forge_tensors(
    name: str, change: Callable[[Tensors, str, random.Random], None], chance: random.Random
) -> None:
    def apply(tensors: Tensors) -> None:
        change(tensors, chance.choice(sorted(tensors)), chance)

    forge_tensors(CHECKPOINT, Path(name).stem, apply)


def _shape(tensors: Tensors, name: str, chance: random.Random) -> None:
    old = tuple(tensors[name].shape)
    first = old[0] if old else 1
    shapes = [(), (0,), (3, 5), (2 * first, *old[1:]), (first // 2, *old[1:]), old[::-1]]
    shapes += [(*old, 1), (1, *old), (tensors[name].numel(),), (100_000,)]
    new = chance.choice([shape for shape in shapes if shape != old])
    tensors[name] = torch.zeros(new, dtype=tensors[name].dtype)


def _dtype(tensors: Tensors, name: str, chance: random.Random) -> None:
    dtypes = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    others = [dtype for dtype in dtypes if dtype != tensors[name].dtype]
    tensors[name] = tensors[name].to(chance.choice(others))


def _renamed(tensors: Tensors, name: str, chance: random.Random) -> None:
    new = chance.choice(("evil", "", name[:-1], f"{name}.x", "\x1b[31m", "optimizer.99999.exp_avg"))
    tensors[new] = tensors.pop(name)


def _dropped(tensors: Tensors, name: str, chance: random.Random) -> None:
    del tensors[name]


def _added(tensors: Tensors, name: str, chance: random.Random) -> None:
    tensors[chance.choice(("evil", "optimizer.0.evil", f"{name}.evil"))] = tensors[name].clone()


def _values(tensors: Tensors, name: str, chance: random.Random) -> None:
    tensor = tensors[name]
    if tensor.is_floating_point() and tensor.numel():
        places = torch.tensor([chance.randrange(tensor.numel()) for _ in range(3)])
        tensor.view(-1)[places if chance.random() < 0.5 else slice(None)] = chance.choice(NUMBERS)
    else:
        tensors[name] = torch.full_like(tensor, chance.choice((0, 1, 255, -1)) % 256)


_CHANGES: dict[str, Callable[[Tensors, str, random.Random], None]] = {
    "shape": _shape,
    "dtype": _dtype,
    "renamed": _renamed,
    "dropped": _dropped,
    "added": _added,
    "values": _values,
}


def _forge_json(chance: random.Random) -> None:
    def apply(content: dict[str, Any]) -> None:
        checksums = content.pop("sha256")  # so that what is behind them is reached
        for _ in range(chance.choice((1, 1, 1, 2))):
            _change_json(content, chance)
        content["sha256"] = checksums

    seal(CHECKPOINT, apply)


def _change_json(content: Any, chance: random.Random) -> None:
    """Remove, add or change a key somewhere below `content`."""
    holder, key = chance.choice(list(_places(content)))
    old = holder[key]
    how = chance.random()
    if how < 0.15:
        del holder[key]
    elif how < 0.3 and isinstance(holder, dict):
        holder[chance.choice(("evil", "", "0", f"{key}x"))] = json.loads(json.dumps(old))
    elif how < 0.5 and isinstance(old, int | float):
        holder[key] = old + chance.choice((-1, 1, 0.5, 1e9, -1e9, 2**40))
    elif how < 0.6 and isinstance(old, list) and old:
        holder[key] = chance.choice((old[:-1], old * 2, old[::-1], old[1:], [old]))
    else:
        holder[key] = chance.choice(VALUES)


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every value below `content`, as its container and the key in it."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(pairs):
        yield content, key
        if isinstance(value, dict | list) and value:
            yield from list(_places(value))[:40]
