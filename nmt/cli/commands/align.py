"""`nmt align`: word alignments from a model's attention, and how they compare with gold ones."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared import search_flags
from nmt.cli.shared.command import Json, say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.options import Force, OutFile, Quiet, Threads
from nmt.cli.shared.sentences import file_lines, with_progress
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.data.alignments import Links
    from nmt.evaluation.aligner import Aligner
    from nmt.evaluation.alignment_error import AlignmentScore
    from nmt.inference.pair_weights import Reading
    from nmt.runs.trained_run import TrainedRun

_CHUNK = 256
"""Sentence pairs that are aligned before their links are written."""

Shift = Annotated[
    int,
    Option(min=0, max=2, help="Read the weights so many steps later, where the word is the input."),
]
Norm = Annotated[bool, Option("--norm", help="Multiply the weights by the norms of their values.")]
Heads = Annotated[
    str,
    Option(help="The heads that are averaged, as in nmt attention: mean, 'layer 2', a number."),
]
Gold = Annotated[
    Path | None,
    Option(help="Gold links, `i-j` sure, `ipj` possible: print AER, precision and recall."),
]
GoldFrom = Annotated[int, Option(min=0, max=1, help="The number of the first word in --gold.")]
Tokenized = Annotated[
    bool, Option("--tokenized", help="The files are tokenised: the model reads them as text.")
]


def align(
    src: Annotated[Path, Argument(help="Source text, one sentence a line; - is stdin.")],
    tgt: Annotated[
        Path | None,
        Argument(help="Its translation, line by line.", show_default="the run translates"),
    ] = None,
    reverse: Annotated[
        Path | None, Option(help="A run of the other direction, to symmetrise with.")
    ] = None,
    symmetrise: Annotated[
        str | None,
        Option(
            help="intersection, union, grow-diag, grow-diag-final or grow-diag-final-and.",
            show_default="with --reverse grow-diag-final-and",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        Option(
            min=0, max=1, help="Link every weight of at least this.", show_default="the greatest"
        ),
    ] = None,
    shift: Shift = 0,
    norm: Norm = False,
    heads: Heads = "mean",
    tokenized: Tokenized = False,
    gold: Gold = None,
    gold_from: GoldFrom = 0,
    out: OutFile = None,
    force: Force = False,
    translations: Annotated[
        Path | None,
        Option(writable=True, help="File for the run's own translations, with SRC alone."),
    ] = None,
    run: search_flags.Run = None,
    checkpoint: search_flags.Checkpoint = None,
    beam: search_flags.Beam = None,
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    as_json: Json = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Align the words of sentence pairs by attention.

    A line of links `i-j` for each pair, in the Pharaoh format: source word i, target word j. That
    format counts words, between spaces, from 0; `nmt` counts sentences from 1. With SRC alone the
    run translates, and its own translation is aligned. With --gold the scores are printed, and the
    links only into --out.
    """
    _check_flags(tgt, reverse, symmetrise, gold, translations)
    if as_json and gold is None:
        raise ConfigError("--json: allowed with --gold, for its scores")
    if tgt is not None and beam is not None:
        raise ConfigError("--beam: TGT gives the translations")
    search = {"beam": beam, "batch_size": batch_size}
    trained = search_flags.with_search(search_flags.open_run(run), search, set_ or ())
    back = (
        None
        if reverse is None
        else search_flags.with_search(search_flags.open_run(reverse), {"batch_size": batch_size})
    )

    from nmt.cli.shared.process import configure_process
    from nmt.inference.pair_weights import Reading

    configure_process(threads)
    reading = Reading(shift, norm, heads)
    loaded = load_aligner(trained, back, checkpoint, device, int8, reading)
    aligner = replace(loaded, threshold=threshold)
    if symmetrise is not None:
        aligner = replace(aligner, symmetrisation=symmetrise)
    texts: list[str] = []
    links = _links(aligner, src, tgt, tokenized, texts if translations else None)
    if gold is None:
        _write(with_progress(links, src, out is not None), out)
    else:
        found = list(with_progress(links, src))
        score = score_links(found, gold, gold_from)
        if out is not None:
            _write(iter(found), out)
        print_score(score, as_json)
    if translations is not None:
        from nmt.storage.output import write_lines

        write_lines(texts, translations)
    for note in aligner.mismatches.notes():
        say(note)


def load_aligner(
    run: "TrainedRun",
    reverse: "TrainedRun | None",
    checkpoint: str | None,
    device: str | None,
    int8: bool,
    reading: "Reading",
) -> "Aligner":
    """The aligner by an open run, and by the run `reverse` of the other direction."""
    from nmt.evaluation.aligner import Aligner
    from nmt.inference.translator import Translator

    chosen = device or "auto", checkpoint or "best"
    translator = Translator.load(run, *chosen, int8=int8)
    back = None if reverse is None else Translator.load(reverse, *chosen, int8=int8)
    return Aligner(translator, reading, reverse=back)


def score_alignment(
    gold: Path,
    src: Path | None,
    refs: Sequence[Path],
    hyp: Path | None,
    runs: Sequence[Path],
    checkpoint: str | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Carry out `nmt eval --aer`: print the score of a run's alignment, or of a file of links."""
    if (hyp is None) == (src is None or len(refs) != 1) or len(runs) > 1:
        raise ConfigError("--aer: give a file of links as --hyp, or --src, one --ref and one --run")
    if hyp is not None:
        from nmt.data.alignments import stream_links

        print_score(score_links(list(stream_links(hyp)), gold, 0), as_json)
        return
    from nmt.inference.pair_weights import Reading

    assert src is not None
    trained = search_flags.open_run(runs[0] if runs else None)
    aligner = load_aligner(trained, None, checkpoint, device, False, Reading())
    links = list(_links(aligner, src, refs[0], False, None))
    print_score(score_links(links, gold, 0), as_json)


def score_links(found: "list[Links]", gold: Path, first: int) -> "AlignmentScore":
    """The score of the links of all pairs. Raises DataError unless the files fit together."""
    from nmt.data.alignments import stream_gold
    from nmt.evaluation.alignment_error import alignment_score

    true = list(stream_gold(gold, first))
    if len(true) != len(found):
        raise DataError(f"{gold}: {len(true):,} lines for {len(found):,} sentence pairs")
    return alignment_score(found, true)


def print_score(score: "AlignmentScore", as_json: bool) -> None:
    """Print the rates as a line, or as JSON."""
    typer.echo(json.dumps(score.as_json(), indent=1) if as_json else score.describe())


def _check_flags(
    tgt: Path | None,
    reverse: Path | None,
    symmetrise: str | None,
    gold: Path | None,
    translations: Path | None,
) -> None:
    """Raise ConfigError for flags that contradict each other or would have no effect."""
    from nmt.evaluation.symmetrisation import SYMMETRISATIONS

    if symmetrise is not None and symmetrise not in SYMMETRISATIONS:
        allowed = ", ".join(SYMMETRISATIONS)
        raise ConfigError(f"--symmetrise: got '{symmetrise}', allowed: {allowed}")
    if symmetrise is not None and reverse is None:
        raise ConfigError("--symmetrise: needs --reverse, a run of the other direction")
    if gold is not None and tgt is None:
        raise ConfigError("--gold: it is of given translations; name their file after SRC")
    if translations is not None and tgt is not None:
        raise ConfigError("--translations: TGT gives the translations")


def _links(
    aligner: "Aligner", src: Path, tgt: Path | None, tokenised: bool, texts: list[str] | None
) -> "Iterator[Links]":
    """The links of each pair, a chunk at a time; own translations are added to `texts`."""
    if tgt is None and tokenised:
        raise ConfigError("--tokenized: it is about SRC and TGT together; name both")
    from nmt.data.language_check import language_notes

    sources = file_lines(src)
    targets = None if tgt is None else file_lines(tgt)
    n_done = 0
    given: list[str] = []
    while chunk := list(islice(sources, _CHUNK)):
        if targets is None:
            made, links = aligner.translate(chunk)
            if texts is not None:
                texts += made
        else:
            given = list(islice(targets, len(chunk)))
            if len(given) < len(chunk):
                raise DataError(f"{tgt}: ends after line {n_done + len(given)}, but {src} goes on")
            links = aligner.align(chunk, given, tokenised)
        if not n_done:
            sides = aligner.translator.tokenizers
            for note in language_notes(chunk, given, sides.src.lang, sides.tgt.lang):
                say(f"note: {note}")
        n_done += len(chunk)
        yield from links
    if targets is not None and next(targets, None) is not None:
        raise DataError(f"{src}: ends after line {n_done}, but {tgt} goes on")


def _write(links: "Iterator[Links]", out: Path | None) -> None:
    """A line for each pair, to stdout or into `out`."""
    from nmt.data.alignments import pharaoh_line
    from nmt.storage.output import STDIN_OR_STDOUT, write_lines

    write_lines(map(pharaoh_line, links), out or STDIN_OR_STDOUT)
