"""`nmt attention`: where the model looked, as data, picture or text."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from nmt.cli.attention_formats import WRITERS, Job
from nmt.cli.config_option import SetSearch
from nmt.cli.search_flags import config_of_run
from nmt.cli.sentences import check_out, checked_arguments, file_lines
from nmt.errors import ConfigError, counted

if TYPE_CHECKING:
    from nmt.attention_maps.words import Level
    from nmt.config import RunConfig
    from nmt.decoding.search import SearchConfig
    from nmt.inference.translator import Translator
    from nmt.types import Translation

_SUFFIXES = {".jsonl": "jsonl", ".npz": "npz", ".png": "png", ".txt": "text"}
_CHUNK = 256  # sentences translated before their records are written, over the number of heads


def attention(
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Source sentences, each in quotes.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Source text, one sentence a line; - is stdin.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="A split of the run's data: test, valid, train, or another.")
    ] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only the first N sentences.")] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="A translation to explain, in place of a search; once for each sentence."
        ),
    ] = None,
    target_file: Annotated[Path | None, typer.Option(help="Such translations, one a line.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="jsonl, npz, png, text or pharaoh (word alignments).",
            show_default="by the suffix of --out, else jsonl",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write, - is stdout; for several png a folder.", show_default="stdout"
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            help="What a row and a column stand for: piece or word.",
            show_default="piece; pharaoh: word; text: word where pieces are too wide",
        ),
    ] = None,
    heads: Annotated[
        str,
        typer.Option(
            help="The heads to show: mean, all, or their numbers or names between commas, such as "
            "1,3 or 'layer 2'."
        ),
    ] = "mean",
    beam: Annotated[
        int | None, typer.Option(min=1, help="Beam size.", show_default="the run's")
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Hypotheses per sentence.",
            show_default="jsonl, npz: the whole beam; else 1",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run directory.", show_default="the newest with a model")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last or step-NNNNNN.")] = "best",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda[:N] or mps.")] = "auto",
    set_: SetSearch = None,
) -> None:
    """Show where the model looked: attention weights as data, picture or text.

    Rows are pieces of the translation, columns those of the source. Sentences and hypotheses are
    counted from 0. docs/attention-dump.md describes the files.
    """
    chosen = _format(format, out)
    _check_choice("--level", level, ("piece", "word"))
    _check_one("a source", {"SENTENCE": sentences, "--file": file, "--split": split})
    forced = bool(target) or target_file is not None
    if forced:
        _check_one("the translations", {"--target": target, "--target-file": target_file})
        if beam is not None or n_best is not None:
            raise ConfigError("--target gives the translation: --beam and --n-best do not apply")

    from nmt.runs.directory import find_run

    folder = find_run(run)
    if run is None:
        typer.echo(f"run: {folder}", err=True)
    source = None if sentences or split else file
    config = config_of_run(folder, {"beam": beam, "n_best": n_best}, set_ or ())
    texts = {"--file": source, "--target-file": target_file}
    check_out(out, folder, config.data, texts, split)
    search = _search(config.search, n_best, chosen)
    given = _texts(sentences, file)
    sources = _split_sources(config, split or "") if given is None else given
    targets = _texts(target, target_file)
    if targets is not None and len(targets) != len(sources):
        raise ConfigError(
            f"--target: got {counted(len(targets), 'translation')} for "
            f"{counted(len(sources), 'sentence')}; "
            "give one for each, in the same order"
        )

    from nmt.attention_maps.heads import choose_heads
    from nmt.cli.process import configure_process
    from nmt.inference.translator import Translator

    configure_process()
    translator = Translator.load(folder, device=device, checkpoint=checkpoint, search=search)
    sources = sources[:first]
    n_maps = len(sources) * (1 if forced else search.n_best)
    shown = choose_heads(heads, translator.head_names)
    job = Job(cast("Level | None", level), forced, n_maps, out, shown)
    WRITERS[chosen](_translations(translator, sources, targets, job), job)


def _format(format: str | None, out: Path | None) -> str:
    """The format asked for, or the one that --out's suffix means. Raises ConfigError."""
    allowed = ", ".join(WRITERS)
    if format is None and out is not None and str(out) != "-":
        if out.suffix.lower() not in _SUFFIXES:
            raise ConfigError(f"--out: {out} does not tell the format; add --format ({allowed})")
        return _SUFFIXES[out.suffix.lower()]
    chosen = format or "jsonl"
    if chosen not in WRITERS:
        raise ConfigError(f"--format: got '{chosen}', allowed: {allowed}")
    if chosen == "npz" and out is None:
        raise ConfigError("--format npz: a binary file needs --out PATH")
    return chosen


def _check_choice(flag: str, got: str | None, allowed: tuple[str, ...]) -> None:
    if got is not None and got not in allowed:
        raise ConfigError(f"{flag}: got '{got}', allowed: {', '.join(allowed)}")


def _check_one(what: str, given: dict[str, object]) -> None:
    """Raises ConfigError unless exactly one of the flags has a value."""
    got = [flag for flag, value in given.items() if value]
    if len(got) != 1:
        raise ConfigError(
            f"{what} must be given in one way: got {', '.join(got) or 'none'}, "
            f"allowed: one of {', '.join(given)}"
        )


def _texts(given: list[str] | None, file: Path | None) -> list[str] | None:
    """What the arguments say, or the lines of the file; None where there is neither."""
    if given:
        return checked_arguments(given)
    return None if file is None else list(file_lines(file))


def _search(search: "SearchConfig", n_best: int | None, chosen: str) -> "SearchConfig":
    """`search`, with as many hypotheses as the format shows. Raises ConfigError for too many.

    Data has the whole beam, and the other formats the best of it, unless told otherwise.
    """
    if chosen == "pharaoh" and (n_best or 1) > 1:
        raise ConfigError(
            f"--n-best: got {n_best}, allowed with --format pharaoh: 1 (a line per sentence)"
        )
    shown = n_best or (search.beam if chosen in ("jsonl", "npz") else 1)
    return search.model_copy(update={"n_best": shown})


def _split_sources(config: "RunConfig", name: str) -> list[str]:
    """The distinct source sentences of a split of the run's corpus."""
    from nmt.data.corpora import read_examples
    from nmt.evaluation.examples import split_named

    split = split_named(config.data, name)
    return [example.src_text for example in read_examples(split, config.data)]


def _translations(
    translator: "Translator", sources: list[str], targets: list[str] | None, job: Job
) -> Iterator["Translation"]:
    """The translations in order, some at a time; says at the end how many sources were empty."""
    n_empty = 0
    with_heads = any(head.index is not None for head in job.heads)
    chunk = max(1, _CHUNK // len(translator.head_names)) if with_heads else _CHUNK
    for start in range(0, len(sources), chunk):
        texts = sources[start : start + chunk]
        if targets is None:
            made = translator.translate(texts, with_heads=with_heads)
        else:
            made = translator.force(texts, targets[start : start + len(texts)], with_heads)
        n_empty += sum(not translation.hypotheses for translation in made)
        yield from made
    if n_empty:
        typer.echo(f"{n_empty} of {len(sources)} sentences are empty: no attention", err=True)
