/*
 * Values of integrals of elementary functions where SciPy's are not: on GPUs, and where they are wrong.
 *
 *   E_n           power series up to x = 1 (DLMF 6.6.2, 8.19.8), continued fraction beyond (8.19.17)
 *   Ei Shi Chi    power series up to 40 (6.6.1, 6.6.5, 6.6.6 of which no terms cancel), asymptotic series beyond (6.12.2)
 *   Si Ci         power series up to 4 (6.6.5, 6.6.6), beyond the continued fraction of E_1(ix) (6.5.5, 6.9.1)
 *   S C           power series up to 1.6 (7.6.4, 7.6.6), beyond the continued fraction of erfc (7.5.9, 7.9.3)
 *   spence        series in log(z) and Bernoulli numbers about 1 (Li_2(w), u = -log(1 - w)), 25.12.4 and 25.12.6
 *   dawsn         power series of exp(x^2) dawsn up to 7 (7.6.2), asymptotic series beyond (7.12.1 rotated)
 */
#ifndef INTEGRALS_H
#define INTEGRALS_H

#include <math.h>

#define PI 3.14159265358979323846
#define EULER 0.57721566490153286061
#define TWO_OVER_SQRT_PI 1.12837916709551257390
#define EPS 1.1e-17

/* exp(sign x^2): the square as a sum of two doubles, as the error of one would be an error of x^2 ulps. */
static inline double exp_square(double x, double sign) {
    double high = x * x, low = fma(x, x, -high);
    if (high > 800) return sign > 0 ? INFINITY : 0;
    return exp(sign * high) * (1 + sign * low);
}

/* exp(x) a, also where exp(x) overflows and the product does not. */
static inline double exp_times(double x, double a) {
    double half = exp(x / 2);
    return half * (half * a);
}

/* sin and cos of pi x^2/2: x^2 modulo 4, as the sum of two doubles and exactly. */
static inline void sine_of_square(double x, double *sine, double *cosine) {
    *sine = isfinite(x) ? 0 : NAN, *cosine = isfinite(x) ? 1 : NAN;
    if (!(fabs(x) < 0x1p53)) return; /* from there on x is even, and x^2 a multiple of 4 */
    double high = x * x, low = fma(x, x, -high), quarter = remainder(high, 4), turns = rint(quarter);
    low = remainder(low, 4);
    double whole = rint((quarter - turns) + low), rest = (quarter - turns) - whole;
    double sum = rest + low, error = low - (sum - rest);
    double s = sin(PI / 2 * sum), c = cos(PI / 2 * sum), ds = PI / 2 * error;
    double a = s + c * ds, b = c - s * ds;
    switch (((int)(turns + whole) % 4 + 4) % 4) {
    case 0: *sine = a, *cosine = b; break;
    case 1: *sine = b, *cosine = -a; break;
    case 2: *sine = -a, *cosine = -b; break;
    default: *sine = -b, *cosine = a;
    }
}

/* E_n(x), x > 0: exp(-x)/(x + n - n/(x + n + 2 - 2 (n + 1)/(...))) */
static inline double expn_fraction(double n, double x) {
    double rest = 0;
    for (double k = 20 + floor(80 / x); k > 0; k--) rest = k * (n + k - 1) / (x + n + 2 * k - rest);
    return exp(-x) / (x + n - rest);
}

static inline double expn_series(double n, double x) {
    double harmonic = 0, power = 1, sum = n == 1 ? 0 : 1 / (n - 1); /* power: (-x)^k/k! */
    for (double k = 1; k < n && k < 40; k++) harmonic += 1 / k;
    for (double k = 1; k < 40; k++) {
        power *= -x / k;
        if (k != n - 1) sum -= power / (k - n + 1);
    }
    if (n > 30) return sum;
    power = 1;
    for (double k = 1; k < n; k++) power *= -x / k;
    return sum + power * (harmonic - EULER - log(x));
}

static inline double expn_value(double n, double x) {
    n = trunc(n);
    if (isnan(n) || isnan(x) || n < 0 || x < 0) return NAN;
    if (x == 0) return n < 2 ? INFINITY : 1 / (n - 1);
    if (isinf(x) || isinf(n)) return 0;
    if (n == 0 || n > 1e17) return exp(-x) / (x + n);
    return x > 1 ? expn_fraction(n, x) : expn_series(n, x);
}

static inline double exp1_value(double x) { return expn_value(1, x); }

/* The sum of x^k/(k k!) over k of one parity, or over all (step 1), times the signs of `square` = +- x^step. */
static inline double integral_series(double first, double square, int from, int step) {
    double term = first, sum = 0; /* x^k/k! */
    for (int k = from; k < 300; k += step) {
        sum += term / k;
        if (fabs(term) <= EPS * fabs(sum)) break;
        term *= square / (step == 1 ? k + 1.0 : (k + 1.0) * (k + 2.0));
    }
    return sum;
}

/* Ei(x), x > 40, and of Shi and Chi, which are half of it, the exponent's factor. */
static inline double expi_far(double x, double factor) {
    double term = 1 / x, sum = 0;
    for (int k = 1; k < 60 && fabs(term) > EPS * fabs(sum); k++) {
        sum += term;
        if (k > x) break;
        term *= k / x;
    }
    return exp_times(x, factor * sum);
}

static inline double expi_value(double x) {
    if (isnan(x)) return NAN;
    if (x == 0) return -INFINITY;
    if (x < 0) return -expn_value(1, -x);
    if (isinf(x)) return x;
    return x > 40 ? expi_far(x, 1) : EULER + log(x) + integral_series(x, x, 1, 1);
}

static inline void shichi_value(double x, double *shi, double *chi) {
    double size = fabs(x);
    if (isinf(x) || size > 40) {
        *chi = isinf(x) ? size : expi_far(size, 0.5), *shi = copysign(*chi, x);
        return;
    }
    *shi = integral_series(x, x * x, 1, 2),
    *chi = x == 0 ? -INFINITY : EULER + log(size) + integral_series(x * x / 2, x * x, 2, 2);
}

static inline void sici_value(double x, double *si, double *ci) {
    double size = fabs(x), re = 0, im = 0;
    if (!(size > 4)) {
        *si = integral_series(x, -x * x, 1, 2),
        *ci = x == 0 ? -INFINITY : EULER + log(size) + integral_series(-x * x / 2, -x * x, 2, 2);
        return;
    }
    if (size > 1e10) { /* ix is all, and its square may overflow */
        double s = isinf(x) ? 0 : sin(size), c = isinf(x) ? 0 : cos(size);
        *ci = s / size, *si = copysign(PI / 2 - c / size, x);
        return;
    }
    for (int k = 60; k >= 0; k--) { /* k^2/(ix + 2k + 1 - rest), at last 1/(ix + 1 - rest) */
        double a = 2 * k + 1 - re, b = size - im, square = a * a + b * b, top = k ? (double)k * k : 1;
        re = top * a / square, im = -top * b / square;
    }
    double s = sin(size), c = cos(size); /* E_1(ix) = (c - is)(re + i im) = -Ci + i (Si - pi/2) */
    *ci = -(c * re + s * im), *si = copysign(PI / 2 + (c * im - s * re), x);
}

static inline void fresnel_value(double x, double *s, double *c) {
    double size = fabs(x), sine, cosine, re = 0, im = 0;
    if (!(size > 1.6)) {
        double t = PI / 2 * x * x, square = t * t, even = x, odd = x * t; /* x t^k/k! */
        *s = *c = 0;
        for (int k = 0; k < 40; k += 2) {
            *c += even / (2 * k + 1), *s += odd / (2 * k + 3);
            even *= -square / ((k + 1.0) * (k + 2.0)), odd *= -square / ((k + 2.0) * (k + 3.0));
        }
        return;
    }
    if (isinf(x)) {
        *s = *c = copysign(0.5, x);
        return;
    }
    double z = sqrt(PI) / 2 * size; /* erfc((1 - i) z) = exp(i pi x^2/2)/sqrt(pi)/((1 - i) z + 1/2/(... + 1/(...))) */
    for (int k = 100; k >= 0; k--) {
        double a = z + re, b = -z + im, square = a * a + b * b, top = k ? k / 2. : 1 / sqrt(PI);
        re = top * (a / square), im = -top * (b / square);
    }
    sine_of_square(size, &sine, &cosine);
    double a = 1 - (cosine * re - sine * im), b = -(sine * re + cosine * im); /* (1 + i)/2 (a + ib) */
    *c = copysign((a - b) / 2, x), *s = copysign((a + b) / 2, x);
}

/* Li_2(1 - z) next to 1: u - u^2/4 + sum of B_2k u^(2k+1)/(2k+1)!, u = -log(z) */
static inline double spence_near_1(double z) {
    static const double c[] = {
        1 / 36., -1 / 3600., 1 / 211680., -1 / 10886400., 1 / 526901760., -691 / 16999766784000., 1 / 1120863744000.};
    double u = -log(z), square = u * u, power = u * square, sum = u - square / 4;
    for (int k = 0; k < 7; k++, power *= square) sum += c[k] * power;
    return sum;
}

static inline double spence_value(double z) {
    if (!(z >= 0)) return NAN;
    if (z == 0) return PI * PI / 6;
    if (isinf(z)) return -INFINITY;
    if (z < 0.5) return PI * PI / 6 - log(z) * log1p(-z) - spence_near_1(1 - z);
    if (z <= 2) return spence_near_1(z);
    double l = log(z), inverse = 1 / z;
    return -l * l / 2 -
           (inverse < 0.5 ? PI * PI / 6 + l * log1p(-inverse) - spence_near_1(1 - inverse) : spence_near_1(inverse));
}

static inline double dawsn_value(double x) {
    double square = x * x, term, sum = 0;
    if (fabs(x) > 7) {
        term = 0.5 / x;
        for (int k = 0; k < 40 && fabs(term) > EPS * fabs(sum); k++) {
            sum += term;
            term *= (k + 0.5) / square;
        }
        return sum;
    }
    term = x; /* x^(2k+1)/k! */
    for (int k = 1; k < 300 && fabs(term) > EPS * fabs(sum); k++) {
        sum += term / (2 * k - 1);
        term *= square / k;
    }
    return isnan(x) ? NAN : exp_square(x, -1) * sum;
}

static inline double erfi_value(double x) {
    double size = fabs(x), factor = TWO_OVER_SQRT_PI * dawsn_value(x), high = x * x;
    if (size > 27) return copysign(INFINITY, x);
    return exp_times(high, factor) * (1 + fma(x, x, -high));
}

#endif
