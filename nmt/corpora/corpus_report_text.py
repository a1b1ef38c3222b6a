"""A CorpusReport as text: a table with a column per split, then the unusual characters."""

from collections.abc import Iterator

from nmt.corpora.corpus_report import CorpusReport, Lengths, SideReport, SplitReport
from nmt.corpora.file_report import file_lines
from nmt.text.characters import OddCharacter

SHOWN_CHARACTERS = 40
EXAMPLE_WIDTH = 50


def render_report(report: CorpusReport) -> str:
    """The report in lines of text, for a terminal or a file."""
    columns = [list(_cells(report, split)) for split in report.splits]
    labels = ["", *(label for label, _ in columns[0])]
    lines = [label.ljust(max(map(len, labels))) for label in labels]
    for split, column in zip(report.splits, columns, strict=True):
        cells = [split.name, *(cell for _, cell in column)]
        width = max(map(len, cells))
        lines = [f"{line}  {cell:>{width}}" for line, cell in zip(lines, cells, strict=True)]
    first = report.splits[0]
    lines += _character_lines(first.src.lang, report.src_characters)
    lines += _character_lines(first.tgt.lang, report.tgt_characters)
    if report.files:
        lines += ["", *(line for file in report.files for line in file_lines(file))]
    doubts = [f"look at {s.name}: {doubt}" for s in report.splits for doubt in s.suspicions]
    return "\n".join([*lines, *([""] if doubts else []), *doubts])


def _cells(report: CorpusReport, split: SplitReport) -> Iterator[tuple[str, str]]:
    """The column of a split: each cell with the label of its row."""
    yield "pairs", f"{split.pairs:,}"
    about = "about " if split.is_estimated else ""
    yield "the same pair again", about + _part(split.repeated_pairs, split.pairs)
    yield from _side_cells(split.src, about)
    yield from _side_cells(split.tgt, about)
    yield f"over {report.max_pieces} pieces", _part(split.over_limit, split.pairs)
    if any(other.in_train is not None for other in report.splits):
        for label, name in (
            (f"also in train: {split.src.lang}", "src"),
            ("  but for case and punctuation", "src_nearly"),
            (f"also in train: {split.tgt.lang}", "tgt"),
            ("also in train: the pair", "pair"),
        ):
            yield label, _part(getattr(split.in_train, name, None), split.pairs)


def _side_cells(side: SideReport, about: str) -> Iterator[tuple[str, str]]:
    yield f"{side.lang}: different sentences", f"{about}{side.distinct:,}"
    yield "  empty", f"{side.empty:,}"
    yield "  different words", f"{about}{side.word_types:,}"
    yield "  words", f"{side.words.total:,}"
    yield "    mean, 50 %, 90 %, 99 %, max", _lengths(side.words)
    yield "  pieces", f"{side.pieces.total:,}" if side.pieces else "-"
    yield "    mean, 50 %, 90 %, 99 %, max", _lengths(side.pieces)
    yield "  unknown pieces", _part(side.unknown_pieces, side.pieces.total if side.pieces else 0)


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "-"
    return f"{lengths.mean:.1f} {lengths.median} {lengths.p90} {lengths.p99} {lengths.max}"


def _part(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count:,} ({count / max(total, 1):.2%})"


def _character_lines(lang: str, characters: tuple[OddCharacter, ...]) -> Iterator[str]:
    yield ""
    yield f"{lang}: characters outside the usual: {len(characters) or 'none'}"
    for odd in characters[:SHOWN_CHARACTERS]:
        example = repr(odd.example)
        if len(example) > EXAMPLE_WIDTH:
            example = example[: EXAMPLE_WIDTH - 1] + "…"
        yield f"  {odd.code_point:<8} {odd.count:>7,}  {odd.why}: {odd.name}  {example}"
    if len(characters) > SHOWN_CHARACTERS:
        yield f"  and {len(characters) - SHOWN_CHARACTERS} more (the JSON has all of them)"
