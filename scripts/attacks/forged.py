"""Forged checkpoints with the right checksums."""

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from forging import forge_tensors, seal

from attacks.case import CHECKPOINT, TRAIN, TRANSLATE, Case, Expected

Tensors = dict[str, torch.Tensor]
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
NUMBERS = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0, -1.0, 2.0**31)
VALUES: tuple[object, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../../x", "\x1b[31m", "\ud800", [], {}, [[]], [0], {"": 0}, [1] * 10_000),
)


def case(chance: random.Random) -> Case:
    """A checkpoint with another content in one of its three files."""
    if chance.random() < 0.4:
        command = TRAIN if chance.random() < 0.8 else TRANSLATE
        return Case("state.json", command, partial(_forge_json, random.Random(chance.random())))
    name = chance.choice(("state.safetensors", "state.safetensors", "model.safetensors"))
    command = TRANSLATE if name == "model.safetensors" and chance.random() < 0.5 else TRAIN
    how = chance.choice(tuple(_CHANGES))
    prepare = partial(_forge_tensors, name, _CHANGES[how], random.Random(chance.random()))
    strict = how in ("shape", "dropped", "renamed")
    return Case(
        f"{name}: {how}",
        command,
        prepare,
        Expected.REFUSED if strict else Expected.NOTHING,
        (name, CHECKPOINT.name),
    )


def change_tensors(name: str, chance: random.Random) -> None:
    """Change one tensor of a file of the checkpoint in one of these ways."""
    _forge_tensors(name, chance.choice(tuple(_CHANGES.values())), chance)


def _forge_tensors(
    name: str, change: Callable[[Tensors, str, random.Random], None], chance: random.Random
) -> None:
    def apply(tensors: Tensors) -> None:
        change(tensors, chance.choice(sorted(tensors)), chance)

    path = CHECKPOINT / name
    forge_tensors(CHECKPOINT, path.stem, apply)
    if change is _header:
        _forge_header(path, chance)
        seal(CHECKPOINT)


def _shape(tensors: Tensors, name: str, chance: random.Random) -> None:
    old = tuple(tensors[name].shape)
    first = old[0] if old else 1
    shapes = [(), (0,), (1,), (3, 5), (2 * first, *old[1:]), (first // 2, *old[1:]), old[::-1]]
    shapes += [(*old, 1), (1, *old), (tensors[name].numel(),), (100_000,)]
    new = chance.choice([shape for shape in shapes if shape != old])
    tensors[name] = torch.zeros(new, dtype=tensors[name].dtype)


def _dtype(tensors: Tensors, name: str, chance: random.Random) -> None:
    others = [dtype for dtype in DTYPES if dtype != tensors[name].dtype]
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
        number = chance.choice(NUMBERS)
        tensor.view(-1)[places if chance.random() < 0.5 else slice(None)] = number
    else:
        tensors[name] = torch.full_like(tensor, chance.choice((0, 1, 255, -1)) % 256)


def _header(tensors: Tensors, name: str, chance: random.Random) -> None:
    """Nothing yet: the header is changed once the file is written."""


def _forge_header(path: Path, chance: random.Random) -> None:
    """Change one value of the header, and correct the header's length."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    _change_json(header, chance)
    text = json.dumps(header, ensure_ascii=True).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


_CHANGES: dict[str, Callable[[Tensors, str, random.Random], None]] = {
    "shape": _shape,
    "dtype": _dtype,
    "renamed": _renamed,
    "dropped": _dropped,
    "added": _added,
    "values": _values,
    "header": _header,
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
    places = list(_places(content))
    holder, key = chance.choice(places)
    old = holder[key]
    how = chance.random()
    if how < 0.15:
        del holder[key]
    elif how < 0.3 and isinstance(holder, dict):
        holder[chance.choice(("evil", "", "0", f"{key}x"))] = old
    elif how < 0.5 and isinstance(old, int | float):
        holder[key] = old + chance.choice((-1, 1, 0.5, 1e9, -1e9, 2**40))
    elif how < 0.6 and isinstance(old, list) and old:
        holder[key] = chance.choice((old[:-1], old * 2, old[::-1], old[1:], [old]))
    else:
        holder[key] = chance.choice(VALUES)


def _places(content: Any) -> Any:
    """Every value below `content`, as its container and the key in it."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in list(pairs):
        yield content, key
        if isinstance(value, dict | list) and value:
            yield from list(_places(value))[:40]
