/* gammabeta.h - what the derivatives of the incomplete gamma (gamma.c) and beta (beta.c) functions share.
 *
 * 1. Double-double pieces for exponents. A mass such as exp(-E) with E near 700 has relative error |E| eps even when
 *    E is correctly rounded (8e-14), so E is carried as hi + lo; nothing else needs more than double.
 * 2. Loader's saddle-point form ("Fast and accurate computation of binomial probabilities", 2000): the deviance
 *    a log(a/X) + X - a and Stirling's error, with which Poisson and binomial masses lose nothing at large parameters.
 * 3. psi, and psi(b + d) - psi(b) with small RELATIVE error.
 * 4. One quadrature rule for int_0^inf exp(-phi(u)) w(u) du, phi convex, cut where phi = TAIL.
 * Constant tables of polynomials: minimax-like (Chebyshev) fits by tables.py. */
#ifndef GAMMABETA_H
#define GAMMABETA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dd.h"

#define TWO_PI 6.28318530717958647693
#define LARGE 10.0   /* Stirling's series are at full accuracy from here on */
#define TINY 1e-290  /* stands in for a smaller parameter where a limit 0+ is taken */
#define TAIL 38.0    /* exp(-38) = 3e-17 */

/* a positive number exp(e) f, kept apart while it may be out of range */
typedef struct {
    dd e;
    double f;
} mass;

#define VANISHING 800.0                      /* exp(-800) times a moderate factor is 0 */
#define NOTHING ((mass){{-INFINITY, 0}, 1})  /* a mass that is certainly 0 */
#define PLAIN 4.0                            /* up to here an exponent needs no dd */
#define HUGE_PARAMETER 1e12                  /* from here on no shortcut to NOTHING: eps a is not small */

static inline int underflows(mass m) { return m.e.hi < -VANISHING; }

/* factor * exp(e), without losing digits to subnormal or infinite intermediates. */
static inline double scaled_exp(dd e, double factor) {
    if (!(fabs(e.hi) < 600)) {
        if (e.hi < -3000) return isnan(factor) ? factor : copysign(0, factor);
        if (e.hi > 3000) return factor * INFINITY;
        double h = exp(0.25 * e.hi);
        return ((factor * h) * (1 + e.lo) * h) * h * h;
    }
    return factor * exp(e.hi) * (1 + e.lo);
}

/* ---- Stirling and Loader ---- */

/* log Gamma(a + 1) - (a + 1/2) log a + a - log sqrt(2 pi), a >= LARGE. DLMF 5.11.1 */
static inline double stirling_error(double a) {
    double r = 1 / a, t = r * r;
    /* clang-format off */
    return r * (1.0 / 12 - t * (1.0 / 360 - t * (1.0 / 1260 - t * (1.0 / 1680 - t * (1.0 / 1188
           - t * (691.0 / 360360 - t * (1.0 / 156 - t * (3617.0 / 122400))))))));
    /* clang-format on */
}

/* a log(a/X) + X - a >= 0 for X > 0 given with e = X - a; infinite or NaN where it overflows. Near X = a: with
 * s = e/(X + a), log(X/a) = 2 atanh(s), so it is e s - 2 a (s^3/3 + s^5/5 + ...) (Loader's bd0); only e s, 17 times the
 * rest, needs a dd. */
static inline dd deviance(double a, dd X, dd e) {
    if (X.hi > 0.71 * a && X.hi < 1.41 * a) {
        dd s = dd_div(e, dd_add(X, (dd){a, 0}));
        return dd_add(dd_mul(e, s), (dd){-2 * a * s.hi * s.hi * s.hi * atanh_tail(s.hi), 0});
    }
    double q = X.hi / a;
    if (q == 0 || !(q < 1e300)) return (dd){INFINITY, 0};
    dd log_q = dd_log(dd_div(X, (dd){a, 0}));
    return dd_add(e, dd_neg(dd_mul((dd){a, 0}, log_q)));
}

/* ---- digamma ---- */

/* psi(a) - log a, a >= LARGE. DLMF 5.11.2 */
static inline double digamma_minus_log(double a) {
    double r = 1 / a, t = r * r;
    /* clang-format off */
    return -r * (0.5 + r * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (1.0 / 132
           - t * (691.0 / 32760 - t * (1.0 / 12 - t * (3617.0 / 8160)))))))));
    /* clang-format on */
}

/* psi(x), x > 0, 1-2 ulp, also next to its zero x0. DLMF 5.5.2, 5.11.2; on [1, 2] x(x+1) psi(x)/(x - x0) is a
 * polynomial (tables.py). */
static inline double psi(double x) {
    static const double c[] = {3.6705099070453692e-10, -1.2971714501147594e-9, 4.2078833730328992e-9,
                               -1.4983361569181767e-8, 5.3815052656246987e-8,  -1.9408024077161765e-7,
                               7.0691003896267964e-7,  -2.6105896080141669e-6, 9.8282187019515761e-6,
                               -3.8035668796413382e-5, 0.00015331863479519386, -0.0006580250111798858,
                               0.003130508723547599,   -0.017975945770502872,  0.15858050680894182,
                               2.2156206743218547,     3.5664595351193733};
    if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
    if (x >= LARGE) return log(x) + digamma_minus_log(x);
    double shift = 0;
    if (x < 1) {
        shift = -1 / x;
        x += 1;
    }
    while (x > 2) {
        x -= 1;
        shift += 1 / x;
    }
    double t = x - 1.5, p = c[0];
    for (int i = 1; i < 17; i++) p = p * t + c[i];
    double from_zero = (x - 0x1.762d86356be3fp+0) - 0x1.b86a722197829p-54;
    return shift + from_zero * p / (x * (x + 1));
}

/* psi(b + d) - psi(b), b > 0, d >= 0, every term positive: recurrence (DLMF 5.5.2) up to LARGE, then the difference of
 * the asymptotic series (5.11.2), in which p^2k - q^2k = (p^2 - q^2)(p^(2k-2) + ...), p = 1/b, q = 1/(b+d). What is
 * left after log((b+d)/b) also comes by itself, for callers who merge the logarithm. */
static inline double digamma_diff_rest(double b, double d) {  /* b >= LARGE */
    static const double c[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
    double p = 1 / b, q = 1 / (b + d), pp = p * p, qq = q * q, t = 1, qk = 1, series = 0;
    for (int k = 0; k < 8; k++) {
        series += c[k] * t;
        qk *= qq;
        t = pp * t + qk;
    }
    return d * p * q * (0.5 + (p + q) * series);
}

static inline double digamma_diff(double b, double d) {
    double sum = 0;
    for (; b < LARGE; b += 1) sum += (1 / b) * (d / (b + d));
    return sum + digamma_diff_rest(b, d) + log1p(d / b);
}

/* ---- log Gamma ---- */

/* log(1 + w) - w, w > -1 */
static inline double log1p_rest(double w) {
    if (!(fabs(w) < 0.4)) return log1p(w) - w;
    double q = w / (2 + w);
    return 2 * q * q * q * atanh_tail(q) - w * q;
}

/* log Gamma(a + d) - log Gamma(a), a > 0, d >= 0, as digamma_diff: every part falls as d. DLMF 5.5.1, 5.11.1, in which
 * p^(2k-1) - q^(2k-1) = (p - q)(p^(2k-2) + ...), p = 1/a, q = 1/(a+d). */
static inline double lgamma_diff(double a, double d) {
    static const double c[] = {1.0 / 12,   0, -1.0 / 360,      0, 1.0 / 1260, 0, -1.0 / 1680,     0,
                               1.0 / 1188, 0, -691.0 / 360360, 0, 1.0 / 156,  0, -3617.0 / 122400};
    double sum = 0;
    for (; a < LARGE; a += 1) sum -= log1p(d / a);
    double p = 1 / a, q = 1 / (a + d), power = 1, t = 1, series = 0, w = d / a;
    for (int k = 0; k < 15; k++) {
        series += c[k] * t;
        power *= q;
        t = p * t + power;
    }
    return sum + (d * log(a) + (a * log1p_rest(w) + ((d - 0.5) * log1p(w) - d * p * q * series)));
}

#define NEAR_1 1e-4

/* log B(1 + e, 1 + d), next to its zero, |e|, |d| < NEAR_1: -log(1 + e + d), and what is left of the series DLMF 5.7.3 */
static inline double log_beta_near_1(double e, double d) {
    double s = e + d, ed = e * d;
    double rest = 1.6449340668482264 - s * 1.2020569031595943 + (4 * s * s - 2 * ed) * (1.0823232337111382 / 4) -
                  s * (s * s - ed) * 1.0369277551433699;
    return -log1p(s) - ed * rest;
}

static inline int are_near_1(double a, double b) { return fabs(a - 1) < NEAR_1 && fabs(b - 1) < NEAR_1; }

/* log B(a, b), a, b > 0 (DLMF 5.12.1): from LARGE on Stirling's formula, no terms of which cancel */
static inline double log_beta(double a, double b) {
    if (are_near_1(a, b)) return log_beta_near_1(a - 1, b - 1);
    if (a < b) {
        double c = a;
        a = b;
        b = c;
    }
    if (b < LARGE) return lgamma(b) - lgamma_diff(a, b);
    double n = a + b, rest = stirling_error(a) + stirling_error(b) - stirling_error(n);
    return 0.5 * log(TWO_PI * (1 / a + 1 / b)) + rest - (a * log1p(b / a) + b * log1p(a / b));
}

/* Where SciPy's loses digits to differences of log Gamma, or is infinite. Its asymptotic series, for one of them 1e6 times
 * the other, does not, before it overflows. */
static inline int log_beta_is_better(double a, double b) {
    double more = fmax(a, b), less = fmin(a, b);
    int lost = a + b > 171 ? more < 1e6 || less > 0.99e-6 * more || more > 1e60 : are_near_1(a, b);
    return (lost || less < 1e-307) && less > 0 && !isinf(more) && a == a && b == b;
}

/* log |sin(pi (x + rest))/pi|, exact next to its zeros */
static inline double log_sine(double x, double rest) {
    double r = fabs(x - nearbyint(x) + rest);
    return log(r < 1e-290 ? r : sin(PI * r) / PI);
}

/* Without SciPy's code, and of integers that are not positive what SciPy says: finite where poles cancel. Of negative
 * numbers by reflection (DLMF 5.5.3), where only sines are small. */
static inline double betaln_alone(double a, double b) {
    double more = fmax(a, b), less = fmin(a, b), n = a + b;
    if (isnan(a) || isnan(b)) return NAN;
    if (isinf(more)) return less <= 0 ? INFINITY : isinf(less) ? NAN : -INFINITY;
    if (less > 0) return log_beta(a, b);
    if (less == floor(less)) {
        if (less < -0x1p31 || more != floor(more) || more <= 0 || n > 0) return INFINITY;
        return log_beta(1 - n, more);
    }
    if (more > 0 && n > 0.5) return -log_sine(less, 0) - log(more) - log_beta(n, 1 - less);
    double sines = log_sine(n, dd_sum(a, b).lo) - log_sine(less, 0);
    if (more > 0) return log_beta(more, 1 - n) + sines;
    return sines - log_sine(more, 0) - log1p(-n) - log_beta(1 - a, 1 - b);
}

/* log B(a, b) of any signs. SciPy's of negative numbers is a difference of logarithms of Gamma functions, and infinite
 * where one of these is next to 0 or out of range. */
static inline double betaln_value(double a, double b, double scipys) {
    double more = fmax(a, b), less = fmin(a, b);
    if (log_beta_is_better(a, b)) return log_beta(a, b);
    if (!(less < 0) || less == floor(less) || isinf(more)) return scipys;
    bool lost = isinf(scipys) || fabs(less) < 1e-307 || (more != 0 && fabs(more) < 1e-307) || more > 20 || less < -20;
    return lost ? betaln_alone(a, b) : scipys;
}

/* SciPy's value, unless it differs from what was found here by more than so much */
static inline double unless_lost(double scipys, double found, double most) {
    return isfinite(found) && fabs(scipys - found) <= most * fabs(found) && fabs(scipys) > 0x1p-1022 ? scipys : found;
}

/* ---- quadrature ---- */

/* 32-point Gauss-Legendre on [0, 1] after s = expm1(2 t)/expm1(2): the stretch gathers nodes near 0, where integrands
 * with a slow tail have their structure; 1e-14 or better over the regions of gamma.c and beta.c (tables.py). */
#define NODES 32
static const double node[NODES] = {
    0.000428840309180792, 0.0022683320967584001, 0.0056136540849969622, 0.010527260985130393, 0.017098638023587895,
    0.025444948454992906, 0.03571089037153902,   0.048067987590734393,  0.062713028730426994, 0.079865264748394258,
    0.099761903929330853, 0.12265139284863401,   0.14878395544751697,   0.17839889997697798,  0.21170831864751441,
    0.24887702106418233,  0.28999887904820776,   0.33507022507676584,   0.38396152787559975,  0.43638922806424566,
    0.49189028276985113,  0.54980253608344608,   0.60925437163789443,   0.66916707563160708,  0.72827282342527978,
    0.78515013311294827,  0.83827702379794563,   0.88610010274845092,   0.92711562707436589,  0.95995659002090515,
    0.98347860324531987,  0.99683993311717696};
static const double weight[NODES] = {
    0.0011015461569479486, 0.0025841456323823639, 0.0041168484779011061, 0.0057252741309252616, 0.0074370092982013637,
    0.0092797390097907071, 0.011280757206926541,  0.013466280937108225,  0.015860417021243389,  0.018483700434747977,
    0.021351142173836821,  0.02446975027221188,   0.027835530879652774,  0.031430041694402479,  0.035216659647986774,
    0.039136836727987204,  0.043106744537655084,  0.047014834485419649,  0.050720942983019671,  0.054057619117472499,
    0.056834311792429225,  0.058844893218907686,  0.059878697089675776,  0.059734816634834119,  0.05823887517496831,
    0.055260919784446295,  0.050732597358490827,  0.044661467422321213,  0.037140298137938022,  0.028349586634618584,
    0.018552748899073037,  0.0080949670264771879};

/* positive root of u^2 + 2 h u - c = 0, c > 0 */
static inline double positive_root(double h, double c) {
    double r = sqrt(h * h + c);
    return h > 0 ? c / (h + r) : r - h;
}

/* x[i] = exp(x[i]) for |x[i]| <= 700 (no check), about 1 ulp. In plain arithmetic without a branch, so that compilers
 * vectorise it; with libm's exp a derivative takes twice as long. 2^k from the low bits of x/log 2 + 1.5 2^52. */
static inline void exp_all(double *x) {
    static const double c[] = {2.5110037605963778e-8, 2.763263963904103e-7,   2.755724091857897e-6,
                               2.4801485482328492e-5, 0.00019841269890047114, 0.0013888888952314775,
                               0.0083333333333196006, 0.041666666666488095,   0.16666666666666681,
                               0.50000000000000184};
    double k[NODES];
    uint64_t bits[NODES];
    for (int i = 0; i < NODES; i++) {
        k[i] = x[i] * 1.4426950408889634 + 0x1.8p52;
        double n = k[i] - 0x1.8p52, r = (x[i] - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45, p = c[0];
        for (int j = 1; j < 10; j++) p = p * r + c[j];
        x[i] = 1 + (r + r * r * p);
    }
    memcpy(bits, k, sizeof bits);
    for (int i = 0; i < NODES; i++) bits[i] = (bits[i] + 1023) << 52;
    memcpy(k, bits, sizeof bits);
    for (int i = 0; i < NODES; i++) x[i] *= k[i];
}

/* expm1(-v) + v for |v| <= 1 (tables.py) */
static inline double expm1_tail(double v) {
    static const double c[] = {-7.7461785930188275e-13, 1.1639194124150522e-11, -1.6057679623801638e-10,
                               2.0874435575862874e-9,   -2.5052117695907824e-8, 2.7557335068933727e-7,
                               -2.7557319191381817e-6,  2.4801587246096817e-5,  -0.00019841269841324198,
                               0.0013888888888981404,   -0.0083333333333332994, 0.041666666666666088,
                               -0.16666666666666667,    0.50000000000000001};
    double r = c[0];
    for (int i = 1; i < 14; i++) r = r * v + c[i];
    return v * v * r;
}

/* h[i] = expm1(-v) + v, v = scale node[i]; for |scale| > 1 with absolute error eps (callers multiply it by < 1e2) */
static inline void expm1_tail_at_nodes(double scale, double *h) {
    if (fabs(scale) <= 1) {
        for (int i = 0; i < NODES; i++) h[i] = expm1_tail(scale * node[i]);
    } else {
        for (int i = 0; i < NODES; i++) h[i] = -scale * node[i];
        exp_all(h);
        for (int i = 0; i < NODES; i++) h[i] = (h[i] - 1) + scale * node[i];
    }
}

#endif
