/*
 * Derivatives of every order n >= 1 of integrals of elementary functions.
 *
 * Their closed forms cancel where the integral tends to its first terms: dawsn' = 1 - 2x dawsn loses x^2, sici'' loses
 * 1/x^2. Each is therefore computed in the way that loses nothing where the argument lies:
 *
 *   E_n           E_n' = -E_{n-1} (DLMF 8.19.13), which below n = 1 is exp(-x) times a finite sum (8.19.1 with 8.8.2)
 *   Ei            Leibniz, exp(x)/x: a finite sum
 *   Si Ci Shi Chi x^n times the integral over [0, 1] of t^n cos(xt + n pi/2) and the like: its power series up to |x| =
 *                 n + 1, its recurrence in n beyond
 *   S C           sin and cos of pi x^2/2 (DLMF 7.2.7, 7.2.8), reduced exactly, and a recurrence
 *   spence        log(z)/(1 - z), its power series around 1, a recurrence elsewhere
 *   dawsn         recurrence (DLMF 7.10.3) up to x = 7, asymptotic series (7.12.1 rotated) beyond
 *   erfi          exp(x^2) times a Hermite-like polynomial whose terms are all positive (7.10.1)
 *   erfcx         the recurrence of repeated integrals (7.18.7) up to x = 2; it is unstable beyond, where their
 *                 continued fraction (7.18.13) converges fast
 */
#include <stdbool.h>

#include "integrals.h"

#ifdef __CUDACC__

#define expn_at expn_value
#define dawsn_at dawsn_value

#else

TG_IMPORT(double, scipy_expn, (double, double, int))
TG_IMPORT(double, scipy_dawsn, (double, int))

static double expn_at(double n, double x) { return n > 2e9 ? expn_value(n, x) : scipy_expn(n, x, 0); }
static double dawsn_at(double x) { return scipy_dawsn(x, 0); }

#endif

static double factorial(int n) { return tgamma(n + 1.0); }

static double alternating(int n, double x) { return n % 2 ? -x : x; }

/* ---- exponential integrals ---- */

/* The sum of x^k/k! for k <= m. */
static double exponential_sum(int m, double x) {
    double term = 1, sum = 1;
    for (int k = 1; k <= m; k++) sum += term *= x / k;
    return sum;
}

/* E_order(x), x >= 0, the order an integer, also a negative one. */
static double expn_of_any_order(double order, double x) {
    if (order > 0) return expn_at(order, x);
    if (isnan(x) || x < 0) return NAN;
    if (x == 0) return INFINITY;
    if (x > 800) return 0;
    int m = (int)-order;
    double quotient = exponential_sum(m, x) / x;
    for (int k = 1; k <= m; k++) quotient *= k / x;
    return exp(-x) * quotient;
}

static double expn_derivative(double order, double x, int n) {
    order = trunc(order); /* as SciPy does */
    if (!(order >= 0)) return NAN;
    return alternating(n, expn_of_any_order(order - n, x));
}

static double exp1_derivative(double x, int n) { return expn_derivative(1, x, n); }

static double expi_derivative(double x, int n) {
    if (isinf(x)) return x > 0 ? x : -0.0;
    double quotient = exponential_sum(n - 1, -x) / x;
    for (int k = 1; k < n; k++) quotient *= -k / x;
    return exp_times(x, quotient);
}

/* ---- sine and cosine integrals, circular (sign -1) and hyperbolic (sign +1) ---- */

/* The integral over [0, 1] of t^m f(xt), f the m-th derivative of cos or of cosh. */
static double moment_series(int m, double x, int sign) {
    int odd = m % 2;
    double square = sign * x * x, term = odd ? sign * x : 1, sum = 0;
    if (sign < 0 && (m / 2) % 2) term = -term;
    for (int k = odd;; k += 2) {
        double part = term / (k + m + 1);
        sum += part;
        if (fabs(part) <= EPS * fabs(sum)) return sum;
        term *= square / ((k + 1.0) * (k + 2.0));
    }
}

/* The m-th derivative of sin(x + shift pi/2). */
static double circular(int m, int shift, double x) {
    switch ((m + shift) % 4) {
    case 0: return sin(x);
    case 1: return cos(x);
    case 2: return -sin(x);
    default: return -cos(x);
    }
}

static double sici_derivative(double x, int n, bool cosine) {
    if (isinf(x)) return 0;
    if (!cosine && fabs(x) <= n + 1) return moment_series(n - 1, x, -1);
    double f = circular(0, cosine, x) / x;
    for (int m = 1; m < n; m++) f = (circular(m, cosine, x) - m * f) / x;
    return f;
}

static double shichi_derivative(double x, int n, bool cosine) {
    if (isinf(x)) return !cosine && n % 2 ? INFINITY : cosine && n % 2 == 0 ? INFINITY : x;
    if (!cosine && fabs(x) <= n + 1) return moment_series(n - 1, x, 1);
    double size = fabs(x), small = exp(-2 * size), sinh_scaled = copysign(-expm1(-2 * size) / 2, x),
           cosh_scaled = (1 + small) / 2, f = (cosine ? cosh_scaled : sinh_scaled) / x;
    for (int m = 1; m < n; m++) f = (((m + cosine) % 2 ? cosh_scaled : sinh_scaled) - m * f) / x;
    return exp_times(size, f);
}

/* ---- Fresnel integrals ---- */

static double fresnel_derivative(double x, int n, bool cosine) {
    double s, c, before_s = 0, before_c = 0;
    sine_of_square(x, &s, &c);
    for (int m = 1; m < n; m++) {
        double next_s = PI * (x * c + (m - 1) * before_c), next_c = -PI * (x * s + (m - 1) * before_s);
        before_s = s, before_c = c, s = next_s, c = next_c;
    }
    return cosine ? c : s;
}

/* ---- Spence's function ---- */

static double spence_derivative(double z, int n) {
    double w = z - 1, power = 1, sum = 0, g = w == 0 ? -1 : fabs(w) < 0.5 ? -log1p(w) / w : -log(z) / w;
    if (!(z >= 0)) return NAN;
    if (isinf(z)) return alternating(n, 0.0);
    if (z == 0) return alternating(n, INFINITY);
    if (n == 1) return g;
    if (fabs(w) > 0.5) {
        double reciprocal = 1 / z;
        for (int m = 1; m < n; m++) {
            g = -(m * g + reciprocal) / w;
            reciprocal *= -m / z;
        }
        return g;
    }
    /* -log(1 + w)/w = sum of (-1)^(k+1) w^k/(k + 1), its derivative of order n - 1 */
    double falling = factorial(n - 1);
    for (int k = n - 1;; k++) {
        double part = alternating(k + 1, falling * power / (k + 1));
        sum += part;
        if (fabs(part) <= EPS * fabs(sum)) return sum;
        power *= w, falling *= (k + 1.0) / (k + 2.0 - n);
    }
}

/* ---- error functions ---- */

static double dawsn_derivative(double x, int n) {
    double r = 1 / x, square = r * r;
    if (fabs(x) > 7) { /* the sum over k of (2k-1)!! / 2^(k+1) times the n-th derivative of x^-(2k+1) */
        double term = 0.5 * factorial(n), sum = 0;
        for (int i = 0; i <= n; i++) term *= r;
        for (int k = 0; k < 40; k++) {
            sum += term;
            double steps = (2 * k + n + 1.0) * (2 * k + n + 2) / ((2 * k + 1.0) * (2 * k + 2));
            double next = term * (k + 0.5) * square * steps;
            if (!(fabs(next) > EPS * fabs(sum)) || fabs(next) >= fabs(term)) break;
            term = next;
        }
        return alternating(n, sum);
    }
    double before = dawsn_at(x), d = fma(-2 * x, before, 1);
    for (int m = 1; m < n; m++) {
        double next = -2 * (x * d + m * before);
        before = d, d = next;
    }
    return d;
}

static double erfi_derivative(double x, int n) {
    double before = 0, h = 1;
    for (int m = 1; m < n; m++) {
        double next = 2 * (x * h + (m - 1) * before);
        before = h, h = next;
    }
    if (isinf(x) || h == 0) return h * (isinf(x) ? INFINITY : 1);
    return TWO_OVER_SQRT_PI * h * exp_square(x, 1);
}

static double erfcx_derivative(double x, int n) {
    if (x < 2) {
        double before = exp_square(x, 1) * erfc(x), d = 2 * x * before - TWO_OVER_SQRT_PI;
        for (int m = 1; m < n; m++) {
            double next = 2 * (x * d + m * before);
            before = d, d = next;
        }
        return d;
    }
    /* r_k = -f^(k)/f^(k-1) = 2k/(2x + r_(k+1)), from far enough on */
    double product = 1, r = 0;
    for (int k = n + 50; k > 0; k--) {
        r = 2 * k / (2 * x + r);
        if (k <= n) product *= r;
    }
    return alternating(n, TWO_OVER_SQRT_PI / (2 * x + r) * product);
}
