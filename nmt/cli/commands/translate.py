"""`nmt translate`: sentences in, translations out."""

import os
import sys
from collections.abc import Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from nmt.cli.commands.translations import (
    OutputFormat,
    TranslationStream,
    job_description,
    open_writer,
)
from nmt.cli.shared import search_flags
from nmt.cli.shared.command import Json, say
from nmt.cli.shared.config_option import SetKeys
from nmt.cli.shared.options import Force, OutFile, Quiet, SourceFile, Threads
from nmt.cli.shared.sentences import checked_arguments, file_lines, prompted, with_progress
from nmt.errors import ConfigError, DataError
from nmt.storage.atomic import digest
from nmt.storage.output import is_direct

_MARKED_UP = """
.csv .htm .html .json .jsonl .md .po .pot .properties .rst .srt .tex .tmx .tsv .vtt .xlf .xliff .xml
.yaml
"""
"""Suffixes of text files whose lines are not sentences."""


@search_flags.with_decoding
def translate(
    sentences: Annotated[
        list[str] | None,
        Argument(help="Sentences to translate, each in quotes.", show_default=False),
    ] = None,
    file: SourceFile = None,
    run: search_flags.Runs = None,
    weights: search_flags.Weights = None,
    rerank: search_flags.Rerank = None,
    rerank_weights: search_flags.RerankWeights = None,
    checkpoint: search_flags.Checkpoint = None,
    beam: search_flags.Beam = None,
    n_best: Annotated[
        int | None, Option(min=1, help="Translations per sentence.", show_default="the run's")
    ] = None,
    length_penalty: search_flags.LengthPenalty = None,
    mbr: search_flags.MBR = None,
    decoding: search_flags.Decoding = search_flags.Decoding(),
    prefix: search_flags.Prefix = None,
    prefix_file: search_flags.PrefixFile = None,
    n_best_format: search_flags.NBestFormat = "tsv",
    batch_size: search_flags.BatchSize = None,
    device: search_flags.Device = None,
    threads: Threads = None,
    int8: search_flags.Int8 = False,
    scores: Annotated[bool, Option("--scores", help="Print score, tab, translation.")] = False,
    as_json: Json = False,
    show_attention: Annotated[
        bool, Option("--show-attention", help="Draw the attention weights below each translation.")
    ] = False,
    no_restore: Annotated[
        bool, Option("--no-restore", help="Print plain spaces and apostrophes everywhere.")
    ] = False,
    replace_unk: Annotated[
        bool,
        Option("--replace-unk", help="Replace <unk> by the source word with the most attention."),
    ] = False,
    lexicon: Annotated[
        Path | None, Option(help="Translations of such words: lines of word, tab, translation.")
    ] = None,
    out: OutFile = None,
    force: Force = False,
    resume: Annotated[
        bool,
        Option("--resume", help="Continue the --out file that the same command left unfinished."),
    ] = False,
    set_: SetKeys = None,
    quiet: Quiet = False,
) -> None:
    """Translate sentences, a file, a pipe or what is typed.

    Every line of input gives one line of output; an empty line gives an empty one. With --n-best
    above 1 a sentence gives a line for each translation, the best first: the number of the
    sentence, from 1, tab, score, tab, translation.

    --temperature, --top-k, --top-p and --seed draw translations instead of searching: a draw
    depends on the seed and the sentence only. --must is searched for by dynamic beam allocation,
    for which --beam should be wider than the words have pieces.

    A score is the log-probability of the translation divided by the length penalty; with --rerank
    it is the weighted mean of all models' scores. With --json a line is an object with texts,
    scores and pieces.

    The length of a translation is bounded, in pieces: by the length of its source times
    search.max_length_factor, plus search.max_length_extra; and by search.max_length. A message
    on stderr counts the translations that were cut there.
    """
    if sentences and file:
        raise ConfigError("got sentences and --file, allowed: one of them")
    if as_json and show_attention:
        raise ConfigError("--json does not go with --show-attention; see nmt attention")
    if n_best_format == "moses" and (as_json or show_attention or scores):
        raise ConfigError("--n-best-format moses: no --json, --scores or --show-attention with it")
    if prefix is not None and prefix_file is not None:
        raise ConfigError("got --prefix and --prefix-file, allowed: one of them")
    if prefix_file is not None and (file is None or str(prefix_file) == "-"):
        raise ConfigError("--prefix-file: allowed with --file FILE, a line for each of its lines")
    if lexicon is not None and not replace_unk:
        raise ConfigError("--lexicon: it goes with --replace-unk")
    out = None if out is None or str(out) == "-" else out
    if resume and (out is None or file is None or not file.is_file() or is_direct(out)):
        raise ConfigError("--resume: allowed with --file FILE --out FILE only")
    texts = checked_arguments(sentences or ())
    for text in filter(os.path.isfile, texts):  # its user may mean the text in the file
        say(f"note: '{text}' is translated as a sentence; --file {text} translates the file")
    if file is not None and file.suffix.lower() in _MARKED_UP.split():
        say(f"note: {file}: each line is translated as plain text, markup and numbers included")
    source = None if texts else file or Path("-")
    flags = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "mbr.samples": mbr,
        "batch_size": batch_size,
        **decoding.keys(),
    }
    first, *others = search_flags.open_runs(run)
    shares = search_flags.parse_weights(weights, 1 + len(others))
    rerank_shares = search_flags.parse_rerank_weights(rerank_weights, rerank)
    trained = search_flags.with_search(first, flags, set_ or ())
    rerankers = search_flags.open_rerankers(rerank, trained.config.search)

    from nmt.cli.shared.process import configure_process
    from nmt.inference.translator import Translator

    configure_process(threads)
    checkpoint = checkpoint or "best"
    runs = [trained, *others]
    translator = Translator.load(
        runs,
        device or "auto",
        checkpoint,
        int8=int8,
        weights=shares,
        precision=decoding.precision,
    )
    translator.rerank_by(rerankers.runs, rerank_shares, rerankers.checkpoints)
    decoding.note_precision(translator.device)
    several = translator.search.n_best > 1
    output = OutputFormat(scores, as_json, show_attention, several, n_best_format == "moses")
    if resume and output.is_block:
        raise ConfigError("--resume: allowed where each sentence has one line")
    begun: Iterator[str] | None = repeat(prefix) if prefix else None
    begun = file_lines(prefix_file) if prefix_file else begun
    stream = TranslationStream.open(translator, not no_restore, replace_unk, lexicon, begun)
    longest = trained.config.data.max_pieces
    langs = translator.tokenizers.src.lang, translator.tokenizers.tgt.lang
    if not texts and file is None and sys.stdin.isatty():
        with open_writer(output, out, longest, langs) as writer:
            for text in prompted(f"{translator.tokenizers.src.lang}> "):
                writer.write(stream.translate([text]))
        return
    job = None
    if out is not None and file is not None and file.is_file() and not output.is_block:
        models = [*zip(runs, repeat(checkpoint)), *zip(*rerankers, strict=True)]
        job = job_description(stream, output, file, models, weights)
        job["--prefix"] = prefix or (prefix_file and digest(prefix_file))
    with open_writer(output, out, longest, langs, job, resume, translator.chunk_size) as writer:
        lines = file_lines(source) if source else iter(texts)
        translations = stream.translate(islice(lines, writer.n_written, None), writer.n_written)
        writer.write(with_progress(translations, file, out is not None, writer.n_written))
        if prefix_file is not None and begun is not None and next(begun, None) is not None:
            raise DataError(f"{prefix_file}: it has more lines than {file}")
