"""`nmt attention`: where the model looked, as data, picture or text."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from nmt.cli.commands.attention_formats import PICTURES, WRITERS, Look, MapOptions
from nmt.cli.shared.command import say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.flags import flag_of
from nmt.cli.shared.options import First, Force, OutFile, Quiet, SourceFile, Threads, split_option
from nmt.cli.shared.search_flags import (
    BatchSize,
    Beam,
    Checkpoint,
    Decoding,
    Device,
    Int8,
    LengthPenalty,
    Runs,
    Weights,
    open_runs,
    parse_weights,
    with_decoding,
    with_search,
)
from nmt.cli.shared.sentences import check_not_read, checked_arguments, file_lines
from nmt.errors import ConfigError, counted

if TYPE_CHECKING:
    from nmt.attention_maps.words import Level
    from nmt.config import RunConfig
    from nmt.decoding.search_config import SearchConfig
    from nmt.inference.translator import Translator
    from nmt.types import Translation

_SUFFIXES = {f".{name}": name for name in ("jsonl", "npz", "csv", "html")} | {".txt": "text"}
_SUFFIXES |= {f".{name}": name for name in PICTURES}
_CHUNK = 256  # sentences translated before they are written; fewer if there are many heads


@with_decoding
def attention(
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Source sentences, each in quotes.", show_default=False),
    ] = None,
    file: SourceFile = None,
    split: Annotated[str | None, split_option(None)] = None,
    first: First = None,
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
            help="jsonl, npz, csv, png, svg, pdf, html, text, pharaoh (word alignments), nematus "
            "or bertviz.",
            show_default="by the suffix of --out, else jsonl; on a terminal, text",
        ),
    ] = None,
    out: OutFile = None,
    force: Force = False,
    level: Annotated[
        str | None,
        typer.Option(
            help="What a row and a column stand for: piece or word.",
            show_default="piece; html, pharaoh: word; text: word where pieces are too wide",
        ),
    ] = None,
    heads: Annotated[
        str,
        typer.Option(
            help="The heads to show, between commas: mean, all, numbers, names such as 'layer 2', "
            "or self-attention: encoder, decoder.1 (its first layer), encoder.2.3."
        ),
    ] = "mean",
    scale: Annotated[
        str | None,
        typer.Option(
            help="Of pictures, the weight of the darkest colour: each (its own greatest), shared "
            "(the greatest of all pictures), or a number such as 1.",
            show_default="each",
        ),
    ] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Of pictures: write each weight into its cell.")
    ] = False,
    title: Annotated[
        str | None,
        typer.Option(help="Of pictures: their title; '' for none.", show_default="the two texts"),
    ] = None,
    colours: Annotated[
        str | None,
        typer.Option(
            help="Of pictures: a colour map by matplotlib's name, such as viridis or Blues.",
            show_default="magma_r",
        ),
    ] = None,
    transparent: Annotated[
        bool, typer.Option("--transparent", help="Of pictures: no background.")
    ] = False,
    beam: Beam = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Translations per sentence.",
            show_default="jsonl, npz, csv: the whole beam; else 1",
        ),
    ] = None,
    length_penalty: LengthPenalty = None,
    decoding: Decoding = Decoding(),
    batch_size: BatchSize = None,
    run: Runs = None,
    weights: Weights = None,
    checkpoint: Checkpoint = None,
    device: Device = None,
    threads: Threads = None,
    int8: Int8 = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Show where the model looked, as data, picture or text.

    What is shown are attention weights. Rows are pieces of the translation, columns those of the
    source; in self-attention both are of one text. Sentences and hypotheses are counted from 1.
    Several pictures go to a folder, --out, or to the pages of one PDF. The page "The attention
    dump" of the documentation describes the files.
    """
    format = _chosen_format(format, out)
    look = Look(scale, numbers, colours, title, transparent)
    look.check(format)
    _check_choice("--level", level, ("piece", "word"))
    _check_one("a source", {"SENTENCE": sentences, "--file": file, "--split": split})
    forced = bool(target) or target_file is not None
    if forced:
        _check_one("the translations", {"--target": target, "--target-file": target_file})
        if beam is not None or n_best is not None:
            raise ConfigError("--target gives the translation: --beam and --n-best do not apply")
        if keys := decoding.keys():
            raise ConfigError(
                f"--target gives the translation: {flag_of(min(keys))} does not apply"
            )

    first_run, *others = open_runs(run)
    shares = parse_weights(weights, 1 + len(others))
    flags = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "batch_size": batch_size,
        **decoding.keys(),
    }
    trained = with_search(first_run, flags, set_ or ())
    if split is not None:
        check_not_read(out, trained, split)
    search = _search_config(trained.config.search, n_best, format)
    sources = _lines_of(sentences, file)
    if sources is None:
        sources = _split_sources(trained.config, split or "")
    targets = _lines_of(target, target_file)
    if targets is not None and len(targets) != len(sources):
        raise ConfigError(
            f"--target: got {counted(len(targets), 'translation')} for "
            f"{counted(len(sources), 'sentence')}; "
            "give one for each, in the same order"
        )

    from nmt.attention_maps.heads import choose_heads
    from nmt.cli.shared.process import configure_process
    from nmt.inference.translator import Translator

    configure_process(threads)
    translator = Translator.load(
        [trained, *others],
        device or "auto",
        checkpoint or "best",
        search,
        int8,
        shares,
        decoding.precision,
    )
    decoding.note_precision(translator.device)
    sources = sources[:first]
    n_maps = len(sources) * (1 if forced else search.n_best)
    chosen_heads = choose_heads(heads, translator.names_by_attention)
    options = MapOptions(cast("Level | None", level), forced, n_maps, out, chosen_heads, look)
    WRITERS[format](_translations(translator, sources, targets, options), options)


def _chosen_format(format: str | None, out: Path | None) -> str:
    """--format, or what the suffix of --out or a terminal stands for. Raises ConfigError."""
    allowed = ", ".join(WRITERS)
    if format is None and out is not None and str(out) != "-":
        if out.suffix.lower() not in _SUFFIXES:
            raise ConfigError(f"--out: {out} does not tell the format; add --format ({allowed})")
        return _SUFFIXES[out.suffix.lower()]
    if format is None:
        format = "text" if out is None and _is_terminal() else "jsonl"
    if format not in WRITERS:
        raise ConfigError(f"--format: got '{format}', allowed: {allowed}")
    if format == "npz" and out is None:
        raise ConfigError("--format npz: a binary file needs --out PATH")
    return format


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _check_choice(flag: str, got: str | None, allowed: tuple[str, ...]) -> None:
    if got is not None and got not in allowed:
        raise ConfigError(f"{flag}: got '{got}', allowed: {', '.join(allowed)}")


def _check_one(what: str, given: dict[str, object]) -> None:
    """Raise ConfigError unless exactly one of the flags has a value."""
    got = [flag for flag, value in given.items() if value]
    if len(got) != 1:
        raise ConfigError(
            f"{what} must be given in one way: got {', '.join(got) or 'none'}, "
            f"allowed: one of {', '.join(given)}"
        )


def _lines_of(arguments: list[str] | None, file: Path | None) -> list[str] | None:
    """The lines of the arguments, or of the file; None if neither is given."""
    if arguments:
        return checked_arguments(arguments)
    return None if file is None else list(file_lines(file))


def _search_config(search: "SearchConfig", n_best: int | None, format: str) -> "SearchConfig":
    """`search`, with as many hypotheses as the format shows. Raises ConfigError for too many.

    By default data formats have all hypotheses of the beam, the others the best one.
    """
    if format == "pharaoh" and (n_best or 1) > 1:
        raise ConfigError(
            f"--n-best: got {n_best}, allowed with --format pharaoh: 1 (a line per sentence)"
        )
    whole_beam = format in ("jsonl", "npz", "csv") and search.sampling is None
    n_best = n_best or (search.beam if whole_beam else 1)
    return search.model_copy(update={"n_best": n_best})


def _split_sources(config: "RunConfig", name: str) -> list[str]:
    """The distinct source sentences of a split of the run's corpus."""
    from nmt.data.corpora import read_examples
    from nmt.evaluation.examples import split_named

    split = split_named(config.data, name)
    return [example.src_text for example in read_examples(split, config.data)]


def _translations(
    translator: "Translator", sources: list[str], targets: list[str] | None, options: MapOptions
) -> Iterator["Translation"]:
    """The translations in order, a chunk at a time; at the end a note counts empty sources."""
    n_empty = 0
    single = [head for head in options.heads if head.index is not None]
    shown = {head.attention for head in single}
    n_heads = sum(len(translator.names_by_attention[attention]) for attention in shown)
    chunk = max(1, _CHUNK // max(n_heads, 1))
    with_heads = "cross" in shown
    translations: Sequence[Translation]
    for start in range(0, len(sources), chunk):
        texts = sources[start : start + chunk]
        if targets is None:
            translations = translator.translate(texts, with_heads=with_heads)
        else:
            translations = translator.force(texts, targets[start : start + len(texts)], with_heads)
        if shown - {"cross"}:
            translations = translator.with_self_attention(translations)
        n_empty += sum(not translation.hypotheses for translation in translations)
        yield from translations
    if n_empty:
        say(f"{n_empty} of {len(sources)} sentences are empty: no attention")
