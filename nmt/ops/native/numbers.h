// Numbers of several sorts, and exp, in operations that the compiler makes vectors of. C++17 with
// GNU's attributes; no header of torch.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

// What Python calls; a library hides the rest.
#define EXPORTED extern "C" __attribute__((visibility("default")))

struct bf16 {
    uint16_t bits;
};

template <class To, class From>
inline To as_bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To same;
    __builtin_memcpy(&same, &x, sizeof same);
    return same;
}

inline float widened(float x) { return x; }
inline double widened(double x) { return x; }
inline float widened(bf16 x) { return as_bits<float>(uint32_t(x.bits) << 16); }

inline void narrow(const float* __restrict from, float* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const double* __restrict from, double* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const float* __restrict from, bf16* __restrict to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {  // to the nearest, ties to even
        const uint32_t u = as_bits<uint32_t>(from[i]);
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
    const uint32_t power = (as_bits<uint32_t>(shifted) + 127) << 23;
    return given < -87.f ? 0.f : p * as_bits<float>(power);
}
inline double exponential(double x) { return std::exp(x); }

template <class Work>
inline Work sigmoid(Work x) {
    return 1 / (1 + exponential(-x));
}
