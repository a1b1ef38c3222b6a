"""Ensembles, which average the probabilities of models (Sutskever et al. 2014, section 3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.errors import ConfigError, format_count
from nmt.models.base import DecoderOutput, Memory, Seq2Seq, State, StepOutput
from nmt.models.vocabulary import VocabularyLayer


@dataclass(frozen=True)
class _Memories(Memory):
    """The memories of all members; the inherited fields repeat the first member's memory."""

    memories: tuple[Memory, ...] = ()


@dataclass(frozen=True)
class EnsembleState(State):
    """The states of all members."""

    states: tuple[State, ...]

    def select(self, rows: Int[Tensor, " R"]) -> "EnsembleState":
        return replace(self, states=tuple(state.select(rows) for state in self.states))


class _LogProbabilities(VocabularyLayer):
    """The vocabulary layer of an ensemble, whose input features already are log-probabilities."""

    scale: Tensor

    def __init__(self, n_pieces: int, device: torch.device | None) -> None:
        super().__init__()
        self.n_pieces = n_pieces
        self.register_buffer("scale", torch.ones(1, device=device), persistent=False)

    def table_logits(self, features: Float[Tensor, "*L V"]) -> Float[Tensor, "*L V"]:
        return features

    def affine(self) -> tuple[Float[Tensor, "V V"], Float[Tensor, " V"]]:
        scale = self.scale.expand(self.n_pieces)
        return scale.diag(), 0 * scale


class Ensemble(Seq2Seq):
    """p(y) = sum_i w_i p_i(y): the weighted mean of the members' probabilities of each piece.

    Members may have different architectures but must share the vocabularies. w_i is `weights[i]`
    divided by the sum of `weights`; None gives equal w_i. Attention weights are averaged likewise,
    and head i is the attention of member i. Raises ConfigError unless `weights` contains one
    positive finite number per member.
    """

    def __init__(
        self, members: Sequence[Seq2Seq], n_pieces: int, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        weights = [1.0] * len(members) if weights is None else list(weights)
        if len(weights) != len(members) or not all(0 < w < float("inf") for w in weights):
            got, n = ",".join(f"{w:g}" for w in weights), format_count(len(members), "model")
            raise ConfigError(f"`weights`: got {got}, allowed: a positive number for each of {n}")
        self.members = nn.ModuleList(members)
        self.weights = tuple(weight / sum(weights) for weight in weights)
        tensor = next(chain(self.members.parameters(), self.members.buffers()), None)
        self.vocabulary = _LogProbabilities(n_pieces, None if tensor is None else tensor.device)

    @property
    def models(self) -> list[Seq2Seq]:
        return [member for member in self.members if isinstance(member, Seq2Seq)]

    @property
    def head_names(self) -> tuple[str, ...]:
        return tuple(f"model {number}" for number in range(1, len(self.members) + 1))

    def encode(self, src_ids: Int[Tensor, "B S"], src_keep: Bool[Tensor, "B S"]) -> Memory:
        memories = tuple(model.encode(src_ids, src_keep) for model in self.models)
        return _Memories(memories[0].values, src_keep, memories[0].final, memories=memories)

    def init_state(self, memory: Memory) -> EnsembleState:
        return EnsembleState(tuple(m.init_state(part) for m, part in self._parts(memory)))

    def init_search_state(self, memory: Memory) -> EnsembleState:
        return EnsembleState(tuple(m.init_search_state(part) for m, part in self._parts(memory)))

    def _parts(self, memory: Memory) -> list[tuple[Seq2Seq, Memory]]:
        assert isinstance(memory, _Memories)
        return list(zip(self.models, memory.memories, strict=True))

    def step(self, last_ids: Int[Tensor, " B"], state: State) -> StepOutput:
        assert isinstance(state, EnsembleState)
        parts = zip(self.models, state.states, strict=True)
        outs = [model.step(last_ids, part) for model, part in parts]
        return StepOutput(
            self._log_mean([out.logits for out in outs]),
            self.vocabulary,
            self._mean([out.weights for out in outs]),
            EnsembleState(tuple(out.state for out in outs)),
        )

    def teacher_forced(
        self, tgt_in: Int[Tensor, "B T"], state: State, with_weights: bool = False
    ) -> DecoderOutput:
        assert isinstance(state, EnsembleState)
        parts = zip(self.models, state.states, strict=True)
        outs = [model.teacher_forced(tgt_in, part, with_weights) for model, part in parts]
        features = self._log_mean([out.logits for out in outs])
        if not with_weights:
            return DecoderOutput(features, self.vocabulary)
        heads = [out.weights.float() for out in outs if out.weights is not None]
        weights = self._mean(heads)
        return DecoderOutput(features, self.vocabulary, weights, torch.stack(heads, dim=1))

    def _log_mean(self, logits: Sequence[Float[Tensor, "*L V"]]) -> Float[Tensor, "*L V"]:
        """Return the log of the weighted mean of the members' probabilities, from their logits."""
        pairs = zip(logits, self.weights, strict=True)
        parts = [member.float().log_softmax(-1) + math.log(weight) for member, weight in pairs]
        return torch.stack(parts).logsumexp(dim=0)

    def _mean(self, values: Sequence[Float[Tensor, "*L S"]]) -> Float[Tensor, "*L S"]:
        total = values[0].float() * self.weights[0]
        for value, weight in zip(values[1:], self.weights[1:], strict=True):
            total = total + value.float() * weight
        return total
