// What lies between the matrix products of a training step on a CPU, each in one pass over memory.
//
// native/sequence.py calls these; steps.py and native/sequence.py say what each computes, torch_steps.py and
// linear_cross_entropy.py compute the same by torch's operations. Low is the dtype of products and
// of what is kept in bulk, Work that of all arithmetic here; the compiler is told both. Every sum
// has one order, whatever the number of threads.

#include <memory>
#include <type_traits>
#include <utility>

#include "additive.h"
#include "numbers.h"

using Low = LOW;
using Work = WORK;

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

// Which lanes of two vectors, one after the other, have bit HALF clear, in pairs of blocks.
template <int64_t HALF, class Number, size_t... lane>
constexpr auto picked(std::index_sequence<lane...>) {
    using Of = Vectors<Number>;
    return typename Of::Indices{typename Of::Index(lane & HALF ? lane - HALF + Of::LANES : lane)...};
}

// A square of vectors, transposed: of each pair of rows and of lanes that differ in bit HALF the
// two that are off the diagonal change places, for the greatest HALF first.
template <int64_t HALF, class Number>
inline void transpose_square(typename Vectors<Number>::Vector* square) {
    constexpr int64_t L = Vectors<Number>::LANES;
    constexpr auto upper = picked<HALF, Number>(std::make_index_sequence<L>());
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

template <class Number, class Low>
inline typename Vectors<Number>::Vector vector(const Low* x) {
    typename Vectors<Number>::Vector made;
    for (int64_t l = 0; l < Vectors<Number>::LANES; l++) made[l] = widened(x[l]);
    return made;
}

// Each lane's neighbour at a distance of HALF.
template <int64_t HALF, class Number, size_t... lane>
constexpr auto moved(std::index_sequence<lane...>) {
    return typename Vectors<Number>::Indices{typename Vectors<Number>::Index(lane + HALF)...};
}

// The sum of all lanes, of halves in turn.
template <class Number, int64_t HALF = Vectors<Number>::LANES / 2>
inline Number total(typename Vectors<Number>::Vector x) {
    constexpr auto from = moved<HALF, Number>(std::make_index_sequence<Vectors<Number>::LANES>());
    x += __builtin_shuffle(x, from);
    if constexpr (HALF > 1)
        return total<Number, HALF / 2>(x);
    else
        return x[0];
}

// `n` numbers of each of `rows` rows at x as n rows at out, by squares that stay in registers.
template <class From, class To>
inline void transpose(int64_t rows, int64_t n, const From* x, int64_t x_stride, To* out,
                      int64_t out_stride) {
    using Work = decltype(widened(From{}));
    constexpr int64_t L = Vectors<Work>::LANES;
    const int64_t whole_rows = rows / L * L, whole = n / L * L;
    for (int64_t c = 0; c < whole; c += L)
        for (int64_t r = 0; r < whole_rows; r += L) {
            typename Vectors<Work>::Vector square[L];
#pragma GCC unroll 16
            for (int64_t i = 0; i < L; i++) {
                const From* row = x + (r + i) * x_stride + c;
                __builtin_prefetch(row + L);
                square[i] = vector<Work>(row);
            }
            transpose_square<L / 2, Work>(square);
#pragma GCC unroll 16
            for (int64_t i = 0; i < L; i++) {
                Work row[L];
                __builtin_memcpy(row, &square[i], sizeof row);
                narrow(row, out + (c + i) * out_stride + r, L);
            }
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole : 0; c < n; c++)
            out[c * out_stride + r] = narrowed<To>(widened(x[r * x_stride + c]));
}

// A piece of (units, n) numbers, at most TILE and ROWS, in one piece, from x + unit * du + row * dr.
template <class Work, class Low>
inline void load(Work* tile, const Low* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++)
            for (int64_t b = 0; b < n; b++) tile[u * n + b] = widened(x[u * du + b]);
    else if (du == 1)
        transpose(n, units, x, dr, tile, n);
    else
        for (int64_t b = 0; b < n; b++)
            for (int64_t u = 0; u < units; u++) tile[u * n + b] = widened(x[u * du + b * dr]);
}

template <class Low, class Work>
inline void store(const Work* tile, Low* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++) narrow(tile + u * n, x + u * du, n);
    else if (du == 1)
        transpose(units, n, tile, n, x, dr);
    else
        for (int64_t b = 0; b < n; b++)
            for (int64_t u = 0; u < units; u++) x[u * du + b * dr] = narrowed<Low>(tile[u * n + b]);
}

// Pieces of (units, rows) whose units lie together: `body` gets the first unit and how many, the
// first row and how many. All rows of a unit are one thread's, in order.
template <class Body>
inline void over_tiles(int64_t units, int64_t rows, Body body) {
    const int64_t n_u = (units + TILE - 1) / TILE, n_b = (rows + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_b; j++)
            body(i * TILE, std::min(TILE, units - i * TILE), j * ROWS, std::min(ROWS, rows - j * ROWS));
}

// What of a piece lies in one piece in a tensor of `rows` rows: `body` gets where that begins, in
// the piece and in the tensor, and its length. With few rows it is all of it, not four numbers.
template <class Body>
inline void over_runs(int64_t u0, int64_t units, int64_t b0, int64_t n, int64_t rows, Body body) {
    if (n == rows)
        body(0, u0 * rows, units * n);
    else
        for (int64_t u = 0; u < units; u++) body(u * n, (u0 + u) * rows + b0, n);
}

EXPORTED void gru_gates(int64_t H, int64_t B, const Low* x, int64_t x_du, int64_t x_dr, const Low* read,
                        const Low* h, const Work* bias, const Work* state, Work* made, Work* next,
                        Low* next_low, Low* out, int64_t out_du, int64_t out_dr) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        const int64_t HB = H * B;
        Work x_r[TILE * ROWS], x_z[TILE * ROWS], x_n[TILE * ROWS], b_hn[TILE * ROWS];
        Work following[TILE * ROWS];
        const Low* from = x + u0 * x_du + b0 * x_dr;
        load(x_r, from, units, n, x_du, x_dr);
        load(x_z, from + H * x_du, units, n, x_du, x_dr);
        load(x_n, from + 2 * H * x_du, units, n, x_du, x_dr);
        for (int64_t i = 0; i < units; i++) {
            const Work* b_u = bias + u0 + i;
            for (int64_t e = i * n; e < (i + 1) * n; e++) {
                b_hn[e] = b_u[0];
                x_r[e] += b_u[H];
                x_z[e] += b_u[2 * H];
                x_n[e] += b_u[3 * H];
            }
        }
        over_runs(u0, units, b0, n, B, [&](int64_t first, int64_t at, int64_t length) {
            Work *r_in = x_r + first, *z_in = x_z + first, *n_in = x_n + first, *then = following + first;
            const Work* b_h = b_hn + first;
            if (read)
                for (int64_t e = 0; e < length; e++) {
                    r_in[e] += widened(read[at + e]);
                    z_in[e] += widened(read[at + HB + e]);
                    n_in[e] += widened(read[at + 2 * HB + e]);
                }
#pragma omp simd
            for (int64_t e = 0; e < length; e++) {
                const Work h_n = widened(h[at + e]) + b_h[e];
                const Work r = sigmoid(r_in[e] + widened(h[at + HB + e]));
                const Work z = sigmoid(z_in[e] + widened(h[at + 2 * HB + e]));
                const Work candidate = 2 * sigmoid(2 * (n_in[e] + r * h_n)) - 1;
                made[at + e] = h_n;
                made[at + HB + e] = r;
                made[at + 2 * HB + e] = z;
                made[at + 3 * HB + e] = candidate;
                next[at + e] = then[e] = candidate + z * (state[at + e] - candidate);
            }
            if (next_low) narrow(then, next_low + at, length);
        });
        store(following, out + u0 * out_du + b0 * out_dr, units, n, out_du, out_dr);
    });
}

EXPORTED void gru_gates_backward(int64_t H, int64_t B, const Work* grad, const Low* through,
                                 const Low* more, int64_t more_du, int64_t more_dr, const Work* made,
                                 const Low* before, int64_t before_du, int64_t before_dr, Low* shares,
                                 Low* all, int64_t all_du, Work* of_bias, Work* kept) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        const int64_t HB = H * B;
        Work of_next[TILE * ROWS] = {}, state[TILE * ROWS], of[4][TILE * ROWS];
        if (more) load(of_next, more + u0 * more_du + b0 * more_dr, units, n, more_du, more_dr);
        load(state, before + u0 * before_du + b0 * before_dr, units, n, before_du, before_dr);
        over_runs(u0, units, b0, n, B, [&](int64_t first, int64_t at, int64_t length) {
            Work *g = of_next + first, *s = state + first;
            if (through)
                for (int64_t e = 0; e < length; e++) g[e] += widened(through[at + e]);
            Work *of_h_n = of[0] + first, *of_r = of[1] + first, *of_z = of[2] + first, *of_n = of[3] + first;
#pragma omp simd
            for (int64_t e = 0; e < length; e++) {
                const Work h_n = made[at + e], r = made[at + HB + e], z = made[at + 2 * HB + e];
                const Work candidate = made[at + 3 * HB + e], all_of_it = g[e] + grad[at + e];
                const Work stays = all_of_it * z;
                const Work own = (all_of_it - stays) * (1 - candidate * candidate);
                kept[at + e] = stays;
                of_h_n[e] = own * r;
                of_r[e] = own * h_n * (r * (1 - r));
                of_z[e] = all_of_it * (s[e] - candidate) * (z * (1 - z));
                of_n[e] = own;
            }
            for (int64_t k = 0; k < 4; k++) narrow(of[k] + first, shares + at + k * HB, length);
        });
        for (int64_t k = 0; k < 4; k++)
            for (int64_t i = 0; i < units; i++) {
                const int64_t u = u0 + i + k * H;
                const Work* own = of[k] + i * n;
                narrow(own, all + u * all_du + b0, n);
                Work sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t b = 0; b < n; b++) sum += own[b];
                of_bias[u] += sum;
            }
    });
}

// Inside a parallel region: (units, rows) at x as (rows, units) at out; other strides may be given.
template <class From, class To>
inline void turn(int64_t units, int64_t rows, const From* x, int64_t x_du, int64_t x_dr, To* out,
                 int64_t out_du, int64_t out_dr) {
    using Work = decltype(widened(From{}));
    const int64_t n_u = (units + TILE - 1) / TILE, n_b = (rows + ROWS - 1) / ROWS;
#pragma omp for collapse(2) schedule(static)
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_b; j++) {
            Work tile[TILE * ROWS];
            const int64_t u = i * TILE, b = j * ROWS;
            const int64_t k = std::min(TILE, units - u), n = std::min(ROWS, rows - b);
            load(tile, x + u * x_du + b * x_dr, k, n, x_du, x_dr);
            store(tile, out + u * out_du + b * out_dr, k, n, out_du, out_dr);
        }
}

EXPORTED void look_keys(int64_t n_keys, int64_t K, const Low* keys, Work* decay, bool* far) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_keys; i++) far[i] = decays(keys + i * K, decay + i * K, K);
}

template <bool far, class Low, class Work>
inline void add_slopes(const Work* q, const Work* q_decay, const Low* key, const Work* key_decay,
                       Work of_energy, Work* of_v, Work* of_key, Work* of_q, int64_t K) {
#pragma omp simd
    for (int64_t k = 0; k < K; k++) {
        const Work e = rise<far>(q[k], q_decay[k], key[k], key_decay[k]);
        const Work rising = of_energy * e, slope = rising * (1 - e);
        of_v[k] += rising;
        of_key[k] += slope;
        of_q[k] += slope;
    }
}

template <class Low, class Work>
inline Work dot(const Work* x, const Low* y, int64_t n) {
    using Vector = typename Vectors<Work>::Vector;
    constexpr int64_t L = Vectors<Work>::LANES, N = 4;  // a single sum would wait for itself
    Vector sums[N] = {};
    const int64_t whole = n / (N * L) * (N * L);
    for (int64_t i = 0; i < whole; i += N * L)
#pragma GCC unroll 16
        for (int64_t j = 0; j < N; j++)
            sums[j] += vector<Work>(x + i + j * L) * vector<Work>(y + i + j * L);
    Work sum = total<Work>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (int64_t i = whole; i < n; i++) sum += x[i] * widened(y[i]);
    return sum;
}

EXPORTED void look(int64_t B, int64_t S, int64_t K, int64_t M, const Low* query, const Low* keys,
                   const Work* key_decays, const bool* far_keys, const Low* values, const bool* keep,
                   const Work* v, Work* asked, Work* weights, Low* contexts) {
#pragma omp parallel
    {
        turn(K, B, query, B, 1, asked, 1, K);
        const std::unique_ptr<Work[]> buffers(new Work[M + K]);
        Work *context = buffers.get(), *decay = context + M;
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const Work* q = asked + b * K;
            const bool far = decays(q, decay, K);
            look_row(S, K, M, q, decay, far, keys + b * S * K, key_decays + b * S * K, far_keys + b * S,
                     values + b * S * M, keep + b * S, v, weights + b * S, context);
            narrow(context, contexts + b * M, M);
        }
    }
}

EXPORTED void look_backward(int64_t B, int64_t S, int64_t K, int64_t M, const Low* of_context,
                            const Low* more, const Work* more_weights, const Work* asked,
                            const Work* weights, const Low* keys, const Work* key_decays,
                            const bool* far_keys, const Low* values, const bool* keep, const Work* v,
                            Work* of_contexts, Work* of_asked, Work* sum_slopes, Work* sum_v,
                            Low* of_query, Low* all, int64_t all_du) {
#pragma omp parallel
    {
        turn(M, B, of_context, B, 1, of_contexts, 1, M);
        const std::unique_ptr<Work[]> buffers(new Work[S + K]);
        Work *of_w = buffers.get(), *decay = of_w + S;
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const bool* is_kept = keep + b * S;
            const Work *w = weights + b * S, *q = asked + b * K;
            const bool far = decays(q, decay, K);
            Work *g = of_contexts + b * M, *of_q = of_asked + b * K, *of_v = sum_v + b * K;
            if (more)
                for (int64_t m = 0; m < M; m++) g[m] += widened(more[b * M + m]);
            Work mean = 0;
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    of_w[s] = dot(g, values + (b * S + s) * M, M);
                    if (more_weights) of_w[s] += more_weights[b * S + s];
                    mean += w[s] * of_w[s];
                }
            std::fill(of_q, of_q + K, Work(0));
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    const int64_t i = b * S + s;
                    const bool is_far = far || far_keys[i];
                    const auto add = is_far ? add_slopes<true, Low, Work> : add_slopes<false, Low, Work>;
                    add(q, decay, keys + i * K, key_decays + i * K, w[s] * (of_w[s] - mean), of_v,
                        sum_slopes + i * K, of_q, K);
                }
            for (int64_t k = 0; k < K; k++) of_q[k] *= 4 * v[k];
        }
        turn(K, B, of_asked, 1, K, of_query, B, 1);
        turn(K, B, of_asked, 1, K, all, all_du, 1);
    }
}

// W x of few columns: the sums of R rows and N columns stay in registers, which GCC does only if it
// is told to unroll. The next R rows come into the cache meanwhile, as one piece.
template <int R, int N, class Low, class Work>
inline void few(int64_t K, const Low* w, const Work* x, Work (*sums)[N]) {
    using Vector = typename Vectors<Work>::Vector;
    constexpr int64_t L = Vectors<Work>::LANES, LINE = 64 / sizeof(Low);
    Vector sum[R][N] = {};
    const int64_t whole = K / L * L;
    for (int64_t k = 0; k < whole; k += L) {
        Vector row[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            if (r * L % LINE == 0) __builtin_prefetch(w + R * K + R * k + r * L, 0, 2);
            row[r] = vector<Work>(w + r * K + k);
        }
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            const Vector column = vector<Work>(x + n * K + k);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) sum[r][n] += row[r] * column;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 16
        for (int n = 0; n < N; n++) {
            sums[r][n] = total<Work>(sum[r][n]);
            for (int64_t k = whole; k < K; k++) sums[r][n] += widened(w[r * K + k]) * x[n * K + k];
        }
}

template <int N, class Low, class Work>
void few_columns(int64_t M, int64_t K, const Low* w, const Work* x, Low* out) {
    constexpr int R = std::min(6, 24 / N);  // of 32 registers
#pragma omp for schedule(static)
    for (int64_t i = 0; i < (M + R - 1) / R; i++) {
        Work sums[R][N];
        const int64_t row = i * R;
        if (row + R <= M)
            few<R, N>(K, w + row * K, x, sums);
        else
            for (int64_t r = row; r < M; r++)
                few<1, N>(K, w + r * K, x, sums + (r - row));
        const int64_t n_rows = std::min<int64_t>(R, M - row);
        for (int64_t r = 0; r < n_rows; r++) narrow(sums[r], out + (row + r) * N, N);
    }
}

EXPORTED void product(int64_t M, int64_t K, int64_t N, const Low* w, const Low* x, int64_t x_dk,
                      int64_t x_dn, Low* out) {
    const std::unique_ptr<Work[]> wide(new Work[K * N + 64]);
    const uintptr_t line = reinterpret_cast<uintptr_t>(wide.get()) + 63;
    Work* columns = reinterpret_cast<Work*>(line - line % 64);
#pragma omp parallel
    {
        turn(K, N, x, x_dk, x_dn, columns, 1, K);
        switch (N) {
            case 1: few_columns<1>(M, K, w, columns, out); break;
            case 2: few_columns<2>(M, K, w, columns, out); break;
            case 3: few_columns<3>(M, K, w, columns, out); break;
            case 4: few_columns<4>(M, K, w, columns, out); break;
            case 5: few_columns<5>(M, K, w, columns, out); break;
            case 6: few_columns<6>(M, K, w, columns, out); break;
            case 7: few_columns<7>(M, K, w, columns, out); break;
            case 8: few_columns<8>(M, K, w, columns, out); break;
        }
    }
}

// Vocabulary rows that are gone through at a time: with some hundred columns they fit the cache.
constexpr int64_t PART = 256;

EXPORTED void softmax_loss(int64_t V, int64_t N, Low* logits, const Work* bias, const int64_t* targets,
                           int64_t n_real, double given_smoothing, int64_t wanted, Work* nlls,
                           Work* mean_nlls, Work* of_bias) {
    const Work smoothing = given_smoothing;
    const int64_t n_parts = (V + PART - 1) / PART;
    const std::unique_ptr<Work[]> kept(new Work[3 * n_parts * N + N]);
    Work *most = kept.get(), *total = most + n_parts * N, *sum = total + n_parts * N;
    Work* log_z = sum + n_parts * N;
    const Work nothing = -std::numeric_limits<Work>::infinity();
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < n_parts; p++) {
            Work *m = most + p * N, *t = total + p * N, *s = sum + p * N;
            std::fill(m, m + N, nothing);
            std::fill(t, t + N, Work(0));
            std::fill(s, s + N, Work(0));
            const int64_t first = p * PART, last = std::min(V, first + PART);
            for (int64_t v = first; v < last; v++) {
                const Low* l = logits + v * N;
                const Work b = bias[v];
#pragma omp simd
                for (int64_t i = 0; i < N; i++) {
                    const Work logit = widened(l[i]) + b;
                    m[i] = logit > m[i] ? logit : m[i];
                }
                if (smoothing > 0 && v < n_real)
#pragma omp simd
                    for (int64_t i = 0; i < N; i++) s[i] += widened(l[i]) + b;
            }
            for (int64_t v = first; v < last; v++) {
                const Low* l = logits + v * N;
                const Work b = bias[v];
#pragma omp simd
                for (int64_t i = 0; i < N; i++) t[i] += exponential(widened(l[i]) + b - m[i]);
            }
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < N; i++) {
            Work greatest = nothing, whole = 0, all = 0;
            for (int64_t p = 0; p < n_parts; p++) greatest = std::max(greatest, most[p * N + i]);
            for (int64_t p = 0; p < n_parts; p++) {
                whole += total[p * N + i] * exponential(most[p * N + i] - greatest);
                all += sum[p * N + i];
            }
            log_z[i] = greatest + std::log(whole);
            nlls[i] = log_z[i] - (widened(logits[targets[i] * N + i]) + bias[targets[i]]);
            mean_nlls[i] = smoothing > 0 ? log_z[i] - all / n_real : Work(0);
        }
        if (wanted) {
            const std::unique_ptr<Work[]> row(new Work[N]);
            Work* g = row.get();
#pragma omp for schedule(static)
            for (int64_t v = 0; v < V; v++) {
                Low* l = logits + v * N;
                const Work b = bias[v], even = v < n_real ? smoothing / n_real : Work(0);
                Work of_b = 0;
#pragma omp simd reduction(+ : of_b)
                for (int64_t i = 0; i < N; i++) {
                    g[i] = exponential(widened(l[i]) + b - log_z[i]) - even;
                    of_b += g[i];
                }
                narrow(g, l, N);
                of_bias[v] += of_b;
            }
#pragma omp single
            for (int64_t i = 0; i < N; i++) {
                const int64_t v = targets[i];
                const Work even = v < n_real ? smoothing / n_real : Work(0);
                logits[v * N + i] = narrowed<Low>(exponential(-nlls[i]) - even - (1 - smoothing));
                of_bias[v] -= 1 - smoothing;
            }
        }
    }
}

EXPORTED void turned(int64_t rows, int64_t columns, const Low* x, Low* out) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i += ROWS)
        transpose(std::min(ROWS, rows - i), columns, x + i * columns, columns, out + i, rows);
}
