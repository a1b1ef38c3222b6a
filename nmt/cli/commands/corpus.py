"""`nmt corpus`: list and fetch named corpora, check a run's corpora, clean sentence pairs."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import complain, print_json, say, summary_lines
from nmt.cli.shared.options import ConfigOptions, Data, Json, MaxRatio, language_option
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nmt.corpora.cleaning import CleaningRules
    from nmt.corpora.sources import SplitConfig
    from nmt.types import SentencePair


def list_(data: Data = Path("data")) -> None:
    """List the corpora that a config can name, and show which are on disk."""
    from nmt.corpora.corpora import readable_splits
    from nmt.corpora.entries import load_catalog

    entries = load_catalog(data)
    readable = {name: readable_splits(name, data) for name in entries}
    for name, entry in entries.items():
        missing = [split for split in entry.split_names if split not in readable[name]]
        state = f"on disk except {', '.join(missing)}" if missing else "on disk"
        state = state if readable[name] else "not on disk"
        sizes = ", ".join(
            f"{split} {entry.pairs[split]:,}" if split in entry.pairs else split
            for split in entry.split_names
        )
        description = entry.description or "no description"
        typer.echo(f"{name} ({entry.src_lang}, {entry.tgt_lang}): {description}")
        typer.echo(f"  {state}; pairs as published: {sizes}")
        typer.echo(f"  licence: {entry.licence}; attribution: {entry.attribution or 'none given'}")


def fetch(
    name: Annotated[str, Argument(help="Name in `nmt corpus list`, or opus:NAME/vVERSION/en-fr.")],
    from_path: Annotated[
        Path | None,
        Option("--from", help="Copy from this file or folder instead of downloading."),
    ] = None,
    force: Annotated[bool, "Fetch existing files again."] = False,
    data: Data = Path("data"),
) -> None:
    """Download a corpus, or copy it from disk, and verify it.

    All splits are read as a check. The same command continues an interrupted download.
    """
    from nmt.corpora.fetch import fetch_corpus

    folder, counts = fetch_corpus(name, data, say, from_path, force)
    pairs = ", ".join(f"{split} {count:,}" for split, count in counts.items())
    typer.echo(f"{name} in {folder}: {pairs} pairs")


def check(*, config: ConfigOptions, as_json: Json = False) -> None:
    """Report on the corpora of a config before training.

    Shows how many pairs and words each split has, how many pairs `nmt corpus clean` rejects,
    sentence lengths, the overlap of train with the evaluation sets, and signs of shifted lines or
    swapped files.
    """
    from nmt.corpora.corpora import read_examples, resolve_split, stream_split
    from nmt.corpora.corpus_report import corpus_report, render_report
    from nmt.corpora.entries import RUN_SPLITS
    from nmt.corpora.sources import pairs_of

    data = config.load().data
    splits: dict[str, Iterable[SentencePair]] = {
        name: stream_split(split, data) if name == "train" else pairs_of(read_examples(split, data))
        for name in RUN_SPLITS
        if (split := resolve_split(data, name)) is not None
    }
    if not splits:
        raise ConfigError(
            f"{config.path}: nothing to read: corpus '{data.corpus}' has no split train, "
            "valid or test; name its splits under data.train, data.valid, data.test"
        )
    report = corpus_report(splits, data)
    if as_json:
        print_json([asdict(split) for split in report])
    else:
        typer.echo(render_report(report))


def clean(
    files: Annotated[
        list[Path],
        Argument(help="Source and target text, or one file with both, as in `nmt init`."),
    ],
    out: Annotated[
        list[Path] | None,
        Option(writable=True, help="File to write, one for each input file; - is stdout."),
    ] = None,
    src_lang: Annotated[str | None, language_option("Source", "the ending of its file")] = None,
    tgt_lang: Annotated[str | None, language_option("Target", "the ending of its file")] = None,
    max_words: Annotated[int, Option(min=0, help="Maximum words of a side; 0: no limit.")] = 150,
    max_ratio: MaxRatio = 3.0,
    min_script: Annotated[
        float, Option(min=0, max=1, help="Minimum share of letters in the language's script.")
    ] = 0.5,
    keep_copies: Annotated[bool, "Keep pairs with the same text on both sides."] = False,
    keep_duplicates: Annotated[bool, "Keep repeated pairs."] = False,
    placeholders: Annotated[
        bool, "Drop pairs whose placeholders, addresses or tags differ."
    ] = False,
    rejected: Annotated[
        Path | None,
        Option(
            writable=True,
            help="File for rejected pairs: reason, line, source and target, separated by tabs.",
        ),
    ] = None,
) -> None:
    """Write the pairs of a corpus that pass all checks.

    Pairs are written unchanged; rejected pairs are counted by reason. The reasons are an empty
    side, damaged characters, the same text on both sides, too many words, lengths that do not
    match, an unexpected script, different placeholders, and a repeated pair.

    Files are read line by line, so they may be larger than memory.
    """
    if len(files) not in (1, 2) or len(out or ()) != len(files):
        raise ConfigError(
            f"nmt corpus clean: got {len(files)} files and {len(out or ())} of --out, allowed: "
            "one of each, or two of each"
        )
    from nmt.corpora.archives import is_packed
    from nmt.corpora.cleaning import CleaningRules
    from nmt.corpora.languages import language_of
    from nmt.corpora.readers import is_text
    from nmt.corpora.sources import SplitConfig

    for path in out or ():
        if is_packed(path) or not is_text(path):
            raise ConfigError(f"--out: got {path}, allowed: a plain text file, such as x.tsv")
    has_one_file = len(files) == 1
    split = SplitConfig(file=files[0]) if has_one_file else SplitConfig(src=files[0], tgt=files[1])
    langs = [src_lang or "", tgt_lang or ""]
    if not has_one_file:
        langs = [lang or language_of(file) for lang, file in zip(langs, files, strict=True)]
    elif "" in langs and not is_text(files[0]):
        raise ConfigError(f"{files[0]}: requires `src_lang` and `tgt_lang`, such as en and fr")
    rules = CleaningRules(
        src_lang=langs[0],
        tgt_lang=langs[1],
        max_words=max_words or None,
        max_ratio=max_ratio,
        min_script=min_script or None,
        copies=keep_copies,
        duplicates=keep_duplicates,
        placeholders=placeholders,
    )
    counts = _write(split, rules, out or [], rejected)
    # If pairs go to stdout, the counts go to stderr.
    print_line = complain if Path("-") in (*(out or ()), rejected) else typer.echo
    for line in summary_lines(counts.pop(""), counts):
        print_line(line)


def _write(
    split: "SplitConfig", rules: "CleaningRules", out: list[Path], rejected: Path | None
) -> Counter[str]:
    """Write the pairs, and return their counts by reason of rejection; "" is for kept pairs."""
    from tqdm import tqdm

    from nmt.corpora.cleaning import judge_pairs
    from nmt.corpora.corpora import stream_split
    from nmt.corpora.sources import DataConfig
    from nmt.storage.atomic import encode_utf8
    from nmt.storage.output import atomic_output

    counts: Counter[str] = Counter({"": 0})
    with ExitStack() as stack:
        outputs = [stack.enter_context(atomic_output(path)) for path in out]
        rejects = None if rejected is None else stack.enter_context(atomic_output(rejected))
        data = DataConfig(src_lang=rules.src_lang or "en", tgt_lang=rules.tgt_lang or "fr")
        pairs = tqdm(stream_split(split, data), desc="read", unit=" pairs", disable=None)
        for number, (pair, reason) in enumerate(judge_pairs(iter(pairs), rules), start=1):
            counts[reason or ""] += 1
            texts = [pair.src_text, pair.tgt_text]
            if reason is None:
                lines = texts if len(outputs) == 2 else ["\t".join(texts)]
                for output, line in zip(outputs, lines, strict=True):
                    output.write(encode_utf8(f"{line}\n"))
            elif rejects is not None:
                line = "\t".join([reason, str(number), *texts])
                rejects.write(encode_utf8(f"{line}\n"))
        if not counts[""]:
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in counts.most_common() if reason)
            raise DataError(f"no pair passes, so no file is written: {reasons or 'no pair read'}")
    return counts
