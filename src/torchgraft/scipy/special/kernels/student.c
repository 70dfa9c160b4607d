/* student.c - derivatives of Student's distribution function F(t; v), and of its inverse in t.
 *
 * At a given t, the argument of the incomplete beta function moves with v, and for a large v the two terms of the
 * chain rule cancel: dF/dv falls as 1/v^2, each of them as 1/v. So the density f is differentiated under the integral.
 * With t^2 = v (e^z - 1) and C = 1/B(1/2, v/2) (DLMF 8.17.2), for t > 0
 *     1 - F = C int_z^inf w(s) ds,  w = e^(-v s/2)/(2 sqrt(1 - e^-s)),
 *     d log f / dv = L(z) = (c + (1 - e^-z)/v - h(z))/2,  h(z) = z - 1 + e^-z,  c = psi((v+1)/2) - psi(v/2) - 1/v.
 * L w has the integral 0 over (0, inf) and changes its sign once. So dF/dv > 0, and it is an integral of one sign,
 * below z where L > 0, above z where L < 0.
 * z >= 1: 1/sqrt(1 - e^-s) as a series in e^-s, each term of which has a closed form; no terms cancel.
 * z < 1: quadrature in y = sqrt(s), in which the integrand is analytic but for poles at distance 2.5 from 0. */
#include <stdbool.h>

#include "gammabeta.h"
#include "wide.h"

#define SQRT_PI 1.7724538509055160273
#define LEAST 1e-302  /* stands in for fewer degrees of freedom, of which F - 1/2 is v times a function of t^2/v */
#define MOST 1e300    /* and for more: a normal distribution */

/* c: 2/(v (v+1) (v+2)) + c(v+2), and from 24 on the asymptotic series of Dirichlet's beta function, DLMF 5.11.2 at
 * (v+1)/2 and v/2: 2 sum (2^2k - 1) B_2k/(2k v^2k). */
static double gap(double v) {
    double sum = 0;
    for (; v < 24; v += 2) sum += 2 / v / ((v + 1) * (v + 2));
    double q = 1 / v / v;
    return sum +
           2 * q *
               (1.0 / 4 -
                q * (1.0 / 8 - q * (1.0 / 4 - q * (17.0 / 16 - q * (31.0 / 4 - q * (691.0 / 8 - q * (5461.0 / 4)))))));
}

/* C, by Stirling's formula where v is large */
static double scale_of(double v) {
    double a = 0.5 * v, b = a + 0.5;
    if (a < LARGE) return a / SQRT_PI * (tgamma(b) / tgamma(a + 1));
    return sqrt(a) / SQRT_PI * exp(a * log1p(0.5 / a) - 0.5 + stirling_error(b) - stirling_error(a));
}

/* z + e^-z - 1, z >= 0 */
static double h_of(double z) { return z <= 1 ? expm1_tail(z) : z + expm1(-z); }

/* y: sqrt(z), also where t^2 is 0; reach: sqrt(v + t^2) */
typedef struct { double v, z, y, reach; } point;

static point point_at(double v, double t) {
    v = fmin(v, MOST);
    double r = fabs(t) / sqrt(v), w = r * r, z = w < 1e300 ? log1p(w) : 2 * log(fabs(t)) - log(v);
    return (point){fmax(v, LEAST), z, w < 1e-20 ? r : sqrt(z), hypot(sqrt(v), t)};
}

static double twice_L(double v, double z) { return gap(v) - expm1(-z) / v - h_of(z); }

/* e^(vz/2) times the integrals of -2 L w and of w, above z or, negative and without its second, below */
typedef struct { double weighted, one; } sums;

/* -2 L = s - 1 - g + (1 + 1/v) e^-s, g = c + 1/v. In the leading term 1/(v/2) - g, 1/v - c = 1/(v+1) + c(v+1). */
static sums series(point p) {
    double v = p.v, q = exp(-p.z), power = 1, g = gap(v) + 1 / v, weighted = 0, one = 0;
    for (int k = 0; power > 1e-18; k++) {
        double r = 1 / (0.5 * v + k), next = 1 / (0.5 * v + k + 1);
        double rest = k == 0 ? 1 / (v + 1) + gap(v + 1) : r - g;
        weighted += power * ((p.z - 1 + rest) * r + (1 + 1 / v) * q * next);
        one += power * r;
        power *= q * (k + 0.5) / (k + 1);
    }
    return (sums){0.5 * weighted, 0.5 * one};
}

static sums quadrature(point p, int below) {
    double v = p.v, c = gap(v), weighted = 0, one = 0, e[NODES], y[NODES];
    double range = below ? p.y : positive_root(p.y, 2 * TAIL / v);
    for (int i = 0; i < NODES; i++) {
        double d = range * node[i];
        y[i] = below ? d : p.y + d;
        e[i] = below ? 0.5 * v * (p.y - d) * (p.y + d) : -v * d * (p.y + 0.5 * d);
    }
    exp_all(e);
    for (int i = 0; i < NODES; i++) {
        double s = y[i] * y[i], m = -expm1(-s), f = weight[i] * e[i] * (s > 0 ? sqrt(s / m) : 1);
        weighted += f * (h_of(s) - m / v - c);
        one += f;
    }
    return (sums){range * weighted, range * one};
}

static sums integrals(point p, int *below) {
    *below = p.z < 1 && twice_L(p.v, p.z) > 0;
    return p.z < 1 ? quadrature(p, *below) : series(p);
}

static int outside(double v, double t) { return !(v > 0) || isnan(t); }

/* dF/dt */
static double student_density(double v, double t) {
    if (outside(v, t)) return NAN;
    if (isinf(t)) return 0;
    point p = point_at(v, t);
    return scale_of(p.v) * (exp(-0.5 * p.v * p.z) / p.reach) * (v < LEAST ? v / LEAST : 1);
}

/* d log(dF/dt)/dv */
static double student_score(double v, double t) {
    if (outside(v, t)) return NAN;
    point p = point_at(v, t);
    return 0.5 * twice_L(p.v, p.z);
}

/* dF/dv */
static double stdtr_dv(double v, double t) {
    if (outside(v, t)) return NAN;
    if (isinf(t) || t == 0 || isinf(v)) return 0;
    point p = point_at(v, t);
    double unit = 1;
    if (p.y < 1e-200) p = point_at(v, t * 0x1p300), unit = 0x1p-300; /* it is linear, and y no normal number */
    int below;
    double upper = 0.5 * fabs(integrals(p, &below).weighted);
    return copysign(scale_of(p.v) * exp(-0.5 * p.v * p.z) * upper * unit, t);
}

/* The integral of w below z >= 1, where v is small: of e^(-v s/2)/2, and of the rest of w, over (0, inf) less above z.
 * 1/(2 C) - 1/v is the rest's, by DLMF 5.5.1 and 5.12.1 in differences of log Gamma that are small as v is. */
static double below(point p) {
    double v = p.v, h = 0.5 * v, decay = exp(-0.5 * v * p.z);
    double rest = expm1(lgamma_diff(1, h) - lgamma_diff(0.5, h)) / v, above = decay * (series(p).one - 1 / v);
    return -expm1(-0.5 * v * p.z) / v + rest - above;
}

/* The z where F = p, from that of t or of the tail's first term: Newton's method, in y for the integral from 0, in z for the
 * logarithm of the tail, which is nearly linear. */
static point refined(double v, double t, double p) {
    point at = point_at(v, t);
    double half = fabs(p - 0.5), tail = p < 0.5 ? p : 1 - p, C = scale_of(at.v), log_tail = log(tail), moved = 1;
    if (tail < 1e-3 || !(at.z < INFINITY))
        at.z = fmax((log(C / at.v) - log_tail) * (2 / at.v), 1 / at.v), at.y = sqrt(at.z);
    for (int i = 0; i < 40 && moved > 1e-9; i++) {
        double m = -expm1(-at.z), rho = m > 0 ? at.y / sqrt(m) : 1, decay = exp(-0.5 * at.v * at.z), y;
        if (at.z < 1 && half < 0.25) {
            y = at.y + (half / (C * decay) - quadrature(at, 1).one) / rho;
        } else if (half < 0.25 && at.v < 1) {
            y = sqrt(fmax(at.z + (half / C - below(at)) * (2 / decay) * sqrt(m), 0.25 * at.z));
        } else {
            double one = at.z < 1 ? quadrature(at, 0).one : series(at).one;
            y = sqrt(fmax(at.z + 2 * (log(C * one) - log_tail - 0.5 * at.v * at.z) * one * sqrt(m), 0.25 * at.z));
        }
        if (!(y < INFINITY)) y = 1e160; /* t is infinite */
        moved = fabs(y - at.y) / y;
        at.y = y;
        at.z = y * y;
    }
    /* far out the tail is C/v e^(-v z/2) */
    wide r = at.z > 42 && half > 0.25 ? (wide_log((wide)C / at.v) - wide_log(tail)) / at.v : (wide)at.z / 2;
    at.reach =
        (double)(wide_sqrt(at.v) * wide_exp(r / 2) * wide_exp(r / 2)); /* the first power alone may be infinite */
    return at;
}

static double t_of(point at, double p) {
    double ratio = at.z < 1e-20 ? 1 : sqrt(expm1(at.z) / at.z);
    return copysign(at.z < 42 ? sqrt(at.v) * at.y * ratio : at.reach, p - 0.5);
}

#define MIDDLE 0x1p-8  /* up to this distance from p = 1/2, the zero of t */

/* stdtrit(v, p) where SciPy says t: next to p = 1/2 it loses digits, it knows no t beyond 1e153 sqrt(v), nor p below the
 * normal numbers, and has few digits of what comes near. */
static double stdtrit_value(double v, double p, double t) {
    double half = fabs(p - 0.5);
    if (p == 0 && v > 0) return -INFINITY; /* SciPy says +infinity */
    bool far = p < 1e-20 || v < 1e-2 || !(fabs(t) < 1e20 * sqrt(v));
    if (!(v > 0 && v < INFINITY && p > 0 && p < 1 && half > 0) || !(half < MIDDLE || far)) return t;
    return unless_lost(t, t_of(refined(v, t, p), p), half < MIDDLE ? 1e-14 : 2e-13); /* ours has an error of eps/v */
}

/* stdtr(v, t) where SciPy says F, whose t^2/v overflows */
static double stdtr_value(double v, double t, double F) {
    if (!(fabs(t) > 1e100 || v < 1e-100) || !(v > 0 && v < MOST) || isnan(t) || isinf(t)) return F;
    point at = point_at(v, t);
    if (at.z < 1) return F;
    double tail = scale_of(at.v) * exp(-0.5 * at.v * at.z) * series(at).one;
    return unless_lost(F, t > 0 ? 1 - tail : tail, 1e-12);
}

/* The same without SciPy's code. */
static double stdtr_alone(double v, double t) {
    if (outside(v, t)) return NAN;
    if (isinf(t)) return t > 0;
    point at = point_at(v, t);
    double size = scale_of(at.v) * exp(-0.5 * at.v * at.z),
           tail = size * (at.z < 1 ? quadrature(at, 0) : series(at)).one;
    if (at.z < 1 && tail > 0.25) return 0.5 + copysign(size * quadrature(at, 1).one, t);
    return t > 0 ? 1 - tail : tail;
}

/* Newton's method begins at a t that is too near to 0. */
static double stdtrit_alone(double v, double p) {
    if (!(v > 0 && p >= 0 && p <= 1)) return NAN;
    if (p == 0.5 || p == 0 || p == 1) return p == 0.5 ? 0 : p == 0 ? -INFINITY : INFINITY;
    double least = fmin(fmax(v, LEAST), MOST);
    return t_of(refined(v, (p - 0.5) * sqrt(least) / scale_of(least), p), p);
}

static int nowhere(double v, double t, double p) { return outside(v, t) || !(p >= 0 && p <= 1); }

/* dt/dv of t = stdtrit(v, p): -(dF/dv)/(dF/dt), which underflows nowhere */
static double stdtrit_dv(double v, double t, double p) {
    if (nowhere(v, t, p)) return NAN;
    if (p == 0.5 || isinf(v)) return 0;
    if (p == 0 || p == 1) return p == 0 ? INFINITY : -INFINITY;
    int below;
    point at = refined(v, t, p);
    return copysign(0.5 * fabs(integrals(at, &below).weighted) * at.reach, 0.5 - p);
}

/* dt/dp. 1/f would multiply the error of t by t^2; the tail over f is flat, and p is known. */
static double stdtrit_dp(double v, double t, double p) {
    if (nowhere(v, t, p)) return NAN;
    if (p == 0 || p == 1) return INFINITY;
    int below;
    point at = refined(v, t, p);
    sums sum = integrals(at, &below);
    if (below) return at.reach * exp(0.5 * at.v * at.z) / scale_of(at.v);
    return sum.one * at.reach / (p < 0.5 ? p : 1 - p);
}
