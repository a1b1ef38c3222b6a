"""`nmt align` and `nmt lexicon`: word alignments and a dictionary from a model's attention."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, open_run
from nmt.cli.shared.options import (
    Checkpoint,
    First,
    Json,
    Method,
    OutFile,
    RunOption,
    split_option,
)
from nmt.cli.shared.sentences import pair_chunks, print_lines, with_progress
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.corpora.alignments import Links
    from nmt.explain.aligner import Aligner, Reading

_CHUNK = 256
"""Sentence pairs that are aligned before their links are written."""


@dataclass(frozen=True)
class ReadingOptions:
    """How attention weights are read as links."""

    shift: Annotated[
        int,
        Option(
            min=0, max=2, help="Read the weights so many steps later, where the word is the input."
        ),
    ] = 0
    method: Method = "attention"
    heads: Annotated[
        str,
        Option(help="The heads that are averaged, as in nmt attention: mean, 'layer 2', a number."),
    ] = "mean"

    def value(self) -> "Reading":
        """Return the options as the library takes them."""
        from nmt.explain.aligner import Reading

        return Reading(self.shift, self.method, self.heads)


def align(
    src: Annotated[Path, Argument(help="Source text, one sentence a line; - is stdin.")],
    tgt: Annotated[Path, Argument(help="Its translation, line by line.")],
    *,
    reverse: Annotated[
        Path | None, Option(help="A run of the other direction, to symmetrise with.")
    ] = None,
    symmetrise: Annotated[
        Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
        | None,
        Option(
            help="How links of both directions are joined.",
            show_default="with --reverse grow-diag-final-and",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        Option(
            min=0, max=1, help="Link every weight of at least this.", show_default="the greatest"
        ),
    ] = None,
    reading: ReadingOptions,
    tokenized: Annotated[
        bool, Option("--tokenized", help="The files are tokenised: the model reads them as text.")
    ] = False,
    gold: Annotated[
        Path | None,
        Option(help="Gold links, `i-j` sure, `ipj` possible: print AER, precision and recall."),
    ] = None,
    gold_from: Annotated[
        int, Option(min=0, max=1, help="The number of the first word in --gold.")
    ] = 0,
    out: OutFile = None,
    models: ModelOptions,
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Align the words of sentence pairs by attention.

    A line of links `i-j` for each pair, in the Pharaoh format: source word i, target word j. That
    format counts words, between spaces, from 0; `nmt` counts sentences from 1. With --gold the
    scores are printed, and the links only into --out.
    """
    if symmetrise is not None and reverse is None:
        raise ConfigError("--symmetrise requires --reverse, a run of the other direction")
    if as_json and gold is None:
        raise ConfigError("--json: allowed with --gold, for its scores")
    runs = models.open(compute)
    back = None if reverse is None else compute.with_search(open_run(reverse))

    from nmt.corpora.alignments import pharaoh_line
    from nmt.explain.aligner import Aligner

    aligner = Aligner(
        models.load(runs, compute),
        reading.value(),
        threshold,
        None if back is None else compute.load([back], models.checkpoint),
        symmetrise or Aligner.symmetrisation,
    )
    links = with_progress(_links(aligner, src, tgt, tokenized), src, out)
    if gold is None:
        print_lines(map(pharaoh_line, links), out)
    else:
        _score(list(links), gold, gold_from, out, as_json)
    for what, count in aligner.mismatches.items():
        if count:
            say(f"{count:,} {what}")


def lexicon(
    *,
    run: RunOption,
    split: Annotated[str, split_option("train")] = "train",
    first: First = None,
    min_count: Annotated[int, Option(min=1, help="Leave out rarer links.")] = 2,
    per_word: Annotated[int, Option(min=1, help="The most translations of a word.")] = 5,
    reading: ReadingOptions,
    out: OutFile = None,
    checkpoint: Checkpoint = None,
    compute: ComputeOptions,
) -> None:
    """Make a dictionary of the words that attention links.

    It reads the run's training pairs and writes a line for each pair of words: source, tab, target,
    tab, probability, tab, count. nmt translate --replace-unk --lexicon takes the most probable
    translation of a word from it.
    """
    trained = compute.with_search(open_run(run.path))

    from nmt.corpora.corpora import stream_split
    from nmt.evaluation.examples import split_named
    from nmt.explain.lexicon import lexicon as entries_of
    from nmt.storage.output import STDIN_OR_STDOUT, write_lines

    translator = compute.load([trained], checkpoint)
    data = trained.config.data
    pairs = islice(stream_split(split_named(data, split), data), first)
    entries = entries_of(translator, pairs, reading.value(), min_count, per_word)
    write_lines((entry.line() for entry in entries), out or STDIN_OR_STDOUT)
    say(f"{len(entries):,} entries for {len({entry.source for entry in entries}):,} words")


def _links(aligner: "Aligner", src: Path, tgt: Path, tokenised: bool) -> "Iterator[Links]":
    """The links of each pair, a chunk at a time."""
    from nmt.corpora.language_check import language_notes

    for number, (sources, targets) in enumerate(pair_chunks(src, tgt, _CHUNK)):
        if number == 0:
            for note in language_notes(sources, targets, *aligner.translator.languages):
                say(f"note: {note}")
        yield from aligner.align(sources, targets, tokenised)


def _score(links: "list[Links]", gold: Path, first: int, out: Path | None, as_json: bool) -> None:
    """Print how far links agree with gold ones, and write them into --out."""
    from nmt.corpora.alignments import pharaoh_line, stream_gold
    from nmt.explain.alignment import alignment_score

    true = list(stream_gold(gold, first))
    if len(true) != len(links):
        raise DataError(f"{gold}: {len(true):,} lines for {len(links):,} sentence pairs")
    score = alignment_score(links, true)
    if out is not None:
        print_lines(map(pharaoh_line, links), out)
    typer.echo(json.dumps(score.as_json(), indent=1) if as_json else score.describe())
