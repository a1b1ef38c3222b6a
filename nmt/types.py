"""The values that pass between rooms: plain, frozen, free of behaviour.

Data flows one way: SentencePair -> Encoded -> Batch (data/batching.py) -> model
-> Hypothesis -> Translation.
"""

import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

FilePath = str | os.PathLike[str]
"""The type of a path argument of any function that reads or writes a file or folder."""

AttentionKind = Literal["encoder", "decoder", "cross"]
"""An attention of a model: self-attention of its encoder or decoder, or target over source."""


ValidMetric = Literal["bleu", "chrf", "loss"]
"""A measurement of a validation that chooses between checkpoints."""


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
    `score` is their sum divided by the length penalty (decoding/search.py).
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
        if not isinstance(other, Hypothesis):
            return NotImplemented
        ours, theirs = (
            (each.ids, each.log_probs, each.score, each.finished) for each in (self, other)
        )
        return ours == theirs and _same_arrays(self._arrays(), other._arrays())

    def _arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """All arrays that there are, by name."""
        heads = {} if self.heads is None else {"heads": self.heads}
        return {"attention": self.attention, **heads, **self.self_heads}

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
        return f"<TranslatedHypothesis {_SHORTENED.repr(self.text)}: {_measured(self.hypothesis)}>"


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
        texts = f"{_SHORTENED.repr(self.src_text)} -> {_SHORTENED.repr(self.text)}"
        best = f": {_measured(self.hypotheses[0].hypothesis)}" if self.hypotheses else ""
        others = f", {len(self.hypotheses)} hypotheses" if len(self.hypotheses) > 1 else ""
        return f"<Translation {texts}{best}{others}>"


def _same_arrays(
    ours: Mapping[str, npt.NDArray[np.float32]], theirs: Mapping[str, npt.NDArray[np.float32]]
) -> bool:
    return ours.keys() == theirs.keys() and all(
        np.array_equal(array, theirs[name]) for name, array in ours.items()
    )


_SHORTENED = reprlib.Repr()
_SHORTENED.maxstring = 80


def _measured(hypothesis: Hypothesis) -> str:
    return f"score {hypothesis.score:.4f}, attention {hypothesis.attention.shape}"
