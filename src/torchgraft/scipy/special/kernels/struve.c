/*
 * The Struve function H_v(x), and its first and second derivative in the argument.
 *
 *   -5/4 < v < 2, x^2 <= 12(v + 3/2)   power series, DLMF 11.2.1: recurrences cancel for small x next to v = 0, -1.
 *                                      It loses a factor 4 at most
 *   x < 1e-140                         likewise, of v <= -5/4 its first term: v/x may overflow
 *   x > 5, x >= 0.9 v, x >= -v/2       Y_v + K_v, DLMF 11.2.5, Y of bessel.c and K the integral 11.5.2. SciPy's values
 *                                      are up to 2e-9 off here; for smaller x the sum cancels
 *   v >= -5/4 elsewhere                H' = H_{v-1} - (v/x) H, DLMF 11.4.27, of SciPy's values
 *   v < -5/4                           H' = (v/x) H - H_{v+1} + g, g = (x/2)^v/(sqrt(pi) Gamma(v + 3/2)), DLMF 11.4.28:
 *                                      v + 1 has no rounding, which next to the poles of Gamma would be seen
 *   x < 0                              parity of integer orders, else NaN
 *   0, infinity                        limits
 */
#include "bessel.c"
#include <stdint.h>

#define SQRT_PI 1.77245385090551602730

TG_IMPORT(double, scipy_struve, (double, double, int))

/* 1/Gamma(v + 3/2), for v < -1 by DLMF 5.5.3: long double for its range */
static long double gamma_factor(double v) {
    return v < -1 ? -cospi_(v) * tgammal(-v - 0.5L) / PI : 1 / tgammal(v + 1.5L);
}

/* Derivative n of the term c (x/2)^(v + q): a factor that is 0 wins. */
static double differentiated(double c, double v, int q, double x, int64_t n) {
    for (int64_t k = 0; k < n; k++) c *= (v + (double)(q - k)) / 2;
    return c == 0 ? 0 : c * pow_half(x, v + (double)(q - n));
}

static double series(double v, double x, int64_t n) {
    double c = (double)(2 / SQRT_PI * gamma_factor(v)), found = 0, term = 0;
    for (int k = 0; isfinite(found) && (k < 2 || fabs(term) > 1e-18 * fabs(found)); k++) {
        found += term = differentiated(c, v, 2 * k + 1, x, n);
        c /= -(k + 1.5) * (k + v + 1.5);
    }
    return found;
}

/*
 * Derivative n of K_v = a int_0^oo exp(-u) (1 + (u/x)^2)^(v - 1/2) du, a = (x/2)^(v - 1)/(sqrt(pi) Gamma(v + 1/2)): of
 * the integral over u/x, factors -u/x. The trapezoidal rule in s, u = exp(s - exp(-s)).
 */
static double struve_k(double v, double x, int64_t n) {
    double sums[3] = {0}, h = 0.08;
    for (double s = -3.75; s < 700; s += h) {
        double e = exp(-s), u = exp(s - e), q = u / x, w = exp((v - 0.5) * log1p(q * q) - u) * u * (1 + e);
        if (s > 1 && w < 1e-20 * sums[0]) break;
        sums[0] += w, sums[1] += w * u, sums[2] += w * u * u;
    }
    long double log_a = (v - 1.0L) * logl(x / 2.0L) - lgammal(v + 0.5L), a;
    if (fabs(v) < 1000) a = powl(x / 2.0L, v - 1) * gamma_factor(v) * (v + 0.5L) / SQRT_PI * h;
    else
        a = (v < 0 ? cospi_(v) * expl((v - 1.0L) * logl(x / 2.0L) + lgammal(0.5L - v)) / PI : expl(log_a)) / SQRT_PI *
            h;
    if (n == 0) return (double)(a * sums[0]);
    double k = n == 1 ? v * sums[0] - sums[1] : v * (v - 1) * sums[0] - 2 * v * sums[1] + sums[2];
    return (double)(a * k / x / (n == 1 ? 1 : x));
}

/* As x -> infinity, DLMF 11.6.1: (x/2)^(v - 1)/(sqrt(pi) Gamma(v + 1/2)), and for v < 1/2 oscillations that vanish. */
static double at_infinity(double v, int64_t n) {
    double power = v - 1 - (double)n;
    return power < 0 ? 0 : power > 0 ? INFINITY : differentiated(1 / (SQRT_PI * tgamma(v + 0.5)), v, -1, 2, n);
}

/* Next to 0, v <= -5/4: the first term of the power series, where v + 3/2 is no pole; else H_v = (-1)^m J_{m + 1/2}. */
static double near_0(double v, double x, int64_t n) {
    double c = (double)(2 / SQRT_PI * gamma_factor(v));
    return c != 0 ? differentiated(c, v, 1, x, n) : parity(-v - 0.5) * jv_n(-v, x, (int)n);
}

/* Y_v + K_v. Where both are infinite, they are as powers of v, and that of K_v is the larger one where v > 0. */
static double split(double v, double x, int64_t n) {
    double y = yv_n(v, x, (int)n), k = struve_k(v, x, n);
    return isinf(k) && v > 0 ? k : isinf(y) ? y : y + k;
}

/*
 * Of a large order v > 0 derivative n is 0 or infinite but about x = 2 v/e: as the first term of 11.6.1, with which for
 * v > 1/2 and x > sqrt(v) the Fourier integral 11.5.1 begins, and below that less than the first of 11.2.1. Of -v it is
 * infinite up to x = |v|/2, as terms of 11.2.1 have one sign there; but of half an integer, 10.2.2's J.
 */
static bool out_of_range(double v, double x, int64_t n, double *limit) {
    if (!(fabs(v) > 1e4 && x > 0 && isfinite(v))) return false;
    double size = v * (log(x / 2) - log(fabs(v)) + 1) - log(x / 2), sign = cospi_(v);
    *limit = v < 0 ? (sign == 0 ? 0 : copysign(INFINITY, -sign) * parity((double)n)) : size < 0 ? 0 : INFINITY;
    return v < 0 ? x < -v / 2 : fabs(size) > 2000;
}

/* Where Y_v + K_v loses nothing. */
static bool splits(double v, double x) { return x > 5 && x >= (v < 0 ? 0.5 : 0.9) * fabs(v); }

/* SciPy's value; ours where that loses digits, next to |v| from above and far from 0, and where it has no limits, next to 0
 * and of large orders. At two infinities it does not return. */
static double struve_value(double v, double x) {
    bool lost = ((fabs(v) > 15 && x <= 2 * fabs(v) && x >= 0.9 * fabs(v)) || x > 0x1p13) && splits(v, x);
    double limit;
    if (isnan(v + x) || isinf(v)) return isinf(x) ? NAN : scipy_struve(v, x, 0);
    if (signbit(x) && v == floor(v)) return -parity(v) * struve_value(v, -x);
    if (x < 0) return NAN;
    if (x < TINY && (v < -1.25 || x > 0)) return v < -1.25 ? near_0(v, x, 0) : series(v, x, 0);
    if (out_of_range(v, x, 0, &limit)) return limit;
    return lost ? split(v, x, 0) : scipy_struve(v, x, 0);
}

static double struve_derivative(double v, double x, int64_t n) {
    if (!isfinite(v) || isnan(x)) return NAN;
    if (x < 0) {
        return v == floor(v) ? -parity(v) * parity((double)n) * struve_derivative(v, -x, n) : NAN;
    }
    double limit;
    if (isinf(x)) return at_infinity(v, n);
    if (out_of_range(v, x, n, &limit)) return limit;
    if (v > -1.25 && (x < TINY || (v < 2 && x * x <= 12 * (v + 1.5)))) return series(v, x, n);
    if (x < TINY) return near_0(v, x, n);
    if (splits(v, x)) return split(v, x, n);
    double h = scipy_struve(v, x, 0);
    if (v >= -1.25) {
        double below = scipy_struve(v - 1, x, 0);
        if (n == 1) return below - v / x * h;
        return scipy_struve(v - 2, x, 0) - (2 * v - 1) / x * below + v * (v + 1) / x / x * h;
    }
    double above = scipy_struve(v + 1, x, 0), g = (double)(powl(x / 2.0L, v) * gamma_factor(v) / SQRT_PI);
    double found = n == 1 ? v / x * h - above + g : (v / x * ((v - 1) / x) - 1) * h + above / x + 2 * v / x * g;
    return isnan(found) && !isnan(h) ? near_0(v, x, n) : found; /* of terms that overflow, the first is the largest */
}
