"""AttentionRecord: the attention weights of a hypothesis, and the labels of rows and columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from nmt.attention_maps.heads import Head
from nmt.attention_maps.words import Level, attention_table, axes
from nmt.types import Encoded, Translation


@dataclass(frozen=True)
class SelfAttentionRecord:
    """The weights of heads of one self-attention: `labels` name both the rows and the columns.

    `heads[n, i, j]` is the share of the attention of place i that place j gets in head n.
    """

    labels: tuple[str, ...]
    head_names: tuple[str, ...]
    heads: Float32[np.ndarray, "N L L"]


@dataclass(frozen=True)
class AttentionRecord:
    """The attention of one hypothesis, with everything that names its rows and columns.

    `weights[t, s]` is the share of row t's attention that column s gets. Rows and columns are
    `target.pieces` and `source.pieces` at level "piece", `target.words` and `source.words` at
    level "word". `source` ends with eos, and so does `target` if `finished`. `log_probs` has an
    entry per target piece at both levels. `sentence` counts from 0; `rank` 0 is the best.
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
    weights: Float32[np.ndarray, "T S"]
    log_probs: tuple[float, ...]
    score: float
    finished: bool
    head_names: tuple[str, ...] = ()
    heads: Float32[np.ndarray, "N T S"] | None = None
    self_attention: Mapping[str, SelfAttentionRecord] = field(default_factory=dict)

    def key(self, of: str = "weights") -> str:
        """The name of an array in an npz file, such as `weights_SENTENCE_RANK`."""
        return f"{of}_{self.sentence:06d}_{self.rank}"


def records(
    translation: Translation,
    sentence: int = 0,
    level: Level = "piece",
    forced: bool = False,
    heads: Sequence[Head] = (),
) -> list[AttentionRecord]:
    """A record per hypothesis, best first; none for an empty source.

    Each has the mean over all heads, and the weights of each of `heads`.
    """
    single = [head for head in heads if head.index is not None]
    cross = [head for head in single if head.attention == "cross"]
    found = []
    for rank, hypothesis in enumerate(translation.hypotheses):
        target, source = axes(translation, rank)
        found.append(
            AttentionRecord(
                sentence=sentence,
                rank=rank,
                forced=forced,
                level=level,
                source_text=translation.src_text,
                source=source,
                target_text=hypothesis.text,
                target=target,
                weights=attention_table(translation, rank, level).weights,
                log_probs=hypothesis.hypothesis.log_probs,
                score=hypothesis.hypothesis.score,
                finished=hypothesis.hypothesis.finished,
                head_names=tuple(head.name for head in cross),
                heads=_stacked(translation, rank, level, cross) if cross else None,
                self_attention=_self_attention(translation, rank, level, single),
            )
        )
    return found


def _self_attention(
    translation: Translation, rank: int, level: Level, heads: Sequence[Head]
) -> dict[str, SelfAttentionRecord]:
    found = {}
    for attention in ("encoder", "decoder"):
        chosen = [head for head in heads if head.attention == attention]
        if chosen:
            found[attention] = SelfAttentionRecord(
                attention_table(translation, rank, level, chosen[0]).columns,
                tuple(head.name for head in chosen),
                _stacked(translation, rank, level, chosen),
            )
    return found


def _stacked(
    translation: Translation, rank: int, level: Level, heads: Sequence[Head]
) -> Float32[np.ndarray, "N Q S"]:
    return np.stack([attention_table(translation, rank, level, head).weights for head in heads])
