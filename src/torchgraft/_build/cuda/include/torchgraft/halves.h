/* Elements of half precision. A kernel that is written by hand reads and writes them as floats. */
#pragma once
#include <stdint.h>

#define TG_HALF(name)                                                          \
    struct name {                                                              \
        uint16_t bits;                                                         \
        name() = default;                                                      \
        inline name(float value);                                              \
        inline operator float() const;                                         \
        inline name &operator+=(float value) { return *this = *this + value; } \
        inline name &operator-=(float value) { return *this = *this - value; } \
        inline name &operator*=(float value) { return *this = *this * value; } \
        inline name &operator/=(float value) { return *this = *this / value; } \
    };

TG_HALF(tg_half)
TG_HALF(tg_bfloat16)

/* By `tg_get` and `tg_put`, which come later. */
#define TG_CONVERSIONS(name)                                          \
    inline name::name(float value) : bits(0) { tg_put(this, value); } \
    inline name::operator float() const { return tg_get(this); }
