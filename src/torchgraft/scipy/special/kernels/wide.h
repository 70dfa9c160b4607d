/*
 * wide.h - `wide`, numbers of 64 bits or more, for sums that cancel and for large exponents: long double, and on GPUs,
 * which have none, a class of two doubles. Those have 106 bits, of which the functions below keep 75 or more, but the
 * range of double. Where long double is double nothing but accuracy is lost.
 */
#ifndef WIDE_H
#define WIDE_H

#include "dd.h"

/* Of a large function that is called at several places: NVRTC would copy it to each, and take many seconds. */
#ifdef __CUDACC__
#define OWN_CALL __attribute__((noinline))
#else
#define OWN_CALL
#endif

#define WIDE_PI wide_of(0x1.921fb54442d18p1, 0x1.1a62633145c07p-53)
#define WIDE_LN2 wide_of(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56)

#ifndef __CUDACC__

typedef long double wide;
#define wide_of(hi, lo) ((long double)(hi) + (lo))
#define wide_of_dd(x) ((long double)(x).hi + (x).lo)
#define wide_abs fabsl
#define wide_sqrt sqrtl
#define wide_exp expl
#define wide_log logl
#define wide_sinh sinhl
#define wide_sin sinl
#define wide_cos cosl
#define wide_asin asinl
#define wide_fma fmal

#else

struct wide {
    dd parts;
    wide(double x = 0) : parts{x, 0} {}
    wide(dd x) : parts(x) {}
    explicit operator double() const { return parts.hi; }
};

static wide wide_of(double hi, double lo) { return dd{hi, lo}; }
static wide wide_of_dd(dd x) { return x; }

/* The second part of an infinity, or of NaN, would be NaN and spoil the first. */
OWN_CALL static wide operator+(wide a, wide b) {
    double s = a.parts.hi + b.parts.hi;
    return isfinite(s) ? wide(dd_add(a.parts, b.parts)) : wide(s);
}

static wide operator-(wide a) { return dd_neg(a.parts); }
static wide operator-(wide a, wide b) { return a + -b; }

OWN_CALL static wide operator*(wide a, wide b) {
    double p = a.parts.hi * b.parts.hi;
    return isfinite(p) ? wide(dd_mul(a.parts, b.parts)) : wide(p);
}

OWN_CALL static wide operator/(wide a, wide b) {
    double q = a.parts.hi / b.parts.hi;
    return isfinite(q) && isfinite(b.parts.hi) ? wide(dd_div(a.parts, b.parts)) : wide(q);
}

static wide &operator+=(wide &a, wide b) { return a = a + b; }
static wide &operator-=(wide &a, wide b) { return a = a - b; }
static wide &operator*=(wide &a, wide b) { return a = a * b; }
static wide &operator/=(wide &a, wide b) { return a = a / b; }
static bool operator<(wide a, wide b) { return (double)(a - b) < 0; }
static bool operator>(wide a, wide b) { return b < a; }
static bool operator==(wide a, wide b) { return a.parts.hi == b.parts.hi && a.parts.lo == b.parts.lo; }

static wide wide_fma(wide x, wide y, wide z) { return x * y + z; }
static wide wide_abs(wide x) { return x.parts.hi < 0 ? -x : x; }

OWN_CALL static wide wide_sqrt(wide x) {
    double y = sqrt(x.parts.hi);
    return y > 0 && isfinite(y) ? y + (x - dd_prod(y, y)) / (2 * y) : wide(y);
}

/* n log(2), |n| < 2^11; the first product is exact */
static wide times_log_2(double n) { return dd_sum(n * 0x1.62e42fefa3800p-1, n * 0x1.ef35793c7673p-45); }

OWN_CALL static wide wide_exp(wide x) {
    if (!(fabs(x.parts.hi) < 745)) return exp(x.parts.hi);
    double n = rint((double)x / 0.69314718055994531);
    wide r = (x - times_log_2(n)) / 16, power = 1;
    for (int k = 12; k > 0; k--) power = 1 + power * r / k;
    for (int i = 0; i < 4; i++) power *= power;
    return wide_of(ldexp(power.parts.hi, (int)n), ldexp(power.parts.lo, (int)n));
}

/* By one step of Newton's method, from the logarithm of a double. */
OWN_CALL static wide wide_log(wide x) {
    if (!(x.parts.hi > 0) || isinf(x.parts.hi)) return log(x.parts.hi);
    int n;
    if (frexp(x.parts.hi, &n) < 0.70710678118654752) n--; /* x 2^-n is about 1 */
    wide m = wide_of(ldexp(x.parts.hi, -n), ldexp(x.parts.lo, -n)), y = log(m.parts.hi), rest = m * wide_exp(-y) - 1;
    return times_log_2(n) + y + (rest - rest * rest / 2);
}

/* sinh x (sign +1), sin x (-1), and the even one of both; |x| < 1 */
OWN_CALL static wide odd_series(wide x, int sign) {
    wide square = sign * x * x, sum = 1;
    for (int k = 26; k > 0; k -= 2) sum = 1 + sum * square / (k * (k + 1.0));
    return x * sum;
}

OWN_CALL static wide even_series(wide x, int sign) {
    wide square = sign * x * x, sum = 1;
    for (int k = 25; k > 0; k -= 2) sum = 1 + sum * square / (k * (k + 1.0));
    return sum;
}

OWN_CALL static wide wide_sinh(wide x) {
    if (fabs(x.parts.hi) < 0.5) return odd_series(x, 1);
    wide e = wide_exp(x);
    return (e - 1 / e) / 2;
}

/* sin(x + turns pi/2), |x| < 2^62. A quotient above 2^53 is rounded to a multiple of 4, so that the rest is reduced
 * again. */
OWN_CALL static wide turned_sine(wide x, int turns) {
    wide r = x;
    if (!(fabs(x.parts.hi) < 0x1p62)) return NAN;
    for (int i = 0; i < 3; i++) {
        double n = rint((double)r / 1.5707963267948966);
        r = r - n * wide_of(0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54);
        turns += (int)fmod(n, 4);
    }
    int quarter = turns & 3;
    wide s = quarter % 2 ? even_series(r, -1) : odd_series(r, -1);
    return quarter < 2 ? s : -s;
}

static wide wide_sin(wide x) { return turned_sine(x, 0); }
static wide wide_cos(wide x) { return turned_sine(x, 1); }

OWN_CALL static wide wide_asin(wide x) {
    double y = asin(x.parts.hi);
    return y + (x - wide_sin(y)) / wide_cos(y);
}

#endif

/* log Gamma(z), z >= 100: DLMF 5.11.1 */
OWN_CALL static inline wide wide_log_gamma(wide z) {
    wide r = 1 / (z * z);
    return (z - 0.5) * wide_log(z) - z + wide_of(0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55) +
           ((wide)1 / 12 - r * ((wide)1 / 360 - r * ((wide)1 / 1260 - r / 1680))) / z;
}

#endif
