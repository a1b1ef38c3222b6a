"""The k best of many, fast, with ties decided: the lower position wins on every device."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from nmt.corpus.vocab import TABLE_MULTIPLE

_GROUP = TABLE_MULTIPLE  # so that grouping copies nothing


def top_k(
    values: Float[Tensor, "R V"], k: int
) -> tuple[Float[Tensor, "R {k}"], Int[Tensor, "R {k}"]]:
    """The k greatest fp32 values of each row and their positions, greatest first; k <= V.

    The k best lie in the k groups of 64 with the greatest maxima (of equal groups the first), so
    only those are looked into.
    """
    if values.shape[1] % _GROUP:
        values = pad(values, (0, -values.shape[1] % _GROUP), value=-torch.inf)
    groups = values.view(values.shape[0], -1, _GROUP)
    best = _positions(groups.amax(dim=2), min(k, groups.shape[1])).sort(dim=1).values
    members = groups.gather(1, best.unsqueeze(2).expand(-1, -1, _GROUP)).flatten(1)
    chosen = _positions(members, k)
    return members.gather(1, chosen), best.gather(1, chosen // _GROUP) * _GROUP + chosen % _GROUP


def _positions(values: Float[Tensor, "R N"], k: int) -> Int[Tensor, "R {k}"]:
    """Positions of the k greatest; `torch.topk` leaves ties open, so all keys are made distinct.

    An fp32 number's bits, read as a signed integer with the magnitude of negatives turned round,
    are in the numbers' order; the position fills the 32 bits below.
    """
    bits = (values + 0.0).view(torch.int32).long()  # + 0.0 makes -0.0 and 0.0 one
    ordered = bits ^ ((bits >> 63) & 0x7FFFFFFF)
    keys = (ordered << 32) - torch.arange(values.shape[1], device=values.device)
    return keys.topk(k, dim=1).indices
