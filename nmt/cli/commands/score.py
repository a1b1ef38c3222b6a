"""`nmt score`: the log-probabilities of existing translations under a model."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from nmt.cli.shared.messages import say
from nmt.cli.shared.models import ComputeOptions, ModelOptions
from nmt.cli.shared.options import Json, OutFile
from nmt.cli.shared.sentences import pair_chunks, print_lines, with_progress

if TYPE_CHECKING:
    from nmt.types import Translation


def score(
    source: Annotated[Path, Argument(help="Source text, one sentence a line; - is stdin.")],
    target: Annotated[Path, Argument(help="Translation of SOURCE, line by line; - is stdin.")],
    *,
    models: ModelOptions,
    per_piece: Annotated[bool, "Divide by the number of pieces, including </s>."] = False,
    compute: ComputeOptions,
    as_json: Json = False,
    out: OutFile = None,
) -> None:
    """Print the log-probability of each translation of a text.

    Values are in nats, one per line; the end </s> counts as a piece. With --json, a line also has
    the pieces and their log-probabilities. For a source without pieces the line is empty; in JSON
    the score is null. The mean and the perplexity over all pieces are printed on stderr.
    """
    translator = models.load(models.open(compute), compute)
    log_probs: list[float] = []

    def lines() -> Iterator[str]:
        chunks = pair_chunks(source, target, translator.chunk_size)
        forced = (line for texts, targets in chunks for line in translator.force(texts, targets))
        for translation in with_progress(forced, source, out):
            for hypothesis in translation.hypotheses:
                log_probs.extend(hypothesis.hypothesis.log_probs)
            yield _line(translation, per_piece, as_json)

    print_lines(lines(), out)
    if log_probs:
        mean = math.fsum(log_probs) / len(log_probs)
        say(f"{len(log_probs):,} pieces, {mean:.4f} nats each, perplexity {math.exp(-mean):,.2f}")


def _line(translation: "Translation", per_piece: bool, as_json: bool) -> str:
    hypothesis = translation.hypotheses[0] if translation.hypotheses else None
    log_probs = hypothesis.hypothesis.log_probs if hypothesis else ()
    value = sum(log_probs) / (len(log_probs) if per_piece else 1) if hypothesis else None
    if not as_json:
        return "" if value is None else f"{value:.6f}"
    return json.dumps(
        {
            "source": translation.src_text,
            "target": translation.text if hypothesis else None,
            "score": value,
            "pieces": [*hypothesis.target.pieces, "</s>"] if hypothesis else [],
            "log_probs": log_probs,
        },
        ensure_ascii=False,
    )
