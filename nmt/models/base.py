"""The interface of a translation model: encode once, then decode step by step.

Search, training and attention maps use a model only through these types. Letters of shapes
(docs/design.md): B batch, S source, T target, D embedding, H hidden, M memory, Q queries, K key
size, N heads, V vocabulary.
"""

import abc
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigError
from nmt.models.shapes import Annotations, Mask, TargetMask
from nmt.models.vocabulary import VocabularyLayer
from nmt.types import AttentionKind

_Value = TypeVar("_Value", bound="BatchFirst")  # beartype refuses Self on a lone method


@dataclass(frozen=True)
class BatchFirst:
    """Base class of dataclasses of batch-first tensors whose rows a beam search can select."""

    def select(self: _Value, rows: Int[Tensor, " R"]) -> _Value:
        """Return a copy whose row i is row `rows[i]` of this one; `rows` may repeat indices."""
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
    """The annotations that attention reads: one per source piece, or per position of a picture.

    `values` are the annotations. `keep` is the source mask: False at padding. `final`, and
    `final_cell` if the encoder is an LSTM, summarise the source for the decoder's initial state.
    """

    values: Float[Tensor, "B S M"]
    keep: Bool[Tensor, "B S"]
    final: Float[Tensor, "B L M"]
    final_cell: Float[Tensor, "B L M"] | None = None


def mean_annotation(values: Annotations, keep: Mask) -> Float[Tensor, "B 1 M"]:
    """Return the mean of each sentence's annotations at kept positions; 0 if none is kept."""
    shares = keep / keep.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.bmm(shares.unsqueeze(1).to(values.dtype), values)


@dataclass(frozen=True)
class State(BatchFirst):
    """Everything a decoder needs for its next step; each model adds its own fields.

    Rows that read the same sentence share its data, such as the keys, except on CUDA (beams.py).
    """

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> "State":
        """Return a state with these attention weights of the N heads for the next step only.

        Where `weights` is NaN, the model uses its own weights. Raises ConfigError for an ensemble.
        """
        raise ConfigError("attention weights: got an ensemble, allowed: a single run")


class AuxiliaryLoss(abc.ABC):
    """A term that a model adds to the cross-entropy in training.

    Examples are the REINFORCE loss of sampled attention, which depends on the likelihood of the
    target pieces, and a penalty on the attention weights.
    """

    @abc.abstractmethod
    def loss_sum(
        self, keep: TargetMask, log_likelihoods: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Return the term, in nats, summed over the steps of the batch where `keep` is True.

        `log_likelihoods[b, t]` is the detached log p of target piece t if `keep[b, t]`, else 0.
        """


@dataclass(frozen=True)
class StepOutput:
    """The output of one decoding step: the vocabulary layer's input, attention weights, next state.

    `weights` is the mean of the attention weights of the model's `averaged_heads`.
    """

    features: Float[Tensor, "B R"]
    vocabulary: VocabularyLayer
    weights: Float[Tensor, "B S"]
    state: State

    @property
    def logits(self) -> Float[Tensor, "B V"]:
        """Unnormalised scores over the vocabulary, computed at each call."""
        return self.vocabulary(self.features)


@dataclass(frozen=True)
class DecoderOutput:
    """The output of the teacher-forced pass over all T steps.

    `features` are the input of the vocabulary layer. `heads` are the attention weights of all heads
    that attend to the source, and `weights` is the mean of the model's `averaged_heads`. Both are
    None unless `with_weights` was True, because the fastest code does not compute them.
    `auxiliary_loss` is set in training mode only, if the attention samples or has a penalty.
    """

    features: Float[Tensor, "B T R"]
    vocabulary: VocabularyLayer
    weights: Float[Tensor, "B T S"] | None = None
    heads: Float[Tensor, "B N T S"] | None = None
    auxiliary_loss: AuxiliaryLoss | None = None

    @property
    def logits(self) -> Float[Tensor, "B T V"]:
        """Unnormalised scores over the vocabulary, computed at each call."""
        return self.vocabulary(self.features)


class Seq2Seq(nn.Module, abc.ABC):
    """The interface of an encoder-decoder with attention.

    Laws (tests/laws): `forward` equals `encode`, `init_state` and T calls of `step`; padding has
    no effect; weights sum to 1 over the kept positions and are exactly 0 elsewhere. No method
    stores anything on the model or changes its arguments.
    """

    @abc.abstractmethod
    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source."""

    @abc.abstractmethod
    def init_state(self, memory: Memory) -> State:
        """Return the state before the first target piece; attention keys are computed here."""

    def init_search_state(self, memory: Memory) -> State:
        """Return the initial state for a search.

        A model may precompute what each step would compute again, such as a linear map.
        """
        return self.init_state(memory)

    @abc.abstractmethod
    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        """Advance by one piece, given the previous piece (bos at first)."""

    @abc.abstractmethod
    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        """Run all T steps from `state`, given the target prefix `tgt_in` (bos first)."""

    def forward(
        self,
        src_ids: Int[Tensor, "B S"],
        src_keep: Bool[Tensor, "B S"],
        tgt_in: Int[Tensor, "B T"],
        with_weights: bool = False,
    ) -> DecoderOutput:
        """Run the teacher-forced pass: encode, init_state, teacher_forced."""
        state = self.init_state(self.encode(src_ids, src_keep))
        return self.teacher_forced(tgt_in, state, with_weights)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the N heads of `DecoderOutput.heads`, in order."""
        return ("attention",)

    @property
    def head_names_by_kind(self) -> dict[AttentionKind, tuple[str, ...]]:
        """The head names by kind: `cross` and, in a Transformer, also `encoder` and `decoder`."""
        return {"cross": self.head_names}

    def attention_weights(
        self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> dict[AttentionKind, Float[Tensor, "B _ _ _"]]:
        """Run a teacher-forced pass; return the weights of all `head_names_by_kind`.

        `encoder` has shape (B, N, S, S), `decoder` (B, N, T, T), `cross` (B, N, T, S), with one row
        per query. Rows of padding queries have no meaning.
        """
        return {"cross": self(src_ids, src_keep, tgt_in, with_weights=True).heads}

    @property
    def averaged_heads(self) -> tuple[int, ...]:
        """The indices of the heads whose mean is the `weights` of the outputs; by default all."""
        return tuple(range(len(self.head_names)))

    def value_norms(self, state: State) -> Float[Tensor, "B N S"]:
        """Return ||f_n(v_s)||, the norm of head n's part of the context if s has weight 1.

        f_n combines all linear maps from an annotation to the context (arXiv 2004.10102). `state`
        comes from `init_state`. Raises ConfigError for an ensemble, which has no such map.
        """
        raise ConfigError("norm: got an ensemble, which has no values, allowed: a single run")
