"""`nmt align` and `nmt lexicon`: word alignments and a dictionary from a model's attention."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from nmt.cli.shared.messages import print_json, print_language_notes, say
from nmt.cli.shared.models import ComputeOptions, ModelOptions, open_run
from nmt.cli.shared.options import Checkpoint, First, Json, Method, OutFile, RunOption, Split
from nmt.cli.shared.sentences import pair_chunks, print_lines, with_progress
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.corpora.alignments import Links
    from nmt.explain.aligner import Aligner, WeightOptions

_CHUNK = 256  # sentence pairs aligned before their links are written


@dataclass(frozen=True)
class ExtractionOptions:
    """Options for extracting word alignments from attention or attribution weights."""

    shift: Annotated[
        int,
        Option(
            min=0,
            max=2,
            help="Read weights N steps later, when the word is the decoder's input.",
        ),
    ] = 0
    method: Method = "attention"
    heads: Annotated[str, "Heads to average, as in nmt attention: mean, 'layer 2', a number."] = (
        "mean"
    )

    def weight_options(self) -> "WeightOptions":
        """Return these options as the library's WeightOptions."""
        from nmt.explain.aligner import WeightOptions

        return WeightOptions(self.shift, self.method, self.heads)


def align(
    src: Annotated[Path, Argument(help="Source text, one sentence a line; - is stdin.")],
    tgt: Annotated[Path, Argument(help="Its translation, line by line; - is stdin.")],
    *,
    reverse: Annotated[
        Path | None, "Run of the opposite direction, whose links are merged."
    ] = None,
    symmetrise: Annotated[
        Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
        | None,
        "Method that merges the links of both directions.",
        "grow-diag-final-and with --reverse",
    ] = None,
    threshold: Annotated[
        float | None,
        Option(min=0, max=1, help="Smallest weight of a link.", show_default="only the greatest"),
    ] = None,
    extraction: ExtractionOptions,
    tokenized: Annotated[bool, "The files are tokenised; the model reads plain text."] = False,
    gold: Annotated[
        Path | None, "Gold links (`i-j` sure, `ipj` possible), to print AER, precision and recall."
    ] = None,
    gold_from: Annotated[int, Option(min=0, max=1, help="Number of the first word in --gold.")] = 0,
    out: OutFile = None,
    models: ModelOptions,
    compute: ComputeOptions,
    as_json: Json = False,
) -> None:
    """Align the words of sentence pairs by attention.

    Each pair becomes a line of links `i-j` between source word i and target word j, in the Pharaoh
    format. Words are separated by spaces and numbered from 0. With --gold, AER, precision and
    recall are printed, and the links are written only if --out is given.
    """
    if symmetrise is not None and reverse is None:
        raise ConfigError("--symmetrise requires --reverse, a run of the opposite direction")
    if as_json and gold is None:
        raise ConfigError("--json requires --gold, whose scores it prints")
    runs = models.open(compute)
    reverse_run = None if reverse is None else compute.with_search(open_run(reverse))

    from nmt.corpora.alignments import pharaoh_line, stream_gold
    from nmt.explain.aligner import Aligner
    from nmt.explain.alignment import alignment_score

    aligner = Aligner(
        models.load(runs, compute),
        extraction.weight_options(),
        threshold,
        None if reverse_run is None else compute.load([reverse_run], models.checkpoint),
        symmetrise or Aligner.symmetrisation,
    )
    links = with_progress(_links(aligner, src, tgt, tokenized), src, out)
    if gold is None:
        print_lines(map(pharaoh_line, links), out)
    else:
        model_links, gold_links = list(links), list(stream_gold(gold, gold_from))
        if len(gold_links) != len(model_links):
            raise DataError(f"{gold}: {len(gold_links):,} lines for {len(model_links):,} pairs")
        score = alignment_score(model_links, gold_links)
        if out is not None:
            print_lines(map(pharaoh_line, model_links), out)
        if as_json:
            print_json(score.as_json())
        else:
            typer.echo(score.describe())
    for problem, count in aligner.mismatches.items():
        if count:
            say(f"{count:,} {problem}")


def lexicon(
    *,
    run: RunOption,
    split: Annotated[Split, "train"] = None,
    first: First = None,
    min_count: Annotated[int, Option(min=1, help="Smallest number of links of an entry.")] = 2,
    per_word: Annotated[int, Option(min=1, help="Largest number of translations of a word.")] = 5,
    extraction: ExtractionOptions,
    out: OutFile = None,
    checkpoint: Checkpoint = None,
    compute: ComputeOptions,
) -> None:
    """Write a dictionary of the words that attention links.

    It has a line for each pair of words: source, tab, target, tab, probability, tab, count. nmt
    translate --replace-unk --lexicon looks up the most probable translation of a word in it.
    """
    trained = compute.with_search(open_run(run.path))

    from nmt.corpora.corpora import stream_split
    from nmt.evaluation.examples import find_split
    from nmt.explain.lexicon import lexicon as entries_of
    from nmt.storage.output import STDIN_OR_STDOUT, write_lines

    translator = compute.load([trained], checkpoint)
    data = trained.config.data
    pairs = islice(stream_split(find_split(data, "train" if split is None else split), data), first)
    entries = entries_of(translator, pairs, extraction.weight_options(), min_count, per_word)
    write_lines((entry.line() for entry in entries), out or STDIN_OR_STDOUT)
    say(f"{len(entries):,} entries for {len({entry.source for entry in entries}):,} words")


def _links(aligner: "Aligner", src: Path, tgt: Path, tokenised: bool) -> "Iterator[Links]":
    """Yield the links of each pair, computed a chunk at a time."""
    for number, (sources, targets) in enumerate(pair_chunks(src, tgt, _CHUNK)):
        if number == 0:
            print_language_notes(sources, targets, *aligner.translator.languages)
        yield from aligner.align(sources, targets, tokenised)
