// The operations between the matrix products of a beam search on a CPU, in fp32; operations.py calls
// them. The result of a row depends neither on the other rows nor on the number of threads.

#include <memory>
#include <utility>

#include "additive.h"
#include "numbers.h"

// Additive attention for R rows of a beam. Row r attends to sentence sentences[r]; it is fastest if the
// rows of one sentence follow each other.
EXPORTED void additive_attention_step(int64_t R, int64_t S, int64_t K, int64_t M, const float* queries,
                                      const int64_t* sentences, const float* keys, const float* values,
                                      const bool* keep, const float* v, float* weights,
                                      float* contexts) {
#pragma omp parallel
    {
        const std::unique_ptr<float[]> workspace(new float[(S + 1) * K]);
        const std::unique_ptr<bool[]> large_keys(new bool[S]);
        float *exp_query = workspace.get(), *exp_keys = exp_query + K;
        int64_t prepared = -1;  // the sentence whose keys are in the workspace
#pragma omp for schedule(static)
        for (int64_t r = 0; r < R; r++) {
            const int64_t b = sentences[r];
            const float *sentence_keys = keys + b * S * K, *query = queries + r * K;
            if (b != prepared)
                for (int64_t s = 0; s < S; s++)
                    if (keep[b * S + s])
                        large_keys[s] = exp_minus_2x(sentence_keys + s * K, exp_keys + s * K, K);
            prepared = b;
            const bool large = exp_minus_2x(query, exp_query, K);
            attend(S, K, M, query, exp_query, large, sentence_keys, exp_keys, large_keys.get(),
                   values + b * S * M, keep + b * S, v, weights + r * S, contexts + r * M);
        }
    }
}

// For each row the k token ids with the largest logits and their log-probabilities, largest first; ties
// go to the lower id. Ids in `banned` or from n_real on are excluded. Missing results get -infinity.
EXPORTED void top_k_log_probs(int64_t R, int64_t V, int64_t k, const float* logits,
                              const int64_t* banned, int64_t n_banned, int64_t n_real,
                              float* log_probs, int64_t* ids) {
    constexpr int64_t BLOCK = 64;
    const auto is_allowed = [=](int64_t v) {
        return v < n_real && std::find(banned, banned + n_banned, v) == banned + n_banned;
    };
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        const float* row = logits + r * V;
        float *best = log_probs + r * k, largest = -std::numeric_limits<float>::infinity(), total = 0;
        int64_t* best_ids = ids + r * k;
        std::fill(best, best + k, largest);
        std::fill(best_ids, best_ids + k, int64_t(0));
        for (int64_t first = 0; first < V; first += BLOCK) {
            const int64_t last = std::min(V, first + BLOCK);
            float block_max = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : block_max)
            for (int64_t v = first; v < last; v++) block_max = row[v] > block_max ? row[v] : block_max;
            largest = std::max(largest, block_max);
            if (!(block_max > best[k - 1])) continue;
            for (int64_t v = first; v < last; v++)
                if (row[v] > best[k - 1] && is_allowed(v)) {
                    int64_t i = k - 1;
                    for (; i > 0 && row[v] > best[i - 1]; i--) {
                        best[i] = best[i - 1];
                        best_ids[i] = best_ids[i - 1];
                    }
                    best[i] = row[v];
                    best_ids[i] = v;
                }
        }
#pragma omp simd reduction(+ : total)
        for (int64_t v = 0; v < V; v++) total += exponential(row[v] - largest);
        for (int64_t i = 0; i < k; i++) best[i] = best[i] - largest - std::log(total);
        for (int64_t i = 1; i < k; i++)  // different logits may round to equal log-probabilities
            for (int64_t j = i; j > 0 && best[j] == best[j - 1] && best_ids[j] < best_ids[j - 1]; j--)
                if (best[j] > -std::numeric_limits<float>::infinity())
                    std::swap(best_ids[j], best_ids[j - 1]);
    }
}

// Quantizes each row to int8 in [-127, 127] (round to nearest, ties to even) with a scale per row. The
// scale is NaN if a row holds NaN or an infinity.
EXPORTED void quantize_rows(int64_t R, int64_t n, const float* x, int8_t* quantized, float* scales) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        const float* row = x + r * n;
        float largest = std::numeric_limits<float>::min(), zero_or_nan = 0;
#pragma omp simd reduction(max : largest) reduction(+ : zero_or_nan)
        for (int64_t i = 0; i < n; i++) {
            const float size = row[i] < 0 ? -row[i] : row[i];
            largest = size > largest ? size : largest;
            zero_or_nan += row[i] - row[i];
        }
        const float scale = scales[r] = largest / 127 + zero_or_nan;
        const float shift = 12582912.f;  // rounds to an integer; see exponential
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            quantized[r * n + i] = int8_t(bit_cast<int32_t>(row[i] / scale + shift));
    }
}

// products * column_scales * row_scales + bias, written as fp32 over the int32 products.
EXPORTED void dequantize(int64_t R, int64_t V, int32_t* products, const float* row_scales,
                         const float* column_scales, const float* bias) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < R; r++) {
        int32_t* row = products + r * V;
        const float scale = row_scales[r];
        if (bias)
            for (int64_t v = 0; v < V; v++)
                row[v] = bit_cast<int32_t>(float(row[v]) * column_scales[v] * scale + bias[v]);
        else
            for (int64_t v = 0; v < V; v++)
                row[v] = bit_cast<int32_t>(float(row[v]) * column_scales[v] * scale);
    }
}
