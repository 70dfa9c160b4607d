/* gamma.c - derivatives of the regularised incomplete gamma functions P(a, x), Q = 1 - P and of their inverses.
 *
 * dP/da = int_0^x f (log t - psi(a)) dt = - int_x^inf f (log t - psi(a)) dt,  f = t^(a-1) e^-t / Gamma(a) (DLMF 8.2.4),
 * because E log t = psi(a). The integrand changes sign at t* = exp(psi(a)) only: for x <= t* the first integral and for
 * x >= t* the second has one sign. So dP/da < 0 everywhere, it has no zeros, and it is never formed by a difference of
 * large numbers. With the Poisson mass D = x^a e^-x / Gamma(a + 1) (by Loader's method, gammabeta.h) as a factor,
 *     dP/da = -D J(a, x),   dP/da / density = -J x / a,   J of moderate size:
 *
 * x > 3/2: t = x e^(-u) below, t = x e^(u) above, so that log t is linear in u, and with h(v) = expm1(-v) + v
 *     J = a int_0^inf exp(-(a - x) v - x h(v)) (|psi(a) - log x| + u) du,  v = u below, -u above.
 *     The exponent is entire and convex: 32 Gauss nodes give 1e-14 for all a, x. For short ranges (x large) h is summed
 *     as a series, as x h would lose sqrt(x) eps.
 * x <= 3/2: (above t* the integrand would be flat over a range log(1/x) of u.) Series DLMF 8.7.1 differentiated:
 *     J = sum_n x^n/(a+1)_n (psi(a + n + 1) - log x), one sign but for the first term when a < 1; loses a factor <= 5.
 *
 * Limits: a = 0 stands for a -> 0+ (dP/da = -E1(x)); outside the domain and for NaN: NaN. */
#include "gammabeta.h"

#define LEAST 0x1p-1022

static double digamma_of(double x) { return psi(x); }

/* a (log x - psi(a)); finite for a -> 0 */
static double scaled_log_gap(double a, double x) {
    if (a < 1) return a * (log(x) - psi(1 + a)) + 1;
    if (a < LARGE) return a * (log(x) - psi(a));
    double r = fabs(x - a) < 0.5 * a ? log1p((x - a) / a) : log(x / a);
    return a * (r - digamma_minus_log(a));
}

/* D = x^a e^-x / Gamma(a + 1) */
static mass poisson(double a, double x) {
    if (a >= LARGE) {
        if (a < HUGE_PARAMETER && !(x - a - a * log(x / a) < VANISHING)) return NOTHING;
        dd dev = deviance(a, (dd){x, 0}, dd_sum(x, -a));
        if (!(dev.hi < VANISHING)) return NOTHING;
        return (mass){dd_neg(dd_add(dev, (dd){stirling_error(a), 0})), 1 / sqrt(TWO_PI * a)};
    }
    double plain = a * log(x);
    if (fabs(plain) + x < PLAIN) return (mass){{plain - x, 0}, 1 / tgamma(a + 1)};
    dd a_log_x = dd_mul((dd){a, 0}, dd_log((dd){x, 0}));
    return (mass){dd_add(a_log_x, (dd){-x, 0}), 1 / tgamma(a + 1)};
}

/* J, and P/(dP/dx) or Q/(dP/dx) over x/a, whichever side the quadrature takes */
typedef struct { double J, tail; } sums;

/* x <= 3/2, tail of P */
static sums series(double a, double x) {
    double gap = psi(a + 1) - log(x), c = 1, sum = gap, tail = 1, step;
    double n = a + 1;
    do {
        step = 1 / n;
        c *= x * step;
        gap += step;
        sum += c * gap;
        tail += c;
        n += 1;
    } while (c * (fabs(gap) + step) > 3e-17 * fabs(sum) && n < a + 300); /* terms fall as 1.5^n/n! */
    return (sums){sum, tail};
}

/* x > 3/2; *below: the side, and the tail, is that of P */
static sums quadrature(double a, double x, int *below) {
    double gap = scaled_log_gap(a, x), side = gap < 0 ? 1 : -1, range, sum = 0, tail = 0, h[NODES];
    if (side > 0) {
        range = positive_root(((a - x) - 0.5 * TAIL) / a, 2 * TAIL / a);  /* from h(u) >= u^2/(2 + u) */
    } else {
        range = positive_root((x - a) / x, 2 * TAIL / x); /* from h(-u) >= u^2/2, or as a fixed point */
        for (int i = 0; i < 2; i++) range = fmin(range, log1p((TAIL + a * range) / x));
    }
    double scale = side * range;
    expm1_tail_at_nodes(scale, h);
    for (int i = 0; i < NODES; i++) h[i] = -((a - x) * scale * node[i] + x * h[i]);
    exp_all(h);
    for (int i = 0; i < NODES; i++) {
        sum += weight[i] * h[i] * (fabs(gap) + a * range * node[i]);
        tail += weight[i] * h[i];
    }
    *below = gap < 0;
    return (sums){range * sum, a * range * tail};
}

/* J = -(dP/da)/D */
static double reduced_derivative(double a, double x) {
    int below;
    a = fmax(a, TINY);
    return x <= 1.5 ? series(a, x).J : quadrature(a, x, &below).J;
}

static int outside(double a, double x) { return !(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x)); }

/* D a/x; D may be subnormal or 0, or a/x infinite, where the density is a normal number */
static double density_from(mass d, double a, double x) {
    if (isinf(d.e.hi)) return 0;
    if (x < 1e-100) return scaled_exp(dd_add(d.e, dd_neg(dd_log((dd){x, 0}))), d.f * a);
    double lift = a < 0x1p300 && x < 0x1p300 ? 0x1p200 : 1;
    return scaled_exp(d.e, d.f * a * lift) / (x * lift);
}

static double da_at(mass d, double a, double x) {
    return underflows(d) ? -0.0 : -scaled_exp(d.e, d.f * reduced_derivative(a, x));
}

/* d/da P(a, x); that of Q is its negative */
static double gammainc_da(double a, double x) {
    if (outside(a, x)) return NAN;
    if (x == 0 || isinf(a) || isinf(x)) return 0;
    return da_at(poisson(a, x), a, x);
}

static double density_at_boundary(double a, double x) {
    if (isinf(a) || isinf(x)) return 0;
    return a < 1 ? INFINITY : a == 1;
}

/* dP/dx = x^(a-1) e^-x / Gamma(a) */
static double density_of_gamma(double a, double x) {
    if (outside(a, x)) return NAN;
    if (x == 0 || isinf(a) || isinf(x)) return density_at_boundary(a, x);
    return density_from(poisson(a, x), a, x);
}

/* (dP/da)/(dP/dx) = -dx/da of x = gammaincinv(a, p), and of gammainccinv(a, q) */
static double gammainc_da_over_density(double a, double x) {
    if (outside(a, x)) return NAN;
    if (x == 0 || isinf(a)) return 0;
    if (a == 0 || isinf(x)) return -INFINITY;
    return -reduced_derivative(a, x) * (x / a);
}

/* dx/dp of x = gammaincinv(a, p), and -dx/dq of gammainccinv(a, q), p + q = 1. 1/density would multiply the rounding
 * error of x by |a - 1 - x|, 1e4 in far tails; P/density is flat, and p is known. An x below the least normal number has
 * lost its digits, but not log x, as P is there a power of x. */
static double gammaincinv_dp(double a, double x, double p, double q) {
    if (outside(a, x) || isnan(p) || isnan(q)) return NAN;
    if (x < LEAST && a > 0 && p > 0 && q > 0) {
        mass d = poisson(a, LEAST);
        double log_P = d.e.hi + log(d.f * series(a, LEAST).tail), log_p = p < q ? log(p) : log1p(-q);
        return exp((log_p - log_P) / a + log(LEAST) - log(a) - log_p);
    }
    if (x == 0 || isinf(a) || isinf(x)) return 1 / density_at_boundary(a, x);
    if (x <= 1.5) return p < q ? series(a, x).tail * (x / a) / p : 1 / density_of_gamma(a, x);
    int below;
    double tail = quadrature(fmax(a, TINY), x, &below).tail * (x / a);
    return tail / (below ? p : q);
}

/* ---- values, where SciPy's are wrong ---- */

/* Far from x = a, and where a is small, SciPy takes the exponent of the density as a log x - x - log Gamma(a), whose terms
 * cancel: where they are not small, a tail is D times its sum. */
#define SMALL(a, x) (a < 1e-6 && x <= 1.1)
#define FAR_BELOW(a, x) (a > 100 && x < 0.6 * a)
#define FAR_ABOVE(a, x) (x > 100 && x > 1.4 * a)

/* Of a large a it breaks off its series, but for 4.5 standard deviations about x = a, after 2000 terms of too many. */
#define LARGE_ONE(a, x) (a > 3e4 && x > 0 && !isinf(a) && !isinf(x))

static double gammainc_alone(double a, double x);
static double gammaincc_alone(double a, double x);

static double tail_of(double a, double x) {
    int below;
    mass d = poisson(a, x);
    if (underflows(d)) return 0;
    return scaled_exp(d.e, d.f * (x <= 1.5 ? series(a, x) : quadrature(fmax(a, TINY), x, &below)).tail);
}

/* ---- chi-square: P(v/2, x/2), and where x/2 is no number, the first term of DLMF 8.7.1 ---- */

#define ALMOST_0 1e-300
#define LOG_2 0.69314718055994531

/* c (x/2)^(v/2 - n)/Gamma(v/2 + 1) */
static double chi_term(double c, double v, double x, double n) {
    dd log_x = dd_add(dd_log((dd){x, 0}), (dd){-0x1.62e42fefa39efp-1, -0x1.abc9e3b39803fp-56});
    return scaled_exp(dd_mul(log_x, dd_sum(v / 2, -n)), c / tgamma(v / 2 + 1));
}

static int next_to_0(double v, double x) { return v >= 0 && x > 0 && x < ALMOST_0; }

static double chi_density(double v, double x) {
    if (!next_to_0(v, x)) return density_of_gamma(v / 2, x / 2) / 2;
    return v < 1e-300 ? v / 2 / x : v > 300 ? 0 : chi_term(v / 4, v, x, 1);
}

static double chdtr_dv(double v, double x) {
    if (!next_to_0(v, x)) return gammainc_da(v / 2, x / 2) / 2;
    return v > 300 ? -0.0 : chi_term(1, v, x, 0) * (log(x) - LOG_2 - psi(v / 2 + 1)) / 2;
}

/* P and Q where SciPy says so */
static double gammainc_value(double a, double x, double P) {
    if (LARGE_ONE(a, x)) return unless_lost(P, gammainc_alone(a, x), 1e-13);
    if (SMALL(a, x) && a > 0 && x > 0) return unless_lost(P, a < TINY ? 1 : tail_of(a, x), 1e-14);
    return FAR_BELOW(a, x) && x > 0 && !isinf(a) ? unless_lost(P, tail_of(a, x), 1e-14) : P;
}

static double gammaincc_value(double a, double x, double Q) {
    if (LARGE_ONE(a, x)) return unless_lost(Q, gammaincc_alone(a, x), 1e-13);
    return FAR_ABOVE(a, x) && a > 0 && !isinf(x) ? unless_lost(Q, tail_of(a, x), 1e-14) : Q;
}

/* the same at v/2, x/2 */
static double chdtr_value(double v, double x, double P) {
    if (v > 0 && x > 0 && x < ALMOST_0) return v > 300 ? 0 : chi_term(1, v, x, 0);
    return gammainc_value(v / 2, x / 2, P);
}

static double chdtrc_value(double v, double x, double Q) {
    if (!(v > 0 && x > 0 && x < ALMOST_0)) return gammaincc_value(v / 2, x / 2, Q);
    return v < 1e-6 ? -expm1(v / 2 * (log(x) - LOG_2) - lgamma_diff(1, v / 2)) : 1 - chi_term(1, fmin(v, 300), x, 0);
}

/* ---- values without SciPy, where there is none: on CUDA ---- */

/* Q for x <= 3/2 and a < 1, where 1 - P would lose it next to a = 0: with P = x^a/Gamma(a + 1) (1 + a S), S the sum of
 * (-x)^n/((a + n) n!) from n = 1 (DLMF 8.7.1), Q = -expm1(a log x - log Gamma(a + 1)) - x^a/Gamma(a + 1) a S. */
static double upper_series(double a, double x) {
    double term = 1, sum = 0, l = a * log(x) - lgamma_diff(1, a);
    for (int n = 1; n < 60 && fabs(term) > 1e-18; n++) {
        term *= -x / n;
        sum += term / (a + n);
    }
    return -expm1(l) - exp(l) * a * sum;
}

#define NARROW 1e36 /* above it, the next double is 100 standard deviations away */

/* P and Q at positive numbers */
typedef struct { double P, Q; } tails;

static tails both(double a, double x) {
    int below = 1;
    if (a > NARROW && x != a) return (tails){x > a, x < a};
    if (a > NARROW) return (tails){0.5, 0.5};
    mass d = poisson(a, x);
    double sum = x <= 1.5 ? series(a, x).tail : quadrature(fmax(a, TINY), x, &below).tail;
    double tail = underflows(d) ? 0 : scaled_exp(d.e, d.f * sum);
    if (!below && a < TINY) tail *= a / TINY; /* Q is a E1(x) there */
    if (!below) return (tails){1 - tail, tail};
    return (tails){tail, x <= 1.5 && a < 1 ? upper_series(a, x) : 1 - tail};
}

static tails anywhere(double a, double x) {
    if (outside(a, x)) return (tails){NAN, NAN};
    if (a == 0 || isinf(x)) return (tails){1, 0};
    if (x == 0 || isinf(a)) return (tails){0, 1};
    return both(a, x);
}

static double gammainc_alone(double a, double x) { return anywhere(a, x).P; }
static double gammaincc_alone(double a, double x) { return anywhere(a, x).Q; }

/* The x where P(a, x) = p and Q(a, x) = q = 1 - p, from SciPy's: Newton's method, in the logarithm of the smaller of both. */
static double gammaincinv_value(double a, double p, double q, double x) {
    if (!(LARGE_ONE(a, x) && a < NARROW && p > 0 && q > 0)) return x;
    double better = x, step = x;
    for (int i = 0; i < 20 && fabs(step) > 1e-16 * better; i++) {
        tails t = both(a, better);
        step = (p < q ? t.P * log(t.P / p) : -t.Q * log(t.Q / q)) / density_of_gamma(a, better);
        if (!isfinite(step)) return x;
        better -= step;
    }
    return unless_lost(x, better, 1e-14);
}

static double chdtr_alone(double v, double x) {
    if (v < 0 || x < 0) return NAN; /* their halves may be 0 */
    return v > 0 && x > 0 && x < ALMOST_0 ? chdtr_value(v, x, 0) : gammainc_alone(v / 2, x / 2);
}

static double chdtrc_alone(double v, double x) {
    if (v < 0 || x < 0) return NAN;
    return v > 0 && x > 0 && x < ALMOST_0 ? chdtrc_value(v, x, 0) : gammaincc_alone(v / 2, x / 2);
}
