/* dd.h - numbers of two doubles, hi + lo, of 106 bits or nearly so. */
#ifndef DD_H
#define DD_H

#include <math.h>

#define PI 3.14159265358979323846

typedef struct { double hi, lo; } dd;

/* |a| >= |b| */
static inline dd dd_fast(double a, double b) {
    double s = a + b;
    return (dd){s, b - (s - a)};
}

static inline dd dd_sum(double a, double b) {
    double s = a + b, t = s - a;
    return (dd){s, (a - (s - t)) + (b - t)};
}

static inline dd dd_prod(double a, double b) {
    double p = a * b;
    return (dd){p, fma(a, b, -p)};
}

static inline dd dd_add(dd a, dd b) {
    dd s = dd_sum(a.hi, b.hi);
    return dd_fast(s.hi, s.lo + (a.lo + b.lo));
}

static inline dd dd_neg(dd a) { return (dd){-a.hi, -a.lo}; }

static inline dd dd_mul(dd a, dd b) {
    dd p = dd_prod(a.hi, b.hi);
    return dd_fast(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static inline dd dd_div(dd a, dd b) {
    double q = a.hi / b.hi, r = fma(-q, b.hi, a.hi);
    return dd_fast(q, (r + (a.lo - q * b.lo)) / b.hi);
}

/* (atanh(s) - s)/s^3 = 1/3 + s^2/5 + ..., |s| <= 0.1716 (that is (1 + s)/(1 - s) in [1/sqrt 2, sqrt 2]). DLMF 4.38.5 */
static inline double atanh_tail(double s) {
    static const double c[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                               1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    double t = s * s, r = c[0];
    for (int i = 1; i < 12; i++) r = r * t + c[i];
    return r;
}

/* log of a positive dd, relative error below 1e-17: x = 2^k m, log m = 2 atanh(s), s = (m - 1)/(m + 1), s as a dd. */
static inline dd dd_log(dd x) {
    int k;
    double m = frexp(x.hi, &k);
    if (m < 0.70710678118654752) {
        m *= 2;
        k--;
    }
    double ml = ldexp(x.lo, -k);
    dd s = dd_div(dd_add(dd_sum(m, -1.0), (dd){ml, 0}), dd_add(dd_sum(m, 1.0), (dd){ml, 0}));
    dd l = dd_fast(2 * s.hi, 2 * s.lo + 2 * s.hi * s.hi * s.hi * atanh_tail(s.hi));
    dd k_log2 = dd_sum(k * 0x1.62e42fefa3800p-1, k * 0x1.ef35793c76730p-45);  /* the first product is exact */
    return dd_add(k_log2, l);
}

#endif
