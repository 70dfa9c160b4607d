/*
 * The spherical Bessel functions j_n, y_n, i_n, k_n of real argument, and their derivatives of order d = 0, 1, 2, 3.
 *
 *   j, i, x^2 <= 4n + 6   power series, DLMF 10.53.1, 10.53.3, by terms: formulas in f_n, f_{n+1} cancel for small x
 *   j, n < x              recurrence up from j_0 and j_1, DLMF 10.51.1; stable where j oscillates
 *   j, i else             continued fraction for f_{n+1}/f_n, recurrence down to f_0 (or f_1), which is known
 *   y, k                  recurrence up, as they grow
 *   n > MANY              sqrt(pi/(2x)) times the Bessel functions of order n + 1/2, DLMF 10.47.3 to 10.47.9
 *   derivatives           DLMF 10.51.2, 10.51.5 and these differentiated, in f_n and f_{n+1}
 *   x < 0                 parity, DLMF 10.47(v)
 *   0, infinity           limits; y_n at 0 as from the right
 */
#include <stddef.h>
#include <stdint.h>

#include "bessel.h"

#define HALF_PI 1.57079632679489661923
#define MANY 1e4 /* steps that nobody waits for */

static double sign_of(double n) { return fmod(n, 2) == 0 ? 1 : -1; }

/*
 * Derivative d of f where f' = (n/x) f + sign g, g' = f - ((n + 2)/x) g: sign -1: j and y, g = f_{n+1}; +1: i and
 * k, g = i_{n+1}, -k_{n+1}.
 */
OWN_CALL static double derivative(double f, double g, double n, double x, int64_t d, int sign) {
    double a = n / x, b = (n - 1) / x, c = (n - 2) / x;
    if (d == 0) return f;
    if (d == 1) return a * f + sign * g;
    if (d == 2) return (a * b + sign) * f - sign * 2 / x * g;
    return (a * b * c + sign * c) * f + (1 + sign * (n * (n + 1) + 6) / x / x) * g;
}

/* Where the power series is used. */
static bool few_terms(double n, double x) { return x * x <= 4 * n + 6; }

/*
 * Derivative d of the power series, sign -1: j, +1: i; x^power without its 0 factors, which differentiating leaves. In
 * wide numbers, as j' has a zero at x^2 < 4n + 6.
 */
OWN_CALL static double series(double n, double x, int64_t d, int sign) {
    double k = n >= d ? 0 : ceil((d - n) / 2), power = n + 2 * k - d;
    wide z = sign * (wide)x * x / 2, c = 0x1p500, sum = 0, term; /* times 2^500, as c may underflow */
    for (double i = 1; i <= n && c != 0; i++) c *= (i <= power ? x : 1) / (2 * i + 1);
    if (power > n) c *= x; /* n = 0, power 1 */
    for (double i = 1; i <= k; i++) c *= sign / ((wide)2 * i * (2 * n + 1 + 2 * i));
    double last = k + 100; /* terms fall as 1/k! */
    do {
        term = c;
        for (int64_t i = 0; i < d; i++) term *= n + 2 * k - i;
        sum += term;
        k++;
        c *= z / (k * (2 * n + 1 + 2 * k));
    } while (wide_abs(term) > 1e-20 * wide_abs(sum) && k < last);
    return ldexp((double)sum, -500);
}

/* f_{n+1}/f_n = x/(2n + 3 + sign x^2/(2n + 5 + ...)), DLMF 10.33.1 and the like, by Lentz's method */
OWN_CALL static double ratio(double n, double x, int sign) {
    double z = sign * x * x, f = 2 * n + 3, c = f, d = 0, factor = 0;
    for (double b = 2 * n + 5; fabs(factor - 1) > 1e-16 && b < 1e6; b += 2) {
        d = b + z * d, c = b + z / c;
        if (d == 0) d = 1e-300;
        if (c == 0) c = 1e-300;
        d = 1 / d, f *= factor = c * d;
    }
    return x / f;
}

/*
 * Derivative d of a function of the order n > MANY, of which `next` times the one of order n + 1 is g. What is infinite
 * keeps its sign. Beyond 2^52 nobody knows n + 1/2, nor the phase, but what is 0 or infinite.
 */
OWN_CALL static double of_large_order(bessel (*of)(double, double), double n, double x, int64_t d, int sign, int next) {
    if (x == 0) return 0;
    if (isinf(x)) return INFINITY;
    bessel here = of(n + 0.5, x), after = of(n + 1.5, x);
    double f = scaled(here.f[0], here.e), g = next * scaled(after.f[0], after.e), front = sqrt(HALF_PI) / sqrt(x);
    if (f == 0) return 0;
    if (isinf(f)) return here.f[d % 2] * INFINITY;
    return n > 0x1p52 ? NAN : derivative(front * f, front * g, n, x, d, sign);
}

/* Whether the function is one of x - n pi/2: DLMF 10.17.3, whose first correction of the phase is n^2/(2x) */
static bool has_bare_phase(double n, double x) { return n * (n / x) < 1e-20; }

OWN_CALL static double j_positive(double n, double x, int64_t d) {
    if (isinf(x)) return 0;
    if (n > MANY && has_bare_phase(n, x)) n = fmod(n, 4);
    if (n > MANY) return of_large_order(j_of, n, x, d, -1, 1);
    if (few_terms(n, x)) return series(n, x, d, -1);
    double zero = sin(x) / x, one = (zero - cos(x)) / x, f = zero, g = one;
    if (n < x) {
        for (double k = 1; k <= n; k++) {
            double next = (2 * k + 1) / x * g - f;
            f = g, g = next;
        }
        return derivative(f, g, n, x, d, -1);
    }
    double a = 1, b = ratio(n, x, -1), size = 1, r = b; /* j_k, j_{k+1} in units of j_n */
    for (double k = n; k > 0; k--) {
        double next = (2 * k + 1) / x * a - b;
        b = a, a = next;
        if (fabs(a) > 1e200) a *= 1e-200, b *= 1e-200, size *= 1e-200;
    }
    f = size * (fabs(zero) > fabs(one) ? zero / a : one / b);
    return derivative(f, r * f, n, x, d, -1);
}

OWN_CALL static double y_positive(double n, double x, int64_t d) {
    if (isinf(x)) return 0;
    if (n > MANY && has_bare_phase(n, x)) n = fmod(n, 4);
    if (n > MANY && x > 0) return of_large_order(y_of, n, x, d, -1, 1);
    double f = -cos(x) / x, g = (f - sin(x)) / x;
    for (double k = 1; k <= n && !isinf(f); k++) {
        double next = (2 * k + 1) / x * g - f;
        f = g, g = next;
    }
    double found = derivative(f, g, n, x, d, -1);
    return isfinite(found) ? found : -sign_of(d) * INFINITY; /* next to 0 */
}

#define STEP 0x1p-512 /* taken out of what leaves the range */
#define LOG_STEP (-512 * WIDE_LN2)

/* log(i_n) > x - log(2x) - n asinh((n + 1)/x), by the bound x/(v + sqrt(v^2 + x^2)) of I_v/I_{v-1} (Amos 1974) */
static bool overflows(double n, double x) { return x - log(2 * x) - n * asinh((n + 1) / x) > 720; }

OWN_CALL static double i_positive(double n, double x, int64_t d) {
    if (n > MANY) return of_large_order(i_of, n, x, d, 1, 1);
    if (isinf(x * x) || overflows(n, x)) return INFINITY; /* the fraction has x terms or so */
    if (few_terms(n, x)) return series(n, x, d, 1);
    double r = ratio(n, x, 1), last = r,
           f = -expm1(-2 * x) / (2 * x); /* times exp(e), as i_n is in range where f is not */
    wide e = x;
    for (double k = n; k > 0; k--) {
        f *= last = 1 / (last + (2 * k + 1) / x); /* i_k/i_{k-1} */
        if (f < STEP) f /= STEP, e += LOG_STEP;
    }
    return scaled(derivative(f, r * f, n, x, d, 1), e);
}

OWN_CALL static double k_positive(double n, double x, int64_t d) {
    if (isinf(x)) return 0;
    if (n > MANY && x > 0) return of_large_order(k_of, n, x, d, 1, -1);
    double f = HALF_PI / x, g = f + f / x; /* times exp(e) */
    wide e = -x;
    for (double k = 1; k <= n && isfinite(f); k++) {
        double next = f + (2 * k + 1) / x * g;
        f = g, g = next;
        if (g > 1 / STEP) f *= STEP, g *= STEP, e -= LOG_STEP;
    }
    double found = derivative(f, -g, n, x, d, 1);
    return isfinite(found) ? scaled(found, e) : sign_of(d) * INFINITY;
}

static int outside(double n, double x) { return !(n >= 0) || isinf(n) || isnan(x); }

static double spherical_j(double n, double x, int64_t d) {
    n = trunc(n); /* as SciPy does */
    if (outside(n, x)) return NAN;
    return x < 0 ? sign_of(n) * sign_of(d) * j_positive(n, -x, d) : j_positive(n, fabs(x), d);
}

static double spherical_y(double n, double x, int64_t d) {
    n = trunc(n);
    if (outside(n, x)) return NAN;
    return x < 0 ? -sign_of(n) * sign_of(d) * y_positive(n, -x, d) : y_positive(n, fabs(x), d);
}

static double spherical_i(double n, double x, int64_t d) {
    n = trunc(n);
    if (outside(n, x)) return NAN;
    return x < 0 ? sign_of(n) * sign_of(d) * i_positive(n, -x, d) : i_positive(n, fabs(x), d);
}

static double spherical_k(double n, double x, int64_t d) {
    n = trunc(n);
    if (outside(n, x)) return NAN;
    if (x >= 0) return k_positive(n, fabs(x), d);
    return -sign_of(d) * (2 * HALF_PI * i_positive(n, -x, d) + sign_of(n) * k_positive(n, -x, d));
}
