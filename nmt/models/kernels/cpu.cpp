// What lies between the matrix products of a training step on a CPU, each in one pass over memory.
//
// kernels/cpu.py compiles this file and says what each function computes; gates.py, additive.py and
// linear_cross_entropy.py compute the same by torch's operations. Low is the dtype of products and
// of what is kept in bulk, Work that of all arithmetic here. Every sum has one order, whatever the
// number of threads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

namespace {

struct bf16 {
    uint16_t bits;
};

inline float widened(float x) { return x; }
inline double widened(double x) { return x; }
inline float widened(bf16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }

inline void narrow(const float* __restrict from, float* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const double* __restrict from, double* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const float* __restrict from, bf16* __restrict to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {  // to the nearest, ties to even
        const uint32_t u = __builtin_bit_cast(uint32_t, from[i]);
        const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        to[i].bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
    }
}
template <class Low, class Work>
inline Low narrowed(Work x) {
    Low low;
    narrow(&x, &low, 1);
    return low;
}

// exp(x) to about 1e-7 of it: 2^n times a polynomial of degree 6 (Taylor's, on |r| <= ln 2 / 2), in
// operations that the compiler makes vectors of. Below -87 it is 0, exactly: padding depends on it.
inline float exponential(float given) {
    float x = given < -87.f ? -87.f : given;
    x = x > 88.f ? 88.f : x;
    const float shift = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
    const float shifted = x * 1.44269504f + shift;
    const float n = shifted - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
    float p = 1.f / 720;
    p = p * r + 1.f / 120;
    p = p * r + 1.f / 24;
    p = p * r + 1.f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.f;
    p = p * r + 1.f;
    const uint32_t power = (__builtin_bit_cast(uint32_t, shifted) + 127) << 23;
    return given < -87.f ? 0.f : p * __builtin_bit_cast(float, power);
}
inline double exponential(double x) { return std::exp(x); }

template <class Work>
inline Work sigmoid(Work x) {
    return 1 / (1 + exponential(-x));
}

constexpr int64_t TILE = 16, ROWS = 64;

// A (TILE, n) piece, n <= ROWS, of what lies at x + unit * du + row * dr.
template <class Work, class Low>
inline void load(Work (*tile)[ROWS], const Low* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++)
            for (int64_t b = 0; b < n; b++) tile[u][b] = widened(x[u * du + b]);
    else
        for (int64_t b = 0; b < n; b++)
            for (int64_t u = 0; u < units; u++) tile[u][b] = widened(x[u * du + b * dr]);
}

template <class Low, class Work>
inline void store(const Work (*tile)[ROWS], Low* x, int64_t units, int64_t n, int64_t du, int64_t dr) {
    if (dr == 1)
        for (int64_t u = 0; u < units; u++) narrow(tile[u], x + u * du, n);
    else
        for (int64_t b = 0; b < n; b++) {
            Work row[TILE];
            for (int64_t u = 0; u < units; u++) row[u] = tile[u][b];
            if (du == 1)
                narrow(row, x + b * dr, units);
            else
                for (int64_t u = 0; u < units; u++) x[u * du + b * dr] = narrowed<Low>(row[u]);
        }
}

// All rows of a unit by one thread, in order.
template <class Body>
inline void over_tiles(int64_t units, int64_t rows, Body body) {
    const int64_t n_u = (units + TILE - 1) / TILE, n_b = (rows + ROWS - 1) / ROWS;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n_u; i++)
        for (int64_t j = 0; j < n_b; j++)
            body(i * TILE, std::min(TILE, units - i * TILE), j * ROWS, std::min(ROWS, rows - j * ROWS));
}

template <class Low, class Work>
void gru_gates(int64_t H, int64_t B, const Low* x, int64_t x_du, int64_t x_dr, const Low* read,
               const Low* h, const Work* bias, const Work* state, Work* made, Work* next,
               Low* next_low, Low* out, int64_t out_du, int64_t out_dr) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        Work x_r[TILE][ROWS], x_z[TILE][ROWS], x_n[TILE][ROWS], following[TILE][ROWS];
        const Low* from = x + u0 * x_du + b0 * x_dr;
        load(x_r, from, units, n, x_du, x_dr);
        load(x_z, from + H * x_du, units, n, x_du, x_dr);
        load(x_n, from + 2 * H * x_du, units, n, x_du, x_dr);
        for (int64_t i = 0; i < units; i++) {
            const int64_t u = u0 + i, at = u * B + b0, HB = H * B;
            if (read)
                for (int64_t b = 0; b < n; b++) {
                    x_r[i][b] += widened(read[at + b]);
                    x_z[i][b] += widened(read[at + HB + b]);
                    x_n[i][b] += widened(read[at + 2 * HB + b]);
                }
            const Work b_hn = bias[u], b_r = bias[H + u], b_z = bias[2 * H + u], b_n = bias[3 * H + u];
#pragma omp simd
            for (int64_t b = 0; b < n; b++) {
                const Work h_n = widened(h[at + b]) + b_hn;
                const Work r = sigmoid(x_r[i][b] + widened(h[at + HB + b]) + b_r);
                const Work z = sigmoid(x_z[i][b] + widened(h[at + 2 * HB + b]) + b_z);
                const Work candidate = 2 * sigmoid(2 * (x_n[i][b] + b_n + r * h_n)) - 1;
                const Work then = candidate + z * (state[at + b] - candidate);
                made[at + b] = h_n;
                made[at + HB + b] = r;
                made[at + 2 * HB + b] = z;
                made[at + 3 * HB + b] = candidate;
                next[at + b] = then;
                following[i][b] = then;
            }
            if (next_low) narrow(following[i], next_low + at, n);
        }
        store(following, out + u0 * out_du + b0 * out_dr, units, n, out_du, out_dr);
    });
}

template <class Low, class Work>
void gru_gates_backward(int64_t H, int64_t B, const Work* grad, const Low* through, const Low* more,
                        int64_t more_du, int64_t more_dr, const Work* made, const Low* before,
                        int64_t before_du, int64_t before_dr, Low* shares, Low* all, int64_t all_du,
                        Work* of_bias, Work* kept) {
    over_tiles(H, B, [=](int64_t u0, int64_t units, int64_t b0, int64_t n) {
        Work of_next[TILE][ROWS], state[TILE][ROWS];
        if (more) load(of_next, more + u0 * more_du + b0 * more_dr, units, n, more_du, more_dr);
        load(state, before + u0 * before_du + b0 * before_dr, units, n, before_du, before_dr);
        for (int64_t i = 0; i < units; i++) {
            const int64_t u = u0 + i, at = u * B + b0, HB = H * B;
            Work* g = of_next[i];
            for (int64_t b = 0; b < n; b++) g[b] = (more ? g[b] : Work(0)) + grad[at + b];
            if (through)
                for (int64_t b = 0; b < n; b++) g[b] += widened(through[at + b]);
            Work of[4][ROWS];
#pragma omp simd
            for (int64_t b = 0; b < n; b++) {
                const Work h_n = made[at + b], r = made[at + HB + b], z = made[at + 2 * HB + b];
                const Work candidate = made[at + 3 * HB + b], stays = g[b] * z;
                const Work of_n = (g[b] - stays) * (1 - candidate * candidate);
                kept[at + b] = stays;
                of[0][b] = of_n * r;
                of[1][b] = of_n * h_n * (r * (1 - r));
                of[2][b] = g[b] * (state[i][b] - candidate) * (z * (1 - z));
                of[3][b] = of_n;
            }
            for (int64_t k = 0; k < 4; k++) {
                narrow(of[k], shares + at + k * HB, n);
                narrow(of[k], all + (u + k * H) * all_du + b0, n);
                Work sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t b = 0; b < n; b++) sum += of[k][b];
                of_bias[u + k * H] += sum;
            }
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
    for (int64_t j = 0; j < n_b; j++)
        for (int64_t i = 0; i < n_u; i++) {
            Work tile[TILE][ROWS];
            const int64_t u = i * TILE, b = j * ROWS;
            const int64_t k = std::min(TILE, units - u), n = std::min(ROWS, rows - b);
            load(tile, x + u * x_du + b * x_dr, k, n, x_du, x_dr);
            store(tile, out + u * out_du + b * out_dr, k, n, out_du, out_dr);
        }
}

template <class Low, class Work>
inline Work energies(const Low* key, const Work* query, const Work* v, int64_t K) {
    Work sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < K; k++) sum += v[k] * sigmoid(2 * (query[k] + widened(key[k])));
    return 2 * sum;
}

template <class Low, class Work>
void look(int64_t B, int64_t S, int64_t K, int64_t M, const Low* query, const Low* keys,
          const Low* values, const bool* keep, const Work* v, Work* asked, Work* weights, Low* contexts) {
#pragma omp parallel
    {
        turn(K, B, query, B, 1, asked, 1, K);
        const std::unique_ptr<Work[]> sum(new Work[M]);
        Work* context = sum.get();
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const bool* is_kept = keep + b * S;
            Work* w = weights + b * S;
            Work most = -std::numeric_limits<Work>::infinity(), total = 0;
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    w[s] = energies(keys + (b * S + s) * K, asked + b * K, v, K);
                    most = std::max(most, w[s]);
                }
            for (int64_t s = 0; s < S; s++) {
                w[s] = is_kept[s] ? exponential(w[s] - most) : Work(0);
                total += w[s];
            }
            std::fill(context, context + M, Work(0));
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    const Work own = w[s] /= total;
                    const Low* value = values + (b * S + s) * M;
#pragma omp simd
                    for (int64_t m = 0; m < M; m++) context[m] += own * widened(value[m]);
                }
            narrow(context, contexts + b * M, M);
        }
    }
}

template <class Low, class Work>
void look_backward(int64_t B, int64_t S, int64_t K, int64_t M, const Low* of_context,
                   const Low* more, const Work* more_weights, const Work* asked, const Work* weights,
                   const Low* keys, const Low* values, const bool* keep, const Work* v, Work* of_contexts,
                   Work* of_asked, Work* sum_slopes, Work* sum_v, Low* of_query, Low* all,
                   int64_t all_du) {
#pragma omp parallel
    {
        turn(M, B, of_context, B, 1, of_contexts, 1, M);
        const std::unique_ptr<Work[]> of_scores(new Work[S]);
        Work* of_w = of_scores.get();
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; b++) {
            const bool* is_kept = keep + b * S;
            const Work *w = weights + b * S, *query = asked + b * K;
            Work *g = of_contexts + b * M, *of_q = of_asked + b * K, *of_v = sum_v + b * K;
            if (more)
                for (int64_t m = 0; m < M; m++) g[m] += widened(more[b * M + m]);
            Work mean = 0;
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    const Low* value = values + (b * S + s) * M;
                    Work sum = 0;
#pragma omp simd reduction(+ : sum)
                    for (int64_t m = 0; m < M; m++) sum += g[m] * widened(value[m]);
                    of_w[s] = sum + (more_weights ? more_weights[b * S + s] : Work(0));
                    mean += w[s] * of_w[s];
                }
            std::fill(of_q, of_q + K, Work(0));
            for (int64_t s = 0; s < S; s++)
                if (is_kept[s]) {
                    const Work of_score = w[s] * (of_w[s] - mean);
                    const Low* key = keys + (b * S + s) * K;
                    Work* slopes = sum_slopes + (b * S + s) * K;
#pragma omp simd
                    for (int64_t k = 0; k < K; k++) {
                        const Work e = sigmoid(2 * (query[k] + widened(key[k])));
                        const Work rising = of_score * e, slope = rising * (1 - e);
                        of_v[k] += rising;
                        slopes[k] += slope;
                        of_q[k] += slope;
                    }
                }
            for (int64_t k = 0; k < K; k++) of_q[k] *= 4 * v[k];
        }
        turn(K, B, of_asked, 1, K, of_query, B, 1);
        turn(K, B, of_asked, 1, K, all, all_du, 1);
    }
}

// Vocabulary rows that are gone through at a time: with some hundred columns they fit the cache.
constexpr int64_t PART = 256;

template <class Low, class Work>
void softmax_loss(int64_t V, int64_t N, Low* logits, const Work* bias, const int64_t* targets,
                  int64_t n_real, Work smoothing, bool wanted, Work* nlls, Work* mean_nlls,
                  Work* of_bias) {
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

template <class Low>
void turned(int64_t rows, int64_t columns, const Low* x, Low* out) {
#pragma omp parallel
    turn(columns, rows, x, 1, columns, out, rows, 1);
}

}  // namespace

#define FOR_DTYPES(Low, Work, name)                                                                   \
    void gru_gates_##name(int64_t H, int64_t B, const Low* x, int64_t x_du, int64_t x_dr,             \
                          const Low* read, const Low* h, const Work* bias, const Work* state,         \
                          Work* made, Work* next, Low* next_low, Low* out, int64_t out_du,            \
                          int64_t out_dr) {                                                           \
        gru_gates(H, B, x, x_du, x_dr, read, h, bias, state, made, next, next_low, out, out_du,       \
                  out_dr);                                                                            \
    }                                                                                                 \
    void gru_gates_backward_##name(int64_t H, int64_t B, const Work* grad, const Low* through,        \
                                   const Low* more, int64_t more_du, int64_t more_dr,                 \
                                   const Work* made, const Low* before, int64_t before_du,            \
                                   int64_t before_dr, Low* shares, Low* all, int64_t all_du,          \
                                   Work* of_bias, Work* kept) {                                                      \
        gru_gates_backward(H, B, grad, through, more, more_du, more_dr, made, before, before_du,      \
                           before_dr, shares, all, all_du, of_bias, kept);                                    \
    }                                                                                                 \
    void look_##name(int64_t B, int64_t S, int64_t K, int64_t M, const Low* query, const Low* keys,   \
                     const Low* values, const bool* keep, const Work* v, Work* asked, Work* weights,  \
                     Low* contexts) {                                                                 \
        look(B, S, K, M, query, keys, values, keep, v, asked, weights, contexts);                     \
    }                                                                                                 \
    void look_backward_##name(int64_t B, int64_t S, int64_t K, int64_t M, const Low* of_context,      \
                              const Low* more, const Work* more_weights, const Work* asked,           \
                              const Work* weights, const Low* keys, const Low* values,                \
                              const bool* keep, const Work* v, Work* of_contexts, Work* of_asked,     \
                              Work* sum_slopes, Work* sum_v, Low* of_query, Low* all,                 \
                              int64_t all_du) {                                                       \
        look_backward(B, S, K, M, of_context, more, more_weights, asked, weights, keys, values, keep, \
                      v, of_contexts, of_asked, sum_slopes, sum_v, of_query, all, all_du);            \
    }                                                                                                 \
    void softmax_loss_##name(int64_t V, int64_t N, Low* logits, const Work* bias,                     \
                             const int64_t* targets, int64_t n_real, double smoothing, int64_t wanted,\
                             Work* nlls, Work* mean_nlls, Work* of_bias) {                            \
        softmax_loss<Low, Work>(V, N, logits, bias, targets, n_real, smoothing, wanted, nlls,         \
                                mean_nlls, of_bias);                                                  \
    }                                                                                                 \
    void turned_##name(int64_t rows, int64_t columns, const Low* x, Low* out) {                       \
        turned(rows, columns, x, out);                                                                \
    }

extern "C" {
FOR_DTYPES(float, float, float32)
FOR_DTYPES(bf16, float, bfloat16)
FOR_DTYPES(double, double, float64)
}
