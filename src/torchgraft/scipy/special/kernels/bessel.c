/*
 * The Bessel functions jv, yv, iv, kv and the scaled ive = iv exp(-|x|), kve = kv exp(x) of any real order v and
 * argument x: NAME_n(v, x, n) is the derivative number n = 0, 1, 2 in the argument, NAME_dv(v, x, n) that in the order
 * of the derivative number n = 0, 1 in the argument.
 *
 *   v < 0         reflection, DLMF 10.2.3, 10.4.1 (J, Y), 10.27.2, 10.27.3 (I, K), with sin(pi v) that is 0 at integers
 *   x < 0         parity of the first kind at integer orders; else, and for d/dv, NaN: x^v is complex
 *   0, infinity   limits; at 0, where ive has a kink, the mean of both sides as first derivative
 */
#include "bessel.h"

/* a f + b d: 0 inf is 0 here, sin(pi v) = 0 is exact; where both are infinite, d is the larger. */
static double combine(double a, double f, double b, double d) {
    if (b != 0 && isinf(d)) return b * d;
    return (a == 0 ? 0 : a * f) + (b == 0 ? 0 : b * d);
}

static double sum(double a, wide ea, double b, wide eb) {
    return a == 0 ? scaled(b, eb) : b == 0 ? scaled(a, ea) : scaled(a, ea) + scaled(b, eb);
}

static bool unknown(double v, double x) { return isnan(v) || isinf(v) || isnan(x); }
static bool integer(double v) { return v == floor(v); }
static double parity(double v) { return fmod(fabs(v), 2) == 0 ? 1 : -1; }

/* ---- first terms as x -> 0, and limits ---- */

/* c (x/2)^p exp(e) */
static double power(double c, double x, double p, wide e) {
    return c == 0 ? 0 : scaled(c, (p == 0 ? 0 : p * (wide_log(x) - WIDE_LN2)) + e);
}

/* Derivative n of (x/2)^v/Gamma(v + 1) (1 + sign (x/2)^2/(v + 1)), DLMF 10.2.2, 10.25.2. */
static double first_kind_near_0(double v, double x, int n, int sign) {
    double mirrored = 1;
    if (v < 0 && integer(v)) mirrored = sign < 0 ? parity(v) : 1, v = -v;
    if (v > 10) return 0;
    double m = fabs(v), inverse; /* 1/Gamma(v + 1) = inverse exp(e), DLMF 5.5.3 */
    wide e;
    inverse = reciprocal_gamma(v > -1 ? v : m - 1, &e);
    if (v < -1) inverse = sinpi_(m) / PI / inverse, e = -e;
    double c[] = {1, v / 2, v * (v - 1) / 4}, d[] = {1, (v + 2) / 2, (v + 2) * (v + 1) / 4}, p = v + 2 - n;
    inverse *= mirrored;
    double first = power(inverse * c[n], x, v - n, e);
    return (x > 0 ? p > -0.5 : p >= 0) ? first + power(inverse * sign * d[n] / (v + 1), x, p, e) : first;
}

/* Derivative n > 0 of -(Gamma(m) (x/2)^-m + cosine Gamma(-m) (x/2)^m), m >= 0: -2 K, pi Y; DLMF 10.27.4, 10.2.3 */
static double second_kind_near_0(double m, double x, int n, double cosine) {
    if (x == 0) return n == 1 ? INFINITY : -INFINITY;
    double sign = n == 1 ? 0.5 : -0.25, c = n == 1 ? 1 : m + 1, d = n == 1 ? 1 : 1 - m;
    wide e;
    double inverse = reciprocal_gamma(m, &e), first = power(sign * c / inverse, x, -m - n, -e);
    return first + (m < 1 ? power(sign * d * cosine * tgamma(1 - m), x, m - n, 0) : 0);
}

/* ---- derivatives in the argument, and values ---- */

static double kv_scaled(double v, double x, int n, int scale) {
    if (unknown(v, x) || x < 0) return NAN;
    if (isinf(x)) return 0;
    if (x == 0) return n == 1 ? -INFINITY : INFINITY;
    if (x < TINY && n > 0) return -second_kind_near_0(fabs(v), x, n, 1) / 2;
    bessel k = k_of(fabs(v), x);
    return scale ? scaled(k.s[n], k.es) : scaled(k.f[n], k.e);
}

/* For x >= 0: no function calls itself, as the stack of a GPU's thread has a fixed size. */
static double iv_right(double v, double x, int n, int scale) {
    if (unknown(v, x)) return NAN;
    if (isinf(x)) return scale ? 0 : INFINITY;
    if (x < TINY) {
        double i[3];
        for (int k = 0; k <= n; k++) i[k] = first_kind_near_0(v, x, k, 1);
        if (!scale || n == 0 || (x == 0 && n == 1)) return i[n];
        return n == 1 ? i[1] - i[0] : i[2] - 2 * i[1] + i[0];
    }
    double m = fabs(v);
    wide shift = scale * (wide)x;
    bessel i = i_of(m, x);
    double a = (scale ? i.s : i.f)[n];
    wide e = scale ? i.es : i.e;
    if (v >= 0) return scaled(a, e);
    bessel k = k_of(m, x);
    double scaled_k[] = {k.f[0], k.f[1] - k.f[0], k.f[2] - 2 * k.f[1] + k.f[0]};
    return sum(a, e, 2 / PI * combine(sinpi_(m), (scale ? scaled_k : k.f)[n], 0, 0), k.e + shift);
}

static double iv_scaled(double v, double x, int n, int scale) {
    if (x < 0 && !integer(v)) return NAN;
    double i = iv_right(v, fabs(x), n, scale);
    return x < 0 ? parity(v) * parity(n) * i : i;
}

static double iv_n(double v, double x, int n) { return iv_scaled(v, x, n, 0); }
static double kv_n(double v, double x, int n) { return kv_scaled(v, x, n, 0); }
static double ive_n(double v, double x, int n) { return iv_scaled(v, x, n, -1); }
static double kve_n(double v, double x, int n) { return kv_scaled(v, x, n, 1); }

static double jv_right(double v, double x, int n) {
    if (unknown(v, x)) return NAN;
    if (isinf(x)) return 0;
    if (x < TINY) return first_kind_near_0(v, x, n, -1);
    double m = fabs(v);
    bessel j = j_of(m, x);
    if (v >= 0) return scaled(j.f[n], j.e);
    bessel y = y_of(m, x);
    return sum(combine(cospi_(m), j.f[n], 0, 0), j.e, combine(-sinpi_(m), y.f[n], 0, 0), y.e);
}

static double jv_n(double v, double x, int n) {
    if (x < 0 && !integer(v)) return NAN;
    double j = jv_right(v, fabs(x), n);
    return x < 0 ? parity(v) * parity(n) * j : j;
}

static double yv_n(double v, double x, int n) {
    if (unknown(v, x) || x < 0) return NAN;
    if (isinf(x)) return 0;
    double m = fabs(v), s = v < 0 ? sinpi_(m) : 0, c = v < 0 ? cospi_(m) : 1;
    if (x < TINY && (n > 0 || x == 0)) {
        double y = n > 0 ? second_kind_near_0(m, x, n, cospi_(m)) / PI : -INFINITY;
        return combine(s, first_kind_near_0(m, x, n, -1), c, y);
    }
    bessel y = y_of(m, x);
    if (v >= 0) return scaled(y.f[n], y.e);
    bessel j = j_of(m, x);
    return sum(combine(s, j.f[n], 0, 0), j.e, combine(c, y.f[n], 0, 0), y.e);
}

/* ---- derivatives in the order, and of these in the argument ---- */

/* As x -> 0: (x/2)^v log(x/2)/Gamma(v + 1), or (x/2)^v (1/Gamma)'(v + 1) at the zeros of 1/Gamma; f' is f_{v-1}/2. */
static double first_kind_dv_at_0(double v, int n) {
    if (v - n > 0) return 0;
    bool even_floor = fmod(floor(v - n), 2) == 0;
    return integer(v) == even_floor ? -INFINITY : INFINITY;
}

/* Where 1/x may overflow one term of f_v' = (f_{v-1} +- f_{v+1})/2 is all: DLMF 10.6.1, 10.29.1. */
static bool next_to_0(double x, int n) { return n == 1 && x > 0 && x < 1e-300; }

static double kv_at(double v, double x, int n, int scale) {
    if (unknown(v, x) || x < 0) return NAN;
    if (v == 0 || isinf(x)) return 0;
    if (x == 0) return copysign(INFINITY, n == 0 ? v : -v);
    bessel k = k_of(fabs(v), x);
    return copysign(1, v) * (scale ? scaled(k.t[n], k.es) : scaled(k.d[n], k.e));
}

static double kv_scaled_dv(double v, double x, int n, int scale) {
    bool one_term = next_to_0(x, n) && fabs(v) >= 0.5;
    double k = kv_at(one_term ? v + copysign(1, v) : v, x, one_term ? 0 : n, one_term ? 0 : scale);
    return one_term ? -k / 2 : k;
}

static double iv_at(double v, double x, int n, int scale) {
    if (unknown(v, x) || x < 0) return NAN;
    if (isinf(x)) return scale || v == 0 ? 0 : copysign(INFINITY, -v);
    if (x == 0) return first_kind_dv_at_0(v, n);
    double m = fabs(v);
    wide shift = scale * (wide)x;
    if (m >= 0.5 || x * x <= 2) {
        bessel i = i_of(m, x);
        double d = (scale ? i.t : i.d)[n];
        wide exponent = scale ? i.es : i.e;
        if (v >= 0) return scaled(d, exponent);
        bessel k = k_of(m, x);
        double f = n && scale ? k.f[1] - k.f[0] : k.f[n], by_order = n && scale ? k.d[1] - k.d[0] : k.d[n];
        return sum(-d, exponent, -2 * combine(cospi_(m), f, sinpi_(m) / PI, by_order), k.e + shift);
    }
    pair e = i_even_part(m, x); /* E'(v) - cos(pi v) K - sin(pi v)/pi dK/dv */
    bessel k = k_of(m, x);
    double even_part = copysign(1, v) * (n == 0 ? e.f : scale ? e.d : e.d + e.f);
    double f = n && scale ? k.f[1] - k.f[0] : k.f[n], by_order = n && scale ? k.d[1] - k.d[0] : k.d[n];
    return sum(even_part, x + shift, -combine(cospi_(m), f, sinpi_(m) / PI, by_order), k.e + shift);
}

static double iv_scaled_dv(double v, double x, int n, int scale) {
    bool one_term = next_to_0(x, n);
    double i = iv_at(one_term ? v - 1 : v, x, one_term ? 0 : n, one_term ? 0 : scale);
    return one_term ? i / 2 : i;
}

static double iv_dv(double v, double x, int n) { return iv_scaled_dv(v, x, n, 0); }
static double kv_dv(double v, double x, int n) { return kv_scaled_dv(v, x, n, 0); }
static double ive_dv(double v, double x, int n) { return iv_scaled_dv(v, x, n, -1); }
static double kve_dv(double v, double x, int n) { return kv_scaled_dv(v, x, n, 1); }

static double jv_at(double v, double x, int n) {
    if (unknown(v, x) || x < 0) return NAN;
    if (isinf(x)) return 0;
    if (x == 0) return first_kind_dv_at_0(v, n);
    double m = fabs(v), s = sinpi_(m), c = cospi_(m);
    bessel j = j_of(m, x);
    if (v >= 0) return scaled(j.d[n], j.e);
    bessel y = y_of(m, x);
    return sum(PI * s * j.f[n] - c * j.d[n], j.e, combine(PI * c, y.f[n], s, y.d[n]), y.e);
}

static double jv_dv(double v, double x, int n) {
    bool one_term = next_to_0(x, n);
    double j = jv_at(one_term ? v - 1 : v, x, one_term ? 0 : n);
    return one_term ? j / 2 : j;
}

static double yv_at(double v, double x, int n) {
    if (unknown(v, x) || x < 0) return NAN;
    if (isinf(x)) return 0;
    double m = fabs(v), s = sinpi_(m), c = cospi_(m);
    if (x == 0 && v == 0) return n == 0 ? -PI / 2 : 0;
    if (x == 0) return copysign(INFINITY, v > 0 ? -1 : c != 0 ? c : -s) * (n == 0 ? 1 : -1);
    bessel y = y_of(m, x);
    if (v >= 0) return scaled(y.d[n], y.e);
    bessel j = j_of(m, x);
    return sum(-PI * c * j.f[n] - s * j.d[n], j.e, combine(PI * s, y.f[n], -c, y.d[n]), y.e);
}

static double yv_dv(double v, double x, int n) {
    bool one_term = next_to_0(x, n) && fabs(v) >= 0.5;
    double y = yv_at(one_term ? v + copysign(1, v) : v, x, one_term ? 0 : n);
    return one_term ? y * -copysign(0.5, v) : y;
}

/* ---- values where SciPy's are not ---- */

/* It gives 0, infinity or NaN long before they are right, next to 0 a Y of half an integer with a cosine that is not 0, and
 * what is left of its digits beyond 2^30 is not half. */
static bool doubtful(double theirs, double x) {
    return theirs == 0 || !isfinite(theirs) || fabs(x) > 0x1p30 || (x != 0 && fabs(x) < 1e-304);
}

/* Of large orders it loses what the phase or the exponent has before the point; so does the phase of large arguments. */
static bool loses_digits(double v, double x) { return fabs(v) > 64 ? fmax(fabs(v), fabs(x)) > 1024 : fabs(x) > 0x1p15; }

/* Ours, where the function has a value: orders that are not finite, and such, are SciPy's. */
static double better(double theirs, double ours) { return isnan(ours) ? theirs : ours; }

/*
 * For v < 0 its I is I_{-v} + (2/pi) sin(-pi v) K_{-v}, with a sine that has no digits next to integers, and a K
 * that is 0 for x > 354: it will not do unless K is small beside I.
 */
static bool needs_k(double v, double x) { return v < 0 && !(fabs(x) > 20 && fabs(x) > -v); }
