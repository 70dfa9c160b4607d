/* multi.h - numbers of many words, for sums whose terms cancel so much that a double-double keeps no digit.
 *
 * A number is a sign and `words` digits in base 2^64, the first one not 0 and of weight 2^(64 exponent); results are
 * truncated. Nobody can tell how many words do: a function is computed with more and more of them, until two agree. */
#ifndef MULTI_H
#define MULTI_H

#include <math.h>
#include <stdint.h>

#define MOST_WORDS 48

typedef struct {
    int words, sign;
    int64_t exponent;
    uint64_t digit[MOST_WORDS];
} multi;

/* m 2^e, for what a double may not hold */
typedef struct {
    double m;
    int64_t e;
} floating;

static multi multi_zero(int words) {
    multi r;
    r.words = words, r.sign = 0, r.exponent = 0;
    return r;
}

static multi multi_of(double x, int words) {
    multi r = multi_zero(words);
    int e;
    double m = frexp(fabs(x), &e);
    if (m == 0) return r;
    for (int i = 0; i < words; i++) r.digit[i] = 0;
    e -= 53; /* x = whole 2^e */
    int64_t low = e >= 0 ? e / 64 : -((63 - e) / 64);
    unsigned __int128 whole = (unsigned __int128)(uint64_t)ldexp(m, 53) << (e - 64 * low);
    r.sign = x < 0 ? -1 : 1;
    if (whole >> 64) r.exponent = low + 1, r.digit[0] = (uint64_t)(whole >> 64), r.digit[1] = (uint64_t)whole;
    else r.exponent = low, r.digit[0] = (uint64_t)whole;
    return r;
}

static multi multi_neg(multi x) {
    x.sign = -x.sign;
    return x;
}

/* the digit of weight 2^(64 (exponent - i)), for an exponent that is not less than the number's own */
static uint64_t multi_digit(const multi *x, int64_t exponent, int64_t i) {
    int64_t at = i - (exponent - x->exponent);
    return at >= 0 && at < x->words ? x->digit[at] : 0;
}

/* -1, 0 or 1, as |x| - |y| is, of numbers that are not 0 */
static int multi_compare(const multi *x, const multi *y) {
    if (x->exponent != y->exponent) return x->exponent < y->exponent ? -1 : 1;
    for (int i = 0; i < x->words; i++)
        if (x->digit[i] != y->digit[i]) return x->digit[i] < y->digit[i] ? -1 : 1;
    return 0;
}

static multi multi_add(multi x, multi y) {
    if (x.sign == 0) return y;
    if (y.sign == 0) return x;
    int order = multi_compare(&x, &y), n = x.words;
    if (order < 0) {
        multi t = x;
        x = y, y = t;
    }
    if (x.exponent - y.exponent >= n) return x;
    if (x.sign == y.sign) {
        unsigned carry = 0;
        for (int i = n - 1; i >= 0; i--) {
            unsigned __int128 s = (unsigned __int128)x.digit[i] + multi_digit(&y, x.exponent, i) + carry;
            x.digit[i] = (uint64_t)s, carry = (unsigned)(s >> 64);
        }
        if (!carry) return x;
        for (int i = n - 1; i > 0; i--) x.digit[i] = x.digit[i - 1];
        x.digit[0] = 1, x.exponent++;
        return x;
    }
    if (order == 0) return multi_zero(n);
    unsigned borrow = 0;
    for (int i = n - 1; i >= 0; i--) {
        unsigned __int128 s = (unsigned __int128)x.digit[i] - multi_digit(&y, x.exponent, i) - borrow;
        x.digit[i] = (uint64_t)s, borrow = (s >> 64) != 0;
    }
    int zeros = 0;
    while (x.digit[zeros] == 0) zeros++;
    for (int i = 0; zeros > 0 && i < n; i++) x.digit[i] = i + zeros < n ? x.digit[i + zeros] : 0;
    x.exponent -= zeros;
    return x;
}

static multi multi_mul(multi x, multi y) {
    int n = x.words;
    if (x.sign == 0 || y.sign == 0) return multi_zero(n);
    uint64_t p[2 * MOST_WORDS] = {0};
    for (int i = n - 1; i >= 0; i--) {
        uint64_t carry = 0;
        if (x.digit[i] == 0) continue;
        for (int j = n - 1; j >= 0; j--) {
            unsigned __int128 s = (unsigned __int128)x.digit[i] * y.digit[j] + p[i + j + 1] + carry;
            p[i + j + 1] = (uint64_t)s, carry = (uint64_t)(s >> 64);
        }
        p[i] = carry;
    }
    int zeros = p[0] == 0;
    for (int i = 0; i < n; i++) x.digit[i] = p[i + zeros];
    x.exponent += y.exponent + 1 - zeros, x.sign *= y.sign;
    return x;
}

/* x/m for a positive integer m below 2^63 */
static multi multi_over(multi x, uint64_t m) {
    if (x.sign == 0) return x;
    unsigned __int128 rest = 0;
    int zeros = x.digit[0] < m;
    if (zeros) rest = x.digit[0];
    for (int i = 0; i < x.words; i++) {
        rest = rest << 64 | (i + zeros < x.words ? x.digit[i + zeros] : 0);
        x.digit[i] = (uint64_t)(rest / m), rest %= m;
    }
    x.exponent -= zeros;
    return x;
}

static multi multi_times(multi x, double y) { return multi_mul(x, multi_of(y, x.words)); }

static multi multi_shift(multi x, double y) { return multi_add(x, multi_of(y, x.words)); }

/* 1/x by Newton's method */
static multi multi_inverse(multi x) {
    multi r = multi_of(x.sign / ((double)x.digit[0] + ldexp((double)x.digit[1], -64)), x.words);
    r.exponent -= x.exponent;
    for (int bits = 50; bits < 64 * x.words; bits *= 2)
        r = multi_mul(r, multi_add(multi_of(2, x.words), multi_neg(multi_mul(x, r))));
    return r;
}

/* |m| from 1/2 to 1, or 0 */
static floating multi_scaled(multi x) {
    if (x.sign == 0) return (floating){0, 0};
    int e;
    /* what is beyond the second word matters where it decides how to round: next to a half */
    uint64_t sticky = x.words > 2 && x.digit[2] ? 1 : 0;
    unsigned __int128 head = (unsigned __int128)x.digit[0] << 64 | x.digit[1] | sticky;
    int shift = 0;
    while (!(head >> 64 >> 63)) head <<= 1, shift++;
    double m = frexp((double)(uint64_t)((uint64_t)(head >> 64) | ((uint64_t)head != 0)), &e);
    return (floating){x.sign * m, e - shift + 64 * x.exponent};
}

#endif
