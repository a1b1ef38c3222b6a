"""The output formats of `nmt attention`, each with the function that writes it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.sentences import print_lines
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt.translation.heads import Head
    from nmt.translation.record import AttentionRecord
    from nmt.translation.words import Level
    from nmt.types import Translation

PICTURES = ("png", "svg", "pdf")  # formats with a file for each picture
_SUFFIXES = {f".{name}": name for name in ("jsonl", "npz", "html", *PICTURES)} | {".txt": "text"}


@dataclass(frozen=True)
class MapOutputOptions:
    """Options for writing `n_maps` attention maps to the file or folder `out`.

    `targets` are translations by the user, which are explained instead of searching. `scale` and
    `numbers` are as in MapStyle.
    """

    sources: list[str]
    targets: list[str] | None
    level: "Level | None"
    n_maps: int
    out: Path | None
    heads: "tuple[Head, ...]"
    scale: float | None
    numbers: bool


Translations = Iterable["Translation"]
Picture = tuple[str, "Figure", tuple[str, ...]]
"""The name of a file without the suffix, the figure, and the texts in it."""


def format_of(format: str | None, out: Path | None, is_terminal: bool) -> str:
    """Return `format`, or for None the format that the suffix of `out` names.

    For stdout, it is text on a terminal, else jsonl. Raises ConfigError for an unknown suffix, and
    for npz without `out`.
    """
    if format is None and out is not None and str(out) != "-":
        format = _SUFFIXES.get(out.suffix.lower())
        if format is None:
            allowed = ", ".join(WRITERS)
            raise ConfigError(f"--out: {out} has no known suffix; add --format ({allowed})")
    elif format is None:
        format = "text" if out is None and is_terminal else "jsonl"
    if format == "npz" and out is None:
        raise ConfigError("--format npz requires --out: the file is binary")
    return format


def _records(translations: Translations, options: MapOutputOptions) -> Iterator["AttentionRecord"]:
    from nmt.translation.record import attention

    return attention(translations, options.level or "piece", options.heads, bool(options.targets))


def _write_jsonl(translations: Translations, options: MapOutputOptions) -> None:
    from nmt.translation.dump import to_json

    print_lines(map(to_json, _records(translations, options)), options.out)


def _write_npz(translations: Translations, options: MapOutputOptions) -> None:
    from nmt.translation.dump import write_npz

    assert options.out is not None  # checked by format_of
    write_npz(_records(translations, options), options.out)


def _write_picture(format: str, translations: Translations, options: MapOutputOptions) -> None:
    from nmt.explain.heatmap import draw_translation
    from nmt.explain.map_style import MapStyle

    style = MapStyle(options.scale, options.numbers)

    def pictures() -> Iterator[Picture]:
        for number, translation in enumerate(translations, start=1):
            for index, hypothesis in enumerate(translation.hypotheses):
                level = options.level or "piece"
                figure = draw_translation(translation, index, level, options.heads, style)
                texts = (translation.src_text, hypothesis.text)
                yield f"attention_{number:06d}_{index + 1}", figure, texts

    _write_pictures(format, pictures(), options, first="attention_000001_1")


def write_side_by_side(
    format: str, translations: Mapping[str, Translations], options: MapOutputOptions
) -> None:
    """Write a picture of each sentence, with the map of every run under the run's name."""
    from nmt.explain.heatmap import draw_side_by_side
    from nmt.explain.map_style import MapStyle

    style = MapStyle(options.scale, options.numbers)

    def pictures() -> Iterator[Picture]:
        for number, outputs in enumerate(zip(*translations.values(), strict=True), start=1):
            if outputs[0].hypotheses:
                by_run = dict(zip(translations, outputs, strict=True))
                figure = draw_side_by_side(by_run, options.level or "word", style)
                texts = (outputs[0].src_text, *(output.hypotheses[0].text for output in outputs))
                yield f"attention_{number:06d}", figure, texts

    _write_pictures(format, pictures(), options, first="attention_000001")


def _write_pictures(
    format: str, pictures: Iterable[Picture], options: MapOutputOptions, first: str
) -> None:
    """Write one picture to a file, or several to a folder in which no file `first` may exist."""
    from nmt.explain.fonts import font_hint
    from nmt.explain.heatmap import write_map
    from nmt.storage.output import check_output, is_written_directly

    out = options.out or Path(f"attention.{format}" if options.n_maps == 1 else "attention")
    is_file = (out.suffix.lower() == f".{format}" or is_written_directly(out)) and not out.is_dir()
    if is_file and options.n_maps > 1:
        raise ConfigError(f"--out: got {out} for {options.n_maps} pictures, allowed: a folder")
    check_output(out if is_file else out / f"{first}.{format}")
    texts: set[str] = set()
    for name, figure, labels in pictures:
        texts.update(labels)
        path = out if is_file else out / f"{name}.{format}"
        write_map(figure, path, format)
        print_path(path)
    if hint := font_hint(sorted(texts)):
        say(hint)


def _write_html(translations: Translations, options: MapOutputOptions) -> None:
    from nmt.explain.page import write_page

    by_piece = replace(options, level="piece")  # the page merges pieces into words
    records = _records(translations, by_piece)
    write_page(records, options.out or Path("-"), options.level or "word")


def _write_text(translations: Translations, options: MapOutputOptions) -> None:
    print_lines(_text_lines(translations, options), options.out)


def _text_lines(translations: Translations, options: MapOutputOptions) -> Iterator[str]:
    from nmt.explain.labels import label
    from nmt.explain.terminal import SHARE_LEGEND, legend, render_terminal
    from nmt.translation.words import attention_table

    has_shares = False
    for number, translation in enumerate(translations, start=1):
        for index, hypothesis in enumerate(translation.hypotheses):
            yield f"[{number}] {label(translation.src_text)}"
            score = f"{hypothesis.hypothesis.score:.3f}"
            yield f"[{number}.{index + 1}] {label(hypothesis.text)} ({score})"
            table = attention_table(translation, index)
            has_shares |= table.source_share is not None
            if table.method != "attention":
                yield label(table.method)
            for head in options.heads:
                if len(options.heads) > 1 or head.index is not None:
                    yield label(head.name)
                yield render_terminal(translation, index, level=options.level, head=head)
                yield ""
    yield legend()
    if has_shares:
        yield SHARE_LEGEND


WRITERS: dict[str, Callable[[Translations, MapOutputOptions], None]] = {
    "jsonl": _write_jsonl,
    "npz": _write_npz,
    **{name: partial(_write_picture, name) for name in PICTURES},
    "html": _write_html,
    "text": _write_text,
}
