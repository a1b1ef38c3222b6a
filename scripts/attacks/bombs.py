"""Small files that would expand to large, deep or endless ones."""

import gzip
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
import torch
from bad_inputs import billion_words, bomb
from forging import forge_config, forge_vocabulary, seal

from attacks.case import CHECKPOINT, TRAIN, TRANSLATE, Case
from nmt.config import load_config
from nmt.models.catalog import build_model

DEEP = 100_000
MODEL = "model.safetensors"
RUN = Path("run")


def cases() -> list[Case]:
    """All of them."""
    packed = [
        Case(f"{name}: {what}", (*TRANSLATE[:4], name), make)
        for name, what, make in (
            ("b.gz", "deflate", bomb("b.gz")),
            ("b.zip", "deflate", bomb("b.zip")),
            ("b.zip", "bzip2", lambda: _zip(zipfile.ZIP_BZIP2)),
            ("b.zip", "lzma", lambda: _zip(zipfile.ZIP_LZMA)),
            ("b.tgz/a.txt", "a member before it", _tar),
            ("b.tar/a.txt", "a header of gigabytes", _tar_header),
        )
    ]
    check = ("corpus", "check", "x.yaml", "--no-pieces")
    texts = (
        ("aliases", billion_words()),
        ("brackets", "a: " + "[" * DEEP),
        ("many keys", "".join(f"k{n}: 1\n" for n in range(19_000))),
        ("a long number", f"name: x\nseed: {'9' * 100_000}\n"),
    )
    yaml = [Case(f"YAML: {what}", check, _writer(Path("x.yaml"), text)) for what, text in texts]
    deep = "[" * DEEP + "]" * DEEP
    nested = [
        Case(f"{name}: nested", command, _writer(Path("run") / name, f'{{"a": {deep}}}'))
        for name, command in (
            ("run.json", TRAIN),
            ("tokenizer/tokenizer.json", TRANSLATE),
            ("checkpoints/step-000004/state.json", TRANSLATE),
            ("metrics.jsonl", TRAIN),
        )
    ]
    keys = (
        "{max_length: 9223372036854775807, max_length_extra: 1000000000000}",
        "{max_length: 9223372036854775807, max_length_factor: 1.0e+308}",
        "{beam: 1000000000}",
        "{batch_size: 1000000000000, beam: 9}",
    )
    searches = [Case(f"search: {key}", TRANSLATE, _searcher(key)) for key in keys]
    forged = [
        Case("a huge vocabulary", TRANSLATE, _huge_vocabulary),
        Case("a huge vocabulary", TRAIN, _huge_vocabulary),
        Case("a model of aliases", TRANSLATE, _aliases),
    ]
    return [*packed, *yaml, *nested, *searches, *forged]


def _writer(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(text)


def _searcher(keys: str) -> Callable[[], object]:
    def change(text: str) -> str:
        head, _, rest = text.partition("\nsearch:")
        after = [line for line in rest.split("\n")[1:] if not line.startswith(" ")]
        return "\n".join([head, f"search: {keys}", *after])

    return lambda: forge_config(RUN, change)


def _tar() -> None:
    with gzip.open("b.tgz", "wb", 1) as out:
        bomb_of = tarfile.TarInfo("b.txt")
        bomb_of.size = 8 << 30
        out.write(bomb_of.tobuf())
        for _ in range(100):
            out.write(bytes(1 << 20))


def _tar_header() -> None:
    header = tarfile.TarInfo("b.txt")
    header.type, header.size = tarfile.XHDTYPE, (8 << 30) - 1
    Path("b.tar").write_bytes(header.tobuf(tarfile.USTAR_FORMAT))


def _zip(packing: int) -> None:
    with zipfile.ZipFile("b.zip", "w", packing) as archive, archive.open("a.txt", "w") as file:
        for _ in range(400):
            file.write(b"a" * (1 << 20))


def _huge_vocabulary() -> None:
    """80 MB of pieces, with the right checksum."""
    raw = (RUN / "tokenizer" / "tgt.vocab.txt").read_bytes()
    more = b"".join(b"%x\n" % number for number in range(11_000_000))
    forge_vocabulary(RUN, "tgt", raw + more)


def _aliases() -> None:
    """A model of gigabytes, whose tensors of one shape are all one tensor of the file."""
    forge_config(
        RUN,
        lambda text: text.replace("hidden: 8", "hidden: 1024").replace("layers: 1", "layers: 40"),
    )
    with torch.device("meta"):
        tensors = build_model(load_config(RUN / "config.yaml").model, 12, 12).state_dict()
    first: dict[tuple[int, ...], str] = {}
    aliases = {}
    for name, tensor in tensors.items():
        if first.setdefault(tuple(tensor.shape), name) != name:
            aliases[name] = first[tuple(tensor.shape)]
    stored = {name: torch.zeros(shape) for shape, name in first.items()}
    (CHECKPOINT / MODEL).write_bytes(safetensors.torch.save(stored))
    seal(CHECKPOINT, lambda content: content["aliases"].update({MODEL: aliases}))
