/*
 * Derivatives of every order n in z of the hypergeometric functions 0F1, 1F1 and 2F1: the same functions with every
 * parameter larger by n, times a ratio of Pochhammer symbols (DLMF 16.3.1, 13.3.16, 15.5.2).
 *
 *   1F1  SciPy's, which is right to 1e-12 (tried with parameters up to 1000)
 *   0F1  SciPy's goes through Gamma and Bessel functions and loses digits. Here the power series, in double-double where
 *        its signs change; where that does not do, Bessel's J (DLMF 10.16.9)
 *   2F1  SciPy's has no right digit at many points. Here, for z < 1, the power series in double-double up to 1/2, and
 *        from there the Taylor series of the differential equation (15.10.1), in steps that halve the distance to 1.
 *        Arguments below 0 come between 0 and 1 by 15.8.1. There are two forms of each (15.8.1), one of which
 *        often has positive terms: that with the smaller estimate of its error is taken. NaN where neither has six
 *        digits, as may be with parameters of different signs and sizes near 100. SciPy's for z >= 1.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "gammabeta.h"

TG_IMPORT(double, scipy_jv, (double, double, int))
TG_IMPORT(double, scipy_hyp1f1, (double, double, double, int))
TG_IMPORT(double, scipy_hyp2f1, (double, double, double, double, int))

#define DD_EPS 1e-31
#define GOOD 1e-15       /* an estimated relative error that needs no better one */
#define BEARABLE 1e-6    /* one above which there is no result */
#define MOST_TERMS 4000

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

static double hyp0f1_at(dd c, double z)
{
    double v = c.hi;
    if (isnan(v) || isnan(z) || (v <= 0 && v == floor(v) && c.lo == 0)) return NAN;
    if (z == INFINITY) return INFINITY;
    if (v > 0 && z >= 0) {
        double term = 1, sum = 1;
        for (int k = 0; term > 1e-18 * sum && isfinite(sum); k++) sum += term *= z / ((v + k) * (k + 1.0));
        return sum;
    }
    if (fabs(z) < 1e5) {
        estimated e = series_0f1(c, z);
        if (e.error < GOOD || z > 0) return e.value;
    }
    double x = sqrt(-z), power = v < 150 ? tgamma(v) * pow(x, 1 - v) : exp(lgamma(v) + (1 - v) * log(x));
    return power * scipy_jv(v - 1, 2 * x, 0);
}

double hyp0f1_derivative(double v, double z, int n) { return hyp0f1_at(dd_shift(v, n), z) / pochhammer(v, n); }

/* ---- 1F1 ---- */

double hyp1f1_derivative(double a, double b, double z, int n)
{
    double ratio = pochhammer(a, n);
    return ratio == 0 ? 0 * b : ratio / pochhammer(b, n) * scipy_hyp1f1(a + n, b + n, z, 0);
}

/* ---- 2F1 ---- */

typedef struct { dd f, slope; double error; } solution;

/* F and F' at z by the power series */
static solution series_2f1(dd a, dd b, dd c, dd z)
{
    solution s = {dd_of(1), dd_of(0), INFINITY};
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
        bool small = fabs(next.hi) < 1e-33 * steep && fabs(term.hi) < 1e-33 * size && growth < 0.9 && c.hi + k > 0;
        if (small || next.hi == 0) {
            s.error = DD_EPS * size / fabs(s.f.hi);
            break;
        }
    }
    return s;
}

/* F and F' at z + t from those at z, by the Taylor series that the differential equation gives; rest = 1 - z. */
static solution step_2f1(solution s, dd a, dd b, dd c, dd z, dd rest, dd t)
{
    dd u = s.f, v = dd_mul(s.slope, t), f = dd_add(u, v), g = v; /* u_k t^k, u_(k+1) t^(k+1) */
    dd width = dd_mul(z, rest), bend = dd_add(rest, dd_neg(z));
    dd drift = dd_add(c, dd_neg(dd_mul(dd_add(dd_add(a, b), dd_of(1)), z)));
    dd p = dd_div(t, width), q = dd_mul(p, t);
    double size = fmax(fabs(u.hi), fabs(v.hi));
    for (int k = 0; k < 500; k++) {
        dd first = dd_mul(v, dd_times(dd_add(dd_times(bend, k), drift), k + 1.0));
        dd second = dd_mul(u, dd_mul(dd_add(a, dd_of(k)), dd_add(b, dd_of(k))));
        dd next = dd_add(dd_mul(second, q), dd_neg(dd_mul(first, p)));
        next = dd_div(next, dd_of((k + 1.0) * (k + 2.0)));
        u = v, v = next;
        f = dd_add(f, v), g = dd_add(g, dd_times(v, k + 2.0));
        size = fmax(size, fabs(v.hi));
        if (fabs(v.hi) * (k + 2) < 1e-33 * size && fabs(u.hi) * (k + 1) < 1e-33 * size) break;
    }
    double error = s.error * fabs(s.f.hi / f.hi) + DD_EPS * size / fabs(f.hi);
    return (solution){f, dd_div(g, t), fmax(error, s.error)};
}

/* F at 0 <= z < 1; rest = 1 - z, which z has lost next to 1. */
static solution inside_2f1(dd a, dd b, dd c, dd z, dd rest)
{
    if (z.hi <= 0.6) return series_2f1(a, b, c, z);
    dd at = dd_of(0.5), left = dd_of(0.5);
    solution s = series_2f1(a, b, c, at);
    while (isfinite(s.error)) {
        bool last = rest.hi >= 0.5 * left.hi;
        dd t = last ? dd_add(left, dd_neg(rest)) : dd_times(left, 0.5);
        s = step_2f1(s, a, b, c, at, left, t);
        if (last) break;
        at = dd_add(at, t), left = dd_times(left, 0.5);
    }
    return s;
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
    solution s = inside_2f1(a, b, c, z, rest);
    double value = s.f.hi * dd_power(base, power);
    return (estimated){value, isfinite(value) && value != 0 ? s.error : INFINITY};
}

static bool ends(dd x) { return x.hi <= 0 && x.hi == floor(x.hi) && x.lo == 0; }

static double hyp2f1_at(dd a, dd b, dd c, double z)
{
    if (z == 0) return 1;
    if (isnan(a.hi + b.hi + c.hi + z) || isinf(z) || ends(c)) return scipy_hyp2f1(a.hi, b.hi, c.hi, z, 0);
    if (ends(a) || ends(b)) { /* a polynomial, of any z */
        solution s = series_2f1(a, b, c, dd_of(z));
        if (s.error < GOOD) return s.f.hi;
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
    return ratio == 0 ? 0 * c : ratio / pochhammer(c, n) * hyp2f1_at(dd_shift(a, n), dd_shift(b, n), dd_shift(c, n), z);
}
