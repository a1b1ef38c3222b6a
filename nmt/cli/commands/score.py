"""`nmt score`: how probable given translations are to a model."""

import json
import math
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from nmt.cli.shared import search_flags
from nmt.cli.shared.command import Json, say
from nmt.cli.shared.options import Force, OutFile, Quiet, Threads
from nmt.cli.shared.sentences import file_lines, with_progress
from nmt.errors import ConfigError, DataError

if TYPE_CHECKING:
    from nmt.inference.translator import Translator
    from nmt.types import Translation


def score(
    source: Annotated[
        Path, Argument(help="Source text, one sentence a line; - is stdin.", show_default=False)
    ],
    target: Annotated[
        Path, Argument(help="Its translation, line by line; - is stdin.", show_default=False)
    ],
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    checkpoint: search_flags.Checkpoint = None,
    per_piece: Annotated[
        bool, Option("--per-piece", help="Divide by the number of pieces, end included.")
    ] = False,
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    as_json: Json = False,
    out: OutFile = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Give the log-probability of given translations.

    It is in nats, a line for each. The end of the translation counts as a piece. With --json a line
    also has the pieces and the log-probability of each. Where the source has no piece, the line is
    empty, or null in JSON. The mean and the perplexity of all pieces stand on stderr.
    """
    if str(source) == str(target) == "-":
        raise ConfigError("got - twice, allowed: stdin for one of SOURCE and TARGET")
    out = None if out is None or str(out) == "-" else out
    first, *others = search_flags.open_runs(run)
    shares = search_flags.parse_weights(weights, 1 + len(others))
    trained = search_flags.with_search(first, {"batch_size": batch_size}, ())

    from nmt.cli.shared.process import configure_process
    from nmt.inference.translator import Translator
    from nmt.storage.output import write_lines

    configure_process(threads)
    translator = Translator.load(
        [trained, *others], device or "auto", checkpoint or "best", int8=int8, weights=shares
    )
    total = _Total()
    scored = with_progress(_scored(translator, source, target), source, out is not None)
    lines = (_line(each, per_piece, as_json) for each in total.count(scored))
    if out is not None:
        write_lines(lines, out)
    else:
        for line in lines:
            typer.echo(line)
    if total.n_pieces:
        mean = total.log_prob / total.n_pieces
        say(f"{total.n_pieces:,} pieces, {mean:.4f} nats each, perplexity {math.exp(-mean):,.2f}")


class _Total:
    """Sums over all scored translations."""

    log_prob = 0.0
    n_pieces = 0

    def count(self, translations: "Iterator[Translation]") -> "Iterator[Translation]":
        """Pass the translations on."""
        for translation in translations:
            for each in translation.hypotheses:
                self.log_prob += sum(each.hypothesis.log_probs)
                self.n_pieces += len(each.hypothesis.log_probs)
            yield translation


def _scored(translator: "Translator", source: Path, target: Path) -> "Iterator[Translation]":
    """The forced translations, a chunk at a time. Raises DataError where a file is longer."""
    pairs = enumerate(zip_longest(file_lines(source), file_lines(target)), start=1)
    while chunk := list(islice(pairs, translator.chunk_size)):
        texts, targets = [], []
        for number, (text, translation) in chunk:
            if text is None or translation is None:
                shorter, longer = (source, target) if text is None else (target, source)
                raise DataError(f"{shorter}: it has no line {number}, but {longer} has one")
            texts.append(text)
            targets.append(translation)
        yield from translator.force(texts, targets)


def _line(translation: "Translation", per_piece: bool, as_json: bool) -> str:
    found = [each.hypothesis.log_probs for each in translation.hypotheses]
    value = sum(found[0]) / (len(found[0]) if per_piece else 1) if found else None
    if not as_json:
        return "" if value is None else f"{value:.6f}"
    pieces = [*translation.hypotheses[0].target.pieces, "</s>"] if found else []
    return json.dumps(
        {
            "source": translation.src_text,
            "target": translation.text if found else None,
            "score": value,
            "pieces": pieces,
            "log_probs": found[0] if found else [],
        },
        ensure_ascii=False,
    )
