"""Files of a run, and the compiled libraries, damaged by accident: no checksum is made right."""

import random
from functools import partial
from pathlib import Path

from attacks.case import EVAL, TRAIN, TRANSLATE, Case, Expected

FILES = (
    *(f"run/{name}" for name in ("config.yaml", "run.json", "metrics.jsonl", "train.log")),
    *(f"run/tokenizer/{side}" for side in ("src", "tgt", "tokenizer.json")),
    *(
        f"run/checkpoints/step-{step:06d}/{name}"
        for step in (2, 4)
        for name in ("model.safetensors", "state.safetensors", "state.json")
    ),
    *("run/config.yaml", "run/run.lock"),
)


def case(chance: random.Random) -> Case:
    """Damage one file in one way."""
    file = chance.choice(FILES)
    kind = chance.choice(("word", "sentencepiece"))
    suffix = {"word": ".vocab.txt", "sentencepiece": ".model"}[kind]
    if file.endswith(("src", "tgt")):
        file += suffix
    how = chance.choice(("flipped", "flipped", "cut", "swapped", "zeroed", "longer", "empty"))
    again = random.Random(chance.random())
    command = chance.choice((TRAIN, TRANSLATE, EVAL))
    names = (Path(file).name, Path(file).parent.name if "step-" in file else Path(file).name)
    prepare = partial(_damage, Path(file), how, again)
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
