// The operations between the matrix products of a training step on a CPU, each in one pass over memory;
// sequence.py calls them, and ops/steps.py defines them. Compute is the number format of factors,
// products and bulk storage, Accumulate that of all arithmetic here. The file is compiled once for each
// pair; DTYPES is the suffix of its functions' names. Every sum has a fixed order, so that the number of
// threads does not change a result. Units come before rows, (units, rows): _du and _dr are their strides.

#include <memory>
#include <type_traits>
#include <utility>

#include "additive.h"
#include "numbers.h"

using Compute = COMPUTE;
using Accumulate = ACCUMULATE;

#define JOIN_EXPANDED(name, suffix) name##_##suffix
#define JOIN(name, suffix) JOIN_EXPANDED(name, suffix)
#define OPERATION(name) EXPORTED void JOIN(name, DTYPES)

#if defined(__AVX512F__)
constexpr int REGISTER = 64;  // bytes
#elif defined(__AVX__)
constexpr int REGISTER = 32;
#else
constexpr int REGISTER = 16;
#endif
constexpr int64_t TILE = 16, ROWS = 64;

template <class Number>
struct Vectors {
    static constexpr int64_t LANES = REGISTER / sizeof(Number);
    typedef Number Vector __attribute__((vector_size(REGISTER)));
    typedef std::conditional_t<sizeof(Number) == 4, int32_t, int64_t> Index;
    typedef Index Indices __attribute__((vector_size(REGISTER)));
};

// The lanes of two concatenated vectors whose bit HALF is clear, in pairs of blocks.
template <int64_t HALF, class Number, size_t... lane>
constexpr auto lanes_of_upper(std::index_sequence<lane...>) {
    using V = Vectors<Number>;
    return typename V::Indices{typename V::Index(lane & HALF ? lane - HALF + V::LANES : lane)...};
}

// Transposes a square of vectors in place. For each pair of rows and lanes that differ in bit HALF,
// the two blocks off the diagonal are swapped; then the same with half of HALF.
template <int64_t HALF, class Number>
inline void transpose_square(typename Vectors<Number>::Vector* square) {
    constexpr int64_t L = Vectors<Number>::LANES;
    constexpr auto upper = lanes_of_upper<HALF, Number>(std::make_index_sequence<L>());
    constexpr auto lower = upper + HALF;
#pragma GCC unroll 16
    for (int64_t i = 0; i < L; i++)
        if (!(i & HALF)) {
            const auto first = square[i], second = square[i + HALF];
            square[i] = __builtin_shuffle(first, second, upper);
            square[i + HALF] = __builtin_shuffle(first, second, lower);
        }
    if constexpr (HALF > 1) transpose_square<HALF / 2, Number>(square);
}

template <class Number, class Compute>
inline typename Vectors<Number>::Vector vector(const Compute* x) {
    typename Vectors<Number>::Vector result;
    for (int64_t l = 0; l < Vectors<Number>::LANES; l++) result[l] = widen(x[l]);
    return result;
}

// For each lane the index of the lane HALF further on.
template <int64_t HALF, class Number, size_t... lane>
constexpr auto shifted_lanes(std::index_sequence<lane...>) {
    return typename Vectors<Number>::Indices{typename Vectors<Number>::Index(lane + HALF)...};
}

// The sum of all lanes, by adding one half to the other until one lane is left.
template <class Number, int64_t HALF = Vectors<Number>::LANES / 2>
inline Number total(typename Vectors<Number>::Vector x) {
    constexpr auto from = shifted_lanes<HALF, Number>(std::make_index_sequence<Vectors<Number>::LANES>());
    x += __builtin_shuffle(x, from);
    if constexpr (HALF > 1)
        return total<Number, HALF / 2>(x);
    else
        return x[0];
}

// Transposes (rows, n) at x into (n, rows) at out, in squares that stay in registers.
template <class From, class To>
inline void transpose(int64_t rows, int64_t n, const From* x, int64_t x_stride, To* out,
                      int64_t out_stride) {
    using Accumulate = decltype(widen(From{}));
    constexpr int64_t L = Vectors<Accumulate>::LANES;
    const int64_t square_rows = rows / L * L, square_n = n / L * L;
    for (int64_t c = 0; c < square_n; c += L)
        for (int64_t r = 0; r < square_rows; r += L) {
            typename Vectors<Accumulate>::Vector square[L];
#pragma GCC unroll 16
            for (int64_t i = 0; i < L; i++) {
                const From* row = x + (r + i) * x_stride + c;
                __builtin_prefetch(row + L);
                square[i] = vector<Accumulate>(row);
            }
            transpose_square<L / 2, Accumulate>(square);
#pragma GCC unroll 16
            for (int64_t i = 0; i < L; i++) {
                Accumulate row[L];
                __builtin_memcpy(row, &square[i], sizeof row);
                narrow(row, out + (c + i) * out_stride + r, L);
            }
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < square_rows ? square_n : 0; c < n; c++)
            out[c * out_stride + r] = narrow_to<To>(widen(x[r * x_stride + c]));
}

// Loads a tile of (units, n) numbers, at most (TILE, ROWS), from x + unit * du + row * dr.
template <class Accumulate, class Compute>
inline void load(Accumulate* tile, const Compute* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++)
            for (int64_t b = 0; b < n; b++) tile[u * n + b] = widen(x[u * du + b]);
    else if (du == 1)
        transpose(n, units, x, dr, tile, n);
    else
        for (int64_t b = 0; b < n; b++)
            for (int64_t u = 0; u < units; u++) tile[u * n + b] = widen(x[u * du + b * dr]);
}

template <class Compute, class Accumulate>
inline void store(const Accumulate* tile, Compute* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++) narrow(tile + u * n, x + u * du, n);
    else if (du == 1)
        transpose(units, n, tile, n, x, dr);
    else
        for (int64_t b = 0; b < n; b++)
            for (int64_t u = 0; u < units; u++) x[u * du + b * dr] = narrow_to<Compute>(tile[u * n + b]);
}

// Calls body(first unit, number of units, first row, number of rows) for every tile of (units, rows).
// One thread takes all rows of a unit, in order.
template <class Body>
inline void over_tiles(int64_t units, int64_t rows, Body body) {
    const int64_t n_u = (units + TILE - 1) / TILE, n_b = (rows + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_b; j++)
            body(i * TILE, std::min(TILE, units - i * TILE), j * ROWS, std::min(ROWS, rows - j * ROWS));
}

// Calls body(offset in the tile, offset in the tensor, length) for every contiguous run of a tile in a
// contiguous tensor of (units, rows). With few rows the tile is one run, not many short ones.
template <class Body>
inline void over_runs(int64_t u0, int64_t units, int64_t b0, int64_t n, int64_t rows, Body body) {
    if (n == rows)
        body(0, u0 * rows, units * n);
    else
        for (int64_t u = 0; u < units; u++) body(u * n, (u0 + u) * rows + b0, n);
}

OPERATION(gru_gates)(int64_t H, int64_t B, const Compute* x, int64_t x_du, int64_t x_dr,
                     const Compute* context, const Compute* h, const Accumulate* bias,
                     const Accumulate* hidden, Accumulate* saved, Accumulate* next,
                     Compute* next_compute, Compute* out, int64_t out_du, int64_t out_dr) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        const int64_t HB = H * B;
        Accumulate x_r[TILE * ROWS], x_z[TILE * ROWS], x_n[TILE * ROWS], b_hn[TILE * ROWS];
        Accumulate next_tile[TILE * ROWS];
        const Compute* from = x + u0 * x_du + b0 * x_dr;
        load(x_r, from, units, n, x_du, x_dr);
        load(x_z, from + H * x_du, units, n, x_du, x_dr);
        load(x_n, from + 2 * H * x_du, units, n, x_du, x_dr);
        for (int64_t i = 0; i < units; i++) {
            const Accumulate* b_u = bias + u0 + i;
            for (int64_t e = i * n; e < (i + 1) * n; e++) {
                b_hn[e] = b_u[0];
                x_r[e] += b_u[H];
                x_z[e] += b_u[2 * H];
                x_n[e] += b_u[3 * H];
            }
        }
        over_runs(u0, units, b0, n, B, [&](int64_t first, int64_t at, int64_t length) {
            Accumulate *r_in = x_r + first, *z_in = x_z + first, *n_in = x_n + first;
            Accumulate* h_next = next_tile + first;
            const Accumulate* b_h = b_hn + first;
            if (context)
                for (int64_t e = 0; e < length; e++) {
                    r_in[e] += widen(context[at + e]);
                    z_in[e] += widen(context[at + HB + e]);
                    n_in[e] += widen(context[at + 2 * HB + e]);
                }
#pragma omp simd
            for (int64_t e = 0; e < length; e++) {
                const Accumulate h_n = widen(h[at + e]) + b_h[e];
                const Accumulate r = sigmoid(r_in[e] + widen(h[at + HB + e]));
                const Accumulate z = sigmoid(z_in[e] + widen(h[at + 2 * HB + e]));
                const Accumulate candidate = 2 * sigmoid(2 * (n_in[e] + r * h_n)) - 1;
                saved[at + e] = h_n;
                saved[at + HB + e] = r;
                saved[at + 2 * HB + e] = z;
                saved[at + 3 * HB + e] = candidate;
                next[at + e] = h_next[e] = candidate + z * (hidden[at + e] - candidate);
            }
            if (next_compute) narrow(h_next, next_compute + at, length);
        });
        store(next_tile, out + u0 * out_du + b0 * out_dr, units, n, out_du, out_dr);
    });
}

OPERATION(gru_gates_backward)(int64_t H, int64_t B, const Accumulate* grad_direct,
                              const Compute* grad_product, const Compute* grad_out,
                              int64_t grad_out_du, int64_t grad_out_dr, const Accumulate* saved,
                              const Compute* previous, int64_t previous_du, int64_t previous_dr,
                              Compute* grad_gates, Compute* grad_gates_copy, int64_t all_du,
                              Accumulate* grad_bias, Accumulate* grad_previous) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        const int64_t HB = H * B;
        Accumulate grad_next[TILE * ROWS] = {}, hidden[TILE * ROWS], grad_tiles[4][TILE * ROWS];
        if (grad_out)
            load(grad_next, grad_out + u0 * grad_out_du + b0 * grad_out_dr, units, n, grad_out_du,
                 grad_out_dr);
        load(hidden, previous + u0 * previous_du + b0 * previous_dr, units, n, previous_du, previous_dr);
        over_runs(u0, units, b0, n, B, [&](int64_t first, int64_t at, int64_t length) {
            Accumulate *g = grad_next + first, *s = hidden + first;
            if (grad_product)
                for (int64_t e = 0; e < length; e++) g[e] += widen(grad_product[at + e]);
            Accumulate *grad_h_n = grad_tiles[0] + first, *grad_r = grad_tiles[1] + first;
            Accumulate *grad_z = grad_tiles[2] + first, *grad_n = grad_tiles[3] + first;
#pragma omp simd
            for (int64_t e = 0; e < length; e++) {
                const Accumulate h_n = saved[at + e], r = saved[at + HB + e], z = saved[at + 2 * HB + e];
                const Accumulate candidate = saved[at + 3 * HB + e], grad = g[e] + grad_direct[at + e];
                const Accumulate past_gates = grad * z;
                const Accumulate before_tanh = (grad - past_gates) * (1 - candidate * candidate);
                grad_previous[at + e] = past_gates;
                grad_h_n[e] = before_tanh * r;
                grad_r[e] = before_tanh * h_n * (r * (1 - r));
                grad_z[e] = grad * (s[e] - candidate) * (z * (1 - z));
                grad_n[e] = before_tanh;
            }
            for (int64_t k = 0; k < 4; k++)
                narrow(grad_tiles[k] + first, grad_gates + at + k * HB, length);
        });
        for (int64_t k = 0; k < 4; k++)
            for (int64_t i = 0; i < units; i++) {
                const int64_t u = u0 + i + k * H;
                const Accumulate* row = grad_tiles[k] + i * n;
                narrow(row, grad_gates_copy + u * all_du + b0, n);
                Accumulate sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t b = 0; b < n; b++) sum += row[b];
                grad_bias[u] += sum;
            }
    });
}

// Copies (units, rows) at x to out, with strides for both. Call it inside a parallel region.
template <class From, class To>
inline void copy_strided(int64_t units, int64_t rows, const From* x, int64_t x_du, int64_t x_dr, To* out,
                         int64_t out_du, int64_t out_dr) {
    using Accumulate = decltype(widen(From{}));
    const int64_t n_u = (units + TILE - 1) / TILE, n_b = (rows + ROWS - 1) / ROWS;
#pragma omp for collapse(2) schedule(static)
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_b; j++) {
            Accumulate tile[TILE * ROWS];
            const int64_t u = i * TILE, b = j * ROWS;
            const int64_t k = std::min(TILE, units - u), n = std::min(ROWS, rows - b);
            load(tile, x + u * x_du + b * x_dr, k, n, x_du, x_dr);
            store(tile, out + u * out_du + b * out_dr, k, n, out_du, out_dr);
        }
}

OPERATION(attention_keys)(int64_t n_keys, int64_t K, const Compute* keys, Accumulate* exp_keys,
                          bool* large_keys) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_keys; i++)
        large_keys[i] = exp_minus_2x(keys + i * K, exp_keys + i * K, K);
}

// Adds one position's part to the gradients of v, its key and the query, up to factors of 2 and v.
template <bool large, class Compute, class Accumulate>
inline void score_backward(const Accumulate* q, const Accumulate* exp_q, const Compute* key,
                           const Accumulate* exp_key, Accumulate grad_score, Accumulate* grad_v,
                           Accumulate* grad_key, Accumulate* grad_q, int64_t K) {
#pragma omp simd
    for (int64_t k = 0; k < K; k++) {
        const Accumulate e = sigmoid_of_sum<large>(q[k], exp_q[k], key[k], exp_key[k]);
        const Accumulate of_v = grad_score * e, slope = of_v * (1 - e);
        grad_v[k] += of_v;
        grad_key[k] += slope;
        grad_q[k] += slope;
    }
}

template <class Compute, class Accumulate>
inline Accumulate dot(const Accumulate* x, const Compute* y, int64_t n) {
    using Vector = typename Vectors<Accumulate>::Vector;
    constexpr int64_t L = Vectors<Accumulate>::LANES, N = 4;  // with one sum, each step waits for the last
    Vector sums[N] = {};
    const int64_t n_vectorised = n / (N * L) * (N * L);
    for (int64_t i = 0; i < n_vectorised; i += N * L)
#pragma GCC unroll 16
        for (int64_t j = 0; j < N; j++)
            sums[j] += vector<Accumulate>(x + i + j * L) * vector<Accumulate>(y + i + j * L);
    Accumulate sum = total<Accumulate>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (int64_t i = n_vectorised; i < n; i++) sum += x[i] * widen(y[i]);
    return sum;
}

OPERATION(attention_step)(int64_t B, int64_t S, int64_t K, int64_t M, const Compute* query,
                          const Compute* keys, const Accumulate* exp_keys, const bool* large_keys,
                          const Compute* values, const bool* keep, const Accumulate* v,
                          Accumulate* saved_query, Accumulate* weights, Compute* contexts) {
#pragma omp parallel
    {
        copy_strided(K, B, query, B, 1, saved_query, 1, K);
        const std::unique_ptr<Accumulate[]> workspace(new Accumulate[M + K]);
        Accumulate *context = workspace.get(), *exp_q = context + M;
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const Accumulate* q = saved_query + b * K;
            const bool large = exp_minus_2x(q, exp_q, K);
            attend(S, K, M, q, exp_q, large, keys + b * S * K, exp_keys + b * S * K, large_keys + b * S,
                   values + b * S * M, keep + b * S, v, weights + b * S, context);
            narrow(context, contexts + b * M, M);
        }
    }
}

OPERATION(attention_step_backward)(
    int64_t B, int64_t S, int64_t K, int64_t M, const Compute* grad_read,
    const Compute* grad_context, const Accumulate* grad_weights, const Accumulate* saved_query,
    const Accumulate* weights, const Compute* keys, const Accumulate* exp_keys, const bool* large_keys,
    const Compute* values, const bool* keep, const Accumulate* v, Accumulate* grad_context_sum,
    Accumulate* grad_query_rows, Accumulate* slopes, Accumulate* grad_v, Compute* grad_query,
    Compute* grad_query_copy, int64_t all_du) {
#pragma omp parallel
    {
        copy_strided(M, B, grad_read, B, 1, grad_context_sum, 1, M);
        const std::unique_ptr<Accumulate[]> workspace(new Accumulate[S + K]);
        Accumulate *grad_w = workspace.get(), *exp_q = grad_w + S;
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const bool* row_keep = keep + b * S;
            const Accumulate *w = weights + b * S, *q = saved_query + b * K;
            const bool large = exp_minus_2x(q, exp_q, K);
            Accumulate *g = grad_context_sum + b * M, *grad_q = grad_query_rows + b * K;
            if (grad_context)
                for (int64_t m = 0; m < M; m++) g[m] += widen(grad_context[b * M + m]);
            Accumulate mean = 0;
            for (int64_t s = 0; s < S; s++)
                if (row_keep[s]) {
                    grad_w[s] = dot(g, values + (b * S + s) * M, M);
                    if (grad_weights) grad_w[s] += grad_weights[b * S + s];
                    mean += w[s] * grad_w[s];
                }
            std::fill(grad_q, grad_q + K, Accumulate(0));
            for (int64_t s = 0; s < S; s++)
                if (row_keep[s]) {
                    const int64_t i = b * S + s;
                    const bool is_large = large || large_keys[i];
                    const auto backward = is_large ? score_backward<true, Compute, Accumulate>
                                                   : score_backward<false, Compute, Accumulate>;
                    backward(q, exp_q, keys + i * K, exp_keys + i * K, w[s] * (grad_w[s] - mean),
                             grad_v + b * K, slopes + i * K, grad_q, K);
                }
            for (int64_t k = 0; k < K; k++) grad_q[k] *= 4 * v[k];
        }
        copy_strided(K, B, grad_query_rows, 1, K, grad_query, B, 1);
        copy_strided(K, B, grad_query_rows, 1, K, grad_query_copy, all_du, 1);
    }
}

// W x for N columns: the sums of R rows and N columns stay in registers, which GCC only does with
// `#pragma GCC unroll`. The next R rows are prefetched meanwhile.
template <int R, int N, class Compute, class Accumulate>
inline void rows_times_columns(int64_t K, const Compute* w, const Accumulate* x, Accumulate (*sums)[N]) {
    using Vector = typename Vectors<Accumulate>::Vector;
    constexpr int64_t L = Vectors<Accumulate>::LANES, LINE = 64 / sizeof(Compute);
    Vector sum[R][N] = {};
    const int64_t n_vectorised = K / L * L;
    for (int64_t k = 0; k < n_vectorised; k += L) {
        Vector row[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            if (r * L % LINE == 0) __builtin_prefetch(w + R * K + R * k + r * L, 0, 2);
            row[r] = vector<Accumulate>(w + r * K + k);
        }
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            const Vector column = vector<Accumulate>(x + n * K + k);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) sum[r][n] += row[r] * column;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            sums[r][n] = total<Accumulate>(sum[r][n]);
            for (int64_t k = n_vectorised; k < K; k++) sums[r][n] += widen(w[r * K + k]) * x[n * K + k];
        }
}

template <int N, class Compute, class Accumulate>
void times_columns(int64_t M, int64_t K, const Compute* w, const Accumulate* x, Compute* out) {
    constexpr int R = std::min(6, 24 / N);  // 24 sums fit the 32 registers
#pragma omp for schedule(static)
    for (int64_t i = 0; i < (M + R - 1) / R; i++) {
        Accumulate sums[R][N];
        const int64_t row = i * R;
        if (row + R <= M)
            rows_times_columns<R, N>(K, w + row * K, x, sums);
        else
            for (int64_t r = row; r < M; r++)
                rows_times_columns<1, N>(K, w + r * K, x, sums + (r - row));
        const int64_t n_rows = std::min<int64_t>(R, M - row);
        for (int64_t r = 0; r < n_rows; r++) narrow(sums[r], out + (row + r) * N, N);
    }
}

OPERATION(product)(int64_t M, int64_t K, int64_t N, const Compute* w, const Compute* x, int64_t x_dk,
                   int64_t x_dn, Compute* out) {
    const std::unique_ptr<Accumulate[]> workspace(new Accumulate[K * N + 64]);
    const uintptr_t line = reinterpret_cast<uintptr_t>(workspace.get()) + 63;
    Accumulate* columns = reinterpret_cast<Accumulate*>(line - line % 64);
#pragma omp parallel
    {
        copy_strided(K, N, x, x_dk, x_dn, columns, 1, K);
        switch (N) {
            case 1: times_columns<1>(M, K, w, columns, out); break;
            case 2: times_columns<2>(M, K, w, columns, out); break;
            case 3: times_columns<3>(M, K, w, columns, out); break;
            case 4: times_columns<4>(M, K, w, columns, out); break;
            case 5: times_columns<5>(M, K, w, columns, out); break;
            case 6: times_columns<6>(M, K, w, columns, out); break;
            case 7: times_columns<7>(M, K, w, columns, out); break;
            case 8: times_columns<8>(M, K, w, columns, out); break;
        }
    }
}

// Vocabulary rows per block: with some hundred columns a block of logits fits the cache.
constexpr int64_t BLOCK = 256;

OPERATION(softmax_loss)(int64_t V, int64_t N, Compute* logits, const Accumulate* bias,
                        const int64_t* targets, int64_t n_real, double label_smoothing,
                        int64_t wants_grad, Accumulate* nlls, Accumulate* mean_nlls,
                        Accumulate* grad_bias) {
    const Accumulate smoothing = label_smoothing;
    const int64_t n_blocks = (V + BLOCK - 1) / BLOCK;
    const std::unique_ptr<Accumulate[]> workspace(new Accumulate[3 * n_blocks * N + N]);
    Accumulate *block_max = workspace.get(), *block_exp_sum = block_max + n_blocks * N;
    Accumulate *block_sum = block_exp_sum + n_blocks * N, *log_z = block_sum + n_blocks * N;
    const Accumulate minus_infinity = -std::numeric_limits<Accumulate>::infinity();
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < n_blocks; p++) {
            Accumulate *m = block_max + p * N, *t = block_exp_sum + p * N, *s = block_sum + p * N;
            std::fill(m, m + N, minus_infinity);
            std::fill(t, t + N, Accumulate(0));
            std::fill(s, s + N, Accumulate(0));
            const int64_t first = p * BLOCK, last = std::min(V, first + BLOCK);
            for (int64_t v = first; v < last; v++) {
                const Compute* l = logits + v * N;
                const Accumulate b = bias[v];
#pragma omp simd
                for (int64_t i = 0; i < N; i++) {
                    const Accumulate logit = widen(l[i]) + b;
                    m[i] = logit > m[i] ? logit : m[i];
                }
                if (smoothing > 0 && v < n_real)
#pragma omp simd
                    for (int64_t i = 0; i < N; i++) s[i] += widen(l[i]) + b;
            }
            for (int64_t v = first; v < last; v++) {
                const Compute* l = logits + v * N;
                const Accumulate b = bias[v];
#pragma omp simd
                for (int64_t i = 0; i < N; i++) t[i] += exponential(widen(l[i]) + b - m[i]);
            }
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < N; i++) {
            Accumulate largest = minus_infinity, exp_sum = 0, sum = 0;
            for (int64_t p = 0; p < n_blocks; p++) largest = std::max(largest, block_max[p * N + i]);
            for (int64_t p = 0; p < n_blocks; p++) {
                exp_sum += block_exp_sum[p * N + i] * exponential(block_max[p * N + i] - largest);
                sum += block_sum[p * N + i];
            }
            log_z[i] = largest + std::log(exp_sum);
            nlls[i] = log_z[i] - (widen(logits[targets[i] * N + i]) + bias[targets[i]]);
            mean_nlls[i] = smoothing > 0 ? log_z[i] - sum / n_real : Accumulate(0);
        }
        if (wants_grad) {
            const std::unique_ptr<Accumulate[]> grad_row(new Accumulate[N]);
            Accumulate* g = grad_row.get();
#pragma omp for schedule(static)
            for (int64_t v = 0; v < V; v++) {
                Compute* l = logits + v * N;
                const Accumulate b = bias[v], uniform = v < n_real ? smoothing / n_real : Accumulate(0);
                Accumulate sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t i = 0; i < N; i++) {
                    g[i] = exponential(widen(l[i]) + b - log_z[i]) - uniform;
                    sum += g[i];
                }
                narrow(g, l, N);
                grad_bias[v] += sum;
            }
#pragma omp single
            for (int64_t i = 0; i < N; i++) {
                const int64_t v = targets[i];
                const Accumulate uniform = v < n_real ? smoothing / n_real : Accumulate(0);
                logits[v * N + i] = narrow_to<Compute>(exponential(-nlls[i]) - uniform - (1 - smoothing));
                grad_bias[v] -= 1 - smoothing;
            }
        }
    }
}

OPERATION(transpose)(int64_t rows, int64_t columns, const Compute* x, Compute* out) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i += ROWS)
        transpose(std::min(ROWS, rows - i), columns, x + i * columns, columns, out + i, rows);
}
