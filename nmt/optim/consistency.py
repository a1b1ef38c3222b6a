"""Consistency losses between two passes over the same targets, and the cutting of pieces."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import kl_div

from nmt.models.base import DecoderOutput
from nmt.models.vocabulary import PieceEmbedding
from nmt.ops.backend import operations
from nmt.ops.precision import accumulate_dtype
from nmt.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

_BYTES_AT_ONCE = {"cpu": 6 * 2**20, "cuda": 2**27}
"""Bytes of fp32 logits per chunk of tokens. On a CPU a chunk should not exceed the caches."""


def paired_loss(
    output: DecoderOutput, tgt_out: Int[Tensor, "N T"], smoothing: float, a: float, b: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "N T"]]:
    """Return CE(p, y) + CE(q, y) + a KL(p || q) + b KL(q || p), and the NLL of each token.

    p and q are the distributions of the first and of the last N / 2 rows. The loss is summed over
    the target tokens y of the first rows. CE is the cross-entropy with label smoothing `smoothing`.
    If the last N / 2 rows of `tgt_out` are all padding, only CE(q, y) is omitted.
    Gradients flow through p and q in every term.

    The NLL is -log p(y) in the first rows and -log q(y) in the last, 0 at padding, and detached.
    """
    vocabulary, features = output.vocabulary, output.features
    ops = operations(vocabulary.backend, features)

    def chunk_loss(rows: Tensor, table: Tensor, bias: Tensor, targets: Tensor) -> Any:
        logits = ops.linear(rows, table, bias)
        log_probs = logits.log_softmax(dim=-1, dtype=accumulate_dtype(logits.dtype))
        keep = targets != PAD_ID
        nlls = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1) * keep
        uniform = -log_probs[..., : vocabulary.n_pieces].mean(dim=-1) * keep
        losses = ((1 - smoothing) * nlls + smoothing * uniform).sum(dim=0)
        p, q = log_probs
        for factor, log_p, log_q in ((a, p, q), (b, q, p)):
            if factor:
                terms = kl_div(log_q, log_p, reduction="none", log_target=True)
                losses = losses + factor * terms.sum(dim=-1) * keep[0]
        return losses.sum(), nlls.detach()

    n_bytes = _BYTES_AT_ONCE.get(features.device.type, 2**23)
    size = max(1, n_bytes // (2 * 4 * vocabulary.n_pieces))
    rows = features.reshape(2, -1, features.shape[-1]), *vocabulary.affine()
    loss, nlls = _Chunks.apply(chunk_loss, size, *rows, tgt_out.view(2, -1))  # type: ignore[no-untyped-call]
    return loss, nlls.view_as(tgt_out)


class _Chunks(torch.autograd.Function):
    """Sums a loss over chunks of tokens; each chunk's gradient is computed along with its loss."""

    @staticmethod
    def forward(ctx: Any, loss_of: Callable[..., Any], size: int, *inputs: Tensor) -> Any:
        rows, table, bias, targets = inputs
        loss, nlls = table.new_zeros(()), table.new_empty(targets.shape)
        gradients = [torch.empty_like(rows), torch.zeros_like(table), torch.zeros_like(bias)]
        for start in range(0, rows.shape[1], size):
            chunk = slice(start, start + size)
            leaves = [x.detach().requires_grad_() for x in (rows[:, chunk], table, bias)]
            with torch.enable_grad():
                chunk_loss, nlls[:, chunk] = loss_of(*leaves, targets[:, chunk])
            gradients[0][:, chunk], *others = torch.autograd.grad(chunk_loss, leaves)
            torch._foreach_add_(gradients[1:], others)
            loss += chunk_loss.detach()
        ctx.gradients = gradients
        ctx.mark_non_differentiable(nlls)
        return loss, nlls

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *(gradient * grads[0] for gradient in ctx.gradients), None


def cut_pieces(ids: Int[Tensor, "B T"], rate: float) -> Int[Tensor, "B T"]:
    """Replace each piece, except bos and eos, by PAD_ID with probability `rate`.

    SimCut's code does the same (github.com/gpengzhi/Bi-SimCut). Masks depend on lengths, not on
    PAD_ID, so a cut piece keeps its position. Within `zero_pad_embeddings` its embedding is 0.
    """
    is_cut = torch.rand(ids.shape, device=ids.device) < rate
    return ids.masked_fill(is_cut & (ids != BOS_ID) & (ids != EOS_ID), PAD_ID)


@contextmanager
def zero_pad_embeddings(model: nn.Module) -> Iterator[None]:
    """Embed PAD_ID as 0, without a gradient, in the forward passes of the `with` block."""
    embeddings = [module for module in model.modules() if isinstance(module, PieceEmbedding)]
    hooks = [module.register_forward_hook(_zero_pad) for module in embeddings]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _zero_pad(_: nn.Module, inputs: tuple[Tensor], embedded: Tensor) -> Tensor:
    return embedded.masked_fill((inputs[0] == PAD_ID).unsqueeze(-1), 0)
