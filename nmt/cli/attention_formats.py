"""The formats of `nmt attention`: each takes the translations as they come and writes them."""

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
class Job:
    """What is to be written and where, once the flags are checked."""

    level: "Level | None"
    forced: bool
    n_maps: int
    out: Path | None
    heads: "tuple[Head, ...]"


def _records(translations: Iterable["Translation"], job: Job) -> Iterator["AttentionRecord"]:
    from nmt.attention_maps.record import records

    for number, translation in enumerate(translations):
        yield from records(translation, number, job.level or "piece", job.forced, job.heads)


def _emit(lines: Iterable[str], out: Path | None) -> None:
    """Lines to stdout, or to the file `out`, whose name then goes to stdout."""
    from nmt.storage.output import write_lines

    if out is None or str(out) == "-":
        for line in lines:
            typer.echo(line)
    else:
        write_lines(lines, out)
        _name(out)


def _name(path: Path) -> None:
    """Tell on stdout what file was written, unless that is stdout itself."""
    if str(path) not in ("-", "/dev/stdout"):
        typer.echo(path)


def _write_jsonl(translations: Iterable["Translation"], job: Job) -> None:
    from nmt.attention_maps.dump import to_json

    _emit(map(to_json, _records(translations, job)), job.out)


def _write_npz(translations: Iterable["Translation"], job: Job) -> None:
    from nmt.attention_maps.dump import write_npz

    assert job.out is not None  # checked with the format
    write_npz(_records(translations, job), job.out)
    _name(job.out)


def _write_png(translations: Iterable["Translation"], job: Job) -> None:
    """One picture into the file --out, or any number into the folder --out."""
    from nmt.attention_maps.heatmap import write_heatmap
    from nmt.storage.output import is_direct

    out = job.out or Path("attention.png" if job.n_maps == 1 else "attention")
    as_file = (out.suffix.lower() == ".png" or is_direct(out)) and not out.is_dir()
    if as_file and job.n_maps > 1:
        raise ConfigError(f"--out: got the file {out} for {job.n_maps} pictures; name a folder")
    for number, translation in enumerate(translations):
        for rank in range(len(translation.hypotheses)):
            path = out if as_file else out / f"attention_{number:06d}_{rank}.png"
            write_heatmap(translation, path, rank, job.level or "piece", job.heads)
            _name(path)


def _write_text(translations: Iterable["Translation"], job: Job) -> None:
    _emit(_text_lines(translations, job), job.out)


def _text_lines(translations: Iterable["Translation"], job: Job) -> Iterator[str]:
    from nmt.attention_maps.labels import label
    from nmt.attention_maps.terminal import legend, render_terminal

    for number, translation in enumerate(translations):
        for rank, chosen in enumerate(translation.hypotheses):
            yield f"[{number}] {label(translation.src_text)}"
            yield f"[{number}.{rank}] {label(chosen.text)} ({chosen.hypothesis.score:.3f})"
            for head in job.heads:
                if len(job.heads) > 1 or head.index is not None:
                    yield label(head.name)
                yield render_terminal(translation, rank, level=job.level, head=head)
                yield ""
    yield legend()


def _write_pharaoh(translations: Iterable["Translation"], job: Job) -> None:
    from nmt.evaluation.alignment import pharaoh

    if len(job.heads) > 1:
        raise ConfigError(
            f"--heads: got {len(job.heads)} heads, allowed with --format pharaoh: one, or mean"
        )
    level, [head] = job.level or "word", job.heads
    _emit((pharaoh(made, level=level, head=head) for made in translations), job.out)


WRITERS: dict[str, Callable[[Iterable["Translation"], Job], None]] = {
    "jsonl": _write_jsonl,
    "npz": _write_npz,
    "png": _write_png,
    "text": _write_text,
    "pharaoh": _write_pharaoh,
}
