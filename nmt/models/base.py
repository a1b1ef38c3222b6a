"""The contract of a translation model: encode once, then step; forward equals the steps.

Search, training and attention maps know a model only through these types. Alphabet of shapes
(docs/design.md): B batch, S source, T target, D embedding, H hidden, M memory, Q queries,
K key size, N heads, V vocabulary.
"""

import abc
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigError
from nmt.models.vocabulary import Vocabulary
from nmt.types import AttentionKind

_Value = TypeVar("_Value", bound="BatchFirst")  # beartype refuses Self on a lone method


@dataclass(frozen=True)
class BatchFirst:
    """A value made of batch-first tensors (and nested such values), fit for beam search."""

    def select(self: _Value, rows: Int[Tensor, " R"]) -> _Value:
        """The same value with row i taken from `rows[i]`; rows may repeat or be left out."""
        selected: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                selected[field.name] = value.index_select(0, rows)
            elif isinstance(value, BatchFirst):
                selected[field.name] = value.select(rows)
        return replace(self, **selected)


@dataclass(frozen=True)
class Memory(BatchFirst):
    """The annotations that attention reads: of words today, of any places in general.

    `values` are the annotations, `keep` says which may be attended (padding may not), and
    `final` summarises the whole source for the decoder's initial state; `final_cell` likewise, by
    the cell states of an LSTM.
    """

    values: Float[Tensor, "B S M"]
    keep: Bool[Tensor, "B S"]
    final: Float[Tensor, "B L M"]
    final_cell: Float[Tensor, "B L M"] | None = None


def mean_annotation(
    values: Float[Tensor, "B S M"], keep: Bool[Tensor, "B S"]
) -> Float[Tensor, "B 1 M"]:
    """The mean of each sentence's annotations, padding not counted; 0 where there are none."""
    shares = keep / keep.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.bmm(shares.unsqueeze(1).to(values.dtype), values)


@dataclass(frozen=True)
class State(BatchFirst):
    """Everything a decoder needs for its next step; each model adds its own fields.

    What is known of a sentence, such as its keys, is held once: `select` gives its rows that read
    it, copies it for none of them, and leaves it out when none is left (beams.py).
    """

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> "State":
        """The state whose next step, and no other, uses these weights of the N heads.

        A head's NaN are the model's own weights. Raises ConfigError where the model takes none.
        """
        raise ConfigError("attention: this model takes no weights from outside, expected one run")


class AuxiliaryLoss(abc.ABC):
    """A term that a model asks the training loss to add to the cross-entropy.

    Sampled attention needs one because its choices cannot be differentiated: it learns from how
    likely the right pieces became. A penalty of the attention weights is another.
    """

    @abc.abstractmethod
    def loss_sum(
        self, keep: Bool[Tensor, "B T"], log_likelihoods: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Return the term, summed over the steps that `keep` marks, in nats.

        `log_likelihoods` are the log-likelihoods of the right pieces at these steps, 0 elsewhere,
        detached.
        """


@dataclass(frozen=True)
class StepOutput:
    """One decoding step: what the vocabulary layer reads, where it looked, and the state after it.

    `weights` are the mean over the shown heads where there are several.
    """

    features: Float[Tensor, "B R"]
    vocabulary: Vocabulary
    weights: Float[Tensor, "B S"]
    state: State

    @property
    def logits(self) -> Float[Tensor, "B V"]:
        """Unnormalised scores over the vocabulary, computed at each call."""
        return self.vocabulary(self.features)


@dataclass(frozen=True)
class DecoderOutput:
    """The teacher-forced pass over all T steps.

    `features` are what the vocabulary layer reads. `weights` are the mean of the model's shown
    heads, `heads` are all that attend to the source. Both are None unless `with_weights` was set,
    because the fastest code computes none. `auxiliary_loss` is there in training mode only,
    and only for models whose attention samples or has a penalty.
    """

    features: Float[Tensor, "B T R"]
    vocabulary: Vocabulary
    weights: Float[Tensor, "B T S"] | None = None
    heads: Float[Tensor, "B N T S"] | None = None
    auxiliary_loss: AuxiliaryLoss | None = None

    @property
    def logits(self) -> Float[Tensor, "B T V"]:
        """Unnormalised scores over the vocabulary, computed at each call."""
        return self.vocabulary(self.features)


class Seq2Seq(nn.Module, abc.ABC):
    """The contract of an encoder-decoder with attention.

    Laws (tests/laws): `forward` equals `encode`, `init_state` and T times `step`; padding is
    invisible; weights sum to 1 over the kept positions and are exactly 0 elsewhere. No method
    stores anything on the model or changes its arguments.
    """

    @abc.abstractmethod
    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """Read the source once."""

    @abc.abstractmethod
    def init_state(self, memory: Memory) -> State:
        """The state before the first target piece; attention keys are projected here."""

    def init_search_state(self, memory: Memory) -> State:
        """`init_state` for those who will only `step`, and often.

        A linear map that every step would apply to the annotations may be applied here, once.
        """
        return self.init_state(memory)

    @abc.abstractmethod
    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """Advance by one piece, given the piece before it (bos at first)."""

    @abc.abstractmethod
    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """All T steps from `state`, given the target prefix `tgt_in` (bos first)."""

    def forward(
        self,
        src_ids: Int[Tensor, "B S"],
        src_keep: Bool[Tensor, "B S"],
        tgt_in: Int[Tensor, "B T"],
        with_weights: bool = False,
    ) -> DecoderOutput:
        """The teacher-forced pass: encode, init_state, teacher_forced."""
        return self.teacher_forced(
            tgt_in, self.init_state(self.encode(src_ids, src_keep)), with_weights
        )

    @property
    def head_names(self) -> tuple[str, ...]:
        """The name of each of the N heads of `DecoderOutput.heads`, in order."""
        return ("attention",)

    @property
    def names_by_attention(self) -> dict[AttentionKind, tuple[str, ...]]:
        """The names of the heads of each attention of the model.

        Every model has `cross`, of the target over the source; `encoder` and `decoder` are there
        where these have self-attention.
        """
        return {"cross": self.head_names}

    def attention_weights(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> dict[AttentionKind, Float[Tensor, "B _ _ _"]]:
        """The weights of each head that `names_by_attention` names, in a teacher-forced pass.

        `encoder` has shape (B, N, S, S), `decoder` (B, N, T, T), `cross` (B, N, T, S): a row for
        each query. Rows of padding have no meaning.
        """
        heads = self(src_ids, src_keep, tgt_in, with_weights=True).heads
        return {"cross": heads}

    @property
    def shown_heads(self) -> tuple[int, ...]:
        """The indices of the heads whose mean is `weights`; all, unless the model chooses."""
        return tuple(range(len(self.head_names)))

    def value_norms(self, state: State) -> Float[Tensor, "B N S"]:
        """||f_n(v_s)||: the length of what head n adds to the context for a weight of 1 on place s.

        f_n is every linear map between an annotation and the context (arXiv 2004.10102). `state` is
        that of `init_state`. Raises ConfigError for a model whose heads share no such map.
        """
        raise ConfigError("norm: an ensemble has no values of its own; align with one of its runs")
