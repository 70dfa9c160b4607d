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
#include <math.h>
#include <stdbool.h>

#define PI 3.14159265358979323846
#define SQRT_HALF 0.70710678118654752440
#define SQRT_TWO_PI 2.50662827463100050242

/* exp(-(x + error)^2/2) */
static double bell(double x, double error) {
    double square = x * x;
    if (square > 1600) return 0;
    return exp(-square / 2) * (1 - fma(x, x, -square) / 2 - x * error);
}

/* exp(-h^2 (1 + a^2)/2)/(2 pi) */
static double mass(double h, double a) {
    double x = h == 0 ? 0 : h * a, error = isfinite(x) ? fma(h, a, -x) : 0;
    return bell(h, 0) * bell(x, error) / (2 * PI);
}

double owens_t_derivative(double h, double a, int i, int j) {
    if (isnan(h) || isnan(a)) return NAN;
    if (isinf(h) || (j > 0 && isinf(a))) return 0;
    double b = 1 + a * a, slope = -bell(h, 0) * erf(a * h * SQRT_HALF) / (2 * SQRT_TWO_PI);
    if (j == 0) return i == 1 ? slope : -h * slope - (isinf(a) ? 0 : a * mass(h, a));
    double height = mass(h, a);
    if (i == 1) return -h * height;
    return j == 1 ? height / b : height == 0 ? 0 : -height * (a / b) * (h * h + 2 / b);
}

/* Where SciPy's values lose digits. */
bool owens_t_by_series(double h, double a) { return fabs(a) < 0.01 && fabs(h) > 4 && fabs(h) < 40; }

double owens_t_series(double h, double a) {
    double power = a, sum = 0, term = 1, partial = 1, added = a, z = h * h / 2;
    for (int k = 1; fabs(added) > 1e-17 * fabs(sum); k++) {
        sum += added;
        term *= z / k, partial += term;
        power *= -a * a;
        added = power / (2 * k + 1) * partial;
    }
    return bell(h, 0) / (2 * PI) * sum;
}
