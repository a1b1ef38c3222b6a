"""`nmt corpus`: list and fetch the named corpora, and check the corpora of a run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.options import ConfigOptions, Data, Json
from nmt.errors import ConfigError, NMTError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nmt.corpora.file_report import FileReport
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
    source: Annotated[
        str | None, Option(help="Where a file has several sources, use only this one.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Fetch again what is there already.")] = False,
    data: Data = Path("data"),
) -> None:
    """Download a corpus, or copy it from disk, and verify it.

    Its splits are read, to be sure. A cut download is continued by the same command.
    """
    from nmt.corpora.fetch import fetch_corpus

    report = fetch_corpus(name, data, say, from_path, source, force)
    pairs = ", ".join(f"{split} {count:,}" for split, count in report.pairs.items())
    typer.echo(f"{name} in {report.folder}: {pairs} pairs")


def check(
    *,
    config: ConfigOptions,
    no_pieces: Annotated[
        bool, Option("--no-pieces", help="Train no tokenizer, and count no pieces.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Report on what a run would read, before it is trained.

    Pairs, words, pieces, lengths, duplicates, overlap of train with the evaluation sets,
    characters outside the usual, unknown pieces, pairs over the length limit; odd lines of the
    files, and signs of shifted lines, swapped files and copies.
    """
    # Imported here because they bring torch and sentencepiece along.
    from nmt.corpora.corpus_report import corpus_report
    from nmt.corpora.corpus_report_text import render_report

    loaded = config.load()
    splits, files = _read_splits(loaded.data)
    if not splits:
        raise ConfigError(
            f"{config.path}: nothing to read: corpus '{loaded.data.corpus}' has no split train, "
            "valid or test; name its splits under data.train, data.valid, data.test"
        )
    tokenizers, fault = None, None
    if not no_pieces and "train" in splits:
        from nmt.text.tokenizer import size_notes
        from nmt.training.training_data import learn_tokenizers

        say(f"training the {loaded.tokenizer.kind} tokenizer on train ...")
        try:
            tokenizers = learn_tokenizers(loaded)
        except NMTError as error:  # raised at the end: the rest of the report is still useful
            fault = error
        else:
            for note in size_notes(tokenizers):
                say(note)
    report = corpus_report(splits, loaded.data, tokenizers, files)
    typer.echo(
        json.dumps(asdict(report), indent=2, ensure_ascii=False)
        if as_json
        else render_report(report)
    )
    if fault is not None:
        raise fault


def _read_splits(
    data: "DataConfig",
) -> "tuple[dict[str, Iterable[SentencePair]], list[FileReport]]":
    """The pairs of each split of the run, one for each reference, and a report on each file."""
    from nmt.corpora.corpora import StreamedSplit, read_examples, resolve_split, text_paths
    from nmt.corpora.entries import RUN_SPLITS
    from nmt.corpora.file_report import file_report
    from nmt.corpora.sources import pairs_of

    splits: dict[str, Iterable[SentencePair]] = {}
    is_tsv: dict[Path, bool] = {}
    for name in RUN_SPLITS:
        split = resolve_split(data, name)
        if split is not None:
            is_train = name == "train"
            splits[name] = (
                StreamedSplit(split, data) if is_train else pairs_of(read_examples(split, data))
            )
            is_tsv.update(text_paths(split, data))
    return splits, [file_report(path, one) for path, one in is_tsv.items()]
