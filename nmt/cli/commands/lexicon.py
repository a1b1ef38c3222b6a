"""`nmt lexicon`: a dictionary from a model's own attention over its training set."""

from itertools import islice
from typing import Annotated

from typer import Option

from nmt.cli.commands.align import Heads, Norm, Shift
from nmt.cli.shared.command import say
from nmt.cli.shared.options import (
    First,
    Force,
    OutFile,
    Quiet,
    RunArgument,
    Threads,
    one_run,
    split_option,
)
from nmt.cli.shared.search_flags import (
    BatchSize,
    Checkpoint,
    Device,
    Int8,
    Run,
    open_run,
    with_search,
)
from nmt.cli.shared.sentences import check_not_read


def lexicon(
    run_argument: RunArgument = None,
    run: Run = None,
    split: Annotated[str, split_option("train")] = "train",
    first: First = None,
    min_count: Annotated[int, Option(min=1, help="Leave out rarer links.")] = 2,
    per_word: Annotated[int, Option(min=1, help="The most translations of a word.")] = 5,
    shift: Shift = 0,
    norm: Norm = False,
    heads: Heads = "mean",
    out: OutFile = None,
    force: Force = False,
    checkpoint: Checkpoint = None,
    batch_size: BatchSize = None,
    device: Device = None,
    threads: Threads = None,
    int8: Int8 = False,
    quiet: Quiet = False,
) -> None:
    """Make a dictionary of the words that attention links.

    They are those of the run's training pairs. A line for each pair of words: source, tab, target,
    tab, probability, tab, count. nmt translate --replace-unk --lexicon reads it, and takes the most
    probable translation of a word.
    """
    chosen = open_run(one_run(run_argument, run))
    trained = with_search(chosen, {"batch_size": batch_size})
    check_not_read(out, trained, split)

    from nmt.cli.shared.process import configure_process
    from nmt.data.corpora import stream_split
    from nmt.evaluation.examples import split_named
    from nmt.evaluation.lexicon import lexicon as entries_of
    from nmt.inference.pair_weights import Reading
    from nmt.inference.translator import Translator
    from nmt.storage.output import STDIN_OR_STDOUT, write_lines

    configure_process(threads)
    translator = Translator.load(trained, device or "auto", checkpoint or "best", int8=int8)
    data = trained.config.data
    pairs = islice(stream_split(split_named(data, split), data), first)
    entries = entries_of(translator, pairs, Reading(shift, norm, heads), min_count, per_word)
    write_lines((entry.line() for entry in entries), out or STDIN_OR_STDOUT)
    say(f"{len(entries):,} entries for {len({entry.source for entry in entries}):,} words")
