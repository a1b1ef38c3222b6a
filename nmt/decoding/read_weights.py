"""Cross-attention as it is read for an alignment: which heads, how many steps later, by norms."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID, EOS_ID


@torch.inference_mode()
def read_weights(  # noqa: PLR0913 - each way to read is one
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    tgt_ids: Sequence[Sequence[int]],
    shift: int = 0,
    heads: Sequence[int] | None = None,
    by_norm: bool = False,
) -> list[Float32[np.ndarray, "_ _"]]:
    """A row for each piece of each target (given without eos), over its source with eos.

    Row t is the weights of step t + `shift`. At step t piece t is predicted, at step t + 1 it is
    the decoder's input (arXiv 2004.14837), and at step t + 2 a query that is the state before the
    input knows it. `heads` are averaged; None is the mean that the model shows. `by_norm` takes
    ||w_s f(v_s)||, of which f(v_s) is what a head adds to the context for a weight of 1
    (arXiv 2004.10102), and divides each row by its sum. Raises ConfigError for a model that cannot
    tell these norms.
    """
    longest = max(map(len, tgt_ids), default=0) + shift
    if longest == 0:
        return [np.zeros((0, size), np.float32) for size in src_lengths.tolist()]
    rows = [[BOS_ID, *ids, *[EOS_ID] * (longest - len(ids))][:longest] for ids in tgt_ids]
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    state = model.init_state(model.encode(src_ids, keep))
    tgt_in = torch.tensor(rows, device=src_ids.device)
    output = model.teacher_forced(tgt_in, state, with_weights=True)
    assert output.weights is not None
    assert output.heads is not None
    found = output.weights
    if heads is not None or by_norm:
        chosen = list(model.shown_heads if heads is None else heads)
        each = output.heads[:, chosen].float()
        if by_norm:
            each = each * model.value_norms(state)[:, chosen].float().unsqueeze(2)
        found = each.mean(dim=1)
        if by_norm:
            found = found / found.sum(dim=-1, keepdim=True).clamp_min(1e-30)
    weights = found.float().cpu().numpy()
    return [
        weights[b, shift : shift + len(ids), :size].copy()
        for b, (ids, size) in enumerate(zip(tgt_ids, src_lengths.tolist(), strict=True))
    ]
