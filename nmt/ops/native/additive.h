// Additive attention of one query over the source positions of its sentence (arXiv 1409.0473, A.1.2):
//     score_s = v . tanh(q + k_s);  weights = softmax(score);  context = sum_s weights_s values_s
// tanh(x) = 2 sigmoid(2 x) - 1 throughout; the -1 shifts all scores alike and leaves the softmax as it is.

#pragma once

#include "numbers.h"

// Beyond this magnitude exp(-2 k) exp(-2 q) no longer equals exp(-2 (q + k)) in fp32.
constexpr float LARGE = 40;

// Computes exp(-2 x) of a key or a query, and returns whether one of its numbers is large.
template <class Compute, class Accumulate>
inline bool exp_minus_2x(const Compute* x, Accumulate* out, int64_t n) {
    Accumulate largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; i++) {
        const Accumulate value = widen(x[i]), size = value < 0 ? -value : value;
        largest = size > largest ? size : largest;
        out[i] = exponential(-2 * value);
    }
    return largest > LARGE;
}

// sigmoid(2 (q + k)). If neither is large, the product of exp(-2 q) and exp(-2 k) saves an exp.
template <bool large, class Compute, class Accumulate>
inline Accumulate sigmoid_of_sum(Accumulate q, Accumulate exp_q, Compute k, Accumulate exp_k) {
    if constexpr (large)
        return sigmoid(2 * (q + widen(k)));
    else
        return 1 / (1 + exp_q * exp_k);
}

template <bool large, class Compute, class Accumulate>
inline Accumulate score(const Accumulate* q, const Accumulate* exp_q, const Compute* key,
                        const Accumulate* exp_key, const Accumulate* v, int64_t K) {
    Accumulate sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < K; k++) sum += v[k] * sigmoid_of_sum<large>(q[k], exp_q[k], key[k], exp_key[k]);
    return 2 * sum;
}

// Writes the weights (S) and the context (M) of one query. A row without kept positions gets zeros.
template <class Compute, class Accumulate>
inline void attend(int64_t S, int64_t K, int64_t M, const Accumulate* q, const Accumulate* exp_q,
                   bool large, const Compute* keys, const Accumulate* exp_keys, const bool* large_keys,
                   const Compute* values, const bool* keep, const Accumulate* v, Accumulate* weights,
                   Accumulate* context) {
    Accumulate largest = -std::numeric_limits<Accumulate>::infinity();
    double total = 0;  // fp64: a sum over up to thousands of positions
    for (int64_t s = 0; s < S; s++)
        if (keep[s]) {
            const bool is_large = large || large_keys[s];
            const auto score_of =
                is_large ? score<true, Compute, Accumulate> : score<false, Compute, Accumulate>;
            weights[s] = score_of(q, exp_q, keys + s * K, exp_keys + s * K, v, K);
            largest = std::max(largest, weights[s]);
        }
    for (int64_t s = 0; s < S; s++) {
        weights[s] = keep[s] ? exponential(weights[s] - largest) : Accumulate(0);
        total += weights[s];
    }
    std::fill(context, context + M, Accumulate(0));
    for (int64_t s = 0; s < S; s++)
        if (keep[s]) {
            const Accumulate weight = weights[s] = Accumulate(weights[s] / total);
            const Compute* value = values + s * M;
#pragma omp simd
            for (int64_t m = 0; m < M; m++) context[m] += weight * widen(value[m]);
        }
}
