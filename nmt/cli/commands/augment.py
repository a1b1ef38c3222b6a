"""`nmt augment`: make new training pairs by translating with trained runs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.shared.messages import print_language_notes, say, summary_lines
from nmt.cli.shared.models import ComputeOptions, DecodingOptions, ModelOptions, RerankOptions
from nmt.cli.shared.options import Force, MaxRatio, NBest, OutFolder, SourceFile
from nmt.cli.shared.sentences import file_lines, with_progress

if TYPE_CHECKING:
    from nmt.types import Translation


def augment(
    out: OutFolder,
    *,
    file: SourceFile = None,
    models: ModelOptions,
    rerank: RerankOptions,
    search: DecodingOptions,
    n_best: NBest = None,
    back: Annotated[bool, "Write each translation as the source of its text."] = False,
    max_ratio: MaxRatio = 3.0,
    min_score: Annotated[float | None, "Minimum score of a translation."] = None,
    compute: ComputeOptions,
    force: Force = False,
) -> None:
    """Make new training pairs: texts and their translations.

    Translates each distinct source sentence of the run's training set, or of --file. A pair is a
    sentence and its translation. With --back the translation is the source, for a model of the
    opposite direction. --n-best above 1 and sampling give several pairs per sentence. With --rerank
    the score of a translation is the weighted mean of the scores of all models.

    Pairs are written to part-00001.tsv and so on, in lines of source, target and origin, which a
    config reads by data.train.mix. Dropped pairs, with the reason first, are in dropped-00001.tsv
    and so on. The file augment.json has the models, the settings and the counts. The same command
    continues where it was stopped.

    A translation is dropped if it equals the reference or a better translation, was cut at the
    length bound, has an unknown piece, or forms a pair that nmt corpus clean rejects.
    """
    from nmt.corpora.corpora import read_split
    from nmt.corpora.sources import group_by_source
    from nmt.evaluation.examples import find_split
    from nmt.translation.augment import PART_TEXTS, PairRules
    from nmt.translation.augment import augment as write_pairs
    from nmt.types import EvalExample

    runs = models.open(compute, {**search.by_key(), "n_best": n_best})
    if file is not None:
        texts = [EvalExample(text, ()) for text in dict.fromkeys(file_lines(file))]
    else:
        data = runs[0].config.data
        texts = group_by_source(read_split(find_split(data, "train"), data))
        if back and data.held_out is not None:
            say(
                "note: data.held_out holds out sentences of the run's source side, so the target "
                "side of these pairs may be in the test set of the opposite direction"
            )
    translator = models.load(runs, compute, rerank=rerank)
    print_language_notes([text.src_text for text in texts], (), *translator.languages)

    def show_progress(translations: "Iterator[Translation]", count: int) -> "Iterable[Translation]":
        n_missing, n_parts = (-(-n // PART_TEXTS) for n in (count, len(texts)))
        rerankers = [reranker.translator.origin for reranker in translator.rerankers]
        names = ", reranked by ".join([translator.origin, *rerankers])
        written = f"{n_parts - n_missing:,} of {n_parts:,} parts written"
        say(f"{len(texts):,} sentences, {written}; {names}")
        return with_progress(translations, None, out, count)

    rules = PairRules(back, max_ratio, min_score)
    for line in summary_lines(*write_pairs(translator, texts, out, rules, force, show_progress)):
        typer.echo(line)
