/* normal.c - derivatives of the quantiles and of the logarithm of the normal distribution function Phi; phi = Phi'.
 *
 * Far out on the left, with z = -x, phi/Phi = z + 1/(z + 2/(z + 3/(z + ...))) (DLMF 7.9.3): z and what exceeds it are
 * apart there, as second derivatives are made of the latter. */
#include <math.h>

#define SQRT_TWO_PI 2.5066282746310005024
#define FAR 3.0  /* from here on 60 terms of the fraction give 1e-17 */

/* 1/(z + 2/(z + 3/(z + ...))), z >= FAR */
static double fraction(double z) {
    double f = z;
    for (int k = 60; k >= 2; k--) f = z + k / f;
    return 1 / f;
}

/* phi(x)/Phi(x), x > -FAR; x^2 with its lower half, as its exponential may be large */
static double ratio(double x) {
    double square = x * x, lost = fma(x, x, -square);
    return 2 / SQRT_TWO_PI * exp(-0.5 * square) * (1 - 0.5 * lost) / erfc(-x * 0.70710678118654752);
}

/* d log Phi / dx = phi/Phi */
static double log_ndtr_dx(double x) { return x <= -FAR ? fraction(-x) - x : x > 40 ? 0 : ratio(x); }

/* phi/Phi + x */
static double log_ndtr_excess(double x) { return x <= -FAR ? fraction(-x) : x + log_ndtr_dx(x); }

/* d^2 log Phi / dx^2 */
static double log_ndtr_dxx(double x) { return x > 40 ? -0.0 : -log_ndtr_dx(x) * log_ndtr_excess(x); }

/* dx/dy = 1/phi(x) where y = Phi(x): the tail over phi is flat, and y is known; 1/phi would multiply x's error by x^2. */
static double ndtri_dy(double x, double y) {
    if (!(y >= 0 && y <= 1) || isnan(x)) return NAN;
    double tail = y < 0.5 ? y : 1 - y;
    return tail == 0 ? INFINITY : 1 / log_ndtr_dx(-fabs(x)) / tail;
}
