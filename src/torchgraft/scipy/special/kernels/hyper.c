/*
 * Derivatives of every order n in z of the hypergeometric functions 0F1, 1F1 and 2F1: the same functions with every
 * parameter larger by n, times a ratio of Pochhammer symbols (DLMF 16.3.1, 13.3.16, 15.5.2).
 *
 *   1F1  SciPy's, which is right to 1e-12 (tried with parameters up to 1000); also of order 0, for its value
 *   0F1  SciPy's goes through Gamma and Bessel functions and loses digits. Here the power series, in double-double
 *        where its signs change; where that does not do, Bessel's J (DLMF 10.16.9), or the recurrence in v where
 *        Gamma(v) or J is not in range. Of order 0 for the value as well, there and where SciPy's is not finite
 *   2F1  SciPy's has no right digit at many points. Here, for z < 1, the power series in double-double, and next to 1,
 *        where it takes too long, the Taylor series of the differential equation (15.10.1), step by step from 1/2.
 *        Arguments below 0 come between 0 and 1 by 15.8.1. There are two forms of each (15.8.1), one of which often
 *        has positive terms, for which plain doubles do: else that is taken whose error has the smaller bound. NaN
 *        where neither has six digits, as may be with parameters above 30 whose terms cancel. SciPy's for z >= 1.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "gammabeta.h"

TG_IMPORT(double, scipy_jv, (double, double, int))
TG_IMPORT(double, scipy_hyp0f1, (double, double, int))
TG_IMPORT(double, scipy_hyp1f1, (double, double, double, int))
TG_IMPORT(double, scipy_hyp2f1, (double, double, double, double, int))

#define DD_EPS 1e-31
#define GOOD 1e-15       /* an estimated relative error that needs no better one */
#define BEARABLE 1e-6    /* one above which there is no result */
#define MOST_TERMS 4000
#define MOST_STEPS 400
#define MILD 6           /* parameters with which the Taylor series has no large coefficients */

static dd dd_of(double x) { return (dd){x, 0}; }

static dd dd_shift(double x, double n) { return dd_sum(x, n); }

static dd dd_times(dd x, double y)
{
    dd p = dd_prod(x.hi, y);
    return dd_fast(p.hi, p.lo + x.lo * y);
}

/* (x)_n */
static double pochhammer(double x, int n)
{
    double product = 1;
    for (int i = 0; i < n; i++) product *= x + i;
    return product;
}

/* A value, and the relative error that it may have. */
typedef struct { double value, error; } estimated;

/* ---- 0F1 ---- */

static estimated series_0f1(dd c, double z)
{
    dd term = dd_of(1), sum = term;
    double size = 1;
    for (int k = 0; k < MOST_TERMS; k++) {
        term = dd_div(dd_times(term, z), dd_times(dd_add(c, dd_of(k)), k + 1.0));
        sum = dd_add(sum, term);
        size = fmax(size, fabs(term.hi));
        if (fabs(term.hi) < 1e-18 * fabs(sum.hi) && fabs(z) < 0.5 * (k + 1.0) * fabs(c.hi + k)) break;
    }
    return (estimated){sum.hi, DD_EPS * size / fabs(sum.hi)};
}

/* For z < 0: where Gamma(v) or x^(1 - v), x = sqrt(-z), comes near the end of what a double holds. */
static bool out_of_range(double v, double z) { return v > 150 || v < -165 || (v - 1) * log(-z) > 1300; }

/*
 * There, up to |z| = 1e7, F(v) = F(v + 1) + z/(v (v + 1)) F(v + 2), DLMF 10.6.1, from where the series does: in this
 * direction J grows. Beyond, by logarithms of its factors. NaN where J has underflown, and for v < 0.
 */
static double hyp0f1_out_of_range(double v, double z)
{
    if (v < 0) return NAN;
    if (z > -1e7) {
        double steps = fmax(0, ceil(-z / 15 - v));
        double f = series_0f1(dd_sum(v, steps), z).value, g = series_0f1(dd_sum(v, steps + 1), z).value;
        int scale = 0; /* F is least at v = x */
        for (double w = v + steps - 1; w > v - 0.5; w--) {
            double next = f + z / (w * (w + 1)) * g, size = fabs(f) + fabs(next);
            g = f, f = next;
            if (size < 1e-200) f *= 1e200, g *= 1e200, scale--;
            if (size > 1e200) f *= 1e-200, g *= 1e-200, scale++;
        }
        return f * pow(1e100, scale) * pow(1e100, scale); /* in two steps: 1e-400 is 0 */
    }
    double x = sqrt(-z), j = scipy_jv(v - 1, 2 * x, 0);
    return fabs(j) < 1e-290 ? NAN : copysign(exp(lgamma(v) + (1 - v) * log(x) + log(fabs(j))), j);
}

static double hyp0f1_at(dd c, double z)
{
    double v = c.hi;
    if (isnan(v) || isnan(z) || (v <= 0 && v == floor(v) && c.lo == 0)) return NAN;
    if (isinf(v)) return 1;
    if (z == INFINITY) return INFINITY;
    if (v > 0 && z >= 0) {
        double term = 1, sum = 1;
        for (int k = 0; term > 1e-18 * sum && isfinite(sum); k++) sum += term *= z / ((v + k) * (k + 1.0));
        return sum;
    }
    if (fabs(z) < fmax(1e5, fabs(v))) {
        estimated e = series_0f1(c, z);
        if (e.error < GOOD || z > 0) return e.value;
    }
    if (out_of_range(v, z)) return hyp0f1_out_of_range(v, z);
    double x = sqrt(-z);
    return tgamma(v) * pow(x, 1 - v) * scipy_jv(v - 1, 2 * x, 0);
}

double hyp0f1_derivative(double v, double z, int n) { return hyp0f1_at(dd_shift(v, n), z) / pochhammer(v, n); }

/* SciPy's, which goes through Gamma(v) x^(1 - v) J: infinite, 0 or NaN where these are. There, ours. */
double hyp0f1_value(double v, double z)
{
    double theirs = z < 0 && out_of_range(v, z) ? NAN : scipy_hyp0f1(v, z, 0);
    return isfinite(theirs) ? theirs : hyp0f1_derivative(v, z, 0);
}

/* ---- 1F1 ---- */

/* SciPy's does not return at infinity, where DLMF 13.7.1 and 13.7.2 give the limit, and ends the program at an `a` next
 * to 0, where it is 1 to all digits. */
static double hyp1f1_at(double a, double b, double z)
{
    if (a == 0 || (fabs(a) < 1e-280 && fabs(z) < 500)) return isnan(b + z) ? NAN : 1;
    if (!isinf(z)) return scipy_hyp1f1(a, b, z, 0);
    return a > 0 && b > 0 ? (z > 0 ? INFINITY : 0) : NAN;
}

double hyp1f1_derivative(double a, double b, double z, int n)
{
    double ratio = pochhammer(a, n);
    if (ratio == 0) return isnan(b + z) ? NAN : 0;
    return ratio / pochhammer(b, n) * hyp1f1_at(a + n, b + n, z);
}

/* ---- 2F1 ---- */

/* F and F' at a point, and the errors that they may have; without bound where a series did not converge. */
typedef struct { dd f, slope; double f_error, slope_error; } solution;

/* At z by the power series. */
static solution series_2f1(dd a, dd b, dd c, dd z)
{
    solution s = {dd_of(1), dd_of(0), INFINITY, INFINITY};
    dd term = dd_of(1);
    double size = 1, steep = 0;
    for (int k = 0; k < MOST_TERMS; k++) {
        /* the next coefficient times z^k: a term of F' once it has its k + 1, of F once it has its z */
        dd next = dd_div(dd_mul(dd_mul(term, dd_add(a, dd_of(k))), dd_add(b, dd_of(k))), dd_add(c, dd_of(k)));
        s.slope = dd_add(s.slope, next);
        steep = fmax(steep, fabs(next.hi));
        term = dd_div(dd_mul(next, z), dd_of(k + 1.0));
        s.f = dd_add(s.f, term);
        size = fmax(size, fabs(term.hi));
        double growth = fabs((a.hi + k + 1) * (b.hi + k + 1) / ((c.hi + k + 1) * (k + 2)) * z.hi);
        double negligible = c.hi + k > 0 ? DD_EPS * (1 - growth) : 0; /* what follows is a geometric series or less */
        if ((fabs(next.hi) < negligible * steep && fabs(term.hi) < negligible * size) || next.hi == 0) {
            s.f_error = DD_EPS * size, s.slope_error = DD_EPS * steep;
            break;
        }
    }
    return s;
}

/* At z + t from z, by the Taylor series that the differential equation gives; rest = 1 - z. Its coefficients may be
 * large beside the sum, and errors grow as they do: these run along, by the recurrence in absolute values. */
static solution step_2f1(solution s, dd a, dd b, dd c, dd z, dd rest, dd t)
{
    dd u = s.f, v = dd_mul(s.slope, t), f = dd_add(u, v), g = v; /* u_k t^k, u_(k+1) t^(k+1) */
    dd bend = dd_add(rest, dd_neg(z)), p = dd_div(t, dd_mul(z, rest)), q = dd_mul(p, t);
    dd drift = dd_add(c, dd_neg(dd_mul(dd_add(dd_add(a, b), dd_of(1)), z)));
    double u_error = s.f_error, v_error = s.slope_error * fabs(t.hi), f_error = u_error + v_error, g_error = v_error;
    for (int k = 0; k < MOST_TERMS; k++) {
        double scale = (k + 1.0) * (k + 2.0);
        dd first = dd_mul(dd_times(dd_add(dd_times(bend, k), drift), k + 1.0), p);
        dd second = dd_mul(dd_mul(dd_add(a, dd_of(k)), dd_add(b, dd_of(k))), q);
        dd next = dd_div(dd_add(dd_mul(second, u), dd_neg(dd_mul(first, v))), dd_of(scale));
        double error = fabs(second.hi) * (u_error + DD_EPS * fabs(u.hi)) / scale;
        error += fabs(first.hi) * (v_error + DD_EPS * fabs(v.hi)) / scale;
        u = v, v = next, u_error = v_error, v_error = error;
        f = dd_add(f, v), g = dd_add(g, dd_times(v, k + 2.0));
        f_error += v_error, g_error += v_error * (k + 2.0);
        double last = (fabs(u.hi) + fabs(v.hi)) * (k + 2);
        if (last < 1e-33 * fmax(fabs(f.hi), fabs(g.hi)) + 0.01 * f_error || !isfinite(last)) break;
    }
    return (solution){f, dd_div(g, t), f_error, g_error / fabs(t.hi)};
}

/* At 0 <= z < 1; rest = 1 - z, which z has lost next to 1. Steps are short where the other solution of the
 * equation, z^(1 - c), has large Taylor coefficients. */
static solution inside_2f1(dd a, dd b, dd c, dd z, dd rest)
{
    double to_zero = 12 / (1 + fabs(c.hi));
    if (z.hi <= 0.6 || c.hi - a.hi - b.hi > MILD) {
        solution s = series_2f1(a, b, c, z);
        if (z.hi <= 0.6 || isfinite(s.f_error)) return s;
    }
    dd at = dd_of(0.5), left = dd_of(0.5);
    solution s = series_2f1(a, b, c, at);
    for (int i = 0; isfinite(s.f_error); i++) {
        double step = fmin(0.5 * left.hi, to_zero * at.hi);
        bool last = left.hi - rest.hi <= step;
        dd t = last ? dd_add(left, dd_neg(rest)) : dd_of(step);
        s = step_2f1(s, a, b, c, at, left, t);
        if (i == MOST_STEPS) s.f_error = INFINITY;
        if (last) break;
        at = dd_add(at, t), left = dd_add(left, dd_neg(t));
    }
    return s;
}

/* F at 0 <= z < 1 for positive parameters, whose terms are positive: the same in plain numbers, 20 times as fast. */
static double positive_2f1(double a, double b, double c, double z, double rest)
{
    double at = z <= 0.9 || c - a - b > MILD ? z : 0.9, left = 1 - at, f = 1, slope = 0, term = 1;
    for (int k = 0;; k++) {
        double growth = at * (a + k) * (b + k) / ((c + k) * (k + 1.0));
        if (k == MOST_TERMS) return NAN;
        if (term < 1e-18 * f * (1 - growth)) break;
        slope += term * growth * (k + 1.0) / at;
        f += term *= growth;
    }
    while (at < z && left > rest && isfinite(slope)) {
        double t = fmin(left / 2, left - rest), p = t / (at * left), q = p * t, bend = left - at;
        double drift = c - (a + b + 1) * at, u = f, v = slope * t, g = v;
        f += v;
        for (int k = 0; k < MOST_TERMS && (fabs(v) > 1e-18 * f || fabs(v) * k > 1e-18 * fabs(g)); k++) {
            double next = u * (a + k) * (b + k) * q - v * (bend * k + drift) * (k + 1.0) * p;
            next /= (k + 1.0) * (k + 2.0);
            u = v, v = next;
            f += v, g += v * (k + 2.0);
        }
        slope = g / t, at += t, left -= t;
    }
    return f;
}

/* base^x */
static double dd_power(dd base, dd x)
{
    double l = log(base.hi);
    return pow(base.hi, x.hi) * (1 + x.hi * (base.lo / base.hi) + x.lo * l);
}

/* base^power F(a, b; c; z) */
static estimated form_2f1(dd a, dd b, dd c, dd z, dd rest, dd base, dd power)
{
    double factor = dd_power(base, power), excess = c.hi - a.hi - b.hi, value;
    bool plain = z.hi <= 0.9 || excess > MILD || (c.hi < MILD && excess > -MILD);
    if (plain && a.hi > 0 && b.hi > 0 && c.hi > 0) {
        value = positive_2f1(a.hi, b.hi, c.hi, z.hi, rest.hi) * factor;
        if (isfinite(value) && value != 0) return (estimated){value, 0};
    }
    solution s = inside_2f1(a, b, c, z, rest);
    value = s.f.hi * factor;
    return (estimated){value, isfinite(value) && value != 0 ? s.f_error / fabs(s.f.hi) : INFINITY};
}

static bool ends(dd x) { return x.hi <= 0 && x.hi == floor(x.hi) && x.lo == 0; }

static double hyp2f1_at(dd a, dd b, dd c, double z)
{
    if (z == 0) return 1;
    if (isnan(a.hi + b.hi + c.hi + z) || isinf(z) || ends(c)) return scipy_hyp2f1(a.hi, b.hi, c.hi, z, 0);
    if (ends(a) || ends(b)) { /* a polynomial, of any z */
        solution s = series_2f1(a, b, c, dd_of(z));
        if (s.f_error < GOOD * fabs(s.f.hi)) return s.f.hi;
    }
    dd rest = dd_sum(1, -z), ca = dd_add(c, dd_neg(a)), cb = dd_add(c, dd_neg(b));
    if (z >= 1) return scipy_hyp2f1(a.hi, b.hi, c.hi, z, 0);
    estimated one, other;
    if (z > 0) {
        one = form_2f1(a, b, c, dd_of(z), rest, rest, dd_of(0));
        if (one.error < GOOD) return one.value;
        other = form_2f1(ca, cb, c, dd_of(z), rest, rest, dd_add(ca, dd_neg(b)));
    } else {
        dd w = dd_div(dd_of(-z), rest), far = dd_div(dd_of(1), rest);
        one = form_2f1(a, cb, c, w, far, far, a);
        if (one.error < GOOD) return one.value;
        other = form_2f1(ca, b, c, w, far, far, b);
    }
    if (other.error < one.error) one = other;
    return one.error < BEARABLE ? one.value : NAN;
}

double hyp2f1_derivative(double a, double b, double c, double z, int n)
{
    double ratio = pochhammer(a, n) * pochhammer(b, n);
    if (isnan(a + b + c + z)) return NAN;
    return ratio == 0 ? 0 : ratio / pochhammer(c, n) * hyp2f1_at(dd_shift(a, n), dd_shift(b, n), dd_shift(c, n), z);
}
