"""The base class of all attention types: everything except the score function.

A subclass implements `score`, which compares a query with each key, and may override `project`,
which computes the keys of a memory once per sentence. This module adds the rest: the positions that
a query sees (span.py), how scores become weights (weighting.py), coverage of past weights
(coverage.py), dropout, the weighted sum, the context gate, and auxiliary losses.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.models.attention.coverage import Coverage
from nmt.models.attention.span import Span, Window
from nmt.models.attention.weighting import (
    DoublyStochastic,
    SampleStatistics,
    SoftWeighting,
    Weighting,
)
from nmt.models.base import AuxiliaryLoss, BatchFirst, Memory
from nmt.models.beams import Beams, select_sentences
from nmt.models.shapes import Annotations, Contexts, HeadScores, Keys, Mask, Queries, Scores, Values
from nmt.ops import Operations
from nmt.ops.backend import BackendName, operations
from nmt.ops.dropout import Dropout
from nmt.ops.reference import AdditiveMemory


@dataclass(frozen=True)
class AttentionState(BatchFirst):
    """The attention state of R rows (hypotheses) that attend to B sentences.

    `queries` is each row's number of past queries. `past` is the coverage's summary of past
    attention weights, or None without coverage. `soft` is True in the rows that use expected
    weights instead of sampled ones; None means in no row. `beams` maps each row to its sentence; if
    None, row i reads sentence i. `override` replaces the weights of the next query, except where it
    is NaN.
    """

    keys: Keys
    values: Values
    keep: Mask
    queries: Int[Tensor, " R"]
    past: Float[Tensor, "R S"] | None
    soft: Bool[Tensor, " R"] | None = None
    beams: Beams | None = None
    override: Float[Tensor, "R N S"] | None = None

    def select(self, rows: Int[Tensor, " N"]) -> "AttentionState":
        """Select rows, and the sentences that they read; see select_sentences."""
        beams, indices = select_sentences(self.beams, len(self.keep), rows)
        state = self if indices is None else self._select_sentences(indices)
        by_row = (self.past, self.soft, self.override)
        past, soft, override = (x if x is None else x.index_select(0, rows) for x in by_row)
        queries = self.queries.index_select(0, rows)
        memory = (state.keys, state.values, state.keep)
        return AttentionState(*memory, queries, past, soft, beams, override)

    def expand_rows(self) -> "AttentionState":
        """Return an equal state in which each row has its own copy of its sentence."""
        if self.beams is None:
            return self
        return replace(self._select_sentences(self.beams.sentences), beams=None)

    def _select_sentences(self, indices: Int[Tensor, " N"]) -> "AttentionState":
        by_sentence = (self.keys, self.values, self.keep)
        keys, values, keep = (x.index_select(0, indices) for x in by_sentence)
        return replace(self, keys=keys, values=values, keep=keep)


@dataclass(frozen=True)
class AttentionOutput:
    """The contexts and attention weights of Q queries, and the next state.

    `heads` are the attention weights of each head before dropout, so they sum to 1. `samples` is
    None unless positions were sampled.
    """

    context: Float[Tensor, "B Q M"]
    heads: Float[Tensor, "B N Q S"]
    state: AttentionState
    samples: SampleStatistics | None

    @property
    def weights(self) -> Scores:
        """The mean of the attention weights over the heads."""
        return self.heads.squeeze(1) if self.heads.shape[1] == 1 else self.heads.mean(dim=1)


class AdditiveScore(NamedTuple):
    """The score v . tanh(W_q q + key), where W_q is `query_weight`, applied by `project_query`."""

    project_query: Callable[[Tensor], Tensor]
    query_weight: Float[Tensor, "K H"]
    v: Float[Tensor, " K"]


class Attention(nn.Module, abc.ABC):
    """Base class: computes a context vector and attention weights from a query and a memory.

    weights = weighting(score(query, keys)) over the kept positions of the span;
    context = dropout(weights) @ values, times sigmoid(gate(query)) if there is a gate (arXiv
    1502.03044, section 4.2.1). Dropout acts in training only and divides the remaining weights by
    1 - p. The context has the size of an annotation.
    """

    sums_annotations = True
    """Whether a linear map of the context may be applied to the values before they are summed."""

    def __init__(self, key_size: int, backend: BackendName = "auto") -> None:
        super().__init__()
        self.key_size = key_size
        self.backend: BackendName = backend
        self.weighting: Weighting = SoftWeighting()
        self.dropout = Dropout(0.0)
        self.span: Span | None = None
        self.coverage: Coverage | None = None
        self.gate: nn.Linear | None = None
        self.doubly_stochastic = 0.0

    def project(self, values: Annotations) -> Keys:
        """Return the keys of a memory, computed once per sentence; by default the annotations."""
        return values

    @abc.abstractmethod
    def score(self, query: Queries, keys: Keys) -> Scores | HeadScores:
        """Return the unmasked score of each query with each key, per head if there are several."""

    def additive_score(self) -> AdditiveScore | None:
        """Return the parameters of `score` if it is v . tanh(W_q q + key), otherwise None."""
        return None

    def plain_additive_score(self) -> AdditiveScore | None:
        """Return `additive_score` if the backend's attention operations support this attention.

        Operations.attentional_gru and additive_attention_step compute softmax weights over the
        whole source, without coverage, gate or dropout. Otherwise the result is None.
        """
        drops = self.training and self.dropout.p > 0
        has_options = any((self.span, self.coverage, self.gate))
        is_plain = self.weighting.is_softmax and not drops and not has_options
        return self.additive_score() if is_plain else None

    def project_values(self, values: Annotations) -> Values:
        """Return the values to sum, computed once per sentence; by default the annotations."""
        return values

    def mix(self, heads: HeadScores, values: Values) -> Contexts:
        """Return the contexts, which are sums of the values weighted by `heads`."""
        return torch.bmm(heads.squeeze(1), values)

    def value_norms(self, values: Values) -> Float[Tensor, "B N S"]:
        """Return the norm of each head's context, before the gate, if a position has weight 1."""
        norms: Tensor = torch.linalg.vector_norm(values, dim=-1)
        return norms.unsqueeze(1)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the N heads."""
        return ("attention",)

    def init_state(self, memory: Memory) -> AttentionState:
        """Return the state before the first query."""
        return self._state(memory.values, memory.values, memory.keep)

    def attend(
        self, query: Queries, keys: Annotations, values: Values, keep: Mask | None = None
    ) -> AttentionOutput:
        """Attend from queries to given keys and values: sum_i softmax_i(score(q, k_i)) v_i.

        First `project` is applied to the keys and `project_values` to the values. Only positions
        where `keep` is True may be attended; None means all positions.
        """
        if keep is None:
            keep = keys.new_ones(keys.shape[:2], dtype=torch.bool)
        return self(query, self._state(keys, values, keep))

    def _state(self, annotations: Annotations, values: Values, keep: Mask) -> AttentionState:
        return AttentionState(
            keys=self.project(annotations),
            values=self.project_values(values),
            keep=keep,
            queries=torch.zeros(keep.shape[0], dtype=torch.long, device=keep.device),
            past=None if self.coverage is None else values.new_zeros(keep.shape),
            soft=self.weighting.sample_soft_rows(keep),
        )

    def forward(self, query: Queries, state: AttentionState) -> AttentionOutput:
        """Compute the output for Q queries, one after another if there is coverage."""
        if self.coverage is not None and query.shape[1] > 1:
            return self._attend_sequentially(query, state)
        is_forced = state.override is not None
        additive = None if is_forced or query.shape[1] > 1 else self.plain_additive_score()
        if additive is not None:
            ops = operations(self.backend, query)
            if ops.has_additive_attention_step:
                return _additive_step(ops, additive, query, state)
        beams = state.beams
        if beams is None:
            return self._attend(query, state)
        if is_forced or self.coverage is not None or self.span is not None:
            # Rows of one sentence have different keys, windows or weights.
            output = self._attend(query, state.expand_rows())
            queries, past = output.state.queries, output.state.past
            return replace(output, state=replace(state, queries=queries, past=past, override=None))
        output = self._attend(beams.group_by_sentence(query), state)
        return AttentionOutput(
            context=beams.ungroup(output.context),
            heads=beams.ungroup(output.heads.transpose(1, 2)).transpose(1, 2),
            state=replace(state, queries=state.queries + query.shape[1]),
            samples=None,  # a search samples no positions
        )

    def _attend(self, query: Queries, state: AttentionState) -> AttentionOutput:
        """Compute `forward` for a state without `beams`, where row i reads sentence i."""
        keys, past, override = state.keys, state.past, state.override
        if self.coverage is not None and past is not None:
            keys = keys + self.coverage(past)
        if self.span is None:
            scores = self._head_scores(query, keys)
            heads, samples = self.weighting(scores, state.keep).mix_expected(state.soft)
            context = self.mix(self.dropout(heads), state.values)
        else:
            window = self.span(query, state.keep, state.queries)
            context, heads, samples = self._attend_in_window(window, query, keys, state)
        if override is not None:
            heads = torch.where(override.isnan(), heads.squeeze(2), override).unsqueeze(2)
            context, samples = self.mix(heads.to(state.values.dtype), state.values), None
        if self.gate is not None:
            context = torch.sigmoid(self.gate(query)) * context
        if self.coverage is not None and past is not None:
            past = self.coverage.update(past, heads.mean(dim=1))
        after = replace(state, queries=state.queries + query.shape[1], past=past, override=None)
        return AttentionOutput(context, heads, after, samples)

    def _attend_sequentially(self, query: Queries, state: AttentionState) -> AttentionOutput:
        outputs: list[AttentionOutput] = []
        for step_query in query.unbind(dim=1):
            outputs.append(self(step_query.unsqueeze(1), state))
            state = outputs[-1].state
        return AttentionOutput(
            context=torch.cat([output.context for output in outputs], dim=1),
            heads=torch.cat([output.heads for output in outputs], dim=2),
            state=state,
            samples=SampleStatistics.concatenate(output.samples for output in outputs),
        )

    def _head_scores(self, query: Queries, keys: Keys) -> HeadScores:
        scores = self.score(query, keys)
        return scores.unsqueeze(1) if scores.dim() == 3 else scores

    def _attend_in_window(
        self, window: Window, query: Queries, keys: Keys, state: AttentionState
    ) -> tuple[Contexts, HeadScores, SampleStatistics | None]:
        """Attend from each query to its own W positions; each query becomes a row, R = B Q."""
        n_rows, n_queries, width = window.positions.shape
        keep = window.keep.flatten(0, 1)
        rows = query.flatten(0, 1).unsqueeze(1)
        scores = self._head_scores(rows, _gather(keys, window.positions))
        if window.bias is not None:
            scores = scores + window.bias.flatten(0, 1)[:, None, None, :].to(scores.dtype)
        soft = None if state.soft is None else state.soft.repeat_interleave(n_queries)
        weights, samples = self.weighting(scores, keep).mix_expected(soft)
        context = self.mix(self.dropout(weights), _gather(state.values, window.positions))
        heads = weights.view(n_rows, n_queries, -1, width).transpose(1, 2)
        zeros = heads.new_zeros(n_rows, heads.shape[1], n_queries, keys.shape[1])
        positions = window.positions.unsqueeze(1).expand_as(heads)
        # Positions beyond an end of the source were clamped to that end and have weight 0.
        heads = zeros.scatter_add(-1, positions, heads)
        if samples is not None:
            samples = samples.view(n_rows, n_queries)
        return context.view(n_rows, n_queries, -1), heads, samples

    def auxiliary_loss(self, outputs: Sequence[AttentionOutput]) -> AuxiliaryLoss | None:
        """Return the doubly stochastic penalty or the REINFORCE loss of T steps, or None."""
        if self.training and self.doubly_stochastic:
            weights = torch.cat([output.weights for output in outputs], dim=1)
            return DoublyStochastic(self.doubly_stochastic, weights, outputs[-1].state.keep)
        samples = SampleStatistics.concatenate(output.samples for output in outputs)
        return None if samples is None else self.weighting.auxiliary_loss(samples)


def _additive_step(
    ops: Operations, score: AdditiveScore, query: Float[Tensor, "R 1 H"], state: AttentionState
) -> AttentionOutput:
    """Compute `forward` for one query per row with Operations.additive_attention_step."""
    rows = torch.arange(query.shape[0], device=query.device)
    context, weights = ops.additive_attention_step(
        score.project_query(query).squeeze(1),
        rows if state.beams is None else state.beams.sentences,
        AdditiveMemory(state.keys, state.values, state.keep, score.v),
    )
    after = replace(state, queries=state.queries + 1)
    return AttentionOutput(context.unsqueeze(1), weights[:, None, None], after, None)


def _gather(values: Values, positions: Int[Tensor, "B Q W"]) -> Float[Tensor, "R W C"]:
    """Return the values at each query's positions, R = B Q."""
    index = positions.flatten(1).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, index).view(-1, positions.shape[-1], values.shape[-1])
