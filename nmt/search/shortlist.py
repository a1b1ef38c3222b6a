"""A search among the pieces that may translate the source's, and not among the whole vocabulary.

The vocabulary layer is the largest product of a search (Jean et al. 2015, arXiv 1412.2007, section
3.3; Devlin 2017, arXiv 1705.01991). With a shortlist it computes the logits of some pieces alone:
probabilities are shared among these, and others are never written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from nmt.models.base import State, StepOutput
from nmt.models.vocabulary import Vocabulary
from nmt.ops.backend import operations
from nmt.search.graphs import StepFunction
from nmt.text.vocabulary import EOS_ID, RESERVED


class Shortlist:
    """Target pieces that a translation may have, for each source piece and for every source.

    `translations` are target ids by source id. `frequent` are target ids that every translation
    may have, as it may have the reserved ones. The sizes are those of the vocabularies.
    """

    def __init__(
        self,
        translations: Mapping[int, Sequence[int]],
        frequent: Sequence[int],
        src_size: int,
        tgt_size: int,
    ) -> None:
        longest = max(map(len, translations.values()), default=0)
        self._table = torch.full((src_size, max(1, longest)), EOS_ID, dtype=torch.int32)
        for piece, ids in translations.items():
            self._table[piece, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
        self._always = torch.tensor([*range(len(RESERVED)), *frequent])
        self._tgt_size = tgt_size

    def allowed(self, src_ids: Int[Tensor, "B S"]) -> Bool[Tensor, "B V"]:
        """Whether the translation of each source may have each target piece."""
        allowed = torch.zeros(len(src_ids), self._tgt_size, dtype=torch.bool)
        allowed.scatter_(1, self._table[src_ids.cpu()].flatten(1).long(), True)
        allowed[:, self._always] = True
        return allowed.to(src_ids.device)


@dataclass(frozen=True)
class _ShortlistedState(State):
    """A state of the model, and which of the U pieces each row may write."""

    inner: State
    allowed: Bool[Tensor, "R U"]

    def with_attention(self, weights: Float[Tensor, "R N S"]) -> State:
        return replace(self, inner=self.inner.with_attention(weights))


class _ShortlistedVocabulary(Vocabulary):
    """A vocabulary layer whose best pieces are some of U pieces, for each of R rows others.

    Its logits are those of the whole layer.
    """

    def __init__(
        self,
        full: Vocabulary,
        part: Vocabulary,
        ids: Int[Tensor, " U"],
        allowed: Bool[Tensor, "R U"],
    ) -> None:
        super().__init__()
        self.backend, self.n_pieces = full.backend, full.n_pieces
        self._full, self._part, self._ids, self._allowed = full, part, ids, allowed

    def table_logits(self, features: Float[Tensor, "*L F"]) -> Float[Tensor, "*L P"]:
        return self._full.table_logits(features)

    def affine(self) -> tuple[Float[Tensor, "P F"], Float[Tensor, " P"]]:
        return self._full.affine()

    def top_k_log_probs(
        self, features: Float[Tensor, "R F"], k: int, banned_ids: Int[Tensor, " N"]
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See Vocabulary; K is the smaller of `k` and U."""
        n = len(self._ids)
        logits = self._part.table_logits(features).masked_fill_(~self._allowed, -torch.inf)
        banned = torch.isin(self._ids, banned_ids).nonzero().squeeze(1)
        ops = operations(self.backend, logits)
        log_probs, places = ops.top_k_log_probs(logits, min(k, n), banned, n)
        return log_probs, self._ids[places]


def shortlisted(
    step: StepFunction, state: State, allowed: Bool[Tensor, "B V"]
) -> tuple[StepFunction, State]:
    """Return the step and the state of a search in which each sentence has only `allowed` pieces.

    All rows compute the logits of the pieces that any sentence may have.
    """
    ids = allowed.any(dim=0).nonzero().squeeze(1)
    parts: list[Vocabulary] = []

    def step_among(last_ids: Int[Tensor, " R"], state: State) -> StepOutput:
        assert isinstance(state, _ShortlistedState)
        out = step(last_ids, state.inner)
        if not parts:
            parts.append(out.vocabulary.of_pieces(ids))
        vocabulary = _ShortlistedVocabulary(out.vocabulary, parts[0], ids, state.allowed)
        following = _ShortlistedState(out.state, state.allowed)
        return replace(out, vocabulary=vocabulary, state=following)

    return step_among, _ShortlistedState(state, allowed[:, ids])
