/*
 * First and second derivatives in the argument of the Struve function H_v(x), of SciPy's values of H.
 *
 *   -5/4 < v < 2, x^2 <= 12(v + 3/2)   power series, DLMF 11.2.1, as recurrences cancel for small x next to v = 0 and -1.
 *                                      It loses a factor 4 at most
 *   v >= -5/4 elsewhere                H' = H_{v-1} - (v/x) H, DLMF 11.4.26
 *   v < -5/4                           H' = (v/x) H - H_{v+1} + g, g = (x/2)^v/(sqrt(pi) Gamma(v + 3/2)), DLMF 11.4.27:
 *                                      v + 1 has no rounding, which next to the poles of Gamma would be seen
 *   x < 0                              parity of integer orders, else NaN
 *   0, infinity                        limits
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define PI 3.14159265358979323846
#define SQRT_PI 1.77245385090551602730

TG_IMPORT(double, scipy_struve, (double, double, int))

static double value(double v, double x) { return scipy_struve(v, x, 0); }

/* cos(pi v): exact reduction, exact zeros */
static double cosine(double v)
{
    double r = fmod(fabs(v), 2);
    if (r > 1) r = 2 - r;
    return r <= 0.25 ? cos(PI * r) : r >= 0.75 ? -cos(PI * (1 - r)) : sin(PI * (0.5 - r));
}

/* 1/Gamma(v + 3/2), for v < -1 by DLMF 5.5.3: long double for its range */
static long double reciprocal_gamma(double v)
{
    return v < -1 ? -cosine(v) * tgammal(-v - 0.5L) / PI : 1 / tgammal(v + 1.5L);
}

/* Derivative n of the term c (x/2)^(v + q): a factor that is 0 wins. */
static double differentiated(double c, double v, int q, double x, int64_t n)
{
    for (int64_t k = 0; k < n; k++) c *= (v + (double)(q - k)) / 2;
    return c == 0 ? 0 : c * pow(x / 2, v + (double)(q - n));
}

static double series(double v, double x, int64_t n)
{
    double c = (double)(2 / SQRT_PI * reciprocal_gamma(v)), found = 0, term = 0;
    for (int k = 0; isfinite(found) && (k < 2 || fabs(term) > 1e-18 * fabs(found)); k++) {
        found += term = differentiated(c, v, 2 * k + 1, x, n);
        c /= -(k + 1.5) * (k + v + 1.5);
    }
    return found;
}

/* As x -> infinity, DLMF 11.6.1: (x/2)^(v - 1)/(sqrt(pi) Gamma(v + 1/2)), and for v < 1/2 oscillations that vanish. */
static double at_infinity(double v, int64_t n)
{
    double power = v - 1 - (double)n;
    return power < 0 ? 0 : power > 0 ? INFINITY : differentiated(1 / (SQRT_PI * tgamma(v + 0.5)), v, -1, 2, n);
}

/* As x -> 0, v <= -5/4: the first term of the power series, where v + 3/2 is no pole; else that of (-1)^m J_{m+1/2}. */
static double at_0(double v, int64_t n)
{
    double first = (double)reciprocal_gamma(v);
    if (first != 0) return differentiated(first, v, 1, 0, n);
    return v == -1.5 && n == 2 ? -INFINITY : 0;
}

double struve_derivative(double v, double x, int64_t n)
{
    if (!isfinite(v) || isnan(x)) return NAN;
    if (x < 0) {
        double sign = fmod(fabs(v) + n, 2) == 0 ? -1 : 1;
        return v == floor(v) ? sign * struve_derivative(v, -x, n) : NAN;
    }
    if (isinf(x)) return at_infinity(v, n);
    if (v > -1.25 && v < 2 && x * x <= 12 * (v + 1.5)) return series(v, x, n);
    if (x == 0) return v < 0 ? at_0(v, n) : 0; /* v >= 2 */
    double h = value(v, x);
    if (v >= -1.25) {
        double below = value(v - 1, x);
        return n == 1 ? below - v / x * h : value(v - 2, x) - (2 * v - 1) / x * below + v * (v + 1) / x / x * h;
    }
    double above = value(v + 1, x), g = (double)(powl(x / 2.0L, v) * reciprocal_gamma(v) / SQRT_PI);
    return n == 1 ? v / x * h - above + g : (v / x * ((v - 1) / x) - 1) * h + above / x + 2 * v / x * g;
}
