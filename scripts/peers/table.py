"""The results as Markdown."""

import statistics
from collections.abc import Mapping

from measuring import describe_load, is_clean, markdown_table

from peers.rounds import Measured


def training_table(measured: Mapping[str, Measured], both_by_target: float) -> str:
    """Tokens a second of each toolkit, and how many times as fast the first one is."""
    first = next(iter(measured.values()))
    rows = [
        [
            name,
            *_figure(own),
            f"{own.median * both_by_target:,.0f}",
            f"{_ratio(first, own):.2f}",
            _mark(own),
        ]
        for name, own in measured.items()
    ]
    titles = ["toolkit", "target tokens/s", "rounds", "source + target tokens/s"]
    return markdown_table([*titles, "the first by it", "load"], rows)


def decoding_table(measured: Mapping[tuple[str, int], Measured]) -> str:
    """Sentences a second of each toolkit by size of batch, with BLEU."""
    rows = [
        [name, str(size), *_figure(own), "" if own.bleu is None else f"{own.bleu:.2f}", _mark(own)]
        for (name, size), own in measured.items()
    ]
    return markdown_table(["toolkit", "batch", "sentences/s", "rounds", "BLEU", "load"], rows)


def _ratio(first: Measured, own: Measured) -> float:
    """The median over the rounds of the quotient in the same round."""
    return statistics.median(a / b for a, b in zip(first.rates, own.rates, strict=True))


def _figure(own: Measured) -> tuple[str, str]:
    low, high = min(own.rates), max(own.rates)
    return _number(own.median), f"{_number(low)} to {_number(high)}"


def _mark(own: Measured) -> str:
    return "" if is_clean(own.others) else describe_load(own.others)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
