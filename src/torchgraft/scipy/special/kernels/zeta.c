/*
 * Hurwitz' and Riemann's zeta functions, and mixed derivatives in s, of orders n <= 2, and in q, of any order k.
 *
 *   zeta(s, q)     Euler-Maclaurin, DLMF 25.11.28: a sum of (q + j)^-s up to a = q + N, the integral, and a series in
 *                  Bernoulli numbers
 *   zeta(s), s < 0: the reflection 25.4.1; for values SciPy's from -0.35 to 1
 *   in q           25.11.17, k times: (-1)^k (s)_k zeta(s + k, q)
 *
 * Derivatives in s need no formulas of their own: every number is a jet, the first coefficients of its Taylor series.
 */
#include <math.h>

#include "gammabeta.h"

#define LOG_2PI 1.83787706640934548356
#define JET 3 /* orders 0, 1, 2 */
#define MOST_TERMS 200 /* of a sum: from a > 1 on a term is less than 1e-18 after 41 a/s of them, and a < 0.6 s + 16 */

typedef struct { double c[JET]; } jet;

static jet jet_mul(jet x, jet y) {
    jet r = {{0}};
    for (int i = 0; i < JET; i++)
        for (int j = 0; i + j < JET; j++) r.c[i + j] += x.c[i] * y.c[j];
    return r;
}

/* (x + e) y */
static jet jet_step(double x, jet y) { return jet_mul((jet){{x, 1, 0}}, y); }

static jet jet_add(jet x, jet y) {
    for (int i = 0; i < JET; i++) x.c[i] += y.c[i];
    return x;
}

/* x exp(l e) */
static jet jet_exp(double x, double l) { return (jet){{x, x * l, x * l * l / 2}}; }

static const double bernoulli[] = {
    /* B_2i/(2i)! */
    1 / 12.,
    -1 / 720.,
    1 / 30240.,
    -1 / 1209600.,
    1 / 47900160.,
    -691 / 1307674368000.,
    1 / 74724249600.,
    -3617 / 10670622842880000.,
    43867 / 5109094217170944000.,
    -174611 / 802857662698291200000.,
    77683 / 14101100039391805440000.,
    -236364091 / 1693824136731743669452800000.,
    657931 / 186134520519971831808000000.,
    -3392780147. / 37893265687455865519472640000000.};

/* zeta(s + e, q), s > 1 unless q = 1, q > 0; n is the order for whose sake terms are summed */
static jet hurwitz(double s, double q, int n) {
    double a = q, enough = (s + 27) / 1.7, size = 0;
    jet sum = {{0}};
    for (int j = 0; a < enough && j < MOST_TERMS; j++, a = q + j) {
        jet term = jet_exp(pow(a, -s), -log(a));
        sum = jet_add(sum, term);
        size += fabs(term.c[n]);
        if (a > 1 && fabs(term.c[n]) <= 1e-18 * size) return sum;
    }
    double pole = 1 / (s - 1), r = 1 / a;
    jet rest = {{a * pole + 0.5, -a * pole * pole, a * pole * pole * pole}}, rising = jet_step(s, (jet){{r, 0, 0}});
    for (int i = 0; i < 14; i++) {
        for (int k = 0; k < JET; k++) rest.c[k] += bernoulli[i] * rising.c[k];
        rising = jet_step(s + 2 * i + 1, jet_step(s + 2 * i + 2, rising));
        for (int k = 0; k < JET; k++) rising.c[k] *= r * r;
    }
    return jet_add(sum, jet_mul(jet_exp(pow(a, -s), -log(a)), rest));
}

/* zeta(s, q), s > 1 unless q = 1, q > 0: the same, with hardly more than the errors of the powers. */
static double hurwitz_value(double s, double q) {
    double a = q, rest_of_a = 0, enough = 8 + 0.6 * s, sum = 0, low = 0;
    for (int j = 0;; j++) {
        double power = pow(a, -s), term = power - power * (s * rest_of_a / a), next;
        if (isinf(power)) return power;
        if (a >= enough || j == MOST_TERMS) {
            double r = 1 / a, rising = s * r, tail = 0;
            for (int i = 0; i < 14; i++) {
                tail += bernoulli[i] * rising;
                rising *= (s + 2 * i + 1) * r * ((s + 2 * i + 2) * r);
            }
            double integral = power * (a + (1 - s) * rest_of_a) / (s - 1), half = term / 2;
            if (power < 1e-290) integral = pow(a, -s / 2) * (pow(a, -s / 2) * a) / (s - 1);
            next = sum + integral, low += dd_sum(sum, integral).lo, sum = next;
            next = sum + half, low += dd_sum(sum, half).lo;
            return next + (low + term * tail);
        }
        next = sum + term, low += dd_sum(sum, term).lo, sum = next;
        if (a > 1 && fabs(term) * a + fabs(term) * s <= 1e-18 * fabs(sum)) return sum + low;
        a = q + (j + 1.0), rest_of_a = dd_sum(q, j + 1.0).lo;
    }
}

/* psi(t), t > 1: DLMF 5.5.2, 5.11.2; its zero is not approached with small relative error, and need not */
static double digamma(double t) {
    double shift = 0;
    for (; t < 12; t++) shift -= 1 / t;
    double r = 1 / (t * t);
    return shift + log(t) - 0.5 / t - r * (1 / 12. - r * (1 / 120. - r * (1 / 252. - r * (1 / 240. - r / 132))));
}

/* Sine and cosine of pi s/2. */
static void quarter_turns(double s, double *sine, double *cosine) {
    /* one rounding error in s shows beside a zero: the remainder modulo 4 is exact */
    double angle = remainder(s, 4);
    double turn = rint(angle), x = PI / 2 * (angle - turn);
    switch ((int)turn & 3) {
    case 0: *sine = sin(x), *cosine = cos(x); break;
    case 1: *sine = cos(x), *cosine = -sin(x); break;
    case 2: *sine = -sin(x), *cosine = -cos(x); break;
    default: *sine = -cos(x), *cosine = sin(x);
    }
}

/* zeta(s + e) = 2 (2 pi)^-t Gamma(t) sin(pi (s + e)/2) zeta(t), t = 1 - s - e > 1 */
static jet reflected(double s) {
    double t = 1 - s, factor = 2, low = t;
    for (; low > 160 && isfinite(factor); low--) factor *= (low - 1) / (2 * PI);
    if (isfinite(factor)) factor *= tgamma(low) * pow(2 * PI, -low);
    double sine, cosine;
    quarter_turns(s, &sine, &cosine);
    jet wave = {{sine, PI / 2 * cosine, -PI * PI / 8 * sine}}, other = hurwitz(t, 1, 2);
    other.c[1] = -other.c[1];
    double slope = LOG_2PI - digamma(t);
    jet gamma = {{1, slope, (slope * slope + hurwitz(2, t, 0).c[0]) / 2}};
    jet product = jet_mul(jet_mul(wave, other), gamma);
    return (jet){{product.c[0] * factor, product.c[1] * factor, product.c[2] * factor}};
}

/* The same for e = 0; in double-double, but for Gamma(1) to Gamma(2), the sine and zeta(t). */
static double reflected_value(double s) {
    dd t = dd_sum(1, -s), two_pi = {6.283185307179586, 2.4492935982947064e-16}, product = {0x1p-99, 0};
    double whole = floor(t.hi) - 1, low = t.hi - whole + t.lo, sine, cosine;
    quarter_turns(s, &sine, &cosine);
    if (sine == 0) return 0;
    for (int j = 1; j <= whole && isfinite(product.hi); j++)
        product = dd_div(dd_mul(product, dd_add(t, (dd){-j, 0})), two_pi);
    if (!isfinite(product.hi)) return copysign(INFINITY, sine);
    double least = tgamma(low) * pow(two_pi.hi, -low) * (1 - low * (two_pi.lo / two_pi.hi));
    return product.hi * least * sine * hurwitz_value(t.hi, 1) * 0x1p100;
}

static double riemann_derivative(double s, int n) {
    if (isnan(s) || s == -INFINITY || n >= JET) return NAN;
    if (s == INFINITY) return 0;
    if (s == 1) return n % 2 ? -INFINITY : INFINITY;
    return (s < -0.5 ? reflected(s) : hurwitz(s, 1, n)).c[n] * (n == 2 ? 2 : 1);
}

/*
 * zeta(s, q) for an integer s and q < 0, no integer: the terms (q + j)^-s below 0 are those of -(q + j), up to the sign, from
 * the one next to 0 to -q. What is infinite is so by the term next to 0.
 */
static double below_0(double s, double q) {
    double above = q - floor(q), next = 1 - above, up = hurwitz_value(s, above), down = hurwitz_value(s, next);
    double far = hurwitz_value(s, 1 - q), sign = fmod(s, 2) == 0 ? 1 : -1;
    if (above == next) return sign > 0 ? up + (down - far) : far;
    if (isinf(up) || isinf(down)) return above < next ? INFINITY : sign * INFINITY;
    return up + sign * (down - far);
}

/* What SciPy gives outside of the domain and at its ends. */
static double zeta_value(double s, double q) {
    if (s == 1) return INFINITY;
    if (isnan(s) || isnan(q) || s < 1) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        return s != floor(s) ? NAN : isinf(s) ? INFINITY : below_0(s, q);
    }
    if (isinf(q)) return 0;
    if (isinf(s)) return q == 1 ? 1 : q > 1 ? 0 : INFINITY;
    return hurwitz_value(s, q);
}

static double zeta_derivative(double s, double q, int n, int k) {
    if (isnan(s) || isnan(q) || s < 1 || n >= JET) return NAN;
    if (q < 0 && (q == floor(q) || s != floor(s) || n > 0)) return NAN;
    double sign = k % 2 ? -1 : 1;
    if (q == 0) return sign * INFINITY; /* as q^-s near 0 */
    if (isinf(s) || isinf(q)) return 0;
    if (s == 1 && k == 0) return n % 2 ? -INFINITY : INFINITY;
    jet rising = {{sign}};
    for (int i = 0; i < k; i++) rising = jet_step(s + i, rising);
    if (n == 0) return rising.c[0] * zeta_value(s + k, q);
    jet sum = hurwitz(s + k, q, n);
    return (k == 0 ? sum : jet_mul(rising, sum)).c[n] * (n == 2 ? 2 : 1); /* 0 inf is NaN */
}

/* `less` is zeta(s) - 1, SciPy's, used from -0.35 to 1; it loses digits next to its zeros, and with large -s. */
static double riemann_value(double s, double less) {
    if (isnan(s) || s == -INFINITY) return NAN;
    if (s == 1 || s == INFINITY) return s == 1 ? INFINITY : 1;
    if (s > 1) return hurwitz_value(s, 1);
    return s > -0.35 ? 1 + less : reflected_value(s);
}

/* Without SciPy's code. */
static double riemann_alone(double s) { return riemann_value(s, hurwitz(s, 1, 0).c[0] - 1); }
