"""Additive attention of one decoder step on a CUDA GPU, forward and backward, in Triton.

    e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

The kernel published for this attention, in NVIDIA's MLPerf submissions for GNMT (mlcommons
training_results_v0.7, .../gnmt/implementations/pytorch/seq2seq/csrc/attn_score_cuda_kernel.cu),
writes the scores e and, given their gradient, recomputes the tanh; mask, softmax and context are
separate operations there, forward and backward. Here two launches make a step: the scores, then
mask, softmax, weights and context together; and two its backward: the gradient of the weights,
then those of softmax and query together. What needs no loop over steps, the gradients of keys
and v, is one launch after it. No tanh is ever stored: memory never holds B S K numbers.

Keys and values are read once a step, masked positions of them never. A launch has a program for
each row and each block of S, K or M, so that a batch of a few rows fills a GPU too. Whatever the
inputs' dtypes (fp32, bf16, fp16), sums are fp32. The order of every sum is fixed by the constants
below: no atomics, no autotuning; a row's result is the same bits in any batch and with any
padding. Where K and M are multiples of 16, reads are 16 bytes wide, and nothing is compiled anew
for another B, S or T. Triton comes with PyTorch for CUDA; nothing imports this module without it.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Float32
from torch import Tensor

from nmt.ops.reference import AdditiveMemory
from nmt.ops.triton.launch import check_writable, device_of, rows

_WARPS = 4  # a warp reads a row of a tile: 32 threads, 8 numbers of bf16 each
_TILE_ROWS = 8
_TILE_COLUMNS = 256
_SCORES = 128  # positions of a row that a softmax takes at a time


def attend(
    query: Float[Tensor, "B K"],
    memory: AdditiveMemory,
    weights: Float32[Tensor, "B S"],
    context: Float[Tensor, "B M"],
) -> None:
    """Write `weights`, exactly 0 where a position is not kept, and `context`.

    A row without kept positions gets weights and context 0. Here and below, the rows of what is
    written need not be adjacent.
    """
    query, keys, values, keep, v = rows(query, *memory)
    B, S, K = keys.shape
    M = values.shape[2]
    scores = torch.empty(B, S, dtype=torch.float32, device=keys.device)
    check_writable(weights, context)
    with device_of(keys):
        _scores_kernel[B, triton.cdiv(S, _TILE_ROWS)](
            query, keys, keep, v, scores,
            S, K, query.stride(0), keys.stride(0), keys.stride(1), keep.stride(0),
            ROWS=_TILE_ROWS, COLUMNS=_columns(K), num_warps=_WARPS,
        )  # fmt: skip
        _context_kernel[B, triton.cdiv(M, _columns(M))](
            scores, values, keep, weights, context,
            S, M, values.stride(0), values.stride(1), keep.stride(0),
            weights.stride(0), context.stride(0),
            SCORES=_SCORES, ROWS=_TILE_ROWS, COLUMNS=_columns(M), num_warps=_WARPS,
        )  # fmt: skip


def attend_backward(
    grad_context: Float[Tensor, "B M"],
    grad_weights: Float32[Tensor, "B S"] | None,
    query: Float[Tensor, "B K"],
    memory: AdditiveMemory,
    weights: Float32[Tensor, "B S"],
    grad_query: Float[Tensor, "B K"],
    grad_energies: Float32[Tensor, "B S"],
) -> None:
    """Write the gradients of the query and of the scores, given those of context and weights.

    grad_energies_s = w_s (g_s - sum_r w_r g_r), g_s = grad_context . values_s + grad_weights_s:
    what `keys_backward` takes, of all steps. `grad_weights` is for weights that something else
    reads too. Positions of weight 0 are not read.
    """
    keys, values, _, v = memory
    grad_context, query, keys, values, v, weights = rows(
        grad_context, query, keys, values, v, weights
    )
    B, S, K = keys.shape
    M = values.shape[2]
    (used,) = rows(grad_weights) if grad_weights is not None else (None,)
    grad_all_weights = torch.empty(B, S, dtype=torch.float32, device=keys.device)
    check_writable(grad_query, grad_energies)
    with device_of(keys):
        _grad_weights_kernel[B, triton.cdiv(S, _TILE_ROWS)](
            grad_context, values, weights, used, grad_all_weights,
            S, M, grad_context.stride(0), values.stride(0), values.stride(1), weights.stride(0),
            0 if used is None else used.stride(0),
            ROWS=_TILE_ROWS, COLUMNS=_columns(M), num_warps=_WARPS,
        )  # fmt: skip
        _grad_query_kernel[B, triton.cdiv(K, _columns(K))](
            query, keys, v, weights, grad_all_weights, grad_energies, grad_query,
            S, K, query.stride(0), keys.stride(0), keys.stride(1), weights.stride(0),
            grad_energies.stride(0), grad_query.stride(0),
            SCORES=_SCORES, ROWS=_TILE_ROWS, COLUMNS=_columns(K), num_warps=_WARPS,
        )  # fmt: skip


def keys_backward(
    grad_energies: Float32[Tensor, "B T S"], queries: Float[Tensor, "B T K"], memory: AdditiveMemory
) -> tuple[Float[Tensor, "B S K"], Float[Tensor, " K"]]:
    """Gradients of `keys` and `v`, in their dtypes, over all T steps.

    A block of keys stays in registers while the steps pass. Each program writes its part of
    v's gradient, and torch adds the parts.
    """
    grad_energies, queries, keys, v = rows(grad_energies, queries, memory.keys, memory.v)
    B, S, K = keys.shape
    T = queries.shape[1]
    blocks = triton.cdiv(S, _TILE_ROWS)
    grad_keys = torch.empty(B, S, K, dtype=keys.dtype, device=keys.device)
    shares = torch.empty(B, blocks, K, dtype=torch.float32, device=keys.device)
    with device_of(keys):
        _grad_keys_kernel[B, blocks, triton.cdiv(K, _columns(K))](
            grad_energies, queries, keys, v, grad_keys, shares,
            T, S, K, grad_energies.stride(0), grad_energies.stride(1),
            queries.stride(0), queries.stride(1), keys.stride(0), keys.stride(1),
            ROWS=_TILE_ROWS, COLUMNS=_columns(K), num_warps=_WARPS,
        )  # fmt: skip
    return grad_keys, shares.sum(dim=(0, 1)).to(v.dtype)


def _columns(size: int) -> int:
    """Columns of a tile over `size` numbers."""
    power: int = triton.next_power_of_2(size)
    return min(_TILE_COLUMNS, max(16, power))


@triton.jit
@no_type_check
def _fall(x):
    """f = 1 / (1 + exp(2 x)); tanh x = 1 - 2 f, and its slope is 4 (f - f^2).

    The reciprocal is a square of rsqrt, one instruction where a division is several.
    """
    root = tl.rsqrt(1 + tl.exp2(x * 2.8853900817779268))  # 2 / log(2)
    return root * root


@triton.jit
@no_type_check
def _tile_columns(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """0 .. COLUMNS - 1 in each of the rows.

    A vector read at these comes in the layout of a tile; read once, threads would have to
    exchange it and wait for each other at every turn of a loop.
    """
    return tl.broadcast_to(tl.arange(0, COLUMNS)[None, :], (ROWS, COLUMNS))


@triton.jit(do_not_specialize=["S", "keep_b"])
@no_type_check
def _scores_kernel(
    query, keys, keep, v, scores,
    S, K, query_b, keys_b, keys_s, keep_b,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """scores[b, s] = v . tanh(query[b] + keys[b, s]), written for kept positions only."""
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    attended = tl.load(keep + b * keep_b + s, mask=s < S, other=0) != 0
    rows = keys + b * keys_b + (s * keys_s)[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, K, COLUMNS):
        k = start + _tile_columns(ROWS, COLUMNS)
        key = tl.load(rows + k, mask=(k < K) & attended[:, None], other=0).to(tl.float32)
        q = tl.load(query + b * query_b + k, mask=k < K, other=0).to(tl.float32)
        factor = tl.load(v + k, mask=k < K, other=0).to(tl.float32)
        total += factor * (1 - 2 * _fall(q + key))
    tl.store(scores + b * S + s, tl.sum(total, axis=1), mask=attended)


@triton.jit(
    do_not_specialize=["S", "keep_b", "weights_b"], do_not_specialize_on_alignment=["weights"]
)
@no_type_check
def _context_kernel(
    scores, values, keep, weights, context,
    S, M, values_b, values_s, keep_b, weights_b, context_b,
    SCORES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """weights[b] = softmax of the kept scores[b]; context[b] = weights[b] values[b].

    A program sums a block of M; each knows the softmax of the whole row, one writes it.
    """
    b = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    scores += b * S
    keep += b * keep_b

    peaks = tl.full((SCORES,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, SCORES):
        s = start + tl.arange(0, SCORES)
        attended = tl.load(keep + s, mask=s < S, other=0) != 0
        peaks = tl.maximum(peaks, tl.load(scores + s, mask=attended, other=float("-inf")))
    peak = tl.max(peaks, axis=0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)  # nothing is kept
    sums = tl.zeros((SCORES,), dtype=tl.float32)
    for start in range(0, S, SCORES):
        s = start + tl.arange(0, SCORES)
        attended = tl.load(keep + s, mask=s < S, other=0) != 0
        sums += tl.exp(tl.load(scores + s, mask=attended, other=float("-inf")) - peak)
    total = tl.sum(sums, axis=0)
    scale = 1 / tl.where(total == 0, 1.0, total)

    part = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, S, ROWS):
        s = start + tl.arange(0, ROWS).to(tl.int64)
        attended = tl.load(keep + s, mask=s < S, other=0) != 0
        w = tl.exp(tl.load(scores + s, mask=attended, other=float("-inf")) - peak) * scale
        if tl.program_id(1) == 0:
            tl.store(weights + b * weights_b + s, w, mask=s < S)
        tile = (m < M)[None, :] & attended[:, None]
        at = values + b * values_b + (s * values_s)[:, None] + m[None, :]
        part += w[:, None] * tl.load(at, mask=tile, other=0).to(tl.float32)
    tl.store(context + b * context_b + m, tl.sum(part, axis=0), mask=m < M)


@triton.jit(
    do_not_specialize=["S", "weights_b", "used_b"],
    do_not_specialize_on_alignment=["weights", "used"],
)
@no_type_check
def _grad_weights_kernel(
    grad_context, values, weights, used, grad_weights,
    S, M, grad_b, values_b, values_s, weights_b, used_b,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """grad_weights[b, s] = grad_context[b] . values[b, s] + used[b, s], if that is given.

    It does not matter where the weight is 0, and is whatever costs least there.
    """
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    attended = tl.load(weights + b * weights_b + s, mask=s < S, other=0) != 0
    rows = values + b * values_b + (s * values_s)[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, M, COLUMNS):
        m = start + _tile_columns(ROWS, COLUMNS)
        value = tl.load(rows + m, mask=(m < M) & attended[:, None], other=0).to(tl.float32)
        grad = tl.load(grad_context + b * grad_b + m, mask=m < M, other=0).to(tl.float32)
        total += grad * value
    result = tl.sum(total, axis=1)
    if used is not None:
        result += tl.load(used + b * used_b + s, mask=attended, other=0)
    tl.store(grad_weights + b * S + s, result, mask=s < S)


@triton.jit(
    do_not_specialize=["S", "weights_b", "energies_b"],
    do_not_specialize_on_alignment=["weights", "grad_energies"],
)
@no_type_check
def _grad_query_kernel(
    query, keys, v, weights, grad_weights, grad_energies, grad_query,
    S, K, query_b, keys_b, keys_s, weights_b, energies_b, grad_b,
    SCORES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """grad_energies[b] by the softmax's backward; grad_query[b] from it, a block of K a program."""
    b = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    weights += b * weights_b
    grad_weights += b * S

    means = tl.zeros((SCORES,), dtype=tl.float32)
    for start in range(0, S, SCORES):
        s = start + tl.arange(0, SCORES)
        w = tl.load(weights + s, mask=s < S, other=0)
        means += w * tl.load(grad_weights + s, mask=s < S, other=0)
    mean = tl.sum(means, axis=0)

    q = tl.load(query + b * query_b + k, mask=k < K, other=0).to(tl.float32)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, S, ROWS):
        s = start + tl.arange(0, ROWS).to(tl.int64)
        w = tl.load(weights + s, mask=s < S, other=0)
        grad = w * (tl.load(grad_weights + s, mask=s < S, other=0) - mean)
        if tl.program_id(1) == 0:
            tl.store(grad_energies + b * energies_b + s, grad, mask=s < S)
        tile = (k < K)[None, :] & (w != 0)[:, None]
        at = keys + b * keys_b + (s * keys_s)[:, None] + k[None, :]
        f = _fall(q[None, :] + tl.load(at, mask=tile, other=0).to(tl.float32))
        total += grad[:, None] * (f - f * f)
    factor = tl.load(v + k, mask=k < K, other=0).to(tl.float32)
    tl.store(grad_query + b * grad_b + k, 4 * factor * tl.sum(total, axis=0), mask=k < K)


@triton.jit(
    do_not_specialize=["T", "S", "grad_b", "grad_t"],
    do_not_specialize_on_alignment=["grad_energies"],
)
@no_type_check
def _grad_keys_kernel(
    grad_energies, queries, keys, v, grad_keys, shares,
    T, S, K, grad_b, grad_t, queries_b, queries_t, keys_b, keys_s,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """grad_keys[b, s] = sum_t grad_energies[b, t, s] v tanh'(queries[b, t] + keys[b, s]).

    shares[b, block of s] = its sum of grad_energies tanh(...): what is left to add up for v.
    """
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    k = tl.program_id(2) * COLUMNS + _tile_columns(ROWS, COLUMNS)
    tile = (k < K) & (s < S)[:, None]
    at = b * keys_b + (s * keys_s)[:, None] + k
    key = tl.load(keys + at, mask=tile, other=0).to(tl.float32)

    slopes = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    tanhs = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    grads = grad_energies + b * grad_b + s
    steps = queries + b * queries_b + k
    for _ in range(T):
        grad = tl.load(grads, mask=s < S, other=0)[:, None]
        f = _fall(tl.load(steps, mask=k < K, other=0).to(tl.float32) + key)
        slopes += grad * (f - f * f)
        tanhs += grad * (1 - 2 * f)
        grads += grad_t
        steps += queries_t
    factor = tl.load(v + k, mask=k < K, other=0).to(tl.float32)
    tl.store(grad_keys + (b * S + s)[:, None] * K + k, 4 * factor * slopes, mask=tile)
    k = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    share = (b * tl.num_programs(1) + tl.program_id(1)) * K + k
    tl.store(shares + share, tl.sum(tanhs, axis=0), mask=k < K)
