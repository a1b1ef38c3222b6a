"""The values that pass between storeys: plain, frozen, free of behaviour.

Data flows one way: SentencePair -> Encoded -> Batch (corpus/batching.py) -> model
-> Hypothesis -> Translation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


class Absent(Exception):  # noqa: N818 - no fault, and no AttributeError, which getattr would hide
    """A key was read that a config lacks: one put together of what is right in a faulty one."""


class Config(BaseModel):
    """Base of every configuration class: frozen, and unknown keys are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Asked for what is not there: raises Absent for a key (see config_conflicts.py)."""
            if name in type(self).model_fields:
                raise Absent(name)
            return super().__getattr__(name)


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no home, or no such user
        raise ValueError(f"got '{path}', and there is no such home") from None


UserPath = Annotated[Path, AfterValidator(_expanded)]
"""A path as a user writes it: `~` is a home folder."""

Conflict = tuple[str, str]
"""The key (`attention.kind`, counted from the section that looks) where two settings disagree,
and what is wrong there."""


def conflict_error(conflicts: Sequence[Conflict]) -> PydanticCustomError:
    """For a config's validator to raise; each conflict is shown at the line of its key."""
    text = "; ".join(f"{key}: {problem}" for key, problem in conflicts)
    return PydanticCustomError("conflict", "{text}", {"text": text, "conflicts": list(conflicts)})


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
    `score` is their sum divided by the length penalty (search.py).
    `attention` has shape (T, S): row t is where `ids[t]` looked, over all S source positions,
    the eos position included. `heads` (N, T, S), there if asked for, are the same of each of the
    model's heads, whose mean `attention` is.
    """

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float
    attention: npt.NDArray[np.float32]
    finished: bool
    heads: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True)
class TranslatedHypothesis:
    """A Hypothesis with its text: what a user sees of one member of the beam.

    `target` holds the pieces of `hypothesis.ids` without eos. `hypothesis.attention` has one
    further row for eos where `hypothesis.finished`.
    """

    text: str
    target: Encoded
    hypothesis: Hypothesis


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
