/*
 * Derivatives of Owen's T(h, a), the integral over [0, a] of exp(-h^2 (1 + t^2)/2)/(1 + t^2)/(2 pi) (Owen, "Tables for
 * computing bivariate normal probabilities", 1956), of order i in h and j in a, i + j = 1 or 2:
 *
 *   dT/da = exp(-h^2 (1 + a^2)/2)/(2 pi (1 + a^2)),  dT/dh = -exp(-h^2/2) erf(a h/sqrt 2)/(2 sqrt(2 pi)).
 *
 * Exponents are sums of two doubles: their rounding errors would be errors of 700 ulps.
 *
 * Values are SciPy's; where |h| > 4 and |a| < 0.01 its differences leave 1e-15/|a| of them, and they are ours, by the
 * integral of the power series in t, T = exp(-h^2/2)/(2 pi) sum (-1)^k a^(2k+1)/(2k+1) (1 + ... + (h^2/2)^k/k!).
 */
#include "gammabeta.h"

#include <stdbool.h>

#define SQRT_HALF 0.70710678118654752440
#define SQRT_TWO_PI 2.50662827463100050242

/* exp(-(x + error)^2/2) */
static double bell(double x, double error) {
    double square = x * x;
    if (square > 1600) return 0;
    return exp(-square / 2) * (1 - fma(x, x, -square) / 2 - x * error);
}

/* exp(-h^2 (1 + a^2)/2)/(2 pi) */
static double joint(double h, double a) {
    double x = h == 0 ? 0 : h * a, error = isfinite(x) ? fma(h, a, -x) : 0;
    return bell(h, 0) * bell(x, error) / (2 * PI);
}

static double owens_t_derivative(double h, double a, int i, int j) {
    if (isnan(h) || isnan(a)) return NAN;
    if (isinf(h) || (j > 0 && isinf(a))) return 0;
    double b = 1 + a * a, slope = -bell(h, 0) * erf(a * h * SQRT_HALF) / (2 * SQRT_TWO_PI);
    if (j == 0) return i == 1 ? slope : -h * slope - (isinf(a) ? 0 : a * joint(h, a));
    double height = joint(h, a);
    if (i == 1) return -h * height;
    return j == 1 ? height / b : height == 0 ? 0 : -height * (a / b) * (h * h + 2 / b);
}

/* Where SciPy's values lose digits. */
static bool owens_t_by_series(double h, double a) { return fabs(a) < 0.01 && fabs(h) > 4 && fabs(h) < 40; }

static double owens_t_series(double h, double a) {
    double power = a, sum = 0, term = 1, partial = 1, added = a, z = h * h / 2;
    for (int k = 1; fabs(added) > 1e-17 * fabs(sum); k++) {
        sum += added;
        term *= z / k, partial += term;
        power *= -a * a;
        added = power / (2 * k + 1) * partial;
    }
    return bell(h, 0) / (2 * PI) * sum;
}

/* ---- values where there is no SciPy: on CUDA ---- */

#define REACH 8.8 /* standard deviations, after which the integrand is below 1e-17 of its greatest value */

/* The probability to be above x >= 0, without the error of x/sqrt(2) */
static double above(double x) {
    if (x > 40) return 0;
    double u = x * SQRT_HALF, error = fma(x, SQRT_HALF, -u) - 4.8336466567264567e-17 * x;
    return erfc(u) / 2 - 0.56418958354775629 * bell(x, 0) * error;
}

/* T(h, a) for h >= 0 and 0 <= a <= 1, by quadrature over the part of [0, a] where the integrand is not 0 */
static double owens_t_inside(double h, double a) {
    double range = h * a > REACH ? REACH / h : a, sum = 0, e[NODES];
    for (int i = 0; i < NODES; i++) e[i] = -0.5 * (h * range * node[i]) * (h * range * node[i]);
    exp_all(e);
    for (int i = 0; i < NODES; i++) sum += weight[i] * e[i] / (1 + range * node[i] * (range * node[i]));
    return bell(h, 0) * range * sum / (2 * PI);
}

/* For a > 1 by T(h, a) + T(ah, 1/a), half the probability to be above h or above ah and not above both (Owen 1956) */
static double owens_t_alone(double h, double a) {
    if (isnan(h) || isnan(a)) return NAN;
    double sign = a < 0 ? -1 : 1, b = fabs(a), x = fabs(h);
    if (b == 0 || isinf(x)) return 0;
    if (isinf(b)) return sign * above(x) / 2;
    if (x == 0) return sign * atan(b) / (2 * PI);
    if (b <= 1) return sign * owens_t_inside(x, b);
    double y = x * b, inside = isinf(y) ? 0 : owens_t_inside(y, 1 / b);
    return sign * ((above(x) + above(y)) / 2 - above(x) * above(y) - inside);
}
