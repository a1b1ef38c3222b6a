// Additive attention: the look of one query at the memory of its sentence; see Looks in steps.py.

#pragma once

#include "numbers.h"

// Beyond it exp(-2 k) exp(-2 q) is not exp(-2 (q + k)) in fp32.
constexpr float FAR = 40;

// exp(-2 x), the decay, of a row of keys or queries; returns whether one of them is far.
template <class Low, class Work>
inline bool decays(const Low* x, Work* out, int64_t n) {
    Work most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const Work own = widened(x[i]), size = own < 0 ? -own : own;
        most = size > most ? size : most;
        out[i] = exponential(-2 * own);
    }
    return most > FAR;
}

// sigmoid(2 (q + k)); where neither is far of their decays, without another exp.
template <bool far, class Low, class Work>
inline Work rise(Work q, Work q_decay, Low k, Work k_decay) {
    if constexpr (far)
        return sigmoid(2 * (q + widened(k)));
    else
        return 1 / (1 + q_decay * k_decay);
}

template <bool far, class Low, class Work>
inline Work energy(const Work* q, const Work* q_decay, const Low* key, const Work* key_decay,
                   const Work* v, int64_t K) {
    Work sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t k = 0; k < K; k++) sum += v[k] * rise<far>(q[k], q_decay[k], key[k], key_decay[k]);
    return 2 * sum;
}

// The weights and the context of a query, from the keys, their decays and which of them are far.
template <class Low, class Work>
inline void look_row(int64_t S, int64_t K, int64_t M, const Work* q, const Work* q_decay, bool far,
                     const Low* keys, const Work* key_decays, const bool* far_keys, const Low* values,
                     const bool* keep, const Work* v, Work* weights, Work* context) {
    Work most = -std::numeric_limits<Work>::infinity();
    double total = 0;  // of up to thousands
    for (int64_t s = 0; s < S; s++)
        if (keep[s]) {
            const auto energy_of =
                far || far_keys[s] ? energy<true, Low, Work> : energy<false, Low, Work>;
            weights[s] = energy_of(q, q_decay, keys + s * K, key_decays + s * K, v, K);
            most = std::max(most, weights[s]);
        }
    for (int64_t s = 0; s < S; s++) {
        weights[s] = keep[s] ? exponential(weights[s] - most) : Work(0);
        total += weights[s];
    }
    std::fill(context, context + M, Work(0));
    for (int64_t s = 0; s < S; s++)
        if (keep[s]) {
            const Work own = weights[s] = Work(weights[s] / total);
            const Low* value = values + s * M;
#pragma omp simd
            for (int64_t m = 0; m < M; m++) context[m] += own * widened(value[m]);
        }
}
