"""Data types that packages exchange: frozen dataclasses and type aliases.

Data flow: SentencePair -> Encoded -> Batch (nmt.batches) -> model -> Hypothesis -> Translation.
"""

import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nmt.names import AttributionMethod

FilePath = str | os.PathLike[str]
"""A path argument of any function that reads or writes a file or folder."""

Ids = tuple[int, ...]
"""The ids of a sentence's pieces, without bos and eos."""

AttentionKind = Literal["encoder", "decoder", "cross"]
"""An attention of a model: self-attention of the encoder or decoder, or `cross` over the source."""

SplitName = Literal["train", "valid", "test"]
"""A split of a corpus that a run uses."""

MetricName = Literal["bleu", "bleu-lc", "chrf", "chrf++", "ter", "multi30k", "comet", "loss"]
"""The name of a metric (nmt/evaluation/metrics.py)."""

LOWER_IS_BETTER = {"ter", "loss"}


def rank_of(metric: str, value: float) -> float:
    """Return `value`, negated for metrics in LOWER_IS_BETTER. The best value has the highest rank.

    The function is its own inverse: applied to a rank, it returns the value.
    """
    return -value if metric in LOWER_IS_BETTER else value


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A source line and its target line, exactly as the file has them (without `\\n`)."""

    src_text: str
    tgt_text: str


@dataclass(frozen=True, slots=True)
class EvalExample:
    """A source line with every reference translation known for it, unaltered."""

    src_text: str
    ref_texts: tuple[str, ...]


Examples = Sequence[EvalExample]
References = Sequence[tuple[str, ...]]
"""The references of each line."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as the model sees it.

    `pieces` and `ids` have the same length and no bos or eos. `words[w]` is the surface form of
    word w in the normalised text. Its pieces run from `word_spans[w][0]` to `word_spans[w][1]`,
    end excluded. The spans cover all pieces, in order, without gaps.
    """

    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    words: tuple[str, ...]
    word_spans: tuple[tuple[int, int], ...]


def have_equal_fields(self: Any, other: object) -> bool:
    """Return whether two instances of a dataclass have equal fields, arrays by element."""
    pairs = ((getattr(self, member.name), getattr(other, member.name)) for member in fields(self))
    return all(_same(*pair) for pair in pairs) if isinstance(other, type(self)) else NotImplemented


@dataclass(frozen=True, slots=True)
class Attribution:
    """Attribution scores of the pieces that the model had read, for each of T predicted pieces.

    `scores` (T, S) has the scores of the source pieces, eos included. Some methods give negative
    scores. `prefix_scores` (T, L) has the scores of bos and the pieces of the translation, with 0
    for pieces not yet read. Its shape is (T, 0) if the method does not score the prefix. `contrast`
    is the word that the predictions are compared with, or None.
    """

    method: AttributionMethod
    scores: npt.NDArray[np.float32] = field(hash=False)
    prefix_scores: npt.NDArray[np.float32] = field(hash=False)
    contrast: str | None = None

    __eq__ = have_equal_fields


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A hypothesis of the search for one source sentence.

    `ids` ends with eos if `finished`; otherwise it was cut at the length bound. `log_probs[t]` is
    the log probability of `ids[t]` in nats, given the ids before it. `score` is the sum of
    `log_probs` divided by the length penalty (search/search.py). After reranking it is the weighted
    mean of the scores of the search and the rerankers (translation/reranking.py).

    Row t of `attention` (T, S) is the attention distribution at the prediction of `ids[t]`, over
    the S source positions, eos included. It is the mean over the model's `averaged_heads`. If
    `attribution` was requested, row t has the shares of the absolute attribution scores instead.
    `heads` (N, T, S) has all heads over the source, if requested. If requested,
    `self_heads` maps "encoder" to its self-attention (N, S, S) over the source with eos, and
    "decoder" to its self-attention (N, L, L) over bos and the pieces without eos.

    All fields are in reading order. A right-to-left model (data.reverse_target) predicts `ids[t]`
    given the ids after it instead. After forced decoding, `entropies[t]` is the entropy in nats of
    the distribution that predicts `ids[t]`. Equality compares arrays by element.
    """

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    attention: npt.NDArray[np.float32] = field(hash=False)  # arrays have no hash
    finished: bool
    heads: npt.NDArray[np.float32] | None = field(default=None, hash=False)
    self_heads: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, hash=False)
    attribution: Attribution | None = None
    entropies: tuple[float, ...] = ()

    __eq__ = have_equal_fields

    def __repr__(self) -> str:
        """Show the shapes of the arrays instead of their values."""
        heads = "" if self.heads is None else f", heads {self.heads.shape}"
        end = "" if self.finished else ", unfinished"
        return f"<Hypothesis of {len(self.ids)} ids: {_measured(self)}{heads}{end}>"


@dataclass(frozen=True, slots=True)
class TranslatedHypothesis:
    """A Hypothesis with its text.

    `target` has the pieces of `hypothesis.ids` without eos. `hypothesis.attention` has one more
    row, for eos, if `hypothesis.finished`.
    """

    text: str
    target: Encoded
    hypothesis: Hypothesis

    def __repr__(self) -> str:
        """Show the text, the score and the shape of the attention weights."""
        return f"<TranslatedHypothesis {shortened(self.text)}: {_measured(self.hypothesis)}>"


@dataclass(frozen=True, slots=True)
class Translation:
    """The hypotheses for one source text, best first.

    `source` is the encoded source without eos; attention has one more column, for eos. An empty
    source has no hypotheses and an empty `text`.
    """

    src_text: str
    source: Encoded
    hypotheses: tuple[TranslatedHypothesis, ...]

    @property
    def text(self) -> str:
        """The text of the best hypothesis, or "" for an empty source."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def __repr__(self) -> str:
        """Show both texts, and the score and the attention's shape of the best hypothesis."""
        texts = f"{shortened(self.src_text)} -> {shortened(self.text)}"
        best = f": {_measured(self.hypotheses[0].hypothesis)}" if self.hypotheses else ""
        others = f", {len(self.hypotheses)} hypotheses" if len(self.hypotheses) > 1 else ""
        return f"<Translation {texts}{best}{others}>"


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, np.ndarray) or isinstance(theirs, np.ndarray):
        return np.array_equal(np.asarray(ours), np.asarray(theirs))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    return bool(ours == theirs)


_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = 80


def shortened(text: str) -> str:
    """Return `text` in quotes for a repr. A long text is cut to its beginning and its end."""
    return _SHORTENED.repr(text)


def _measured(hypothesis: Hypothesis) -> str:
    return f"score {hypothesis.score:.4f}, attention {hypothesis.attention.shape}"
