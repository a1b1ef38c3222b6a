"""Attribution to input embeddings, by gradients or by erasure.

For one call, torch.func.functional_call replaces the embedding tables by tables with a row for each
position of the batch. The output of every model is thus a differentiable function of the source and
prefix embeddings, without a change to the model.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import functional_call

from nmt.explain.attribution.pair import Pair, Scores
from nmt.models.base import DecoderOutput, Seq2Seq
from nmt.models.vocabulary import PieceEmbedding

_MAX_ROWS = 256
_MAX_CELLS = 2**20
"""Limits on a pass, for memory: its rows, and rows times the square of the longer length."""

_POINTS = (32, 64, 128, 256, 512)
_TOLERANCE = 0.01
"""Numbers of quadrature points that integrated gradients try in turn. The allowed error of a row's
sum is _TOLERANCE times the larger of |F(x) - F(0)| and one nat."""


class EmbeddedPair:
    """A sentence pair as the embeddings of its pieces.

    `vectors` maps the name of each embedding table of the model to the embeddings of its side. An
    ensemble has several tables per side, whose attributions are summed.
    """

    def __init__(self, model: Seq2Seq, pair: Pair) -> None:
        self.model, self.pair = model, pair
        self.vectors: dict[str, Float[Tensor, "L D"]] = {}
        for path, module in model.named_modules():
            if isinstance(module, PieceEmbedding):
                ids = pair.src_ids if _is_source(path) else pair.tgt_in
                self.vectors[f"{path}.weight"] = module(ids).detach()

    def forward(self, vectors: Mapping[str, Float[Tensor, "R _ _"]]) -> DecoderOutput:
        """Return the output of one teacher-forced pass over R variants of the embeddings."""
        n_rows = len(next(iter(vectors.values())))
        device = self.pair.src_ids.device
        sides = self.pair.src_ids, self.pair.tgt_in
        src, tgt = (torch.arange(n_rows * len(i), device=device).view(n_rows, -1) for i in sides)
        tables = {name: rows.flatten(0, 1) for name, rows in vectors.items()}
        inputs = src, torch.ones_like(src, dtype=torch.bool), tgt
        output: DecoderOutput = functional_call(self.model, tables, inputs, tie_weights=False)
        return output

    def objective(
        self, logits: Float[Tensor, "*L V"], targets: Int[Tensor, "*#L"]
    ) -> Float[Tensor, "*L"]:
        """Return log p(y) of the `targets` y, or log p(y) - log p(y') with a contrast y'."""
        dtype = torch.promote_types(logits.dtype, torch.float32)
        log_probs = logits.log_softmax(dim=-1, dtype=dtype)
        targets = targets.expand(log_probs.shape[:-1]).unsqueeze(-1)
        values = log_probs.gather(-1, targets).squeeze(-1)
        contrast = self.pair.contrast
        return values if contrast is None else values - log_probs[..., contrast]

    def scores(self, totals: Mapping[str, Float[Tensor, "T _"]]) -> Scores:
        """Return the scores of source and prefix, each summed over the tables of its side.

        `totals` maps the name of each table to its scores.
        """
        source = [total for name, total in totals.items() if _is_source(name)]
        prefix = [total for name, total in totals.items() if not _is_source(name)]
        return Scores(torch.stack(source).sum(dim=0), torch.stack(prefix).sum(dim=0))

    @property
    def max_rows(self) -> int:
        """The maximum number of rows in one pass."""
        longest = max(len(self.pair.src_ids), len(self.pair.tgt_in))
        return max(1, min(_MAX_ROWS, _MAX_CELLS // longest**2))


def _is_source(name: str) -> bool:
    return "encoder" in name.split(".")


def input_x_gradient(model: Seq2Seq, pair: Pair) -> Scores:
    """Return x_i . dF_t / dx_i (Denil et al., arXiv 1412.6815; for NMT Ding et al. 2019).

    F_t is `EmbeddedPair.objective` at step t, in nats, and x_i the embedding of piece i.
    """
    return _path_gradients(EmbeddedPair(model, pair), range(len(pair.tgt_out)), [1.0], [1.0])


def integrated_gradients(model: Seq2Seq, pair: Pair) -> Scores:
    """Return x_i . int_0^1 dF_t(a x) / dx_i da (Sundararajan et al., arXiv 1703.01365, eq. 1).

    The baseline of each embedding, in source and prefix, is the zero vector (section 3). The scores
    of a row sum to F_t(x) - F_t(0), up to the error of the Gauss-Legendre quadrature. The number of
    points of a row is doubled until that error is at most _TOLERANCE, or up to the last of _POINTS.
    """
    embedded = EmbeddedPair(model, pair)
    ends = {name: torch.stack([torch.zeros_like(x), x]) for name, x in embedded.vectors.items()}
    with torch.no_grad():
        at_zero, at_x = embedded.objective(embedded.forward(ends).logits, pair.tgt_out)
    difference = at_x - at_zero
    steps = list(range(len(difference)))
    template = next(iter(embedded.vectors.values()))
    scores = Scores(*(template.new_zeros(len(steps), len(i)) for i in (pair.src_ids, steps)))
    for n_points in _POINTS:
        nodes, weights = np.polynomial.legendre.leggauss(n_points)
        points = ((nodes + 1) / 2).tolist()
        updates = _path_gradients(embedded, steps, points, (weights / 2).tolist())
        for side, update in zip(scores, updates, strict=True):
            side[steps] = update[steps]
        error = torch.cat(scores, dim=1).sum(dim=1) - difference
        steps = (error.abs() > _TOLERANCE * difference.abs().clamp(min=1)).nonzero()[:, 0].tolist()
        if not steps:
            break
    return scores


def _path_gradients(
    embedded: EmbeddedPair, steps: Sequence[int], points: list[float], weights: list[float]
) -> Scores:
    """Return x_i . sum_k w_k dF_t(a_k x) / dx_i for the `steps` t, and 0 for the other steps.

    The batch has a row for each step t and point a_k. Each row has one prediction, so one backward
    pass gives the gradients of all rows.
    """
    vectors, tgt_out = embedded.vectors, embedded.pair.tgt_out
    totals = {name: x.new_zeros(len(tgt_out), len(x)) for name, x in vectors.items()}
    template = next(iter(vectors.values()))
    rows = (
        torch.tensor(steps, device=tgt_out.device).repeat_interleave(len(points)),
        *(template.new_tensor(values).repeat(len(steps)) for values in (points, weights)),
    )
    for t, a, w in zip(*(torch.split(part, embedded.max_rows) for part in rows), strict=True):
        with torch.enable_grad():
            inputs = {name: (a[:, None, None] * x).requires_grad_() for name, x in vectors.items()}
            output = embedded.forward(inputs)
            features = output.features[torch.arange(len(t), device=t.device), t]
            values = embedded.objective(output.vocabulary(features), tgt_out[t])
            gradients = torch.autograd.grad(values.sum(), list(inputs.values()))
        for (name, x), gradient in zip(vectors.items(), gradients, strict=True):
            totals[name].index_add_(0, t, w[:, None] * (gradient * x).sum(dim=-1))
    return embedded.scores(totals)


@torch.no_grad()
def erasure(model: Seq2Seq, pair: Pair) -> Scores:
    """Return F_t(x) - F_t(x without i), in nats (Li et al., arXiv 1612.08220, section 3).

    The embedding of an erased piece is the zero vector. The piece keeps its position, so no other
    piece moves. F_t is `EmbeddedPair.objective` at step t.
    """
    embedded = EmbeddedPair(model, pair)
    n_src, n_tgt = len(pair.src_ids), len(pair.tgt_in)
    keep = 1 - torch.eye(n_src + n_tgt, device=pair.src_ids.device)
    keep = torch.cat([torch.ones_like(keep[:1]), keep])  # row 0: nothing erased
    values = []
    for rows in torch.split(keep, embedded.max_rows):
        src_keep, tgt_keep = rows[:, :n_src, None], rows[:, n_src:, None]
        keeps = {name: src_keep if _is_source(name) else tgt_keep for name in embedded.vectors}
        output = embedded.forward({name: x * keeps[name] for name, x in embedded.vectors.items()})
        # The logits of all rows at once would need too much memory.
        for features in torch.split(output.features, max(1, _MAX_ROWS // n_tgt)):
            values.append(embedded.objective(output.vocabulary(features), pair.tgt_out))
    objectives = torch.cat(values)
    changes = objectives[:1] - objectives[1:]
    return Scores(changes.T[:, :n_src], changes.T[:, n_src:].tril())
