"""The output formats of `nmt attention`, each with the function that writes it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.attention_maps.heads import Head
    from nmt.attention_maps.record import AttentionRecord
    from nmt.attention_maps.words import Level
    from nmt.types import Translation


@dataclass(frozen=True)
class MapOptions:
    """The checked flags of an export: rows by piece or word, number of maps, file, heads."""

    level: "Level | None"
    forced: bool
    n_maps: int
    out: Path | None
    heads: "tuple[Head, ...]"


def _records(
    translations: Iterable["Translation"], options: MapOptions
) -> Iterator["AttentionRecord"]:
    from nmt.attention_maps.record import records

    for number, translation in enumerate(translations):
        yield from records(
            translation, number, options.level or "piece", options.forced, options.heads
        )


def _print_or_write(lines: Iterable[str], out: Path | None) -> None:
    """Lines to stdout, or to the file `out`, whose name then goes to stdout."""
    from nmt.storage.output import write_lines

    if out is None or str(out) == "-":
        for line in lines:
            typer.echo(line)
    else:
        write_lines(lines, out)
        _print_path(out)


def _print_path(path: Path) -> None:
    """Print the path of a written file, unless that is stdout itself."""
    if str(path) not in ("-", "/dev/stdout"):
        typer.echo(path)


def _write_jsonl(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.dump import to_json

    _print_or_write(map(to_json, _records(translations, options)), options.out)


def _write_npz(translations: Iterable["Translation"], options: MapOptions) -> None:
    from nmt.attention_maps.dump import write_npz

    assert options.out is not None  # checked with the format
    write_npz(_records(translations, options), options.out)
    _print_path(options.out)


def _write_png(translations: Iterable["Translation"], options: MapOptions) -> None:
    """One picture into the file --out, or any number into the folder --out."""
    from nmt.attention_maps.heatmap import write_heatmap
    from nmt.storage.output import is_direct

    out = options.out or Path("attention.png" if options.n_maps == 1 else "attention")
    as_file = (out.suffix.lower() == ".png" or is_direct(out)) and not out.is_dir()
    if as_file and options.n_maps > 1:
        raise ConfigError(f"--out: got the file {out} for {options.n_maps} pictures; name a folder")
    for number, translation in enumerate(translations):
        for rank in range(len(translation.hypotheses)):
            path = out if as_file else out / f"attention_{number:06d}_{rank}.png"
            write_heatmap(translation, path, rank, options.level or "piece", options.heads)
            _print_path(path)


def _write_text(translations: Iterable["Translation"], options: MapOptions) -> None:
    _print_or_write(_text_lines(translations, options), options.out)


def _text_lines(translations: Iterable["Translation"], options: MapOptions) -> Iterator[str]:
    from nmt.attention_maps.labels import label
    from nmt.attention_maps.terminal import legend, render_terminal

    for number, translation in enumerate(translations):
        for rank, found in enumerate(translation.hypotheses):
            yield f"[{number}] {label(translation.src_text)}"
            yield f"[{number}.{rank}] {label(found.text)} ({found.hypothesis.score:.3f})"
            for head in options.heads:
                if len(options.heads) > 1 or head.index is not None:
                    yield label(head.name)
                yield render_terminal(translation, rank, level=options.level, head=head)
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


WRITERS: dict[str, Callable[[Iterable["Translation"], MapOptions], None]] = {
    "jsonl": _write_jsonl,
    "npz": _write_npz,
    "png": _write_png,
    "text": _write_text,
    "pharaoh": _write_pharaoh,
}
