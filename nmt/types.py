"""The values that pass between packages: plain, frozen, free of behaviour.

Data flows one way: SentencePair -> Encoded -> Batch (batches/batching.py) -> model
-> Hypothesis -> Translation.
"""

import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FilePath = str | os.PathLike[str]
"""The type of a path argument of any function that reads or writes a file or folder."""

Ids = tuple[int, ...]
"""The ids of a sentence's pieces, without bos and eos."""

AttentionKind = Literal["encoder", "decoder", "cross"]
"""An attention of a model: self-attention of its encoder or decoder, or target over source."""

SplitName = Literal["train", "valid", "test"]
"""A split of a corpus that a run uses."""

MetricName = Literal["bleu", "bleu-lc", "chrf", "chrf++", "ter", "multi30k", "comet", "loss"]
"""The name of a metric (nmt/evaluation/metrics.py)."""

LOWER_IS_BETTER = frozenset({"ter", "loss"})


def rank_of(metric: str, value: float) -> float:
    """Return the value, or minus it where less is better, so that the best has the highest rank."""
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


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text as the model sees it.

    `pieces` and `ids` are parallel and hold no bos/eos. Word w is `words[w]` (its surface in
    the normalised text) and covers the pieces from `word_spans[w][0]` up to, not including,
    `word_spans[w][1]`; the spans cover all pieces, in order, without gaps.
    """

    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    words: tuple[str, ...]
    word_spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One sequence that search found for one source sentence.

    `ids` ends with eos where `finished`; a hypothesis cut at the length bound does not.
    `log_probs[t]` is the natural-log probability of `ids[t]` given all before it;
    `score` is their sum divided by the length penalty (search/search.py); after reranking it is
    the weighted mean of the models' scores (translation/reranking.py).
    `attention` has shape (T, S): row t is the attention distribution when `ids[t]` was predicted,
    over all S source positions, eos included. `heads` (N, T, S), on request, has the distributions
    of each head; `attention` is their mean. `self_heads`, on request, has the self-attention of
    each head of the "encoder", (N, S, S) over the source with eos, and of the "decoder", (N, L, L)
    over bos and the pieces without eos. Equality compares all fields, arrays element by element.
    """

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    attention: npt.NDArray[np.float32] = field(hash=False)  # arrays have no hash
    finished: bool
    heads: npt.NDArray[np.float32] | None = field(default=None, hash=False)
    self_heads: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict, hash=False)

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a Hypothesis of the same values."""
        return same_fields(self, other) if isinstance(other, Hypothesis) else NotImplemented

    def __repr__(self) -> str:
        """Without the numbers of the arrays, which fill a screen."""
        heads = "" if self.heads is None else f", heads {self.heads.shape}"
        end = "" if self.finished else ", unfinished"
        return f"<Hypothesis of {len(self.ids)} ids: {_measured(self)}{heads}{end}>"


@dataclass(frozen=True, slots=True)
class TranslatedHypothesis:
    """A Hypothesis with its text: what a user sees of one member of the beam.

    `target` holds the pieces of `hypothesis.ids` without eos. `hypothesis.attention` has one
    further row for eos where `hypothesis.finished`.
    """

    text: str
    target: Encoded
    hypothesis: Hypothesis

    def __repr__(self) -> str:
        """Text, score and the shape of the weights."""
        return f"<TranslatedHypothesis {shortened(self.text)}: {_measured(self.hypothesis)}>"


@dataclass(frozen=True, slots=True)
class Translation:
    """The answer to one source text: the hypotheses, best first.

    `source` is the encoded source without eos; attention has one further column for eos.
    An empty source has no hypotheses and an empty `text`.
    """

    src_text: str
    source: Encoded
    hypotheses: tuple[TranslatedHypothesis, ...]

    @property
    def text(self) -> str:
        """The best hypothesis' text, or nothing for an empty source."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def __repr__(self) -> str:
        """Both texts, and the score and the shape of the weights of the best hypothesis."""
        texts = f"{shortened(self.src_text)} -> {shortened(self.text)}"
        best = f": {_measured(self.hypotheses[0].hypothesis)}" if self.hypotheses else ""
        others = f", {len(self.hypotheses)} hypotheses" if len(self.hypotheses) > 1 else ""
        return f"<Translation {texts}{best}{others}>"


def same_fields(ours: Any, theirs: Any) -> bool:
    """Whether two dataclasses of a kind have equal fields, arrays compared element by element."""
    names = (member.name for member in fields(ours))
    return all(_same(getattr(ours, name), getattr(theirs, name)) for name in names)


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, np.ndarray) or isinstance(theirs, np.ndarray):
        return np.array_equal(np.asarray(ours), np.asarray(theirs))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    return bool(ours == theirs)


_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = 80


def shortened(text: str) -> str:
    """A text in quotes, for a repr: of a long one its ends."""
    return _SHORTENED.repr(text)


def _measured(hypothesis: Hypothesis) -> str:
    return f"score {hypothesis.score:.4f}, attention {hypothesis.attention.shape}"
