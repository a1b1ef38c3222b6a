"""A comparison of systems as lines of text."""

from collections.abc import Iterator, Sequence

from nmt.evaluation.comparison import Change, System
from nmt.evaluation.evaluate import Bucket
from nmt.lab.numbers import columns


def comparison_lines(systems: Sequence[System]) -> Iterator[str]:
    """All tables, a row for each system, and then the sentences that changed most."""
    yield from _score_lines(systems)
    lengths = [_cells(system.evaluation.by_length) for system in systems]
    rarest = [_cells(system.by_rarest_word) for system in systems]
    words = [[(b.label, b.n_words, b.f1) for b in system.f1_by_frequency] for system in systems]
    for title, found in (
        ("BLEU by words of the source (sentences)", lengths),
        ("BLEU by the training frequency of the rarest source word (sentences)", rarest),
        ("F1 of target words by their training frequency (words of the reference)", words),
    ):
        if len(found[0]) > 1:
            yield from ("", title, *columns(list(_rows(systems, found))))
    for system in systems[1:]:
        for change in system.changes:
            yield from _change_lines(systems[0].name, system.name, change)


Cells = list[tuple[str, int, float]]


def _cells(buckets: Sequence[Bucket]) -> Cells:
    return [(bucket.label, bucket.n_sentences, bucket.bleu) for bucket in buckets]


def _rows(systems: Sequence[System], found: Sequence[Cells]) -> Iterator[list[str]]:
    """A title row with a cell for each range that any system has, then a row for each system."""
    heads = {label: number for cells in found for label, number, _ in cells}
    yield ["", *(f"{label} ({number:,})" for label, number in heads.items())]
    for system, cells in zip(systems, found, strict=True):
        values = {label: f"{value:.1f}" for label, _, value in cells}
        yield [system.name, *(values.get(label, "-") for label in heads)]


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
