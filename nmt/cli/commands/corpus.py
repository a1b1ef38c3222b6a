"""`nmt corpus`: list and fetch the named corpora, and check the corpora of a run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import ConfigOptions, Data, Json
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nmt.corpora.sources import DataConfig
    from nmt.types import SentencePair


def list_(data: Data = Path("data")) -> None:
    """List the corpora that a config can name, and what is on disk."""
    from nmt.corpora.corpora import readable_splits
    from nmt.corpora.entries import load_catalog

    entries = load_catalog(data)
    readable = {name: readable_splits(name, data) for name in entries}
    for name, entry in entries.items():
        missing = [split for split in entry.split_names if split not in readable[name]]
        state = f"on disk but for {', '.join(missing)}" if missing else "on disk"
        state = state if readable[name] else "not on disk"
        sizes = ", ".join(
            f"{split} {entry.pairs[split]:,}" if split in entry.pairs else split
            for split in entry.split_names
        )
        described = entry.description or "no description"
        typer.echo(f"{name} ({entry.src_lang}, {entry.tgt_lang}): {described}")
        typer.echo(f"  {state}; pairs as published: {sizes}")
        typer.echo(f"  licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")


def fetch(
    name: Annotated[str, Argument(help="A corpus of `nmt corpus list`.")],
    from_path: Annotated[
        Path | None,
        Option("--from", help="Take the files from this file or folder, download nothing."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Fetch again what is there already.")] = False,
    data: Data = Path("data"),
) -> None:
    """Download a corpus, or copy it from disk, and verify it.

    Its splits are read, to be sure. A cut download is continued by the same command.
    """
    from nmt.corpora.fetch import fetch_corpus

    report = fetch_corpus(name, data, say, from_path, force)
    pairs = ", ".join(f"{split} {count:,}" for split, count in report.pairs.items())
    typer.echo(f"{name} in {report.folder}: {pairs} pairs")


def check(*, config: ConfigOptions, as_json: Json = False) -> None:
    """Report on what a run would read, before it is trained.

    Pairs, those that `nmt corpus clean` leaves out, words, lengths, overlap of train with the
    evaluation sets, and signs of shifted lines and swapped files.
    """
    from nmt.corpora.corpus_report import corpus_report, render_report

    loaded = config.load()
    splits = _read_splits(loaded.data)
    if not splits:
        raise ConfigError(
            f"{config.path}: nothing to read: corpus '{loaded.data.corpus}' has no split train, "
            "valid or test; name its splits under data.train, data.valid, data.test"
        )
    report = corpus_report(splits, loaded.data)
    values = [asdict(split) for split in report]
    typer.echo(
        json.dumps(values, indent=2, ensure_ascii=False) if as_json else render_report(report)
    )


def _read_splits(data: "DataConfig") -> "dict[str, Iterable[SentencePair]]":
    """The pairs of each split of the run, one for each reference."""
    from nmt.corpora.corpora import read_examples, resolve_split, stream_split
    from nmt.corpora.entries import RUN_SPLITS
    from nmt.corpora.sources import pairs_of

    splits: dict[str, Iterable[SentencePair]] = {}
    for name in RUN_SPLITS:
        split = resolve_split(data, name)
        if split is not None:
            is_train = name == "train"
            splits[name] = (
                stream_split(split, data) if is_train else pairs_of(read_examples(split, data))
            )
    return splits
