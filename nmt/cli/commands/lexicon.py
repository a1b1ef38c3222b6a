"""`nmt lexicon`: a dictionary from a model's own attention over its training set."""

from itertools import islice
from typing import Annotated

from typer import Option

from nmt.cli.commands.align import ReadingOptions
from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions
from nmt.cli.shared.opening import open_run
from nmt.cli.shared.options import Checkpoint, First, OutFile, RunOption, split_option
from nmt.cli.shared.sentences import check_not_read


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

    They are those of the run's training pairs. A line for each pair of words: source, tab, target,
    tab, probability, tab, count. nmt translate --replace-unk --lexicon reads it, and takes the most
    probable translation of a word.
    """
    trained = compute.with_search(open_run(run.path))
    check_not_read(out, trained, split)

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
