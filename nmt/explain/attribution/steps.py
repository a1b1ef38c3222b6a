"""Attribution to the annotations that a recurrent decoder attends to, step by step."""

from dataclasses import replace

import torch
from torch.nn.functional import cosine_similarity

from nmt.explain.attribution.pair import Pair, Scores
from nmt.models.recurrent.decoder import RNNState
from nmt.models.recurrent.rnn import RNNSeq2Seq


@torch.no_grad()
def value_zeroing(model: RNNSeq2Seq, pair: Pair) -> Scores:
    """Return 1 - cos(r_t, r_t with the value of position s set to 0) for each step t.

    This is arXiv 2301.12971, section 3, for the attention of a step instead of a layer. r_t is the
    input of the vocabulary layer. Keys, weights and the state before the step do not change. The
    decoder does not attend to the prefix, so the prefix has no columns.
    """
    src_ids, n_src = pair.src_ids[None], len(pair.src_ids)
    state = model.init_state(model.encode(src_ids, pair.src_keep))
    rows = torch.zeros(n_src + 1, dtype=torch.long, device=src_ids.device)
    keep = 1 - torch.eye(n_src + 1, n_src, device=src_ids.device)  # last row: nothing zeroed
    scores = []
    for last_id in pair.tgt_in.unbind():
        copies = state.select(rows)
        attention = copies.attention.expand_rows()
        attention = replace(attention, values=attention.values * keep.unsqueeze(-1))
        output = model.step(last_id.expand(len(rows)), replace(copies, attention=attention))
        cosines = cosine_similarity(output.features[:-1], output.features[-1:], dim=-1)
        scores.append((1 - cosines).clamp(min=0))
        next_state = model.step(last_id[None], state).state
        assert isinstance(next_state, RNNState)
        state = next_state
    source = torch.stack(scores)
    return Scores(source, source[:, :0])
