"""The definition of every operation: plain torch, gradients by autograd.

Tests hold every other implementation to these, values and gradients.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int, Int8, Int32
from torch import Tensor, nn

from nmt.ops.contract import Operations, Transition
from nmt.ops.directions import in_directions
from nmt.ops.masks import softmax_where
from nmt.ops.precision import compute_dtype


def gru_cell(
    x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], hidden: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """The GRU's next state (arXiv 1406.1078), from its gates' parts [r; z; n] by input and state.

        r = sigmoid(x_r + h_r);  z = sigmoid(x_z + h_z);  n = tanh(x_n + r * h_n)
        h' = (1 - z) n + z h

    As in torch.nn.GRUCell, the reset gate is applied after the product.
    """
    size = hidden.shape[-1]
    r, z = torch.sigmoid(x[:, : 2 * size] + h[:, : 2 * size]).chunk(2, dim=-1)
    n = _tanh(torch.addcmul(x[:, 2 * size :], r, h[:, 2 * size :]))
    return torch.lerp(n, hidden.to(n.dtype), z)  # under autocast their dtypes differ


def _tanh(a: Tensor) -> Tensor:
    """tanh(a) = 2 sigmoid(2 a) - 1: torch's own tanh takes six times as long on a CPU.

    The error is absolute, about the dtype's epsilon. In 16 bits that would be too much.
    """
    return torch.tanh(a) if _is_half(a) else 2 * torch.sigmoid(2 * a) - 1


def _is_half(x: Tensor) -> bool:
    return torch.finfo(x.dtype).bits < 32


def additive_scores(
    query: Float[Tensor, "B Q K"], keys: Float[Tensor, "B S K"], v: Float[Tensor, " K"]
) -> Float[Tensor, "B Q S"]:
    """v . tanh(query + key), every projected query against every key (arXiv 1409.0473, A.1.2).

    The sum is 2 v . sigmoid(2 (query + key)) - sum v: `_tanh` without its two passes at the end.
    """
    if _is_half(query):
        tanh = torch.tanh(query.unsqueeze(2) + keys.unsqueeze(1))
        return nn.functional.linear(tanh, v.unsqueeze(0)).squeeze(-1)
    sigmoid = torch.sigmoid((2 * query).unsqueeze(2) + (2 * keys).unsqueeze(1))
    return nn.functional.linear(sigmoid, 2 * v.unsqueeze(0)).squeeze(-1) - v.sum()


class ReferenceOperations(Operations):
    """See Operations."""

    def linear(
        self,
        x: Float[Tensor, "*L I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "*L O"]:
        """See Operations."""
        return nn.functional.linear(x, weight, bias)

    def gru_layer(
        self,
        x: Float[Tensor, "B S I"],
        lengths: Int[Tensor, " B"],
        weights: Sequence[tuple[Tensor, ...]],
    ) -> tuple[Float[Tensor, "B S O"], Float[Tensor, "B O"]]:
        """See Operations."""
        return in_directions(x, lengths, [partial(_read_gru, own) for own in weights])

    def attentional_gru(
        self,
        gates: Float[Tensor, "T B G"],
        hidden: Float[Tensor, "B H"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        W_c: Float[Tensor, "G M"],
        W_h: Float[Tensor, "G H"],
        b_h: Float[Tensor, " G"],
        W_q: Float[Tensor, "K H"],
        v: Float[Tensor, " K"],
        transition: Transition | None = None,
    ) -> tuple[Float[Tensor, "T B H"], Float[Tensor, "T B M"], Float[Tensor, "T B S"]]:
        """See Operations."""
        sentences = torch.arange(len(hidden), device=hidden.device)
        steps: list[tuple[Tensor, Tensor, Tensor]] = []
        for x in gates.to(compute_dtype(gates)):
            if transition is not None:
                hidden = gru_cell(x, nn.functional.linear(hidden, *transition), hidden)
            query = nn.functional.linear(hidden, W_q)
            context, weights = self.additive_attention_step(query, sentences, keys, values, keep, v)
            read = nn.functional.linear(context, W_c)
            x = x + read if transition is None else read
            hidden = gru_cell(x, nn.functional.linear(hidden, W_h, b_h), hidden)
            steps.append((hidden, context, weights))
        states, contexts, weights_of_steps = (torch.stack(own) for own in zip(*steps, strict=True))
        return states, contexts.to(values.dtype), weights_of_steps.to(keys.dtype)

    def additive_attention_step(
        self,
        query: Float[Tensor, "R K"],
        sentences: Int[Tensor, " R"],
        keys: Float[Tensor, "B S K"],
        values: Float[Tensor, "B S M"],
        keep: Bool[Tensor, "B S"],
        v: Float[Tensor, " K"],
    ) -> tuple[Float[Tensor, "R M"], Float[Tensor, "R S"]]:
        """See Operations."""
        scores = additive_scores(query.unsqueeze(1), keys[sentences], v)
        weights = softmax_where(scores.squeeze(1), keep[sentences])
        return torch.bmm(weights.unsqueeze(1), values[sentences]).squeeze(1), weights

    def linear_cross_entropy(
        self,
        x: Float[Tensor, "N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"],
        targets: Int[Tensor, " N"],
        n_real: int,
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, " N"]]:
        """See Operations."""
        logits = nn.functional.linear(x, weight, bias)
        accumulate = torch.promote_types(logits.dtype, torch.float32)
        log_probs = logits.to(accumulate).log_softmax(dim=1)
        nlls = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
        loss = nlls.sum()
        if smoothing:
            uniform = -log_probs[:, :n_real].mean(dim=1).sum()
            loss = (1 - smoothing) * loss + smoothing * uniform
        return loss, nlls.detach()

    def top_k_log_probs(
        self, logits: Float[Tensor, "R V"], k: int, banned_ids: Int[Tensor, " N"], n_real: int
    ) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
        """See Operations."""
        best = allowed_log_probs(logits, banned_ids, n_real).sort(
            dim=1, descending=True, stable=True
        )
        return best.values[:, :k], best.indices[:, :k]

    def quantize_rows(
        self, x: Float[Tensor, "N I"]
    ) -> tuple[Int8[Tensor, "N I"], Float[Tensor, "N 1"]]:
        """See Operations; the scale is the row's greatest magnitude / 127."""
        scales = x.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) / 127
        return (x / scales).round().to(torch.int8), scales

    def int8_matmul(
        self, left: Int8[Tensor, "N I"], right: Int8[Tensor, "I O"]
    ) -> Int32[Tensor, "N O"]:
        """See Operations; fp64 holds every sum exactly."""
        return (left.double() @ right.double()).to(torch.int32)

    def dequantize(
        self,
        products: Int32[Tensor, "N O"],
        row_scales: Float[Tensor, "N 1"],
        column_scales: Float[Tensor, " O"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        """See Operations."""
        y = products.float() * column_scales * row_scales
        return y if bias is None else y + bias


def allowed_log_probs(
    logits: Float[Tensor, "R V"], banned_ids: Int[Tensor, " N"], n_real: int
) -> Float[Tensor, "R V"]:
    """log_softmax over all V, in fp32, then -infinity where a piece may not be produced."""
    log_probs = logits.float().log_softmax(dim=1)
    log_probs.index_fill_(1, banned_ids, -torch.inf)
    log_probs[:, n_real:] = -torch.inf
    return log_probs


def _read_gru(
    weights: tuple[Tensor, ...], n_steps: int, x: Float[Tensor, "N I"]
) -> Float[Tensor, "N H"]:
    """Every state of one direction, steps first, from a state of 0."""
    w_ih, w_hh, b_ih, b_hh = weights
    return unroll_gru(
        nn.functional.linear(x, w_ih, b_ih).unflatten(0, (n_steps, -1)),
        lambda hidden: nn.functional.linear(hidden, w_hh, b_hh),
    )


def unroll_gru(
    gates: Float[Tensor, "S B G"], hidden_gates: Callable[[Tensor], Tensor]
) -> Float[Tensor, "N H"]:
    """Every state of a GRU, N = S B, from the input's gates and a map from a state to its gates."""
    states = [gates.new_zeros(gates.shape[1], gates.shape[2] // 3)]
    for x in gates:
        states.append(gru_cell(x, hidden_gates(states[-1]), states[-1]))
    return torch.cat(states[1:])
