"""`nmt corpus encode`: write the training set of a config in shards, for corpora of any size."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import ConfigOptions
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.batches.store import EncodedSet


def encode(
    *,
    config: ConfigOptions,
    shard: Annotated[
        str | None,
        Option(
            metavar="I/N",
            help="Write only the part I of N, counted from 1.",
            show_default="all of it as 1/1",
        ),
    ] = None,
    run: Annotated[Path | None, Option(help="Run directory.", show_default="runs/NAME")] = None,
    status: Annotated[
        bool, Option("--status", help="Write nothing; say which shards are missing or damaged.")
    ] = False,
) -> None:
    """Encode the training set of a config in shards, for `nmt train`.

    They are files of the folder data.cache. The run directory has the vocabularies. Jobs that write
    different shards need not know of each other. A shard that is there and sound is left as it is;
    one whose job was killed is missing, and the same command writes it. The vocabularies must exist
    before several shards are written: `nmt vocab build` learns them.
    """
    from nmt.batches.store import EncodedSet
    from nmt.runs.directory import RunDirectory
    from nmt.storage.run_files import check_tree
    from nmt.text.tokenizer import MANIFEST_NAME
    from nmt.training.resume import check_run_folder
    from nmt.training.training_data import data_sets, run_tokenizers

    loaded = config.load()
    number, n_shards = _parsed(shard)
    cache = loaded.data.cache
    if cache is None:
        raise ConfigError(
            f"{config.path}: data.cache: missing; name the folder for the shards there, or with "
            "--set data.cache=FOLDER"
        )
    directory = RunDirectory(run or Path("runs") / loaded.name)
    check_run_folder(directory.path)
    check_tree(directory.path)
    vocabularies = directory.tokenizer_path
    if (n_shards > 1 or status) and not (vocabularies / MANIFEST_NAME).is_file():
        raise DataError(
            f"{vocabularies}: no vocabularies, and shards need them first; learn them with: "
            f"nmt vocab build --config {config.path} --out {vocabularies}"
        )
    tokenizers = run_tokenizers(loaded, directory)
    for wanted in data_sets(loaded):
        encoded = EncodedSet(cache, wanted, tokenizers)
        if status:
            _show(encoded)
        else:
            encoded.encode(number, n_shards, say)
            typer.echo(encoded.path(number, n_shards))


def _show(encoded: "EncodedSet") -> None:
    """Print the state of each shard of a data set."""
    n_shards = encoded.n_shards
    if n_shards is None:
        typer.echo(f"{encoded.folder}: not begun")
        return
    opened = {number: encoded.open(number, n_shards) for number in range(1, n_shards + 1)}
    faults = {number: fault for number, fault in opened.items() if isinstance(fault, str)}
    typer.echo(f"{encoded.folder}: {n_shards - len(faults)} of {n_shards} shards are there")
    for number, fault in faults.items():
        typer.echo(f"  {number}/{n_shards}: {fault}")


def _parsed(shard: str | None) -> tuple[int, int]:
    """The number of a shard and how many there are. Raises ConfigError."""
    from nmt.batches.store import MAX_SHARDS

    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", shard or "1/1")
    number, n_shards = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= n_shards <= MAX_SHARDS:
        raise ConfigError(
            f"--shard: got {shard!r}, allowed: I/N with I from 1 to N, as in 3/7, and N up to "
            f"{MAX_SHARDS:,}"
        )
    return number, n_shards
