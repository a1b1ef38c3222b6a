// What lies between the matrix products of a search on a CPU. native/search.py calls these;
// searching.py says what they compute, and does the same by torch's operations, except for a look, which
// is that of steps.py. What a row gives does not depend on the others, nor on the number of threads.

#include <memory>
#include <utility>

#include "additive.h"
#include "numbers.h"

// Row r's query looks at sentence sentences[r]; rows of one sentence best follow each other.
EXPORTED void look(int64_t R, int64_t S, int64_t K, int64_t M, const float* queries,
                   const int64_t* sentences, const float* keys, const float* values, const bool* keep,
                   const float* v, float* weights, float* contexts) {
#pragma omp parallel
    {
        const std::unique_ptr<float[]> decays_of(new float[(S + 1) * K]);
        const std::unique_ptr<bool[]> far_keys(new bool[S]);
        float *query_decay = decays_of.get(), *key_decays = query_decay + K;
        int64_t known = -1;
#pragma omp for schedule(static)
        for (int64_t r = 0; r < R; r++) {
            const int64_t b = sentences[r];
            const float *own_keys = keys + b * S * K, *query = queries + r * K;
            if (b != known)
                for (int64_t s = 0; s < S; s++)
                    if (keep[b * S + s])
                        far_keys[s] = decays(own_keys + s * K, key_decays + s * K, K);
            known = b;
            const bool far = decays(query, query_decay, K);
            look_row(S, K, M, query, query_decay, far, own_keys, key_decays, far_keys.get(),
                     values + b * S * M, keep + b * S, v, weights + r * S, contexts + r * M);
        }
    }
}

// Of each row the k pieces with the greatest logits and their log-probabilities, greatest first and of
// equals the lower number; none of `banned`, none from n_real on. -infinity where there are no more.
EXPORTED void likeliest(int64_t R, int64_t V, int64_t k, const float* logits, const int64_t* banned,
                        int64_t n_banned, int64_t n_real, float* log_probs, int64_t* ids) {
    constexpr int64_t BLOCK = 64;
    const auto may_be = [=](int64_t v) {
        return v < n_real && std::find(banned, banned + n_banned, v) == banned + n_banned;
    };
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        const float* row = logits + r * V;
        float *best = log_probs + r * k, most = -std::numeric_limits<float>::infinity(), total = 0;
        int64_t* numbers = ids + r * k;
        std::fill(best, best + k, most);
        std::fill(numbers, numbers + k, int64_t(0));
        for (int64_t first = 0; first < V; first += BLOCK) {
            const int64_t last = std::min(V, first + BLOCK);
            float greatest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : greatest)
            for (int64_t v = first; v < last; v++) greatest = row[v] > greatest ? row[v] : greatest;
            most = std::max(most, greatest);
            if (!(greatest > best[k - 1])) continue;
            for (int64_t v = first; v < last; v++)
                if (row[v] > best[k - 1] && may_be(v)) {
                    int64_t i = k - 1;
                    for (; i > 0 && row[v] > best[i - 1]; i--) {
                        best[i] = best[i - 1];
                        numbers[i] = numbers[i - 1];
                    }
                    best[i] = row[v];
                    numbers[i] = v;
                }
        }
#pragma omp simd reduction(+ : total)
        for (int64_t v = 0; v < V; v++) total += exponential(row[v] - most);
        for (int64_t i = 0; i < k; i++) best[i] = best[i] - most - std::log(total);
        for (int64_t i = 1; i < k; i++)  // what rounding has made equal
            for (int64_t j = i; j > 0 && best[j] == best[j - 1] && numbers[j] < numbers[j - 1]; j--)
                if (best[j] > -std::numeric_limits<float>::infinity())
                    std::swap(numbers[j], numbers[j - 1]);
    }
}

// Each row in whole numbers from -127 to 127, to the nearest, ties to even, and what they are to be
// multiplied with: no number where the row holds one that is none, or an infinite one.
EXPORTED void rounded(int64_t R, int64_t n, const float* x, int8_t* whole, float* scales) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        const float* row = x + r * n;
        float most = std::numeric_limits<float>::min(), nothing = 0;
#pragma omp simd reduction(max : most) reduction(+ : nothing)
        for (int64_t i = 0; i < n; i++) {
            const float size = row[i] < 0 ? -row[i] : row[i];
            most = size > most ? size : most;
            nothing += row[i] - row[i];
        }
        const float scale = scales[r] = most / 127 + nothing, shift = 12582912.f;  // see exponential
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            whole[r * n + i] = int8_t(as_bits<int32_t>(row[i] / scale + shift));
    }
}

// Products of whole numbers times the scales of their column and row, plus a bias: fp32 in the place
// of int32.
EXPORTED void scaled(int64_t R, int64_t V, int32_t* products, const float* of_rows,
                     const float* of_columns, const float* bias) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        int32_t* row = products + r * V;
        const float own = of_rows[r];
        if (bias)
            for (int64_t v = 0; v < V; v++)
                row[v] = as_bits<int32_t>(float(row[v]) * of_columns[v] * own + bias[v]);
        else
            for (int64_t v = 0; v < V; v++)
                row[v] = as_bits<int32_t>(float(row[v]) * of_columns[v] * own);
    }
}
