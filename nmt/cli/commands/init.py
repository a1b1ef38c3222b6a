"""`nmt init`: write a first config for the user's own text files."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.options import language_option
from nmt.errors import ConfigError
from nmt.storage.output import check_output, write_lines
from nmt.storage.terminal import one_line

if TYPE_CHECKING:
    from nmt.config import RunConfig
    from nmt.corpora.proposal import ExaminedCorpus
    from nmt.corpora.sources import DataConfig

_BY_NAME = "from the names of the files"


def _held_out_option(kind: str) -> Any:
    return Option(
        help=f"File of the {kind} set; give it twice for source and target.",
        show_default="sentences held out of the training text",
    )


def init(
    files: Annotated[
        list[Path],
        Argument(
            help="Source and target text, or one file with both: TMX, CSV with a header, "
            "JSON lines, PO, parquet, or lines of source, tab, target. Files may be compressed."
        ),
    ],
    src_lang: Annotated[str | None, language_option("Source", _BY_NAME)] = None,
    tgt_lang: Annotated[str | None, language_option("Target", _BY_NAME)] = None,
    valid: Annotated[list[Path] | None, _held_out_option("validation")] = None,
    test: Annotated[list[Path] | None, _held_out_option("test")] = None,
    name: Annotated[str | None, "Name of the run.", "the languages, such as en-fr"] = None,
    out: Annotated[
        Path | None, Option(writable=True, help="Config to write.", show_default="NAME.yaml")
    ] = None,
) -> None:
    """Write a config for your sentence pairs, with suitable sizes.

    Reads and checks the pairs, learns a tokenizer, and times some training updates. Notes on stderr
    describe what looks wrong in the files; no pair is removed.

    The path of the config is printed on stdout.
    """
    data, is_order_known = _data(files, valid or (), test or (), src_lang, tgt_lang)
    # Imported here because they import torch and sentencepiece.
    from nmt.cli.shared.process import configure_process
    from nmt.config import RunConfig
    from nmt.corpora.proposal import corpus_warnings, examine, is_messy, proposed_config
    from nmt.settings.config_file import load_text, load_values

    if name is not None:  # refused before the work, not after it
        load_values({"name": name, "data": data, "train": {"epochs": 1}}, RunConfig, "nmt init")
    configure_process()  # as in `nmt train`, so that updates take as long
    say(f"reading {' and '.join(map(str, files))} ...")
    corpus = examine(data, is_order_known)
    name = name or f"{corpus.data.src_lang}-{corpus.data.tgt_lang}"
    path = out or Path(f"{name}.yaml")
    check_output(path)
    text = proposed_config(name, corpus)
    say("timing updates ...")
    duration = _duration(load_text(text, path, (), RunConfig), corpus)
    data, report = corpus.data, corpus.report[0]
    summary = (
        f"{corpus.n_pairs:,} pairs, {data.src_lang} to {data.tgt_lang}; a sentence has "
        f"{report.src_words.mean:.1f} and {report.tgt_words.mean:.1f} words"
    )
    command = one_line(shlex.join(["nmt", "init", *map(str, files)]))
    head = [
        f"# {summary}; written by: {command}",
        f"# The training takes {duration}.",
        "# All keys with their defaults: nmt config show FILE",
    ]
    write_lines([*head, *text.splitlines()], path)
    say(summary)
    for line in corpus_warnings(corpus):
        say(f"note: {line}")
    if is_messy(report):
        say(f"note: to write only the pairs that pass: {_clean_command(files, data)}")
    say(f"training: {duration}")
    say(f"next: nmt train --config {shlex.quote(str(path))}")
    print_path(path)


def _clean_command(files: Sequence[Path], data: "DataConfig") -> str:
    sides = [f"clean.{data.src_lang}", f"clean.{data.tgt_lang}"]
    outs = sides if len(files) == 2 else ["clean.tsv"]
    flags = [word for out in outs for word in ("--out", out)]
    flags += ["--src-lang", data.src_lang, "--tgt-lang", data.tgt_lang]
    return shlex.join(["nmt", "corpus", "clean", *map(str, files), *flags])


def _duration(config: "RunConfig", corpus: "ExaminedCorpus") -> str:
    """Estimate how long training takes on this machine, by timing some updates."""
    from nmt.device import describe_device, resolve_device
    from nmt.training.estimate import epoch_seconds
    from nmt.training.report import duration

    epoch = epoch_seconds(config, corpus.sample, corpus.tokenizers, corpus.n_pairs)
    device = describe_device(resolve_device(config.train.device))
    total = duration(epoch * (config.train.epochs or 1))
    return f"about {total} on {device}, {duration(epoch)} per epoch, plus validation"


def _data(
    files: Sequence[Path],
    valid: Sequence[Path],
    test: Sequence[Path],
    src_lang: str | None,
    tgt_lang: str | None,
) -> "tuple[DataConfig, bool]":
    """Return the data section, and whether the order of the two languages is certain."""
    from nmt.corpora.languages import language_of, language_pair_of
    from nmt.corpora.sources import DataConfig
    from nmt.settings.config_file import load_values

    train = _split(files, "FILES")
    if len(files) == 2:
        src, tgt = src_lang or language_of(files[0]), tgt_lang or language_of(files[1])
    else:
        first, second = language_pair_of(files[0]) or ("", "")
        src = src_lang or (second if first == tgt_lang else first)
        tgt = tgt_lang or (first if second == src_lang else second)
    is_order_known = len(files) == 2 or bool(src_lang or tgt_lang)
    if src_lang is not None and src_lang == tgt_lang:
        raise ConfigError(f"`src_lang`, `tgt_lang`: got {src} for both, allowed: two languages")
    if not (src and tgt) or src == tgt:
        got = f"{src or 'none'} and {tgt or 'none'}"
        raise ConfigError(
            f"{', '.join(map(str, files))}: the names do not tell the languages: {got}; "
            "give `src_lang` and `tgt_lang`, such as fr"
        )
    values = {
        "src_lang": src,
        "tgt_lang": tgt,
        "train": train,
        "valid": _split(valid, "`valid`") if valid else None,
        "test": _split(test, "`test`") if test else None,
    }
    return load_values(values, DataConfig, "nmt init"), is_order_known


def _split(files: Sequence[Path], what: str) -> dict[str, Path]:
    """Return a split of one or two files. Raises ConfigError, starting with `what`, for more."""
    if len(files) == 2:
        return {"src": files[0], "tgt": files[1]}
    if len(files) != 1:
        raise ConfigError(f"{what}: got {len(files)} files, allowed: 1 (both sides) or 2")
    return {"file": files[0]}
