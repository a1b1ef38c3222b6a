"""A comparison of systems as lines of text."""

from collections.abc import Iterator, Sequence

from nmt.evaluation.comparison import Change, System
from nmt.lab.numbers import columns


def comparison_lines(systems: Sequence[System]) -> Iterator[str]:
    """All tables, a row for each system, and then the sentences that changed most."""
    yield from _score_lines(systems)
    if len(systems[0].evaluation.by_length) > 1:
        yield from ("", "BLEU by words of the source (sentences)", *columns(_length_rows(systems)))
    for system in systems[1:]:
        for change in system.changes:
            yield from _change_lines(systems[0].name, system.name, change)


def _length_rows(systems: Sequence[System]) -> list[list[str]]:
    """A title row with a cell for each bucket, then a row for each system."""
    rows = [["", *(f"{b.label} ({b.n_sentences:,})" for b in systems[0].evaluation.by_length)]]
    for system in systems:
        rows.append([system.name, *(f"{b.bleu:.1f}" for b in system.evaluation.by_length)])
    return rows


def _score_lines(systems: Sequence[System]) -> Iterator[str]:
    for index, (metric, first) in enumerate(systems[0].evaluation.scores.items()):
        if index:
            yield ""
        rows = [
            [first.name, "score", "95 % interval", "difference", "p, bootstrap", "randomisation"]
        ]
        for system in systems:
            own = system.evaluation.scores[metric]
            row = [system.name, f"{own.score:.2f}", f"{own.low:.2f} to {own.high:.2f}", "", "", ""]
            if test := system.against_first.get(metric):
                p_values = (f"{p:.4f}" for p in (test.p_value, test.p_randomisation))
                row[3:] = [f"{own.score - first.score:+.2f}", *p_values]
            rows.append(row)
        yield from (*columns(rows), first.signature)


def _change_lines(first: str, name: str, change: Change) -> Iterator[str]:
    yield from ("", f"line {change.line}: chrF2 {change.gain:+.1f}")
    texts = [("source", change.src_text)] if change.src_text else []
    texts += [("reference", ref) for ref in change.ref_texts]
    for label, text in (*texts, (first, change.first_text), (name, change.text)):
        yield f"  {label:<{max(len(first), len(name), 9)}}  {text}"
