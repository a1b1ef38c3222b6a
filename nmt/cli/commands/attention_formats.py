"""The output formats of `nmt attention`, each with the function that writes it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nmt.cli.shared.command import say
from nmt.cli.shared.options import print_path
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt.attention_maps.heads import Head
    from nmt.attention_maps.map_style import MapStyle
    from nmt.attention_maps.record import AttentionRecord
    from nmt.attention_maps.words import Level
    from nmt.types import Translation


PICTURES = ("png", "svg", "pdf")
"""Formats with one picture a hypothesis."""


@dataclass(frozen=True)
class Look:
    """The flags about the looks of a picture, as typed."""

    scale: str | None = None
    numbers: bool = False
    colours: str | None = None
    title: str | None = None
    transparent: bool = False

    def check(self, format: str) -> None:
        """Raise ConfigError for a value that is not allowed, or where there is no picture."""
        if self == Look():
            return
        if format not in PICTURES:
            flag = next(name for name, value in vars(self).items() if value not in (None, False))
            raise ConfigError(
                f"--{flag}: got it with --format {format}, allowed: {', '.join(PICTURES)}"
            )
        self.style()

    def style(self) -> "MapStyle":
        """The style of each picture; a shared scale is not known yet. Raises ConfigError."""
        from nmt.attention_maps.map_style import PLAIN, MapStyle

        scale = None
        if self.scale not in (None, "each", "shared"):
            try:
                scale = float(str(self.scale))
            except ValueError:
                raise ConfigError(
                    f"--scale: got '{self.scale}', allowed: each, shared, or a weight such as 1"
                ) from None
        colours = self.colours or PLAIN.colours
        return MapStyle(colours, scale, self.numbers, self.title, self.transparent)


@dataclass(frozen=True)
class MapOptions:
    """The checked flags of an export: rows by piece or word, number of maps, file, heads, looks."""

    level: "Level | None"
    forced: bool
    n_maps: int
    out: Path | None
    heads: "tuple[Head, ...]"
    look: Look = Look()


def _records(
    translations: Iterable["Translation"], options: MapOptions
) -> Iterator["AttentionRecord"]:
    from nmt.attention_maps.record import attention

    return attention(translations, options.level or "piece", options.heads, options.forced)


def _print_or_write(lines: Iterable[str], out: Path | None) -> None:
    """Lines to stdout, or to the file `out`, whose name then goes to stdout."""
    from nmt.storage.output import write_lines

    if out is None or str(out) == "-":
        for line in lines:
            typer.echo(line)
    else:
        write_lines(lines, out)
        print_path(out)


def _write_jsonl(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.dump import to_json

    _print_or_write(map(to_json, _records(translations, options)), options.out)


def _write_npz(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.dump import write_npz

    assert options.out is not None  # checked with the format
    write_npz(_records(translations, options), options.out)
    print_path(options.out)


def _write_picture(format: str, translations: Iterable["Translation"], options: MapOptions) -> None:
    """One picture into the file --out, a page each into a PDF, or each into the folder --out."""
    from nmt.attention_maps.fonts import font_hint
    from nmt.attention_maps.heatmap import draw_translation, write_map, write_pages
    from nmt.storage.output import check_output, is_direct

    out = options.out or Path(f"attention.{format}" if options.n_maps == 1 else "attention")
    as_file = (out.suffix.lower() == f".{format}" or is_direct(out)) and not out.is_dir()
    if as_file and options.n_maps > 1 and format != "pdf":
        raise ConfigError(f"--out: got the file {out} for {options.n_maps} pictures; name a folder")
    check_output(out if as_file else out / f"attention_{1:06d}_1.{format}")
    level = options.level or "piece"
    style = options.look.style()
    if options.look.scale == "shared":
        translations = list(translations)
        style = replace(style, scale=_shared_scale(translations, level, options.heads))
    texts: set[str] = set()

    def figures() -> Iterator[tuple[str, "Figure"]]:
        for number, translation in enumerate(translations, start=1):
            texts.update((translation.src_text, style.title or ""))
            for index, hypothesis in enumerate(translation.hypotheses):
                texts.add(hypothesis.text)
                figure = draw_translation(translation, index, level, options.heads, style)
                yield f"attention_{number:06d}_{index + 1}.{format}", figure

    if as_file and options.n_maps > 1:
        pages = (figure for _, figure in figures())
        if first := next(pages, None):  # a PDF without a page is no file
            write_pages(chain([first], pages), out)
            print_path(out)
    else:
        for name, figure in figures():
            path = out if as_file else out / name
            write_map(figure, path, format)
            print_path(path)
    if hint := font_hint(sorted(texts)):
        say(hint)


def _shared_scale(
    translations: Iterable["Translation"], level: "Level", heads: "tuple[Head, ...]"
) -> float:
    """The weight of the darkest colour of all maps: the greatest, rounded up to a tenth."""
    from nmt.attention_maps.words import attention_table, scale_end

    tables = (
        attention_table(translation, rank, level, head)
        for translation in translations
        for rank in range(len(translation.hypotheses))
        for head in heads
    )
    return scale_end(max((float(table.weights.max(initial=0.0)) for table in tables), default=0.0))


def _write_html(translations: Iterable["Translation"], options: MapOptions) -> None:
    """One page, by piece; it merges words itself."""
    from nmt.attention_maps.page import write_page

    out = options.out or Path("-")
    by_piece = replace(options, level="piece")
    write_page(_records(translations, by_piece), out, options.level or "word")
    print_path(out)


def _write_text(translations: Iterable["Translation"], options: MapOptions) -> None:
    _print_or_write(_text_lines(translations, options), options.out)


def _text_lines(translations: Iterable["Translation"], options: MapOptions) -> Iterator[str]:
    from nmt.attention_maps.labels import label
    from nmt.attention_maps.terminal import legend, render_terminal

    for number, translation in enumerate(translations, start=1):
        for index, found in enumerate(translation.hypotheses):
            yield f"[{number}] {label(translation.src_text)}"
            yield f"[{number}.{index + 1}] {label(found.text)} ({found.hypothesis.score:.3f})"
            for head in options.heads:
                if len(options.heads) > 1 or head.index is not None:
                    yield label(head.name)
                yield render_terminal(translation, index, level=options.level, head=head)
                yield ""
    yield legend()


def _write_pharaoh(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.evaluation.alignment import pharaoh

    if len(options.heads) > 1:
        raise ConfigError(
            f"--heads: got {len(options.heads)} heads, allowed with --format pharaoh: one, or mean"
        )
    level, [head] = options.level or "word", options.heads
    if head.attention != "cross":
        raise ConfigError(
            f"--heads: got '{head.name}', allowed with --format pharaoh: one over the source, or "
            "mean"
        )
    _print_or_write((pharaoh(each, level=level, head=head) for each in translations), options.out)


def _write_csv(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.interchange import CSV_COLUMNS, csv_lines
    from nmt.storage.output import csv_line

    lines = (line for record in _records(translations, options) for line in csv_lines(record))
    _print_or_write(chain([csv_line(CSV_COLUMNS)], lines), options.out)


def _write_nematus(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.interchange import nematus_block

    level = _one_mean(options, "nematus")
    blocks = (nematus_block(record, level) for record in _records(translations, options))
    _print_or_write((line for block in blocks for line in block), options.out)


def _write_bertviz(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.interchange import bertviz_line

    _print_or_write(map(bertviz_line, _records(translations, options)), options.out)


def _one_mean(options: MapOptions, format: str) -> "Level":
    """The level of a format that has one matrix a hypothesis. Raises ConfigError for heads."""
    if any(head.index is not None for head in options.heads):
        raise ConfigError(f"--heads: got heads, allowed with --format {format}: mean")
    return options.level or "piece"


WRITERS: dict[str, Callable[[Iterable["Translation"], MapOptions], None]] = {
    "jsonl": _write_jsonl,
    "npz": _write_npz,
    "csv": _write_csv,
    **{name: partial(_write_picture, name) for name in PICTURES},
    "html": _write_html,
    "text": _write_text,
    "pharaoh": _write_pharaoh,
    "nematus": _write_nematus,
    "bertviz": _write_bertviz,
}
