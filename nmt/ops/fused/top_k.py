"""The k greatest numbers of each row; of equal ones the lower position comes first."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

_GROUP = 64  # a divisor of the rows of a vocabulary's table: grouping its logits copies nothing


def top_k(
    values: Float[Tensor, "R V"], k: int
) -> tuple[Float[Tensor, "R {k}"], Int[Tensor, "R {k}"]]:
    """The k greatest fp32 values of each row and their positions, greatest first; k <= V.

    They lie in the k groups of 64 with the greatest maxima (of equal groups the first), so that
    only those groups are searched. One group more is searched: where there are 64 times as many
    numbers as wanted ones, `torch.topk` takes half the time that it takes for fewer.
    """
    if values.shape[1] % _GROUP:
        values = pad(values, (0, -values.shape[1] % _GROUP), value=-torch.inf)
    groups = values.view(-1, _GROUP)
    maxima = groups.amax(dim=1).view(len(values), -1)
    best = _positions(maxima, min(k + 1, maxima.shape[1])).sort(dim=1).values
    starts = torch.arange(0, maxima.numel(), maxima.shape[1], device=values.device)
    members = groups.index_select(0, (best + starts.unsqueeze(1)).flatten()).view(len(values), -1)
    places = _positions(members, k)
    return members.gather(1, places), best.gather(1, places // _GROUP) * _GROUP + places % _GROUP


def _positions(values: Float[Tensor, "R N"], k: int) -> Int[Tensor, "R {k}"]:
    """Positions of the k greatest, of equal ones the lower first.

    `torch.topk` leaves the order of ties open. Where the k + 1 greatest are distinct there are
    none, and on a CPU that test costs nothing. Otherwise the keys are made distinct: the bits of
    an fp32 number, as a signed integer with the magnitude of negative ones inverted, have the
    order of the numbers; the position fills the 32 bits below.
    """
    if values.device.type == "cpu" and k < values.shape[1]:
        greatest = values.topk(k + 1, dim=1)
        if not bool((greatest.values[:, 1:] == greatest.values[:, :-1]).any()):
            return greatest.indices[:, :k]
    bits = (values + 0.0).view(torch.int32).long()  # + 0.0 makes -0.0 and 0.0 one
    ordered = bits ^ ((bits >> 63) & 0x7FFFFFFF)
    keys = (ordered << 32) - torch.arange(values.shape[1], device=values.device)
    return keys.topk(k, dim=1).indices
