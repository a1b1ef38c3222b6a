"""Attention over a memory: everything that the kinds have in common. A kind adds two methods.

`project` computes the keys of a memory, once per sentence, unless they are the annotations;
`score` compares a query with each key.
The rest is here: the positions that a query sees (span.py), how scores become weights
(weighting.py), what past weights add to the keys (coverage.py), dropout, the weighted sum, its
gate, and the terms that training adds to the loss.
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
from nmt.models.attention.weighting import Choice, DoublyStochastic, SoftWeighting, Weighting
from nmt.models.base import AuxiliaryLoss, BatchFirst, Memory
from nmt.models.beams import Beams, select_or_all, select_sentences
from nmt.ops import Operations
from nmt.ops.backend import BackendName, operations
from nmt.ops.reference import AdditiveMemory


@dataclass(frozen=True)
class AttentionState(BatchFirst):
    """B sentences, and the history of R rows that attend to them.

    `values` are what the weights sum: the annotations, or a linear map of them. `queries` counts
    the queries answered; `past` is coverage's memory, None without coverage. `soft` marks the rows
    that take expected weights instead of drawn ones, None where no weighting asks. `beams` says
    which sentence a row reads; None: row i reads sentence i, R = B. `forced` are the weights of the
    next query where they are not NaN.
    """

    keys: Float[Tensor, "B S K"]
    values: Float[Tensor, "B S C"]
    keep: Bool[Tensor, "B S"]
    queries: Int[Tensor, " R"]
    past: Float[Tensor, "R S"] | None
    soft: Bool[Tensor, " R"] | None = None
    beams: Beams | None = None
    forced: Float[Tensor, "R N S"] | None = None

    def select(self, rows: Int[Tensor, " N"]) -> "AttentionState":
        """See BatchFirst.select; sentences are copied only to leave some of them out."""
        beams, left = select_sentences(self.beams, len(self.keep), rows)
        past, soft, forced = (
            None if x is None else x.index_select(0, rows)
            for x in (self.past, self.soft, self.forced)
        )
        keys, values, keep = (select_or_all(x, left) for x in (self.keys, self.values, self.keep))
        queries = self.queries.index_select(0, rows)
        return AttentionState(keys, values, keep, queries, past, soft, beams, forced)

    def expand_rows(self) -> "AttentionState":
        """The same state with a copy of its sentence for each row."""
        if self.beams is None:
            return self
        sentences = self.beams.sentences
        keys, values, keep = (
            x.index_select(0, sentences) for x in (self.keys, self.values, self.keep)
        )
        return replace(self, keys=keys, values=values, keep=keep, beams=None)


@dataclass(frozen=True)
class AttentionOutput:
    """The contexts and weights of Q queries, and the state after them.

    `context` is the sum of the state's values by the weights. `heads` are the weights of each head
    before dropout, so that they sum to 1; `weights` is their mean (N = 1 for most kinds). `choice`
    describes positions drawn at random; None where none were.
    """

    context: Float[Tensor, "B Q M"]
    heads: Float[Tensor, "B N Q S"]
    state: AttentionState
    choice: Choice | None

    @property
    def weights(self) -> Float[Tensor, "B Q S"]:
        """The mean over the heads."""
        return self.heads.squeeze(1) if self.heads.shape[1] == 1 else self.heads.mean(dim=1)


class AdditiveScore(NamedTuple):
    """A score v . tanh(W_q q + key), in the parts that operations take; W_q is `query_weight`."""

    project_query: Callable[[Tensor], Tensor]
    query_weight: Float[Tensor, "K H"]
    v: Float[Tensor, " K"]


class Attention(nn.Module, abc.ABC):
    """From a query and a memory to a context vector and its weights.

    weights = weighting(score(query, keys)) over the span's kept positions;
    context = dropout(weights) @ values, times sigmoid(gate(query)) where there is a gate (arXiv
    1502.03044, section 4.2.1). Dropout acts in training only and divides what it keeps by 1 - p, so
    that the expected context stays the same. The context has the size of an annotation.
    """

    sums_annotations = True
    """Whether the context is the weighted sum of the annotations. A linear map of the context is
    then the weighted sum of that map of the annotations."""

    weighting: Weighting
    dropout: nn.Dropout
    span: Span | None
    coverage: Coverage | None
    gate: nn.Linear | None

    def __init__(self, key_size: int, backend: BackendName = "auto") -> None:
        super().__init__()
        self.key_size = key_size
        self.backend: BackendName = backend
        self.weighting = SoftWeighting()
        self.dropout = nn.Dropout(0.0)
        self.span = None
        self.coverage = None
        self.gate = None
        self.doubly_stochastic = 0.0

    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The keys of a memory, computed once per sentence; by default the annotations."""
        return values

    @abc.abstractmethod
    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"] | Float[Tensor, "B N Q S"]:
        """How well each query fits each key, unbounded and unmasked; N where there are heads."""

    def additive_score(self) -> AdditiveScore | None:
        """The parts of `score` where it is v . tanh(W_q q + key); None where it is not."""
        return None

    def as_additive(self) -> AdditiveScore | None:
        """The parts of the score where the weights are its softmax over the whole source.

        None for another score, weighting or span, with coverage or a gate, and where dropout acts:
        Operations.attentional_gru and Operations.additive_attention_step compute something else.
        """
        drops = self.training and self.dropout.p > 0
        options = (self.span, self.coverage, self.gate)
        is_plain = self.weighting.is_softmax and not drops and options == (None, None, None)
        return self.additive_score() if is_plain else None

    def carry(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S C"]:
        """The values to sum, computed once per sentence; by default the annotations themselves."""
        return values

    def mix(
        self, heads: Float[Tensor, "B N Q S"], values: Float[Tensor, "B S C"]
    ) -> Float[Tensor, "B Q M"]:
        """The context: the sum of the values by the weights."""
        return torch.bmm(heads.squeeze(1), values)

    def value_norms(self, values: Float[Tensor, "B S C"]) -> Float[Tensor, "B N S"]:
        """The length of what each head adds to the context for a weight of 1; a gate not counted.

        `values` are those of the state.
        """
        norms: Tensor = torch.linalg.vector_norm(values, dim=-1)
        return norms.unsqueeze(1)

    @property
    def head_names(self) -> tuple[str, ...]:
        """The names of the N heads."""
        return ("attention",)

    def begin(self, memory: Memory) -> AttentionState:
        """The state before the first query."""
        return self._state(memory.values, memory.values, memory.keep)

    def attend(
        self,
        query: Float[Tensor, "B Q H"],
        keys: Float[Tensor, "B S M"],
        values: Float[Tensor, "B S C"],
        keep: Bool[Tensor, "B S"] | None = None,
    ) -> AttentionOutput:
        """f(q, (k_1, v_1), ...) = sum_i softmax_i(score(q, k_i)) v_i, outside of any model.

        The kind's own projection is applied to `keys`. `keep` True = may be attended; None: all
        positions.
        """
        if keep is None:
            keep = keys.new_ones(keys.shape[:2], dtype=torch.bool)
        return self(query, self._state(keys, values, keep))

    def _state(
        self,
        annotations: Float[Tensor, "B S A"],
        values: Float[Tensor, "B S C"],
        keep: Bool[Tensor, "B S"],
    ) -> AttentionState:
        """The state before the first query, with keys computed from the annotations."""
        return AttentionState(
            keys=self.project(annotations),
            values=self.carry(values),
            keep=keep,
            queries=torch.zeros(keep.shape[0], dtype=torch.long, device=keep.device),
            past=None if self.coverage is None else values.new_zeros(keep.shape),
            soft=self.weighting.draw_soft(keep),
        )

    def forward(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        """Answer Q queries; one after another where coverage makes them depend on each other."""
        if self.coverage is not None and query.shape[1] > 1:
            return self._in_turn(query, state)
        is_forced = state.forced is not None
        additive = None if is_forced or query.shape[1] > 1 else self.as_additive()
        if additive is not None:
            ops = operations(self.backend, query)
            if ops.has_additive_attention_step:
                return _additive_step(ops, additive, query, state)
        beams = state.beams
        if beams is None:
            return self._attend(query, state)
        if is_forced or self.coverage is not None or self.span is not None:
            # The rows of a sentence see it differently.
            output = self._attend(query, state.expand_rows())
            after = output.state
            after = replace(state, queries=after.queries, past=after.past, forced=None)
            return replace(output, state=after)
        output = self._attend(beams.group_by_sentence(query), state)
        return AttentionOutput(
            context=beams.ungroup(output.context),
            heads=beams.ungroup(output.heads.transpose(1, 2)).transpose(1, 2),
            state=replace(state, queries=state.queries + query.shape[1]),
            choice=None,  # a search draws no positions
        )

    def _attend(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        """Answer queries of which row i reads sentence i."""
        keys, past, forced = state.keys, state.past, state.forced
        if self.coverage is not None and past is not None:
            keys = keys + self.coverage(past)
        if self.span is None:
            scores = _per_head(self.score(query, keys))
            heads, choice = self.weighting(scores, state.keep).with_soft(state.soft)
            context = self.mix(self.dropout(heads), state.values)
        else:
            window = self.span(query, state.keep, state.queries)
            context, heads, choice = self._attend_in_window(window, query, keys, state)
        if forced is not None:
            heads = torch.where(forced.isnan(), heads.squeeze(2), forced).unsqueeze(2)
            context, choice = self.mix(heads.to(state.values.dtype), state.values), None
        if self.gate is not None:
            context = torch.sigmoid(self.gate(query)) * context
        if self.coverage is not None and past is not None:
            past = self.coverage.after(past, heads.mean(dim=1))
        after = replace(state, queries=state.queries + query.shape[1], past=past, forced=None)
        return AttentionOutput(context, heads, after, choice)

    def _in_turn(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        outputs: list[AttentionOutput] = []
        for one in query.unbind(dim=1):
            outputs.append(self(one.unsqueeze(1), state))
            state = outputs[-1].state
        choices = [output.choice for output in outputs if output.choice is not None]
        return AttentionOutput(
            context=torch.cat([output.context for output in outputs], dim=1),
            heads=torch.cat([output.heads for output in outputs], dim=2),
            state=state,
            choice=Choice.concatenated(choices),
        )

    def _attend_in_window(
        self,
        window: Window,
        query: Float[Tensor, "B Q H"],
        keys: Float[Tensor, "B S K"],
        state: AttentionState,
    ) -> tuple[Float[Tensor, "B Q M"], Float[Tensor, "B N Q S"], Choice | None]:
        """Attention of each query to its own W positions; queries become rows, R = B Q."""
        n_rows, n_queries, width = window.positions.shape
        keep = window.keep.flatten(0, 1)
        scores = _per_head(
            self.score(query.flatten(0, 1).unsqueeze(1), _gather(keys, window.positions))
        )
        if window.bias is not None:
            scores = scores + window.bias.flatten(0, 1)[:, None, None, :].to(scores.dtype)
        soft = None if state.soft is None else state.soft.repeat_interleave(n_queries)
        weights, choice = self.weighting(scores, keep).with_soft(soft)
        context = self.mix(self.dropout(weights), _gather(state.values, window.positions))
        heads = weights.view(n_rows, n_queries, -1, width).transpose(1, 2)
        everywhere = heads.new_zeros(n_rows, heads.shape[1], n_queries, keys.shape[1])
        places = window.positions.unsqueeze(1).expand_as(heads)
        # Positions beyond an end of the source were moved to that end, with a weight of 0.
        heads = everywhere.scatter_add(-1, places, heads)
        if choice is not None:
            choice = choice.view(n_rows, n_queries)
        return context.view(n_rows, n_queries, -1), heads, choice

    def auxiliary_loss(self, outputs: Sequence[AttentionOutput]) -> AuxiliaryLoss | None:
        """The term that the training loss must add for T steps, if there is one.

        Either that of drawn positions or the doubly stochastic penalty; None in evaluation mode.
        """
        if self.training and self.doubly_stochastic:
            weights = torch.cat([output.weights for output in outputs], dim=1)
            return DoublyStochastic(self.doubly_stochastic, weights, outputs[-1].state.keep)
        choices = [output.choice for output in outputs if output.choice is not None]
        together = Choice.concatenated(choices)
        return None if together is None else self.weighting.auxiliary_loss(together)


def _additive_step(
    ops: Operations, score: AdditiveScore, query: Float[Tensor, "R 1 H"], state: AttentionState
) -> AttentionOutput:
    """One query a row by `additive_attention_step`; several rows may read one sentence."""
    rows = torch.arange(query.shape[0], device=query.device)
    context, weights = ops.additive_attention_step(
        score.project_query(query).squeeze(1),
        rows if state.beams is None else state.beams.sentences,
        AdditiveMemory(state.keys, state.values, state.keep, score.v),
    )
    after = replace(state, queries=state.queries + 1)
    return AttentionOutput(context.unsqueeze(1), weights[:, None, None], after, None)


def _per_head(
    scores: Float[Tensor, "B Q S"] | Float[Tensor, "B N Q S"],
) -> Float[Tensor, "B N Q S"]:
    return scores.unsqueeze(1) if scores.dim() == 3 else scores


def _gather(
    values: Float[Tensor, "B S C"], positions: Int[Tensor, "B Q W"]
) -> Float[Tensor, "R W C"]:
    """The values at each query's positions, R = B Q."""
    index = positions.flatten(1).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, index).view(-1, positions.shape[-1], values.shape[-1])
