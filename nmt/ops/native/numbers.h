// Conversions between number formats, and exp, written so that the compiler can vectorise them.
// C++17 with GNU vector extensions. No header of torch, so that building needs no torch.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

// Marks the functions that Python calls; everything else in a library is hidden.
#define EXPORTED extern "C" __attribute__((visibility("default")))

struct bf16 {
    uint16_t bits;
};

template <class To, class From>
inline To bit_cast(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    __builtin_memcpy(&result, &x, sizeof result);
    return result;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(bf16 x) { return bit_cast<float>(uint32_t(x.bits) << 16); }

inline void narrow(const float* __restrict from, float* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const double* __restrict from, double* __restrict to, int64_t n) {
    std::copy(from, from + n, to);
}
inline void narrow(const float* __restrict from, bf16* __restrict to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {  // round to nearest, ties to even
        const uint32_t u = bit_cast<uint32_t>(from[i]);
        const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
        to[i].bits = uint16_t((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
    }
}
template <class To, class From>
inline To narrow_to(From x) {
    To result;
    narrow(&x, &result, 1);
    return result;
}

// exp(x) with a relative error of about 1e-7: 2^n times a Taylor polynomial of degree 6 on
// |r| <= ln 2 / 2. Below -87 the result is exactly 0, because padding must get no weight at all.
inline float exponential(float input) {
    float x = input < -87.f ? -87.f : input;
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
    const uint32_t power = (bit_cast<uint32_t>(shifted) + 127) << 23;
    return input < -87.f ? 0.f : p * bit_cast<float>(power);
}
inline double exponential(double x) { return std::exp(x); }

template <class Number>
inline Number sigmoid(Number x) {
    return 1 / (1 + exponential(-x));
}
