"""The folder that an export writes: the model's files, the tokenizers and a manifest."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.corpora.entries import data_folder, load_catalog
from nmt.errors import ConfigError, DataError, pip_install
from nmt.models.transformer.positions import LearnedConfig
from nmt.runs.card import CARD
from nmt.runs.trained_run import LoadedModel, TrainedRun
from nmt.storage.atomic import ASIDE, digest, flush, remove, write_json
from nmt.storage.output import check_output, output_errors
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"


def check_packages(format_: str, *packages: str) -> None:
    """Raise ConfigError if a package is missing. `format_` is the extra that installs it."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"format {format_} needs {package}: {pip_install(format_)}")


@contextlib.contextmanager
def export_folder(
    run: TrainedRun, checkpoint: str, out: Path
) -> Iterator[tuple[Path, LoadedModel, dict[str, object]]]:
    """Create the folder `out` with the files that the `with` block writes.

    Yields a temporary folder for the files, the model of the checkpoint on the CPU with backend
    `reference`, and the manifest, to which the block adds entries. At the end of the block, the
    tokenizers and the manifest are written, and the folder is renamed to `out`. After an error it
    is removed. Raises ConfigError for a right-to-left model, DataError if `out` exists or cannot be
    written, and the errors of `TrainedRun.load_model`.
    """
    if run.config.data.reverse_target:
        raise ConfigError(
            "cannot export data.reverse_target: got true, allowed: false; other programs would "
            "write its translations backwards"
        )
    if os.path.lexists(out):
        raise DataError(f"cannot write {out}: it already exists; give the name of a new folder")
    check_output(out)
    reference = run.with_config(["model.backend=reference"])
    loaded = reference.load_model(checkpoint, torch.device("cpu"))
    content = _manifest(run, loaded)
    target = Path(os.path.realpath(out))
    folder = target.with_name(f"{ASIDE}{target.name}-{os.getpid()}")
    with output_errors(out):
        folder.mkdir(parents=True)
        try:
            yield folder, loaded, content
            loaded.tokenizers.save(folder / TOKENIZER)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            for path in files:
                flush(path)
            sums = {path.relative_to(folder).as_posix(): digest(path) for path in files}
            write_json(folder / MANIFEST, {**content, "sha256": sums})
            flush(folder)
            os.rename(folder, target)
            flush(target.parent)
        finally:
            remove(folder)


def _manifest(run: TrainedRun, loaded: LoadedModel) -> dict[str, object]:
    """Return the manifest entries that all formats share."""
    config, tokenizers = loaded.config, loaded.tokenizers
    positions = getattr(config.model, "positions", None)
    return {
        "format": 1,
        "name": config.name,
        "step": loaded.step,
        "model": config.model.kind,
        "languages": {"src": tokenizers.src.lang, "tgt": tokenizers.tgt.lang},
        "vocabulary": {"src": len(tokenizers.src.vocab), "tgt": len(tokenizers.tgt.vocab)},
        "ids": {"pad": PAD_ID, "unk": UNK_ID, "bos": BOS_ID, "eos": EOS_ID},
        "max_positions": positions.max_length if isinstance(positions, LearnedConfig) else None,
        "search": config.search.model_dump(mode="json"),
        "tokenizer": TOKENIZER,
        "data": _data(run),
    }


def _data(run: TrainedRun) -> dict[str, object]:
    """Return the training files listed in the run's card, and the licence of a named corpus."""
    data = run.config.data
    name = data.corpus if data.train is None else data.train.corpus
    entry = None if name is None else load_catalog(data_folder(data.folder)).get(name)
    card = run.directory.read_json(CARD)
    files = card.get("data", []) if isinstance(card, dict) else []
    return {
        "corpus": name,
        "licence": None if entry is None else entry.licence,
        "attribution": None if entry is None else entry.attribution,
        "files": [{"file": Path(file["file"]).name, "sha256": file["sha256"]} for file in files],
    }
