"""Triton kernels for a CUDA GPU: additive attention and GRU gates, forward and backward.

    e_s = v . tanh(q + k_s);  w = softmax(e) over the kept positions;  c = sum_s w_s values_s

NVIDIA's MLPerf submissions for GNMT have a kernel for this attention (mlcommons
training_results_v0.7, .../gnmt/implementations/pytorch/seq2seq/csrc/attn_score_cuda_kernel.cu). It
computes the scores e and, in its backward pass, recomputes the tanh; mask, softmax and context are
separate operations there. Here a forward step takes two launches: one for the scores, and one for
mask, softmax, weights and context. A backward step takes two: one for the gradient of the weights,
and one for the gradients of softmax and query. The gradients of keys and v are computed by one
launch after the loop over steps. No tanh is stored: memory never holds B S K numbers.

A step reads keys and values once, and never at masked positions. A launch has a program for each
row and each block of S, K or M, so that a batch of a few rows also fills a GPU. Inputs may be fp32,
bf16 or fp16; sums are fp32. There are no atomics and no autotuning, and the block sizes fix the
order of every sum. A row therefore has the same bits in any batch and with any padding. If K and M
are multiples of 16, reads are 16 bytes wide, and a new B, S or T causes no recompilation.

ops.steps.GRUSteps defines the equations of the gates, their order and the bias. Here a row is
contiguous memory: what GRUSteps calls (F, B) is read as (B, F).
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _sigmoid_minus_2x(x):
    """Return f = 1 / (1 + exp(2 x)); tanh x = 1 - 2 f, and its slope is 4 (f - f^2).

    f is the square of rsqrt, which is one instruction; a division would be several.
    """
    root = tl.rsqrt(1 + tl.exp2(x * 2.8853900817779268))  # 2 / log(2)
    return root * root


@triton.jit
@no_type_check
def _tile_columns(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return a tile with 0 .. COLUMNS - 1 in each of ROWS rows.

    A vector that is read at these indices has the layout of a tile. If only one row were read,
    threads would have to exchange it and wait for each other in every iteration of a loop.
    """
    return tl.broadcast_to(tl.arange(0, COLUMNS)[None, :], (ROWS, COLUMNS))


@triton.jit(do_not_specialize=["S", "keep_b"])
@no_type_check
def scores_kernel(
    query, keys, keep, v, scores,
    S, K, query_b, keys_b, keys_s, keep_b,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write scores[b, s] = v . tanh(query[b] + keys[b, s]) at kept positions only."""
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
        total += factor * (1 - 2 * _sigmoid_minus_2x(q + key))
    tl.store(scores + b * S + s, tl.sum(total, axis=1), mask=attended)


@triton.jit(
    do_not_specialize=["S", "keep_b", "weights_b"], do_not_specialize_on_alignment=["weights"]
)
@no_type_check
def context_kernel(
    scores, values, keep, weights, context,
    S, M, values_b, values_s, keep_b, weights_b, context_b,
    SCORES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write weights[b] = softmax of the kept scores[b], and context[b] = weights[b] values[b].

    A program sums one block of M. All programs of a row compute its softmax; one of them writes it.
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
def grad_weights_kernel(
    read, of_context, sums, values, weights, used, grad_weights,
    S, M, read_b, context_b, sums_b, values_b, values_s, weights_b, used_b,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write sums = read + of_context and grad_weights[b, s] = sums[b] . values[b, s] + used[b, s].

    `used` is the gradient of the weights as an output. `of_context` and `used` may be None. Where a
    weight is 0, the written value has no effect.
    """
    b = tl.program_id(0).to(tl.int64)
    s = tl.program_id(1).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    attended = tl.load(weights + b * weights_b + s, mask=s < S, other=0) != 0
    rows = values + b * values_b + (s * values_s)[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, M, COLUMNS):
        m = start + _tile_columns(ROWS, COLUMNS)
        value = tl.load(rows + m, mask=(m < M) & attended[:, None], other=0).to(tl.float32)
        grad = tl.load(read + b * read_b + m, mask=m < M, other=0).to(tl.float32)
        if of_context is not None:
            grad += tl.load(of_context + b * context_b + m, mask=m < M, other=0).to(tl.float32)
        total += grad * value
        if tl.program_id(1) == 0:
            column = start + tl.arange(0, COLUMNS)
            row = tl.load(read + b * read_b + column, mask=column < M, other=0).to(tl.float32)
            if of_context is not None:
                at = of_context + b * context_b + column
                row += tl.load(at, mask=column < M, other=0).to(tl.float32)
            tl.store(sums + b * sums_b + column, row, mask=column < M)
    result = tl.sum(total, axis=1)
    if used is not None:
        result += tl.load(used + b * used_b + s, mask=attended, other=0)
    tl.store(grad_weights + b * S + s, result, mask=s < S)


@triton.jit(
    do_not_specialize=["S", "weights_b", "energies_b"],
    do_not_specialize_on_alignment=["weights", "grad_energies"],
)
@no_type_check
def grad_query_kernel(
    query, keys, v, weights, grad_weights, grad_energies, grad_query, copy,
    S, K, query_b, keys_b, keys_s, weights_b, energies_b, grad_b, copy_b,
    SCORES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write grad_energies[b], by the softmax's backward pass, and grad_query[b] from it.

    A program computes one block of K. `copy` gets the same values as grad_query.
    """
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
        f = _sigmoid_minus_2x(q[None, :] + tl.load(at, mask=tile, other=0).to(tl.float32))
        total += grad[:, None] * (f - f * f)
    factor = tl.load(v + k, mask=k < K, other=0).to(tl.float32)
    result = 4 * factor * tl.sum(total, axis=0)
    tl.store(grad_query + b * grad_b + k, result, mask=k < K)
    tl.store(copy + b * copy_b + k, result, mask=k < K)


@triton.jit(
    do_not_specialize=["T", "S", "grad_b", "grad_t"],
    do_not_specialize_on_alignment=["grad_energies"],
)
@no_type_check
def grad_keys_kernel(
    grad_energies, queries, keys, v, grad_keys, shares,
    T, S, K, grad_b, grad_t, queries_b, queries_t, keys_b, keys_s,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Write grad_keys[b, s] = sum_t grad_energies[b, t, s] v tanh'(queries[b, t] + keys[b, s]).

    shares[b, block of s] is the sum of grad_energies tanh(...) over t and the block. The gradient
    of v is the sum of all shares.
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
        f = _sigmoid_minus_2x(tl.load(steps, mask=k < K, other=0).to(tl.float32) + key)
        slopes += grad * (f - f * f)
        tanhs += grad * (1 - 2 * f)
        grads += grad_t
        steps += queries_t
    factor = tl.load(v + k, mask=k < K, other=0).to(tl.float32)
    tl.store(grad_keys + (b * S + s)[:, None] * K + k, 4 * factor * slopes, mask=tile)
    k = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    share = (b * tl.num_programs(1) + tl.program_id(1)) * K + k
    tl.store(shares + share, tl.sum(tanhs, axis=0), mask=k < K)


@triton.jit
@no_type_check
def gates_kernel(
    x, context, h, bias, hidden, following, out, saved,
    H, x_b, context_b, h_b, hidden_b, following_b, out_b, saved_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute GRUSteps.gru_gates; a program computes a block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < H
    x += b * x_b + i
    h += b * h_b + i
    x_r = tl.load(x, mask=inside, other=0).to(tl.float32)
    x_z = tl.load(x + H, mask=inside, other=0).to(tl.float32)
    x_n = tl.load(x + 2 * H, mask=inside, other=0).to(tl.float32)
    if context is not None:
        context += b * context_b + i
        x_r += tl.load(context, mask=inside, other=0).to(tl.float32)
        x_z += tl.load(context + H, mask=inside, other=0).to(tl.float32)
        x_n += tl.load(context + 2 * H, mask=inside, other=0).to(tl.float32)
    h_n = tl.load(h, mask=inside, other=0).to(tl.float32)
    h_r = tl.load(h + H, mask=inside, other=0).to(tl.float32)
    h_z = tl.load(h + 2 * H, mask=inside, other=0).to(tl.float32)
    h_n += tl.load(bias + i, mask=inside, other=0)
    r = tl.sigmoid(x_r + h_r + tl.load(bias + H + i, mask=inside, other=0))
    z = tl.sigmoid(x_z + h_z + tl.load(bias + 2 * H + i, mask=inside, other=0))
    x_n += tl.load(bias + 3 * H + i, mask=inside, other=0)
    n = 2 * tl.sigmoid(2 * (x_n + r * h_n)) - 1
    before = tl.load(hidden + b * hidden_b + i, mask=inside, other=0).to(tl.float32)
    after = n + z * (before - n)
    tl.store(following + b * following_b + i, after, mask=inside)
    tl.store(out + b * out_b + i, after, mask=inside)
    saved += b * saved_b + i
    tl.store(saved, h_n, mask=inside)
    tl.store(saved + H, r, mask=inside)
    tl.store(saved + 2 * H, z, mask=inside)
    tl.store(saved + 3 * H, n, mask=inside)


@triton.jit
@no_type_check
def grad_gates_kernel(
    direct, through, of_out, saved, previous, grad_gates, copy, grad_previous,
    H, direct_b, through_b, out_b, saved_b, previous_b, gates_b, copy_b, grad_b,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute GRUSteps.gru_gates_backward; a program computes a block of units of a row."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < H
    g = tl.load(direct + b * direct_b + i, mask=inside, other=0).to(tl.float32)
    if through is not None:
        g += tl.load(through + b * through_b + i, mask=inside, other=0).to(tl.float32)
    if of_out is not None:
        g += tl.load(of_out + b * out_b + i, mask=inside, other=0).to(tl.float32)
    saved += b * saved_b + i
    h_n = tl.load(saved, mask=inside, other=0).to(tl.float32)
    r = tl.load(saved + H, mask=inside, other=0).to(tl.float32)
    z = tl.load(saved + 2 * H, mask=inside, other=0).to(tl.float32)
    n = tl.load(saved + 3 * H, mask=inside, other=0).to(tl.float32)
    before = tl.load(previous + b * previous_b + i, mask=inside, other=0).to(tl.float32)
    grad_n = g * (1 - z) * (1 - n * n)
    grad_r = grad_n * h_n * r * (1 - r)
    grad_z = g * (before - n) * z * (1 - z)
    grad_gates += b * gates_b + i
    copy += b * copy_b + i
    tl.store(grad_gates, grad_n * r, mask=inside)
    tl.store(grad_gates + H, grad_r, mask=inside)
    tl.store(grad_gates + 2 * H, grad_z, mask=inside)
    tl.store(grad_gates + 3 * H, grad_n, mask=inside)
    tl.store(copy, grad_n * r, mask=inside)
    tl.store(copy + H, grad_r, mask=inside)
    tl.store(copy + 2 * H, grad_z, mask=inside)
    tl.store(copy + 3 * H, grad_n, mask=inside)
    tl.store(grad_previous + b * grad_b + i, g * z, mask=inside)


@triton.jit(do_not_specialize=["lr", "rho", "eps"])
@no_type_check
def adadelta_kernel(
    weights, gradient, squares, deltas, n, lr, rho, eps, BLOCK: tl.constexpr
):  # fmt: skip
    """Update weights by lr times Adadelta's step (arXiv 1212.5701, algorithm 1), in one pass."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    g = tl.load(gradient + i, mask=inside, other=0)
    square = rho * tl.load(squares + i, mask=inside, other=0) + (1 - rho) * g * g
    before = tl.load(deltas + i, mask=inside, other=0)
    delta = tl.sqrt_rn(before + eps) / tl.sqrt_rn(square + eps) * g
    tl.store(squares + i, square, mask=inside)
    tl.store(deltas + i, rho * before + (1 - rho) * delta * delta, mask=inside)
    tl.store(weights + i, tl.load(weights + i, mask=inside, other=0) - lr * delta, mask=inside)
