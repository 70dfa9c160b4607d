/*
 * Derivatives of every order n in z of the hypergeometric functions 0F1, 1F1 and 2F1: the same functions with every
 * parameter larger by n, times a ratio of Pochhammer symbols (DLMF 16.3.1, 13.3.16, 15.5.2). Of order 0 for values,
 * where SciPy's are not right, or nobody knows whether they are.
 *
 *   1F1  SciPy's, which is right but for z from -3 to 0 (unless 5/4 < a < b), b < 0 beside a small a or b, and where
 *        a, b or b - a is next to an integer. There the power series, of Kummer's transformation (DLMF 13.2.39) for
 *        z < 0
 *   0F1  SciPy's goes through Gamma and Bessel functions and loses digits. Here the power series, in double-double
 *        where its signs change; where that does not do, Bessel's J (DLMF 10.16.9), or the recurrence in v where
 *        Gamma(v) or J is not in range
 *   2F1  SciPy's has no right digit at many points. Here, for z < 1, the power series in double-double, and next to 1,
 *        where it takes too long, the Taylor series of the differential equation (15.10.1), step by step from 1/2.
 *        Arguments below 0 come between 0 and 1 by 15.8.1. There are two forms of each (15.8.1), one of which often
 *        has positive terms, for which plain doubles do, but for values. SciPy's for z >= 1
 *
 * Where the bound of the error of a double-double says that terms cancel too much, the same is done in numbers of more
 * and more words, until two results agree (multi.h). NaN where that takes long: as may be with parameters above 1000.
 */
#include <stdint.h>

#include "bessel.c"
#include "multi.h"

TG_IMPORT(double, scipy_hyp0f1, (double, double, int))
TG_IMPORT(double, scipy_hyp1f1, (double, double, double, int))
TG_IMPORT(double, scipy_hyp2f1, (double, double, double, double, int))

#define DD_EPS 1e-31
#define GOOD 1e-15       /* an estimated relative error that needs no better one */
#define ALMOST_ALL 100   /* how much larger the terms may be than their sum, which then has the digits of a double */
#define MOST_TERMS 4000
#define MOST_WORK 5000000 /* terms of all series times the square of the words: some 0.1 s */
#define MOST_STEPS 400
#define MOST_OF_STEP 600 /* terms of one of them */
#define LARGE_PARAMETER 5e4 /* beyond, nothing but a power series */
#define MILD 6           /* parameters with which the Taylor series has no large coefficients */

static dd dd_of(double x) { return (dd){x, 0}; }

static dd dd_shift(double x, double n) { return dd_sum(x, n); }

static dd dd_times(dd x, double y) {
    dd p = dd_prod(x.hi, y);
    return dd_fast(p.hi, p.lo + x.lo * y);
}

/* (x)_n */
static double pochhammer(double x, int n) {
    double product = 1;
    for (int i = 0; i < n; i++) product *= x + i;
    return product;
}

/* A value, and the relative error that it may have. */
typedef struct { double value, error; } estimated;

/* base^x m 2^e, base of 0 to 1: out of range only where the product is */
static double dd_power(dd base, dd x, floating f) {
    double p = pow(base.hi, x.hi), correction = 1 + x.hi * (base.lo / base.hi) + x.lo * log(base.hi);
    if (p > 1e-290 && p < 1e290) return ldexp(f.m * correction * p, (int)fmax(-3000, fmin(3000, (double)f.e)));
    int parts = 2, e; /* a power of 2, by which division is exact */
    while (parts < 1 << 20 && fabs(x.hi * log2(base.hi)) > 900.0 * parts) parts *= 2;
    f.m *= correction;
    for (int i = 0; i < parts; i++) {
        f.m = frexp(f.m * pow(base.hi, x.hi / parts), &e);
        f.e += e;
    }
    return ldexp(f.m, (int)fmax(-3000, fmin(3000, (double)f.e)));
}

/* base^power F(a, b; c; z), or the same without b, or without a and b */
typedef struct { dd a, b, c, z, rest, base, power; } form;

static bool ends(dd x) { return x.hi <= 0 && x.hi == floor(x.hi) && x.lo == floor(x.lo); }

/* F and F' at a point, and the errors that they may have; without bound where a series did not converge. */
typedef struct {
    dd f, slope;
    double f_error, slope_error;
} solution;

/* At z by the power series of 1F1(a; c; z) or 2F1(a, b; c; z), as `upper` says. */
static solution series_of(int upper, dd a, dd b, dd c, dd z) {
    solution s = {dd_of(1), dd_of(0), INFINITY, INFINITY};
    dd term = dd_of(1);
    double size = 1, steep = 0;
    for (int k = 0; k < MOST_TERMS; k++) {
        /* the next coefficient times z^k: a term of F' once it has its k + 1, of F once it has its z */
        dd ak = dd_add(a, dd_of(k)), bk = upper > 1 ? dd_add(b, dd_of(k)) : dd_of(1);
        dd next = dd_div(dd_mul(dd_mul(term, ak), bk), dd_add(c, dd_of(k)));
        s.slope = dd_add(s.slope, next);
        steep = fmax(steep, fabs(next.hi));
        term = dd_div(dd_mul(next, z), dd_of(k + 1.0));
        s.f = dd_add(s.f, term);
        size = fmax(size, fabs(term.hi));
        double growth = fabs((a.hi + k + 1) * (upper > 1 ? b.hi + k + 1 : 1) / ((c.hi + k + 1) * (k + 2)) * z.hi);
        double negligible = c.hi + k > 0 ? DD_EPS * (1 - growth) : 0; /* what follows is a geometric series or less */
        bool polynomial = ak.hi == 0 || bk.hi == 0;
        if ((fabs(next.hi) < negligible * steep && fabs(term.hi) < negligible * size) || polynomial) {
            s.f_error = DD_EPS * (1 + k / 4.0) * size, s.slope_error = DD_EPS * (1 + k / 4.0) * steep;
            break;
        }
        if (fabs(next.hi) < 1e-270) break; /* it may grow again, and has lost digits by then */
    }
    return s;
}

/* Whether a parameter is so large, or so small, that double-doubles and other methods have no range for it. */
static bool extreme(double x) { return fabs(x) > LARGE_PARAMETER || (x != 0 && fabs(x) < 1e-250); }

/* The same in plain numbers, for such parameters; NaN where more than half of a digit cancels. */
static double plain_series(int upper, double a, double b, double c, double z) {
    double term = 1, sum = 1, all = 1;
    for (int k = 0; k < MOST_OF_STEP; k++) {
        double factor = upper > 1 ? (b + k) / (k + 1) : 1 / (k + 1.0), next = term * ((a + k) / (c + k) * z * factor);
        if (!isfinite(next)) next = term * (z / (c + k) * (a + k) * factor);
        sum += term = next, all += fabs(next);
        double growth = fabs((a + k + 1) / (c + k + 1) * z * (upper > 1 ? (b + k + 1) / (k + 2) : 1 / (k + 2.0)));
        bool over = term == 0 || (growth < 0.9 && fabs(term) < 1e-18 * fabs(sum) && c + k > 0);
        if (over || isinf(sum)) return all < 3 * fabs(sum) || isinf(sum) ? sum : NAN;
    }
    return NAN;
}

/* ---- power series in numbers of many words ---- */

typedef struct {
    multi f, slope;
    bool converged;
} long_solution;

static multi multi_of_dd(dd x, int words) { return multi_shift(multi_of(x.hi, words), x.lo); }

static bool negligible(multi x, multi sum) {
    return x.sign == 0 || (sum.sign != 0 && x.exponent < sum.exponent - sum.words);
}

static long_solution long_series(int upper, form x, multi at, double z, double *work) {
    int words = at.words;
    multi a = multi_of_dd(x.a, words), b = multi_of_dd(x.b, words), c = multi_of_dd(x.c, words);
    multi one = multi_of(1, words), term = one, largest = one;
    long_solution s = {one, multi_zero(words), false};
    for (int k = 0; (*work -= words * words) > 0; k++) {
        multi next = multi_mul(term, multi_inverse(c));
        if (upper > 0) next = multi_mul(next, a);
        if (upper > 1) next = multi_mul(next, b);
        s.slope = multi_add(s.slope, next);
        term = multi_over(multi_mul(next, at), (uint64_t)k + 1);
        s.f = multi_add(s.f, term);
        if (next.sign == 0) return s.converged = true, s;
        if (multi_compare(&largest, &term) < 0) largest = term;
        a = multi_add(a, one), b = multi_add(b, one), c = multi_add(c, one);
        double ak = upper > 0 ? x.a.hi + k + 1 : 1, bk = upper > 1 ? x.b.hi + k + 1 : 1, ck = x.c.hi + k + 1;
        bool falling = ak > 0 && bk > 0 && ck > 0 && ak * bk * fabs(z) < ck * (k + 2);
        if (falling && negligible(next, largest)) return s.converged = true, s;
    }
    return s;
}

static floating long_2f1(form x, int words, double *work);

/* With more and more words, until two results agree; NaN where that takes too long. */
static double sure(int upper, form x) {
    floating last = {NAN, 0};
    double work = MOST_WORK;
    if (x.c.hi < -MOST_WORK / 16 && !(upper > 0 && ends(x.a)) && !(upper > 1 && ends(x.b)))
        return NAN; /* they fall from -c on */
    for (int words = 4; words <= MOST_WORDS; words += words / 2) {
        floating f;
        if (upper == 2) f = long_2f1(x, words, &work);
        else {
            long_solution s = long_series(upper, x, multi_of_dd(x.z, words), x.z.hi, &work);
            f = s.converged ? multi_scaled(s.f) : (floating){NAN, 0};
        }
        if (isnan(f.m)) return NAN;
        if (f.e == last.e && fabs(f.m - last.m) <= 1.2e-16) return dd_power(x.base, x.power, f);
        last = f;
    }
    return NAN;
}

/* ---- 0F1 ---- */

static estimated series_0f1(dd c, double z) {
    dd term = dd_of(1), sum = term;
    double size = 1;
    for (int k = 0; k < MOST_TERMS; k++) {
        term = dd_div(dd_times(term, z), dd_times(dd_add(c, dd_of(k)), k + 1.0));
        sum = dd_add(sum, term);
        size = fmax(size, fabs(term.hi));
        if (fabs(term.hi) < 1e-18 * fabs(sum.hi) && fabs(z) < 0.5 * (k + 1.0) * (c.hi + k)) break;
    }
    return (estimated){sum.hi, DD_EPS * size / fabs(sum.hi)};
}

static double gamma_sign(double x) { return x < 0 && fmod(floor(x), 2) != 0 ? -1 : 1; }

/* For z < 0: where Gamma(v) or x^(1 - v), x = sqrt(-z), comes near the end of what a double holds. */
static bool out_of_range(double v, double z) { return v > 150 || v < -165 || fabs(v - 1) * log(-z) > 1300; }

/* J_v(2 sqrt(-z)), whose phase needs what the root has lost, e, next to which J is a sine (DLMF 10.2.1). NaN where e has lost
 * digits before the point. */
static double jv_at_root(double v, double z) {
    double x = sqrt(-z), e = fma(-x, x, -z) / x;
    return fabs(e) < 1e4 ? jv_n(v, 2 * x, 0) * cos(e) + jv_n(v, 2 * x, 1) * sin(e) : NAN;
}

/*
 * There, up to |z| = 1e7, F(v) = F(v + 1) + z/(v (v + 1)) F(v + 2), DLMF 10.6.1, from where the series does: in this
 * direction J grows. Beyond, and for v < 0, by logarithms of its factors. NaN where J has underflown, or is not of
 * moderate size.
 */
static double hyp0f1_out_of_range(double v, double z) {
    if (v < 0 && -v > sqrt(-z)) return NAN;
    if (v > 0 && z > -1e7) {
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
    double x = sqrt(-z), j = jv_at_root(v - 1, z), log_front = lgamma(v) + (1 - v) * log(x);
    if (log_front - fmax(zeta_of(v - 1, 2 * x), log(x) / 2) < -GONE) return 0;
    return fabs(j) < 1e-290 ? NAN : gamma_sign(v) * copysign(exp(log_front + log(fabs(j))), j);
}

static double hyp0f1_at(dd c, double z) {
    double v = c.hi;
    if (isnan(v) || isnan(z) || ends(c)) return NAN;
    if (isinf(v)) return v > 0 ? 1 : NAN;
    if (z == INFINITY) return copysign(INFINITY, gamma_sign(v));
    if (z == -INFINITY) return v > 0.5 ? 0 : NAN; /* oscillations of the size |z|^(1/4 - v/2) */
    if (v > 0 && z >= 0) {
        double term = 1, sum = 1;
        for (int k = 0; term > 1e-18 * sum && isfinite(sum); k++) sum += term *= z / ((v + k) * (k + 1.0));
        return sum;
    }
    if (fabs(z) <= fmax(1e5, 20 * fabs(v))) {
        estimated e = series_0f1(c, z);
        if (e.error < GOOD) return e.value;
    }
    if (z > 1e6 && 2 * sqrt(z) >= fabs(v)) return copysign(INFINITY, gamma_sign(v));
    if (z > 0 || (v < 0.01 && z > -2e5)) return sure(0, (form){.c = c, .z = dd_of(z), .base = dd_of(1)});
    if (out_of_range(v, z) || z < -1e30) return hyp0f1_out_of_range(v, z);
    return tgamma(v) * pow(-z, (1 - v) / 2) * jv_at_root(v - 1, z);
}

static double hyp0f1_derivative(double v, double z, int n) { return hyp0f1_at(dd_shift(v, n), z) / pochhammer(v, n); }

/* Not an integer, but next to one: SciPy takes it for the integer, or loses what the two differ by. */
static bool beside_integer(double x, double distance) {
    double off = fabs(x - rint(x));
    return off > 0 && off < distance;
}

/* SciPy's, which goes through Gamma(v) x^(1 - v) J: infinite, 0 or NaN where these are, few digits next to the
 * poles of Gamma, and of large z. There, ours. */
static double hyp0f1_value(double v, double z) {
    bool theirs_fails =
        fabs(z) > 1e4 || fabs(v) > 1e3 || (z < 0 && out_of_range(v, z)) || (v < 0.01 && beside_integer(v, 0.01));
    double theirs = theirs_fails ? NAN : scipy_hyp0f1(v, z, 0);
    return isfinite(theirs) ? theirs : hyp0f1_derivative(v, z, 0);
}

/* ---- 1F1 ---- */

/* Where SciPy's was found to be right, to 1e-11 relative to the condition and mostly to 1e-15. */
static bool scipy_has_1f1(double a, double b, double z) {
    if (a > 0 && b > 0 && z >= 0) return true;
    if (z < 0 && b < a && fabs(b - a - rint(b - a)) < 1e-3) return false; /* a polynomial, by Kummer's transformation */
    if ((z < 0 && z > -3 && !(a > 1.25 && b > a)) || (b < 0 && (fabs(a) < 0.1 || fabs(a) > 100 || b < -10)))
        return false;
    return !(beside_integer(a, 1e-3) || beside_integer(b, 1e-3) || beside_integer(b - a, 1e-3));
}

/* Kummer's transformation (DLMF 13.2.39) where z < 0. */
static double hyp1f1_ours(dd a, dd ba, dd b, double z) {
    if (z < 0 && z > -3 && b.hi > 0) { /* few terms, and most of one sign */
        long double top = (long double)ba.hi + ba.lo, bottom = (long double)b.hi + b.lo, term = 1, sum = 1, all = 1;
        int k = 0;
        for (; k < 60 && fabsl(term) > 1e-21L * fabsl(sum); k++) {
            term *= -z * (top + k) / ((bottom + k) * (k + 1));
            sum += term;
            all += fabsl(term);
        }
        if (k < 60 && all < ALMOST_ALL * fabsl(sum) && isfinite(sum)) return (double)(expl(z) * sum);
    }
    dd e = {2.718281828459045, 1.4456468917292502e-16};
    form forms[] = {{.a = a, .z = dd_of(z), .base = dd_of(1)}, {.a = ba, .z = dd_of(-z), .base = e}};
    forms[1].power = dd_of(z);
    for (int i = 1; i >= 0; i--) {
        if (i == 1 && z > 0) continue;
        forms[i].c = b;
        solution s = series_of(1, forms[i].a, dd_of(1), forms[i].c, forms[i].z);
        if (s.f_error < GOOD * fabs(s.f.hi)) return dd_power(forms[i].base, forms[i].power, (floating){s.f.hi, 0});
    }
    bool large = fmax(fabs(a.hi), fabs(b.hi)) > LARGE_PARAMETER;
    return fabs(z) < 1e5 && !large ? sure(1, forms[z < 0]) : NAN;
}

/* |z| large beside the squares of parameters: DLMF 13.7.1 and 13.2.39. NaN where its terms do not fall. */
static double hyp1f1_far(double a, double ba, double b, double z) {
    double p = z > 0 ? 1 - a : a, q = z > 0 ? ba : 1 - ba, other = z > 0 ? a : ba, x = fabs(z), term = 1, sum = 1;
    for (int k = 0; fabs(term) > 1e-17 * fabs(sum); k++) {
        if (k == MOST_OF_STEP) return NAN;
        double next = term * (p + k) * (q + k) / ((k + 1) * x);
        if (!(fabs(next) <= fabs(term) / 2)) return NAN;
        sum += term = next;
    }
    double log_size = lgamma(b) - lgamma(other) + (z > 0 ? z - ba * log(z) : -a * log(x));
    return gamma_sign(b) * gamma_sign(other) * exp(log_size) * sum;
}

/* SciPy's does not return, or ends the program, at many points with large or tiny numbers. */
static bool scipy_returns_1f1(double a, double b, double z) {
    return fabs(a) <= 1e4 && fabs(b) <= 1e4 && fabs(z) <= 1e4 && fabs(b) > 1e-250 && fabs(a) > 1e-250 &&
           fabs(z) > 1e-250;
}

/* At infinity DLMF 13.7.1 and 13.7.2 give the limit; next to a = 0 it is 1 to all digits. What is too large has the
 * sign of what it tends to (13.7.1). */
static double hyp1f1_at(dd a, dd b, double z) {
    if (isnan(a.hi + b.hi + z)) return NAN;
    if (isinf(a.hi) || isinf(b.hi)) return b.hi == INFINITY && isfinite(a.hi) && isfinite(z) ? 1 : NAN;
    if (a.hi == 0 || (fabs(a.hi) < 1e-280 && fabs(z) < 500 && fabs(b.hi) > 1e-10)) return 1;
    if (ends(b))
        return ends(a) && scipy_returns_1f1(a.hi, b.hi, 1) && isfinite(z) ? scipy_hyp1f1(a.hi, b.hi, z, 0) : INFINITY;
    if (z == 0) return 1;
    if (isinf(z)) return a.hi > 0 && b.hi > 0 ? (z > 0 ? INFINITY : 0) : NAN;
    if (extreme(a.hi) || extreme(b.hi) || fabs(z) < 1e-250) {
        double value = plain_series(1, a.hi, 1, b.hi, z);
        if (!isnan(value)) return value;
    }
    dd ba = dd_add(b, dd_neg(a));
    bool theirs = scipy_has_1f1(a.hi, b.hi, z) && scipy_returns_1f1(a.hi, b.hi, z);
    double value = theirs ? scipy_hyp1f1(a.hi, b.hi, z, 0) : NAN;
    if (isfinite(value)) return value;
    if (fabs(z) > 700 && fabs(z) > 8 * (fabs(a.hi) + fabs(b.hi)) && isinf(value)) {
        dd other = z > 0 ? a : ba;
        if (!ends(other)) return copysign(INFINITY, gamma_sign(b.hi) * gamma_sign(other.hi));
    }
    dd other = z > 0 ? a : ba;
    value = hyp1f1_ours(a, ba, b, z);
    return isnan(value) && fabs(z) > 1e3 && !ends(other) && !beside_integer(other.hi, 1e-3)
               ? hyp1f1_far(a.hi, ba.hi, b.hi, z)
               : value;
}

static double hyp1f1_derivative(double a, double b, double z, int n) {
    double ratio = pochhammer(a, n);
    if (ratio == 0) return isnan(b + z) ? NAN : 0;
    double quotient = 1;
    for (int i = 0; i < n; i++) quotient *= (a + i) / (b + i);
    return quotient * hyp1f1_at(dd_shift(a, n), dd_shift(b, n), z);
}

/* ---- 2F1 ---- */

/* At z + t from z, by the Taylor series that the differential equation gives; rest = 1 - z. Its coefficients may be
 * large beside the sum, and errors grow as they do: these run along, by the recurrence in absolute values. */
static solution step_2f1(solution s, dd a, dd b, dd c, dd z, dd rest, dd t) {
    dd u = s.f, v = dd_mul(s.slope, t), f = dd_add(u, v), g = v; /* u_k t^k, u_(k+1) t^(k+1) */
    dd bend = dd_add(rest, dd_neg(z)), p = dd_div(t, dd_mul(z, rest)), q = dd_mul(p, t);
    dd drift = dd_add(c, dd_neg(dd_mul(dd_add(dd_add(a, b), dd_of(1)), z)));
    double u_error = s.f_error, v_error = s.slope_error * fabs(t.hi), f_error = u_error + v_error, g_error = v_error;
    for (int k = 0; k <= MOST_OF_STEP; k++) {
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
        if (k == MOST_OF_STEP) f_error = g_error = INFINITY;
        if (last < 1e-33 * fmax(fabs(f.hi), fabs(g.hi)) + 0.01 * f_error || !isfinite(last)) break;
    }
    return (solution){f, dd_div(g, t), f_error, g_error / fabs(t.hi)};
}

/* At 0 <= z < 1; rest = 1 - z, which z has lost next to 1. Steps are short where the other solution of the
 * equation, z^(1 - c), has large Taylor coefficients. */
static solution inside_2f1(dd a, dd b, dd c, dd z, dd rest) {
    double to_zero = 12 / (1 + fabs(c.hi));
    if (z.hi <= 0.6 || c.hi - a.hi - b.hi > MILD || to_zero < 0.1) {
        solution s = series_of(2, a, b, c, z);
        if (z.hi <= 0.6 || isfinite(s.f_error)) return s;
    }
    dd at = dd_of(0.5), left = dd_of(0.5);
    solution s = series_of(2, a, b, c, at);
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
static double positive_2f1(double a, double b, double c, double z, double rest) {
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
        for (int k = 0; fabs(v) > 1e-18 * f || fabs(v) * k > 1e-18 * fabs(g); k++) {
            if (k == MOST_OF_STEP) return NAN;
            double next = u * (a + k) * (b + k) * q - v * (bend * k + drift) * (k + 1.0) * p;
            next /= (k + 1.0) * (k + 2.0);
            u = v, v = next;
            f += v, g += v * (k + 2.0);
        }
        slope = g / t, at += t, left -= t;
    }
    return f;
}

static estimated form_2f1(form x, bool plain) {
    double excess = x.c.hi - x.a.hi - x.b.hi;
    plain &= x.z.hi <= 0.9 || excess > MILD || (x.c.hi < MILD && excess > -MILD);
    if (plain && x.a.hi > 0 && x.b.hi > 0 && x.c.hi > 0) {
        double value =
            dd_power(x.base, x.power, (floating){positive_2f1(x.a.hi, x.b.hi, x.c.hi, x.z.hi, x.rest.hi), 0});
        if (isfinite(value) && value != 0) return (estimated){value, 0};
    }
    solution s = inside_2f1(x.a, x.b, x.c, x.z, x.rest);
    double error = s.f_error / fabs(s.f.hi);
    return (estimated){dd_power(x.base, x.power, (floating){s.f.hi, 0}), isfinite(error) ? error : INFINITY};
}

/* the same in numbers of many words */
static long_solution long_step_2f1(long_solution s, multi a, multi b, multi c, multi z, multi t, double *work) {
    int words = z.words;
    multi one = multi_of(1, words), rest = multi_add(one, multi_neg(z)), ab = multi_mul(a, b), sum = multi_add(a, b);
    multi u = s.f, v = multi_mul(s.slope, t), f = multi_add(u, v), g = v;
    multi bend = multi_add(rest, multi_neg(z)), p = multi_mul(t, multi_inverse(multi_mul(z, rest)));
    multi q = multi_mul(p, t), drift = multi_add(c, multi_neg(multi_mul(multi_add(sum, one), z)));
    multi p_bend = multi_mul(p, bend), p_drift = multi_mul(p, drift);
    s.converged = false;
    for (int k = 0; (*work -= words * words) > 0; k++) {
        /* (a + k) (b + k) q u - (k bend + drift) (k + 1) p v */
        multi both = multi_add(ab, multi_times(multi_shift(sum, k), k));
        multi first = multi_times(multi_add(multi_times(p_bend, k), p_drift), k + 1.0);
        multi next = multi_add(multi_mul(multi_mul(both, q), u), multi_neg(multi_mul(first, v)));
        u = v, v = multi_over(next, (uint64_t)(k + 1) * (uint64_t)(k + 2));
        f = multi_add(f, v), g = multi_add(g, multi_times(v, k + 2.0));
        if (k > 10 && negligible(u, f) && negligible(v, f) && negligible(u, g) && negligible(v, g)) {
            s.converged = true;
            break;
        }
    }
    return (long_solution){f, multi_mul(g, multi_inverse(t)), s.converged};
}

/* F(a, b; c; z) of a form; NaN where it takes too long. */
static floating long_2f1(form x, int words, double *work) {
    multi a = multi_of_dd(x.a, words), b = multi_of_dd(x.b, words), c = multi_of_dd(x.c, words);
    multi z = multi_of_dd(x.z, words), one = multi_of(1, words);
    bool near = x.z.hi <= 0.7 || ends(x.a) || ends(x.b), last = near;
    multi at = near ? z : multi_of(0.5, words);
    long_solution s = long_series(2, x, at, near ? x.z.hi : 0.5, work);
    while (s.converged && !last) {
        floating to_one = multi_scaled(multi_add(one, multi_neg(at)));
        multi t = multi_add(z, multi_neg(at)), step = multi_of(ldexp(0.5 * to_one.m, (int)to_one.e), words);
        last = t.sign <= 0 || multi_compare(&t, &step) <= 0;
        if (!last) t = step;
        s = long_step_2f1(s, a, b, c, at, t, work);
        at = multi_add(at, t);
    }
    return s.converged ? multi_scaled(s.f) : (floating){NAN, 0};
}

/* plain: whether the last three digits may be lost for the sake of speed */
static double hyp2f1_at(dd a, dd b, dd c, double z, bool plain) {
    if (z == 0) return 1;
    if (isnan(a.hi + b.hi + c.hi + z) || isinf(z) || ends(c)) return scipy_hyp2f1(a.hi, b.hi, c.hi, z, 0);
    dd rest = dd_sum(1, -z), ca = dd_add(c, dd_neg(a)), cb = dd_add(c, dd_neg(b)), none = dd_of(0);
    if (isinf(a.hi) || isinf(b.hi)) return NAN;
    if (isinf(c.hi)) return c.hi > 0 ? 1 : NAN;
    if (fabs(z) < 1 && (extreme(a.hi) || extreme(b.hi) || extreme(c.hi) || fabs(z) < 1e-250)) {
        double value = plain_series(2, a.hi, b.hi, c.hi, z);
        if (!isnan(value)) return value;
    }
    if (fmax(fabs(a.hi), fabs(b.hi)) > LARGE_PARAMETER || extreme(c.hi)) return NAN;
    if (ends(a) || ends(b)) { /* a polynomial, of any z */
        solution s = series_of(2, a, b, c, dd_of(z));
        if (s.f_error < GOOD * fabs(s.f.hi)) return s.f.hi;
        return sure(2, (form){a, b, c, dd_of(z), rest, dd_of(1), none});
    }
    if (z >= 1) return scipy_hyp2f1(a.hi, b.hi, c.hi, z, 0);
    form forms[2];
    if (z > 0) {
        forms[0] = (form){a, b, c, dd_of(z), rest, rest, none};
        forms[1] = (form){ca, cb, c, dd_of(z), rest, rest, dd_add(ca, dd_neg(b))};
    } else {
        dd w = dd_div(dd_of(-z), rest), far = dd_div(dd_of(1), rest);
        forms[0] = (form){a, cb, c, w, far, far, a};
        forms[1] = (form){ca, b, c, w, far, far, b};
    }
    for (int i = 0; i < 2; i++) {
        estimated e = form_2f1(forms[i], plain);
        if (e.error < GOOD) return e.value;
    }
    return forms[0].rest.hi > 1e-100 ? sure(2, forms[0]) : NAN; /* some 300 steps */
}

static double hyp2f1_derivative(double a, double b, double c, double z, int n) {
    double ratio = 1;
    for (int i = 0; i < n; i++) {
        double next = (a + i) / (c + i) * (b + i);
        ratio *= isfinite(next) && next != 0 ? next : (b + i) / (c + i) * (a + i);
    }
    if (isnan(a + b + c + z)) return NAN;
    if (pochhammer(a, n) == 0 || pochhammer(b, n) == 0) return 0;
    return ratio * hyp2f1_at(dd_shift(a, n), dd_shift(b, n), dd_shift(c, n), z, n > 0);
}

/* Where SciPy's was found to be right, to 1e-11 relative to the condition and mostly to 1e-15, and
 * 20 times as fast. */
static bool scipy_has_2f1(double a, double b, double c, double z) {
    if (!(fabs(a) <= 6 && fabs(b) <= 6 && c >= 0.1 && z > -2 && z <= 0.9)) return false;
    if ((a < 0.1 || b < 0.1) && fabs(z) > 0.5) return false;
    if (beside_integer(a, 1e-9) || beside_integer(b, 1e-9)) return false;
    return !beside_integer(c - a, 1e-9) && !beside_integer(c - b, 1e-9);
}

static double hyp2f1_value(double a, double b, double c, double z) {
    return scipy_has_2f1(a, b, c, z) ? scipy_hyp2f1(a, b, c, z, 0) : hyp2f1_derivative(a, b, c, z, 0);
}
