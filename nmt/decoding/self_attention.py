"""The self-attention of a model that reads a source and a translation of it."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float32, Int
from torch import Tensor

from nmt.models.base import Seq2Seq
from nmt.ops.masks import keep_from_lengths
from nmt.text.vocabulary import BOS_ID, EOS_ID


@torch.inference_mode()
def self_attention(
    model: Seq2Seq,
    src_ids: Int[Tensor, "B S"],
    src_lengths: Int[Tensor, " B"],
    tgt_ids: Sequence[Sequence[int]],
) -> list[dict[str, Float32[np.ndarray, "N L L"]]]:
    """The weights of each head of the `encoder` and of the `decoder`, for each pair of texts.

    `encoder` has a row and a column for each source piece; `decoder` for bos and each piece of the
    translation but eos, after which nothing is predicted. A model without has neither.
    """
    prefixes = [[BOS_ID, *(i for i in ids if i != EOS_ID)] for ids in tgt_ids]
    longest = max(map(len, prefixes), default=0)
    padded = [prefix + [EOS_ID] * (longest - len(prefix)) for prefix in prefixes]
    tgt_in = torch.tensor(padded, device=src_ids.device)
    keep = keep_from_lengths(src_lengths, src_ids.shape[1])
    found = model.attention_weights(src_ids, keep, tgt_in)
    sizes = {"encoder": src_lengths.tolist(), "decoder": [len(prefix) for prefix in prefixes]}
    heads = {name: found[name].float().cpu().numpy() for name in sizes if name in found}
    return [
        {name: heads[name][b, :, : sizes[name][b], : sizes[name][b]].copy() for name in heads}
        for b in range(len(prefixes))
    ]
