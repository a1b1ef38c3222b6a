"""Attention over a memory: all that the kinds have in common. A kind writes two methods.

`project` makes the keys of a memory, once per sentence; `score` says how well a query fits each
key. The rest is here: what may be looked at (span.py), how scores become weights (weighting.py),
what past weights add to the keys (coverage.py), and the weighted sum.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nmt.models.attention.coverage import Coverage
from nmt.models.attention.span import Span, Window
from nmt.models.attention.weighting import Choice, SoftWeighting, Weighting
from nmt.models.base import BatchFirst, Memory, Surrogate
from nmt.models.beams import Beams, only, select_sentences


@dataclass(frozen=True)
class AttentionState(BatchFirst):
    """What attention knows of B sentences, and what it has done so far for R rows that read them.

    `queries` counts the queries answered; `past` is what coverage remembers, None without it.
    `beams` say which sentence a row reads; None: row i reads sentence i, R = B.
    """

    keys: Float[Tensor, "B S K"]
    values: Float[Tensor, "B S C"]
    keep: Bool[Tensor, "B S"]
    queries: Int[Tensor, " R"]
    past: Float[Tensor, "R S"] | None
    beams: Beams | None = None

    def select(self, rows: Int[Tensor, " N"]) -> "AttentionState":
        """See BatchFirst.select; sentences are copied only to leave some of them out."""
        beams, left = select_sentences(self.beams, len(self.keep), rows)
        return AttentionState(
            keys=only(self.keys, left),
            values=only(self.values, left),
            keep=only(self.keep, left),
            queries=self.queries.index_select(0, rows),
            past=None if self.past is None else self.past.index_select(0, rows),
            beams=beams,
        )

    def apart(self) -> "AttentionState":
        """The same with a copy of its sentence for each row."""
        if self.beams is None:
            return self
        sentences = self.beams.sentences
        return AttentionState(
            keys=self.keys.index_select(0, sentences),
            values=self.values.index_select(0, sentences),
            keep=self.keep.index_select(0, sentences),
            queries=self.queries,
            past=self.past,
        )


@dataclass(frozen=True)
class AttentionOutput:
    """The answer to Q queries: the context, and the weights it was made with.

    `weights` is the mean of `heads` (N = 1 for most kinds). `choice` tells of a position that
    was drawn at random; None for weightings that draw none.
    """

    context: Float[Tensor, "B Q M"]
    heads: Float[Tensor, "B N Q S"]
    state: AttentionState
    choice: Choice | None

    @property
    def weights(self) -> Float[Tensor, "B Q S"]:
        """The mean over the heads."""
        return self.heads.squeeze(1) if self.heads.shape[1] == 1 else self.heads.mean(dim=1)


class Attention(nn.Module, abc.ABC):
    """From a query and a memory to a context vector and the weights it was made with.

    weights = weighting(score(query, keys)) over the span's kept positions; context = weights @
    values. The context has the size of an annotation.
    """

    sums_annotations = True
    """Whether the context is the annotations' sum by the weights, so that a linear map of the one
    is the sum of those of the others."""

    weighting: Weighting
    span: Span | None
    coverage: Coverage | None

    def __init__(self, key_size: int) -> None:
        super().__init__()
        self.key_size = key_size
        self.weighting = SoftWeighting()
        self.span = None
        self.coverage = None

    @abc.abstractmethod
    def project(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S K"]:
        """The keys of a memory; called once per sentence."""

    @abc.abstractmethod
    def score(
        self, query: Float[Tensor, "B Q H"], keys: Float[Tensor, "B S K"]
    ) -> Float[Tensor, "B Q S"] | Float[Tensor, "B N Q S"]:
        """How well each query fits each key, unbounded and unmasked; N is for several heads."""

    def carry(self, values: Float[Tensor, "B S M"]) -> Float[Tensor, "B S C"]:
        """What is summed instead of the annotations, made once per sentence; here, themselves."""
        return values

    def mix(
        self, heads: Float[Tensor, "B N Q S"], values: Float[Tensor, "B S C"]
    ) -> Float[Tensor, "B Q M"]:
        """The context: the sum of the values by their weights."""
        return torch.bmm(heads.squeeze(1), values)

    @property
    def head_names(self) -> tuple[str, ...]:
        """What the N heads are called."""
        return ("attention",)

    def begin(self, memory: Memory) -> AttentionState:
        """The state before the first query."""
        past = None
        if self.coverage is not None:
            past = memory.values.new_zeros(memory.values.shape[:2])
        return AttentionState(
            keys=self.project(memory.values),
            values=self.carry(memory.values),
            keep=memory.keep,
            queries=torch.zeros(len(memory.keep), dtype=torch.long, device=memory.keep.device),
            past=past,
        )

    def forward(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        """Answer Q queries, one after another as far as the kind remembers anything."""
        if self.coverage is not None and query.shape[1] > 1:
            return self._in_turn(query, state)
        beams = state.beams
        if beams is None:
            return self._look(query, state)
        if self.coverage is not None or self.span is not None:
            look = self._look(query, state.apart())  # rows differ in what they see of a sentence
            own = look.state
            return replace(look, state=replace(state, queries=own.queries, past=own.past))
        look = self._look(beams.together(query), state)
        return AttentionOutput(
            context=beams.apart(look.context),
            heads=beams.apart(look.heads.transpose(1, 2)).transpose(1, 2),
            state=replace(state, queries=state.queries + query.shape[1]),
            choice=None if look.choice is None else look.choice.apart(beams),
        )

    def _look(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        """The same where each query looks at the sentence of its own row."""
        keys = state.keys
        if self.coverage is not None and state.past is not None:
            keys = keys + self.coverage(state.past)
        window = None
        if self.span is not None:
            window = self.span(query, state.keep, state.queries)
        if window is None:
            weighted = self.weighting(_per_head(self.score(query, keys)), state.keep)
            heads, choice = weighted.weights, weighted.choice
            context = self.mix(heads, state.values)
        else:
            context, heads, choice = self._through(window, query, keys, state.values)
        after = replace(state, queries=state.queries + query.shape[1])
        if self.coverage is not None and state.past is not None:
            after = replace(after, past=self.coverage.after(state.past, heads.mean(dim=1)))
        return AttentionOutput(context, heads, after, choice)

    def _in_turn(self, query: Float[Tensor, "B Q H"], state: AttentionState) -> AttentionOutput:
        looks: list[AttentionOutput] = []
        for one in query.unbind(dim=1):
            looks.append(self(one.unsqueeze(1), state))
            state = looks[-1].state
        return AttentionOutput(
            context=torch.cat([look.context for look in looks], dim=1),
            heads=torch.cat([look.heads for look in looks], dim=2),
            state=state,
            choice=Choice.together([look.choice for look in looks if look.choice is not None]),
        )

    def _through(
        self,
        window: Window,
        query: Float[Tensor, "B Q H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S C"],
    ) -> tuple[Float[Tensor, "B Q M"], Float[Tensor, "B N Q S"], Choice | None]:
        """The same over W positions a query only: each query becomes a row of its own."""
        n_rows, n_queries, width = window.positions.shape
        keep = window.keep.flatten(0, 1)
        scores = _per_head(
            self.score(query.flatten(0, 1).unsqueeze(1), _taken(keys, window.positions))
        )
        if window.bias is not None:
            scores = scores + window.bias.flatten(0, 1)[:, None, None, :].to(scores.dtype)
        weights, choice = self.weighting(scores, keep)
        context = self.mix(weights, _taken(values, window.positions))
        heads = weights.view(n_rows, n_queries, -1, width).transpose(1, 2)
        everywhere = heads.new_zeros(n_rows, heads.shape[1], n_queries, keys.shape[1])
        places = window.positions.unsqueeze(1).expand_as(heads)
        # Positions beyond an end were moved to it, with a weight of 0: they add nothing.
        heads = everywhere.scatter_add(-1, places, heads)
        if choice is not None:
            choice = choice.view(n_rows, n_queries)
        return context.view(n_rows, n_queries, -1), heads, choice

    def surrogate(self, choices: Sequence[Choice | None]) -> Surrogate | None:
        """What the training loss must add for the choices made in T steps, if any were."""
        made = [choice for choice in choices if choice is not None]
        together = Choice.together(made)
        return None if together is None else self.weighting.surrogate(together)


def _per_head(
    scores: Float[Tensor, "B Q S"] | Float[Tensor, "B N Q S"],
) -> Float[Tensor, "B N Q S"]:
    return scores.unsqueeze(1) if scores.dim() == 3 else scores


def _taken(
    values: Float[Tensor, "B S C"], positions: Int[Tensor, "B Q W"]
) -> Float[Tensor, "R W C"]:
    """The values at each query's positions, R = B Q."""
    index = positions.flatten(1).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, index).view(-1, positions.shape[-1], values.shape[-1])
