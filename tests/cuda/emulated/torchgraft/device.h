/* CUDA's names for g++: a grid is a loop. Each element that is written is counted. */
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tgmath.h>
#include <unordered_map>
#define TORCHGRAFT 1
#define __CUDACC__ 1
#define __host__
#define __device__
#define TG_UNUSED __attribute__((unused))
#define restrict __restrict
#define TG_ENTRY(threads) extern "C" void
#define TG_CONSTANT const

struct tg_dim {
    unsigned x, y, z;
};
static tg_dim threadIdx, blockIdx, blockDim, gridDim;

static inline float __int_as_float(int bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A device's functions are a unit or two in the last place off, also where a larger number is infinite. */
template <class V> static inline V tg_off(V value) {
    return value == 0 || value == 1 ? value : std::nextafter(value, 2 * value);
}
#define cosh(x) tg_off(cosh(x))
#define hypot(x, y) tg_off(hypot(x, y))
#define pow(x, y) tg_off(pow(x, y))
#define sinh(x) tg_off(sinh(x))
#define tgamma(x) tg_off(tgamma(x))

static std::unordered_map<const void *, int64_t> tg_written;

#include <torchgraft/halves.h>

static inline float tg_get(const tg_half *place) {
    _Float16 value;
    memcpy(&value, place, sizeof value);
    return (float)value;
}

static inline float tg_get(const tg_bfloat16 *place) { return __int_as_float((int)((uint32_t)place->bits << 16)); }

template <class S> static inline S tg_get(const S *place) { return *place; }

static inline void tg_put(tg_half *place, float value) {
    _Float16 rounded = (_Float16)value;
    memcpy(place, &rounded, sizeof rounded);
}

static inline void tg_put(tg_bfloat16 *place, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    place->bits = value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class S, class V> static inline void tg_put(S *place, V value) {
    *place = (S)value;
}

template <class S, int N> struct tg_pack { S at[N]; };

template <class S, int N> static inline void tg_load(tg_pack<S, N> &pack, const char *from, int64_t stride, int many) {
    for (int k = 0; k < many; k++) memcpy(&pack.at[k], from + k * stride, sizeof(S));
}

template <class S, int N> static inline void tg_store(const tg_pack<S, N> &pack, char *to, int64_t stride, int many) {
    for (int k = 0; k < many; k++) {
        tg_written[to + k * stride]++;
        memcpy(to + k * stride, &pack.at[k], sizeof(S));
    }
}

TG_CONVERSIONS(tg_half)
TG_CONVERSIONS(tg_bfloat16)
