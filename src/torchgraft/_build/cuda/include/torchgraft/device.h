/* What a kernel on CUDA has beside the user's source: C's names, and how elements are read and written. */
#pragma once
#include <stdint.h>
#define TORCHGRAFT 1
#define TG_UNUSED __attribute__((unused))
#define restrict __restrict__
#define _Bool bool

/* Our kernel around the user's, in whose text `__global__` means nothing. */
#define TG_ENTRY(threads) extern "C" __attribute__((global)) void __attribute__((launch_bounds(threads)))
#define TG_CONSTANT const __attribute__((grid_constant))

#include <torchgraft/halves.h>

/* Halves are computed in single precision, as on the CPU. */
static inline float tg_get(const tg_half *place) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(place->bits));
    return value;
}

static inline float tg_get(const tg_bfloat16 *place) { return __int_as_float((int)((uint32_t)place->bits << 16)); }

template <class S> static inline S tg_get(const S *place) { return *place; }

static inline void tg_put(tg_half *place, float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(place->bits) : "f"(value));
}

/* By integers: sm_75 has no instruction for it. */
static inline void tg_put(tg_bfloat16 *place, float value) {
    uint32_t bits = __float_as_uint(value);
    place->bits = value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class S, class V> static inline void tg_put(S *place, V value) { *place = (S)value; }

/* Neighbours that a thread takes at once, by one instruction where they lie together. */
template <class S, int N> struct alignas(sizeof(S) * N) tg_pack { S at[N]; };

template <class S, int N> static inline bool tg_whole(const char *place, int64_t stride, int many) {
    return many == N && stride == sizeof(S) && (uint64_t)place % sizeof(tg_pack<S, N>) == 0;
}

template <class S, int N> static inline void tg_load(tg_pack<S, N> &pack, const char *from, int64_t stride, int many) {
    if (tg_whole<S, N>(from, stride, many)) pack = *(const tg_pack<S, N> *)from;
    else
        for (int k = 0; k < N; k++)
            if (k < many) pack.at[k] = *(const S *)(from + k * stride);
}

template <class S, int N> static inline void tg_store(const tg_pack<S, N> &pack, char *to, int64_t stride, int many) {
    if (tg_whole<S, N>(to, stride, many)) *(tg_pack<S, N> *)to = pack;
    else
        for (int k = 0; k < N; k++)
            if (k < many) *(S *)(to + k * stride) = pack.at[k];
}

TG_CONVERSIONS(tg_half)
TG_CONVERSIONS(tg_bfloat16)
