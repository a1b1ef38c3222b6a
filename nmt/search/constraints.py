"""Constraints of a search: how a translation begins, its words, and its attention.

In interactive translation, a user corrects a prefix, and the model continues it (Barrachina et al.
2009, doi 10.1162/coli.2008.07-055-r2-06-29).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from nmt.models.base import State, StepOutput
from nmt.search.back_pointers import Pieces
from nmt.search.words import NO_WORDS, WordConstraints, WordHistory


@dataclass(frozen=True)
class Constraint:
    """The constraints on the translation of one sentence.

    The translation begins with the pieces `prefix`, which are not eos, pad or bos. `attention[t]`
    replaces the weights of the model's N heads over the S source pieces, eos included, at step t,
    counted from 0. A head whose row is NaN keeps the model's weights. `words` must, or must not,
    occur in the translation. A forbidden word may still occur in the prefix.
    """

    prefix: tuple[int, ...] = ()
    attention: Mapping[int, Float32[np.ndarray, "N S"]] = field(default_factory=dict)
    words: WordConstraints = NO_WORDS

    def is_met(self, ids: tuple[int, ...]) -> bool:
        """Return whether the pieces `ids`, in the order of the search, have prefix and words."""
        words, prefix = self.words, self.prefix
        has_words = all(any(word.occurs_in(ids) for word in forms) for forms in words.must)
        has_forbidden = any(word.occurs_in(ids) for word in words.must_not)
        return ids[: len(prefix)] == prefix and has_words and not has_forbidden

    @property
    def n_pieces(self) -> int:
        """The number of pieces of the prefix and of the required words, plus 1 for eos."""
        return len(self.prefix) + self.words.n_pieces + 1


class Constraints:
    """The constraints of B sentences, applied at each step of a search.

    `longest` is the number of positions S of the batch, `beam` the number of slots of a sentence.
    """

    def __init__(self, constraints: Sequence[Constraint], longest: int, beam: int) -> None:
        self._constraints, self._longest, self._beam = constraints, longest, beam

    def word_history(self) -> WordHistory | None:
        """Return the initial word history, or None without lexical constraints."""
        words = [constraint.words for constraint in self._constraints]
        return WordHistory.initial(words) if any(map(bool, words)) else None

    def _of_rows(self, slots: Int[Tensor, " R"]) -> list[Constraint]:
        return [self._constraints[slot // self._beam] for slot in slots.tolist()]

    def attend(self, state: State, slots: Int[Tensor, " R"], step: int) -> State:
        """Return a state whose next step uses the constraints' attention weights for `step`."""
        attention = [constraint.attention.get(step) for constraint in self._of_rows(slots)]
        rows = {i: row for i, row in enumerate(attention) if row is not None}
        if not rows:
            return state
        n_heads = len(next(iter(rows.values())))
        weights = np.full((len(attention), n_heads, self._longest), np.nan, np.float32)
        for i, row in rows.items():
            weights[i, :, row.shape[1] :] = np.where(np.isnan(row[:, :1]), np.nan, 0)
            weights[i, :, : row.shape[1]] = row
        return state.with_attention(torch.from_numpy(weights).to(slots.device))

    def force(self, pieces: Pieces, out: StepOutput, slots: Int[Tensor, " R"], step: int) -> Pieces:
        """Return `pieces`, with only the next prefix piece for rows whose prefix is incomplete."""
        prefixes = [constraint.prefix for constraint in self._of_rows(slots)]
        rows = [row for row, prefix in enumerate(prefixes) if step < len(prefix)]
        if not rows:
            return pieces
        indices = torch.tensor(rows, device=slots.device)
        new_ids = torch.tensor([prefixes[row][step] for row in rows], device=slots.device)
        logits = out.logits[indices].float()
        forced = logits.gather(1, new_ids.unsqueeze(1)).squeeze(1) - logits.logsumexp(dim=1)
        log_probs, ids = (x.clone() for x in pieces)
        log_probs[indices] = -torch.inf
        log_probs[indices, 0] = forced.to(log_probs.dtype)
        ids[indices, 0] = new_ids
        return log_probs, ids
