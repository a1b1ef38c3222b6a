"""AttentionRecord: the attention weights of a hypothesis, and the labels of rows and columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from nmt.translation.heads import Head
from nmt.translation.words import Level, attention_table, axes
from nmt.types import Encoded, Translation, same_fields


@dataclass(frozen=True)
class SelfAttentionRecord:
    """The weights of heads of one self-attention: `labels` name both the rows and the columns.

    `heads[n, i, j]` is the share of the attention of place i that place j gets in head n.
    """

    labels: tuple[str, ...]
    head_names: tuple[str, ...]
    heads: Float32[np.ndarray, "N L L"] = field(repr=False, hash=False)

    def __eq__(self, other: object) -> bool:
        """Whether `other` has the same values."""
        is_one = isinstance(other, SelfAttentionRecord)
        return same_fields(self, other) if is_one else NotImplemented


@dataclass(frozen=True)
class AttentionRecord:
    """The attention of one hypothesis, with everything that names its rows and columns.

    `weights[t, s]` is the share of row t's attention that column s gets. Rows and columns are
    `target.pieces` and `source.pieces` at level "piece", `target.words` and `source.words` at
    level "word". `source` ends with eos, and so does `target` if `finished`. `log_probs` has an
    entry per target piece at both levels. `sentence` and `rank` count from 1; rank 1 is the best.
    `weights` are the mean over the model's heads. `heads` are the weights of the heads named in
    `head_names`, in that order. `self_attention` has those of the encoder or the decoder by this
    name.
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

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a record of the same values, arrays element by element."""
        return same_fields(self, other) if isinstance(other, AttentionRecord) else NotImplemented


def attention(
    translations: Translation | Iterable[Translation],
    level: Level = "piece",
    heads: Sequence[Head] = (),
    forced: bool = False,
) -> Iterator[AttentionRecord]:
    """A record of each hypothesis of one translation or of several, as `nmt attention` has them.

    `nmt.translation.dump` and `page` write them to files. Rows and columns stand for pieces or
    words, as `level` says. Beside the mean over all heads a record has each of `heads`, which
    `choose_heads` finds by name. `forced` notes that the translations were given.
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
    """A record per hypothesis, best first; none for an empty source.

    `sentence` is the number of the source, from 1. Each has the mean over all heads, and the
    weights of each of `heads`.
    """
    single = [head for head in heads if head.index is not None]
    cross = [head for head in single if head.attention == "cross"]
    results = []
    for index, hypothesis in enumerate(translation.hypotheses):
        target, source = axes(translation, index)
        results.append(
            AttentionRecord(
                sentence=sentence,
                rank=index + 1,
                forced=forced,
                level=level,
                source_text=translation.src_text,
                source=source,
                target_text=hypothesis.text,
                target=target,
                weights=attention_table(translation, index, level).weights,
                log_probs=hypothesis.hypothesis.log_probs,
                score=hypothesis.hypothesis.score,
                finished=hypothesis.hypothesis.finished,
                head_names=tuple(head.name for head in cross),
                heads=_stacked(translation, index, level, cross) if cross else None,
                self_attention=_self_attention(translation, index, level, single),
            )
        )
    return results


def _self_attention(
    translation: Translation, index: int, level: Level, heads: Sequence[Head]
) -> dict[str, SelfAttentionRecord]:
    results = {}
    for attention in ("encoder", "decoder"):
        selection = [head for head in heads if head.attention == attention]
        if selection:
            results[attention] = SelfAttentionRecord(
                attention_table(translation, index, level, selection[0]).columns,
                tuple(head.name for head in selection),
                _stacked(translation, index, level, selection),
            )
    return results


def _stacked(
    translation: Translation, index: int, level: Level, heads: Sequence[Head]
) -> Float32[np.ndarray, "N Q S"]:
    return np.stack([attention_table(translation, index, level, head).weights for head in heads])
