"""The results as Markdown and as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from measuring import markdown_table

from comparison.results import Result
from comparison.speed import Speed, Timed

MIB = 2**20


def markdown(results: Sequence[Result], speeds: Mapping[str, Speed]) -> str:
    """Three tables: quality, where attention looks, and cost."""
    parts = [_quality(results), _looks(results), _by_length(results)]
    if speeds:
        parts.append(_cost(results, speeds))
    return "\n\n".join(parts) + "\n"


def as_json(
    results: Sequence[Result], speeds: Mapping[str, Speed], about: Mapping[str, object]
) -> dict[str, object]:
    """All numbers of the tables, unrounded, fit for json.dumps."""
    return {
        **about,
        "kinds": {
            result.name: {
                **asdict(result),
                "bleu": result.bleu,
                "spread": result.spread,
                "perplexity": math.exp(result.loss),
            }
            for result in results
        },
        "speed": {name: asdict(speed) for name, speed in speeds.items()},
    }


def _quality(results: Sequence[Result]) -> str:
    baseline = results[0].name
    rows = []
    for result in results:
        against = result.difference
        rows.append(
            [
                result.name,
                str(len(result.bleus)),
                f"{result.bleu:.2f}",
                "" if result.spread is None else f"{result.spread:.2f}",
                "" if against is None else f"{against.mean:+.2f}",
                "" if against is None else f"{against.low:+.2f} to {against.high:+.2f}",
                "" if against is None else f"{against.p_value:.3f}",
                f"{result.length:.2f}",
                f"{math.exp(result.loss):.2f}",
                f"{result.n_parameters / 1e6:.2f} M",
            ]
        )
    titles = ["kind", "runs", "BLEU", "s.d.", f"against {baseline}", "95 % interval", "p"]
    return markdown_table([*titles, "length", "perplexity", "parameters"], rows)


def _looks(results: Sequence[Result]) -> str:
    rows = [
        [
            result.name,
            f"{result.looks.entropy:.2f}",
            f"{result.looks.share:.0%}".replace("%", " %"),
            f"{result.looks.largest:.2f}",
            "" if result.looks.n_heads == 1 else f"{result.looks.head_entropy:.2f}",
        ]
        for result in results
    ]
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
    for name in [*names, *(name for name in speeds if name not in names)]:
        speed = speeds[name]
        memory = speed.memory_bytes
        rows.append(
            [
                name,
                *(cell for timed in (speed.training, speed.greedy, speed.beam)
                  for cell in _timed(timed)),
                "" if memory is None else f"{memory / MIB:,.0f}",
            ]
        )  # fmt: skip
    titles = ["training, tokens/s", "ratio", "greedy, sentences/s", "ratio"]
    return markdown_table(
        ["kind", *titles, "beam, sentences/s", "ratio", "memory of an update, MiB"], rows
    )


def _timed(timed: Timed) -> tuple[str, str]:
    rate = f"{timed.rate:,.0f}" if timed.rate >= 100 else f"{timed.rate:.1f}"
    return f"{rate} ({timed.spread:.0%})".replace("%", " %"), f"{timed.ratio:.2f}"
