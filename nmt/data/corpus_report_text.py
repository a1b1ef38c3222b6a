"""A CorpusReport as text: a table with a column per split, then the unusual characters."""

from collections.abc import Callable, Iterator

from nmt.data.corpus_report import CorpusReport, Lengths, Overlap, SideReport, SplitReport
from nmt.data.file_report import file_lines
from nmt.text.characters import OddCharacter

SHOWN_CHARACTERS = 40
EXAMPLE_WIDTH = 50


def render_report(report: CorpusReport) -> str:
    """The report in lines of text, for a terminal or a file."""
    names = [split.name for split in report.splits]
    rows = [("", names), *_rows(report)]
    label_width = max(len(label) for label, _ in rows)
    widths = [max(len(cells[i]) for _, cells in rows) for i in range(len(names))]
    lines = []
    for label, cells in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join([label.ljust(label_width), *padded]).rstrip())
    first = report.splits[0]
    lines += _character_lines(first.src.lang, report.src_characters)
    lines += _character_lines(first.tgt.lang, report.tgt_characters)
    if report.files:
        lines += ["", *(line for file in report.files for line in file_lines(file))]
    doubts = [f"look at {s.name}: {doubt}" for s in report.splits for doubt in s.suspicions]
    return "\n".join([*lines, *([""] if doubts else []), *doubts])


def _rows(report: CorpusReport) -> Iterator[tuple[str, list[str]]]:
    splits = report.splits

    def row(label: str, cell: Callable[[SplitReport], str]) -> tuple[str, list[str]]:
        return label, [cell(split) for split in splits]

    first = splits[0]
    yield row("pairs", lambda s: f"{s.pairs:,}")
    yield row("the same pair again", lambda s: _part(s.repeated_pairs, s.pairs))
    yield from _side_rows(first.src.lang, [split.src for split in splits])
    yield from _side_rows(first.tgt.lang, [split.tgt for split in splits])
    yield row(f"over {report.max_pieces} pieces", lambda s: _part(s.over_limit, s.pairs))
    if any(split.in_train is not None for split in splits):
        shown: list[tuple[str, Callable[[Overlap], int]]] = [
            (f"also in train: {first.src.lang}", lambda o: o.src),
            ("  but for case and punctuation", lambda o: o.src_nearly),
            (f"also in train: {first.tgt.lang}", lambda o: o.tgt),
            ("also in train: the pair", lambda o: o.pair),
        ]
        for label, count in shown:
            cells = [_part(count(s.in_train) if s.in_train else None, s.pairs) for s in splits]
            yield label, cells


def _side_rows(lang: str, sides: list[SideReport]) -> Iterator[tuple[str, list[str]]]:
    yield f"{lang}: different sentences", [f"{side.distinct:,}" for side in sides]
    yield "  empty", [f"{side.empty:,}" for side in sides]
    yield "  different words", [f"{side.word_types:,}" for side in sides]
    yield "  words", [f"{side.words.total:,}" for side in sides]
    yield "    mean, 50 %, 90 %, 99 %, max", [_lengths(side.words) for side in sides]
    yield "  pieces", [f"{side.pieces.total:,}" if side.pieces else "-" for side in sides]
    yield "    mean, 50 %, 90 %, 99 %, max", [_lengths(side.pieces) for side in sides]
    yield (
        "  unknown pieces",
        [_part(side.unknown_pieces, side.pieces.total if side.pieces else 0) for side in sides],
    )


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "-"
    return f"{lengths.mean:.1f} {lengths.median} {lengths.p90} {lengths.p99} {lengths.max}"


def _part(count: int | None, whole: int) -> str:
    if count is None:
        return "-"
    return f"{count:,} ({count / max(whole, 1):.2%})"


def _character_lines(lang: str, found: tuple[OddCharacter, ...]) -> Iterator[str]:
    yield ""
    yield f"{lang}: characters outside the usual: {len(found) or 'none'}"
    for odd in found[:SHOWN_CHARACTERS]:
        example = repr(odd.example)
        if len(example) > EXAMPLE_WIDTH:
            example = example[: EXAMPLE_WIDTH - 1] + "…"
        yield f"  {odd.code_point:<8} {odd.count:>7,}  {odd.why}: {odd.name}  {example}"
    if len(found) > SHOWN_CHARACTERS:
        yield f"  and {len(found) - SHOWN_CHARACTERS} more (the JSON has all of them)"
