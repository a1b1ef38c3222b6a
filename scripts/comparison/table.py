"""The results as Markdown."""

import math
from collections.abc import Mapping, Sequence

from measuring import markdown_table

from comparison.results import Result
from comparison.speed import Speed


def markdown(results: Sequence[Result], speeds: Mapping[str, Speed]) -> str:
    """Three tables: quality, where attention looks, and cost."""
    parts = [_quality(results), _looks(results), _by_length(results)]
    if speeds:
        parts.append(_cost(results, speeds))
    return "\n\n".join(parts) + "\n"


def _quality(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        against = ["", "", ""]
        if (d := result.difference) is not None:
            against = [f"{d.mean:+.2f}", f"{d.low:+.2f} to {d.high:+.2f}", f"{d.p_value:.3f}"]
        rows.append(
            [
                result.name,
                str(len(result.bleus)),
                f"{result.bleu:.2f}",
                "" if result.spread is None else f"{result.spread:.2f}",
                *against,
                f"{result.length:.2f}",
                f"{math.exp(result.loss):.2f}",
                f"{result.n_parameters / 1e6:.2f} M",
            ]
        )
    titles = ["kind", "runs", "BLEU", "s.d.", f"against {results[0].name}", "95 % interval", "p"]
    return markdown_table([*titles, "length", "perplexity", "parameters"], rows)


def _looks(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        looks = result.looks
        head = "" if looks.n_heads == 1 else f"{looks.head_entropy:.2f}"
        share = f"{100 * looks.share:.0f} %"
        rows.append([result.name, f"{looks.entropy:.2f}", share, f"{looks.largest:.2f}", head])
    titles = ["kind", "entropy (nats)", "of the possible", "largest weight"]
    return markdown_table([*titles, "entropy of a head"], rows)


def _by_length(results: Sequence[Result]) -> str:
    buckets = results[0].by_length
    titles = [
        f"{b.lowest or 1}{'+' if b.highest is None else f'-{b.highest}'} ({b.n_sentences})"
        for b in buckets
    ]
    rows = [[result.name, *(f"{b.bleu:.1f}" for b in result.by_length)] for result in results]
    return markdown_table(["source words (sentences)", *titles], rows)


def _cost(results: Sequence[Result], speeds: Mapping[str, Speed]) -> str:
    rows = []
    names = [result.name for result in results if result.name in speeds]
    for name in dict.fromkeys([*names, *speeds]):
        speed = speeds[name]
        row = [name]
        for timed in (speed.training, speed.greedy, speed.beam):
            rate = f"{timed.rate:,.0f}" if timed.rate >= 100 else f"{timed.rate:.1f}"
            row += [f"{rate} ({100 * timed.spread:.0f} %)", f"{timed.ratio:.2f}"]
        memory = speed.memory_bytes
        rows.append([*row, "" if memory is None else f"{memory / 2**20:,.0f}"])
    titles = ["kind", "training, tokens/s", "ratio", "greedy, sentences/s", "ratio"]
    return markdown_table([*titles, "beam, sentences/s", "ratio", "memory of an update, MiB"], rows)
