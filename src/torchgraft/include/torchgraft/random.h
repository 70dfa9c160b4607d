/* Random numbers that depend on a seed and a number alone: Philox4x32-10.
 *
 *     #include <torchgraft/random.h>
 *
 * A C function of an operator with a seed (`*, seed: tg.Seed = tg.drawn`) gets the seed of its own sample, or of its own
 * element where it is elementwise. So it counts its draws from 0 in each call, and nothing depends on threads:
 *
 *     void noise(int64_t n, const T *x, int64_t seed, T *out) {
 *         for (int64_t i = 0; i < n; i++) out[i] = x[i] + (T)tg_normal(seed, i);
 *     }
 *
 * `tg.random_bits`, `tg.random_uniform`, `tg.random_normal` and `tg.random_fold` give the same numbers in Python: the
 * integers and the uniform ones to the last bit, the normal ones to rounding. Written in what C, C++ and CUDA have in
 * common.
 *
 * Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"; Box, Muller 1958 (`tg_normal`).
 */
#ifndef TORCHGRAFT_RANDOM_H
#define TORCHGRAFT_RANDOM_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TG_RANDOM static inline __host__ __device__
#elif defined(__GNUC__)
#define TG_RANDOM static inline __attribute__((unused))
#else
#define TG_RANDOM static inline
#endif

/* What a number is for is a part of its counter, so that numbers and seeds do not hang together. */
enum { TG_FOR_BITS = 0, TG_FOR_UNIFORM = 1, TG_FOR_NORMAL = 2, TG_FOR_FOLD = 3 };

/* Ten rounds of Philox4x32: four words of 32 bits for each counter and key. */
TG_RANDOM void tg_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

TG_RANDOM void tg_philox_block(int64_t seed, int64_t block, uint32_t purpose, uint32_t out[4]) {
    uint64_t key = (uint64_t)seed, at = (uint64_t)block;
    const uint32_t counter[4] = {(uint32_t)at, (uint32_t)(at >> 32), purpose, 0};
    const uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    tg_philox4x32(counter, keys, out);
}

TG_RANDOM double tg_53_bits(uint32_t high, uint32_t low) {
    return (double)((int64_t)(high >> 5) * 67108864 + (int64_t)(low >> 6)) * 0x1p-53;
}

/* The 32 bits with a number. */
TG_RANDOM uint32_t tg_bits(int64_t seed, int64_t number) {
    uint32_t words[4];
    tg_philox_block(seed, number >> 2, TG_FOR_BITS, words);
    return words[number & 3];
}

/* The uniform number in [0, 1), of 53 bits. A cast to float may round it up to 1: see `tg_uniformf`. */
TG_RANDOM double tg_uniform(int64_t seed, int64_t number) {
    uint32_t words[4];
    tg_philox_block(seed, number >> 1, TG_FOR_UNIFORM, words);
    return number & 1 ? tg_53_bits(words[2], words[3]) : tg_53_bits(words[0], words[1]);
}

/* The same uniform number in [0, 1), cut to the 24 bits of a float. */
TG_RANDOM float tg_uniformf(int64_t seed, int64_t number) {
    uint32_t words[4];
    tg_philox_block(seed, number >> 1, TG_FOR_UNIFORM, words);
    return (float)(words[number & 1 ? 2 : 0] >> 8) * 0x1p-24f;
}

/* The normally distributed number, of mean 0 and variance 1. */
TG_RANDOM double tg_normal(int64_t seed, int64_t number) {
    uint32_t words[4];
    tg_philox_block(seed, number >> 1, TG_FOR_NORMAL, words);
    double radius = sqrt(-2.0 * log1p(-tg_53_bits(words[0], words[1])));
    double angle = 6.283185307179586477 * tg_53_bits(words[2], words[3]);
    return radius * (number & 1 ? sin(angle) : cos(angle));
}

/* A seed made of a seed and a number, of 63 bits: another stream for each number. */
TG_RANDOM int64_t tg_fold(int64_t seed, int64_t number) {
    uint32_t words[4];
    tg_philox_block(seed, number, TG_FOR_FOLD, words);
    return (int64_t)((uint64_t)(words[1] & 0x7FFFFFFFu) << 32 | words[0]);
}

#endif
