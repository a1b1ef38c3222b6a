"""What lies between the matrix products of a search.

By native code (native/search.py) where it is installed, else by torch's operations: the same up to
rounding. What a row gives does not depend on the others.
"""

import torch
from jaxtyping import Float, Int, Int8, Int32
from torch import Tensor

from nmt.ops.native.search import NativeSearch, native_search
from nmt.ops.topk import top_k


def compiled_search(*read: Tensor) -> NativeSearch | None:
    """The native operations, if all that they read is fp32 on a CPU and no gradient is wanted.

    None under autocast, where what is made of fp32 is not.
    """
    here = all(x.device.type == "cpu" and x.dtype == torch.float32 for x in read)
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in read)
    if not here or wants_gradient or torch.is_autocast_enabled("cpu"):
        return None
    return native_search()


def likeliest(
    logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """The k likeliest pieces of each row, with their log-probabilities, the likeliest first.

    Equally likely ones come in the order of their ids. Those of `banned_ids` and from `n_real` on
    are never among them; where fewer than k <= V are left, the last log-probabilities are
    -infinity. `logits` may be overwritten.
    """
    by = compiled_search(logits)
    if by:
        return by.top_k_log_probs(logits, k, banned_ids, n_real)
    log_probs = logits.float().log_softmax(dim=1)
    log_probs.index_fill_(1, banned_ids, -torch.inf)
    log_probs[:, n_real:] = -torch.inf
    return top_k(log_probs, k)


def rounded(x: Float[Tensor, "N I"]) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
    """Whole numbers from -127 to 127, and what each row of them is to be multiplied with."""
    by = compiled_search(x)
    if by:
        return by.quantize_rows(x)
    scales = x.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny).div_(127)
    return (x / scales).round_().to(torch.int8), scales


def scaled(
    products: Int32[Tensor, "N O"],
    of_rows: Float[Tensor, "N 1"],
    of_columns: Float[Tensor, " O"],
    bias: Float[Tensor, " O"] | None,
) -> Float[Tensor, "N O"]:
    """products of_rows of_columns + bias; `products` may be overwritten."""
    by = compiled_search(of_rows, of_columns, *([] if bias is None else [bias]))
    if by:
        return by.dequantize(products, of_rows, of_columns, bias)
    y = products.float().mul_(of_columns)
    return y.mul_(of_rows) if bias is None else torch.addcmul(bias, y, of_rows, out=y)
