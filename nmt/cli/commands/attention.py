"""`nmt attention`: the attention of translations as data, pictures or text."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from nmt.cli.commands import attention_formats as formats
from nmt.cli.shared.messages import print_path, say
from nmt.cli.shared.models import ComputeOptions, DecodingOptions, ModelOptions
from nmt.cli.shared.options import First, Method, OutFile, SourceFile, Split
from nmt.cli.shared.sentences import checked_arguments, file_lines
from nmt.errors import ConfigError, format_count
from nmt.names import AttributionMethod

if TYPE_CHECKING:
    from nmt.config import RunConfig
    from nmt.explain.attribution.methods import Attributor
    from nmt.translation.translator import Translator
    from nmt.types import Translation

_CHUNK = 256  # sentences translated before they are written; fewer with many heads
_ATTRIBUTED_CHUNK = 8  # the same for attributions, which take longer than the search


def attention(
    sentences: Annotated[
        list[str] | None, Argument(help="Source sentences, each in quotes.")
    ] = None,
    *,
    file: SourceFile = None,
    split: Split = None,
    first: First = None,
    target: Annotated[
        list[str] | None,
        "Translation to explain, instead of searching; repeat it for each sentence.",
    ] = None,
    format: Annotated[
        Literal["jsonl", "npz", "png", "svg", "pdf", "html", "text"] | None,
        "Format of the output.",
        "by --out, or text on a terminal, else jsonl",
    ] = None,
    out: OutFile = None,
    level: Annotated[
        Literal["piece", "word"] | None,
        "Unit of the rows and columns.",
        "piece; word for html, --side-by-side, and text if pieces do not fit",
    ] = None,
    heads: Annotated[
        str,
        "Heads to display, separated by commas: mean, all, numbers, names such as 'layer "
        "2', or self-attention: encoder, decoder.1 (layer 1), encoder.2.3 (its head 3).",
    ] = "mean",
    method: Method = "attention",
    contrast: Annotated[
        str | None, "Word to compare with: explain why the model did not predict it instead."
    ] = None,
    scale: Annotated[float | None, "Weight drawn in the darkest colour.", "the greatest"] = None,
    numbers: Annotated[bool, "Write each weight into its cell of a picture."] = False,
    side_by_side: Annotated[bool, "Draw the maps of all --run side by side; no ensemble."] = False,
    models: ModelOptions,
    search: DecodingOptions,
    n_best: Annotated[
        int | None,
        Option(min=1, help="Translations per sentence.", show_default="1; beam for jsonl and npz"),
    ] = None,
    compute: ComputeOptions,
) -> None:
    """Export the attention of translations as data, pictures or text.

    The output is attention weights, or the scores of another --method. Rows are pieces of the
    translation, and columns pieces of the source; in self-attention both are pieces of one text.
    Sentences and hypotheses are numbered from 1. Several pictures are written to the folder --out.
    The page "The attention dump" of the documentation describes the files, and "Attribution" the
    methods.
    """
    output_format = formats.format_of(format, out, sys.stdout.isatty())
    if (scale is not None or numbers) and output_format not in formats.PICTURES:
        raise ConfigError(
            f"--scale, --numbers: allowed with --format {', '.join(formats.PICTURES)}"
        )
    if method == "attention" and contrast is not None:
        raise ConfigError("--contrast: allowed with a --method that accepts it, such as erasure")
    if method != "attention" and heads != "mean":
        raise ConfigError("--heads: allowed with --method attention")
    if side_by_side:
        _check_side_by_side(output_format, models, heads, n_best)
    if target and (n_best or replace(search, length_penalty=None) != DecodingOptions()):
        raise ConfigError("--target: allowed without options of a search, except --length-penalty")
    origins = {"SENTENCE": sentences, "--file": file, "--split": split}
    if len(origin := [name for name, value in origins.items() if value]) != 1:
        got = ", ".join(origin) or "none"
        raise ConfigError(f"source sentences: got {got}, allowed: one of {', '.join(origins)}")
    runs = models.open(compute, {**search.by_key(), "n_best": n_best}, builtin=True)
    config = runs[0].config.search
    is_data = output_format in ("jsonl", "npz") and config.sampling is None
    n_best = n_best or (config.beam if is_data else 1)
    sources = _sources(sentences, file, split, runs[0].config)
    targets = _targets(target, len(sources))

    from nmt.translation.heads import choose_heads

    config = config.model_copy(update={"n_best": n_best})
    sources = sources[:first]
    n_maps = len(sources) * (1 if targets else n_best)
    options = formats.MapOutputOptions(sources, targets, level, n_maps, out, (), scale, numbers)
    if side_by_side:
        by_run = {}
        for path, run in zip(models.run or (), runs, strict=True):
            translator = models.load([run], compute, config)
            attributor = _attributor(translator, method, contrast)
            by_run[str(path)] = _translations(translator, options, attributor)
        formats.write_side_by_side(output_format, by_run, options)
        return
    translator = models.load(runs, compute, config)
    options = replace(options, heads=choose_heads(heads, translator.model.head_names_by_kind))
    attributor = _attributor(translator, method, contrast)
    formats.WRITERS[output_format](_translations(translator, options, attributor), options)
    if output_format not in formats.PICTURES:  # their paths are printed one by one
        print_path(out)


def _sources(
    sentences: list[str] | None, file: Path | None, split: str | None, config: "RunConfig"
) -> list[str]:
    """Return the sentences, the lines of the file, or the distinct sources of a split."""
    if sentences:
        return checked_arguments(sentences)
    if file is not None:
        return list(file_lines(file))
    from nmt.corpora.corpora import read_examples
    from nmt.evaluation.examples import find_split

    examples = read_examples(find_split(config.data, split or ""), config.data)
    return [example.src_text for example in examples]


def _targets(target: list[str] | None, n_sources: int) -> list[str] | None:
    """Return the translations of --target. Raises ConfigError unless there is one per source."""
    if not target:
        return None
    targets = checked_arguments(target)
    if len(targets) != n_sources:
        raise ConfigError(
            f"--target: got {format_count(len(targets), 'translation')} for "
            f"{format_count(n_sources, 'sentence')}, allowed: one for each, in the same order"
        )
    return targets


def _attributor(
    translator: "Translator", method: AttributionMethod, contrast: str | None
) -> "Attributor | None":
    if method == "attention":
        return None
    from nmt.explain.attribution.methods import Attributor

    return Attributor(translator, method, contrast)


def _check_side_by_side(format: str, models: ModelOptions, heads: str, n_best: int | None) -> None:
    """Raise ConfigError unless several runs are given, each with one map, drawn as a picture."""
    if format not in formats.PICTURES:
        raise ConfigError(f"--side-by-side: allowed with --format {', '.join(formats.PICTURES)}")
    paths = models.run or []
    if len(paths) < 2 or len(set(paths)) < len(paths) or models.weights:
        got = ", ".join(map(str, paths)) or "none"
        raise ConfigError(
            f"--side-by-side: got --run {got}, allowed: two or more different runs, without "
            "--weights"
        )
    if heads != "mean" or n_best not in (None, 1):
        raise ConfigError("--side-by-side: allowed without --heads and --n-best")


def _translations(
    translator: "Translator", options: formats.MapOutputOptions, attributor: "Attributor | None"
) -> Iterator["Translation"]:
    """Yield the translations, computed in chunks, and note the number of empty sources."""
    n_empty, sources, targets = 0, options.sources, options.targets
    attentions = {head.attention for head in options.heads if head.index is not None}
    n_heads = sum(len(translator.model.head_names_by_kind[kind]) for kind in attentions)
    chunk = max(1, _CHUNK // max(n_heads, 1)) if attributor is None else _ATTRIBUTED_CHUNK
    with_heads = "cross" in attentions
    for start in range(0, len(sources), chunk):
        texts = sources[start : start + chunk]
        if targets is None:
            translations = translator.translate(texts, with_heads=with_heads)
        else:
            translations = translator.force(texts, targets[start : start + len(texts)], with_heads)
        if attentions - {"cross"}:
            translations = translator.with_self_attention(translations)
        if attributor is not None:
            translations = attributor.attribute(translations)
        n_empty += sum(not translation.hypotheses for translation in translations)
        yield from translations
    if n_empty:
        say(f"{n_empty} of {len(sources)} sentences are empty: no attention")
