/*
 * Mixed derivatives of Hurwitz' and Riemann's zeta functions in s, of orders n <= 2, and in q, of any order k.
 *
 *   zeta(s, q)     Euler-Maclaurin, DLMF 25.11.28: a sum of (q + j)^-s up to a = q + N, the integral, and a series in
 *                  Bernoulli numbers
 *   zeta(s), s < -1/2: the reflection 25.4.1
 *   in q           25.11.17, k times: (-1)^k (s)_k zeta(s + k, q)
 *
 * Derivatives in s need no formulas of their own: every number is a jet, the first coefficients of its Taylor series.
 */
#include <math.h>

#define PI 3.14159265358979323846
#define LOG_2PI 1.83787706640934548356
#define JET 3 /* orders 0, 1, 2 */
#define FARTHEST (-1e6) /* q below which nobody waits for the sum */

typedef struct { double c[JET]; } jet;

static jet jet_mul(jet x, jet y)
{
    jet r = {{0}};
    for (int i = 0; i < JET; i++)
        for (int j = 0; i + j < JET; j++) r.c[i + j] += x.c[i] * y.c[j];
    return r;
}

/* (x + e) y */
static jet jet_step(double x, jet y) { return jet_mul((jet){{x, 1, 0}}, y); }

static jet jet_add(jet x, jet y)
{
    for (int i = 0; i < JET; i++) x.c[i] += y.c[i];
    return x;
}

/* x exp(l e) */
static jet jet_exp(double x, double l) { return (jet){{x, x * l, x * l * l / 2}}; }

/* zeta(s + e, q), s > 1 unless q = 1, q not a pole; n is the order for whose sake terms are summed */
static jet hurwitz(double s, double q, int n)
{
    static const double bernoulli[] = { /* B_2i/(2i)! */
        1 / 12., -1 / 720., 1 / 30240., -1 / 1209600., 1 / 47900160., -691 / 1307674368000., 1 / 74724249600.,
        -3617 / 10670622842880000., 43867 / 5109094217170944000., -174611 / 802857662698291200000.,
        77683 / 14101100039391805440000., -236364091 / 1693824136731743669452800000.,
        657931 / 186134520519971831808000000., -3392780147. / 37893265687455865519472640000000.};
    double a = q, enough = (s + 27) / 1.7, size = 0;
    jet sum = {{0}};
    for (int j = 0; a < enough; j++, a = q + j) {
        jet term = jet_exp(pow(a, -s), a > 0 ? -log(a) : NAN);
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

/* psi(t), t > 1: DLMF 5.5.2, 5.11.2; its zero is not approached with small relative error, and need not */
static double digamma(double t)
{
    double shift = 0;
    for (; t < 12; t++) shift -= 1 / t;
    double r = 1 / (t * t);
    return shift + log(t) - 0.5 / t - r * (1 / 12. - r * (1 / 120. - r * (1 / 252. - r * (1 / 240. - r / 132))));
}

/* zeta(s + e) = 2 (2 pi)^-t Gamma(t) sin(pi (s + e)/2) zeta(t), t = 1 - s - e > 1 */
static jet reflected(double s)
{
    double t = 1 - s, factor = 2, low = t;
    for (; low > 160 && isfinite(factor); low--) factor *= (low - 1) / (2 * PI);
    factor *= tgamma(low) * pow(2 * PI, -low);
    /* one rounding error in s shows beside a zero: the remainder modulo 4 is exact */
    double angle = remainder(s, 4), sine, cosine;
    double turn = rint(angle), x = PI / 2 * (angle - turn);
    switch ((int)turn & 3) {
    case 0: sine = sin(x), cosine = cos(x); break;
    case 1: sine = cos(x), cosine = -sin(x); break;
    case 2: sine = -sin(x), cosine = -cos(x); break;
    default: sine = -cos(x), cosine = sin(x);
    }
    jet wave = {{sine, PI / 2 * cosine, -PI * PI / 8 * sine}}, other = hurwitz(t, 1, 2);
    other.c[1] = -other.c[1];
    double slope = LOG_2PI - digamma(t);
    jet gamma = {{1, slope, (slope * slope + hurwitz(2, t, 0).c[0]) / 2}};
    jet product = jet_mul(jet_mul(wave, other), gamma);
    return (jet){{product.c[0] * factor, product.c[1] * factor, product.c[2] * factor}};
}

double zeta_derivative(double s, double q, int n, int k)
{
    if (isnan(s) || isnan(q) || s < 1 || n >= JET) return NAN;
    if (q < FARTHEST || (q < 0 && (q == floor(q) || s != floor(s) || n > 0))) return NAN;
    double sign = k % 2 ? -1 : 1;
    if (q == 0) return sign * INFINITY; /* as q^-s near 0 */
    if (isinf(s) || isinf(q)) return 0;
    if (s == 1 && k == 0) return n % 2 ? -INFINITY : INFINITY;
    jet rising = {{sign}};
    for (int i = 0; i < k; i++) rising = jet_step(s + i, rising);
    return jet_mul(rising, hurwitz(s + k, q, n)).c[n] * (n == 2 ? 2 : 1);
}

double riemann_derivative(double s, int n)
{
    if (isnan(s) || s == -INFINITY || n >= JET) return NAN;
    if (s == INFINITY) return 0;
    if (s == 1) return n % 2 ? -INFINITY : INFINITY;
    return (s < -0.5 ? reflected(s) : hurwitz(s, 1, n)).c[n] * (n == 2 ? 2 : 1);
}
