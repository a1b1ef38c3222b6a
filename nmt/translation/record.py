"""AttentionRecord: the attention weights of a hypothesis, with labels for rows and columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from nmt.names import AttributionMethod
from nmt.text.word_pieces import pieces_by_word
from nmt.translation.heads import Head
from nmt.translation.words import AttentionTable, Level, attention_table, axis_texts, merge_words
from nmt.types import Encoded, Translation, have_equal_fields


@dataclass(frozen=True)
class SelfAttentionRecord:
    """The weights of the heads of a self-attention; `labels` name both rows and columns.

    `heads[n, i, j]` is the weight of position j for the query at position i in head n.
    """

    labels: tuple[str, ...]
    head_names: tuple[str, ...]
    heads: Float32[np.ndarray, "N L L"] = field(repr=False, hash=False)

    __eq__ = have_equal_fields


@dataclass(frozen=True)
class AttributionRecord:
    """The scores of an attribution method, for the rows and columns of an AttentionRecord.

    At level "piece", the record's `weights` are the absolute values of `scores`, each row divided
    by its sum. At level "word", the weights and the scores of the pieces are merged separately.
    `prefix_labels`, bos and the pieces or words of the translation, name the columns of
    `prefix_scores`. `source_share` is the share of the source in the absolute scores of each row.
    If the prefix is not scored, its labels and scores are empty, and `source_share` is None.
    """

    method: AttributionMethod
    contrast: str | None
    scores: Float32[np.ndarray, "T S"] = field(repr=False, hash=False)
    prefix_labels: tuple[str, ...]
    prefix_scores: Float32[np.ndarray, "T L"] = field(repr=False, hash=False)
    source_share: Float32[np.ndarray, " T"] | None = field(repr=False, hash=False)

    __eq__ = have_equal_fields


@dataclass(frozen=True)
class AttentionRecord:
    """The attention of a hypothesis, with labels for its rows and columns.

    `weights[t, s]` is the attention weight of column s in row t. It is the mean over the heads that
    the model averages, which for a Transformer are the heads of some layers. With an `attribution`,
    `weights[t, s]` is the share of column s in the absolute scores of row t. Rows and columns are
    `target.pieces` and `source.pieces` at level "piece", and `target.words` and `source.words` at
    level "word". `source` ends with eos, and so does `target` if `finished`. `log_probs` has an
    entry per target piece at both levels. `sentence` and `rank` count from 1; rank 1 is the best.
    `forced` marks a user-supplied translation (forced decoding). `heads` has the weights of the
    requested cross-attention heads, whose names are in `head_names`. `self_attention` has the
    requested self-attention heads under the keys "encoder" and "decoder".
    """

    sentence: int
    rank: int
    forced: bool
    level: Level
    source_text: str
    source: Encoded
    target_text: str
    target: Encoded
    weights: Float32[np.ndarray, "T S"] = field(repr=False, hash=False)
    log_probs: tuple[float, ...]
    score: float
    finished: bool
    head_names: tuple[str, ...] = ()
    heads: Float32[np.ndarray, "N T S"] | None = field(default=None, repr=False, hash=False)
    self_attention: Mapping[str, SelfAttentionRecord] = field(
        default_factory=dict, repr=False, hash=False
    )
    attribution: AttributionRecord | None = None

    __eq__ = have_equal_fields


def attention(
    translations: Translation | Iterable[Translation],
    level: Level = "piece",
    heads: Sequence[Head] = (),
    forced: bool = False,
) -> Iterator[AttentionRecord]:
    """Yield an AttentionRecord for each hypothesis of one or several translations.

    nmt.translation.dump writes records to files. `level` decides whether rows and columns are
    pieces or words. A record has the translation's attention matrix (the mean over the model's
    averaged heads, or attribution shares) and the weights of each of `heads`, which `choose_heads`
    selects by name. `forced` marks user-supplied translations (forced decoding).
    """
    several = [translations] if isinstance(translations, Translation) else translations
    for number, translation in enumerate(several, start=1):
        yield from records(translation, number, level, forced, heads)


def records(
    translation: Translation,
    sentence: int = 1,
    level: Level = "piece",
    forced: bool = False,
    heads: Sequence[Head] = (),
) -> list[AttentionRecord]:
    """Return a record for each hypothesis of one translation; [] for an empty source.

    `sentence` is the number of the source, from 1. Other parameters are as for `attention`.
    """
    single = [head for head in heads if head.index is not None]
    cross = [head for head in single if head.attention == "cross"]
    results = []
    for index, output in enumerate(translation.hypotheses):
        target, source = axis_texts(translation, index)
        table = attention_table(translation, index, level)
        record = AttentionRecord(
            sentence=sentence,
            rank=index + 1,
            forced=forced,
            level=level,
            source_text=translation.src_text,
            source=source,
            target_text=output.text,
            target=target,
            weights=table.weights,
            log_probs=output.hypothesis.log_probs,
            score=output.hypothesis.score,
            finished=output.hypothesis.finished,
            head_names=tuple(head.name for head in cross),
            heads=_stacked(translation, index, level, cross) if cross else None,
            self_attention=_self_attention(translation, index, level, single),
            attribution=_attribution(translation, index, level, table),
        )
        results.append(record)
    return results


def _attribution(
    translation: Translation, index: int, level: Level, table: AttentionTable
) -> AttributionRecord | None:
    attribution = translation.hypotheses[index].hypothesis.attribution
    if attribution is None:
        return None
    rows, columns = axis_texts(translation, index)
    prefix = Encoded((), (), (), ())  # without scores of the prefix
    scores, prefix_scores = attribution.scores, attribution.prefix_scores
    if prefix_scores.shape[1]:
        prefix, _ = axis_texts(translation, index, "decoder")
    labels = prefix.pieces
    if level == "word":
        labels, row_words = prefix.words, pieces_by_word(rows).shares
        scores = merge_words(scores, row_words, pieces_by_word(columns).shares)
        prefix_scores = merge_words(prefix_scores, row_words, pieces_by_word(prefix).shares)
    method, contrast, share = attribution.method, attribution.contrast, table.source_share
    return AttributionRecord(method, contrast, scores, labels, prefix_scores, share)


def _self_attention(
    translation: Translation, index: int, level: Level, heads: Sequence[Head]
) -> dict[str, SelfAttentionRecord]:
    results = {}
    for attention in ("encoder", "decoder"):
        if selection := [head for head in heads if head.attention == attention]:
            labels = attention_table(translation, index, level, selection[0]).columns
            matrices = _stacked(translation, index, level, selection)
            names = tuple(head.name for head in selection)
            results[attention] = SelfAttentionRecord(labels, names, matrices)
    return results


def _stacked(
    translation: Translation, index: int, level: Level, heads: Sequence[Head]
) -> Float32[np.ndarray, "N Q S"]:
    return np.stack([attention_table(translation, index, level, head).weights for head in heads])
