/* boxcox.c - derivatives of Box and Cox's power transform (x^k - 1)/k and of its inverse (1 + k y)^(1/k), also next to
 * k = 0, where they are log x and exp y.
 *
 * (x^k - 1)/k = L int_0^1 e^(u s) ds,  L = log x, u = k L, so that its n-th derivative in k is L^(n+1) times
 *     m_n(u) = int_0^1 s^n e^(u s) ds = (e^u - n m_(n-1))/u    (by parts, stable for |u| > n),
 * which for smaller u is a series of positive terms: of e^(u s), or for u < 0 of e^u e^(-u (1-s)). */
#include "gammabeta.h"

static double moment(double n, double u) {
    if (fabs(u) > n + 1) {
        double e = exp(u), m = expm1(u) / u;
        for (int j = 1; j <= n; j++) m = (e - j * m) / u;
        return m;
    }
    double term = 1, sum = 0, a = fabs(u);
    for (int k = 0; k < 200 && !(term < 1e-18 * sum); k++) {
        if (u < 0) {
            term = k == 0 ? 1 / (n + 1) : term * a / (n + k + 1);
            sum += term;
        } else {
            if (k > 0) term *= a / k;
            sum += term / (n + k + 1);
        }
    }
    return u < 0 ? exp(u) * sum : sum;
}

/* (x^k - 1)/k as k -> +-inf, where it is infinite it has the sign of k; its derivative in k is positive */
static double boxcox_far(double L, double k, double n) {
    if (isnan(L)) return NAN;
    return k * L > 0 ? (n == 0 ? k : INFINITY) : 0;
}

/* (x^k - 1)/k where SciPy says f: NaN for an infinite k */
static double boxcox_value(double x, double k, double f) { return isinf(k) ? boxcox_far(log(x), k, 0) : f; }

/* The same where there is no SciPy: on CUDA. */
static double boxcox_alone(double x, double k) {
    double L = log(x), u = k * L;
    if (isinf(k)) return boxcox_far(L, k, 0);
    if (fabs(k) < 1e-19) return L;
    return u < 709.78 ? expm1(u) / k : copysign(1, k) * exp(u - log(fabs(k))) - 1 / k;
}

/* d^n/dk^n (x^k - 1)/k */
static double boxcox_dk(double x, double k, double n) {
    double L = log(x), u = k * L;
    if (isinf(k)) return boxcox_far(L, k, n);
    if (isnan(L) || isnan(k)) return NAN;
    if (k == 0) return pow(L, n + 1) / (n + 1);
    if (u < -700) return tgamma(n + 1) * pow(-1 / k, n + 1);
    if (u <= 700) return pow(L, n + 1) * moment(n, u);
    double rest = 1, half = exp(0.5 * u);  /* m_n = e^u rest/u */
    for (int j = 1; j <= n; j++) rest = 1 - j * rest / u;
    return half * (pow(L, n) / k * rest) * half;
}

/* d^n/dk^n x^(k-1), the slope of the transform in x */
static double boxcox_dx(double x, double k, double n) {
    if (x < 0) return NAN;
    if (x == 0 && k > 1) return 0;
    return pow(x, k - 1) * (n == 0 ? 1 : pow(log(x), n));
}

/* 1 + w, w = k y, and its logarithm, of the exact product */
static double base(double y, double k) { return fma(k, y, 1); }

static double log_base(double y, double k) {
    double w = k * y;
    if (isinf(w)) return w > 0 ? log(fabs(k)) + log(fabs(y)) : NAN;
    return w > -0.5 ? log1p(w) + fma(k, y, -w) / (1 + w) : log(base(y, k));
}

/* k next to 0, where the power is an exponential */
static int exponential(double y, double k) { return k == 0 || fabs(k * y) < 1e-300; }

/* (1 + k y)^(1/k), which goes to 1 as k does to an infinity of the sign of y */
static double inverse(double y, double k) {
    if (isinf(k) && k * y > 0) return isinf(y) ? NAN : 1;
    if (y == 0) return 1;
    return exp(exponential(y, k) ? y : log_base(y, k) / k);
}

/* The same where SciPy's, of 1 + w with a w that is rounded, has lost digits: next to w = 0 and -1, and at the ends. */
static double inv_boxcox_value(double y, double k, double scipys) {
    double w = k * y;
    double ours = fabs(w) < 1e-300 || w < -0.5 || isinf(k) ? inverse(y, k) : NAN;
    return isnan(ours) ? scipys : ours;
}

/* The same where there is no SciPy: on CUDA. */
static double inv_boxcox_alone(double y, double k) {
    double found = isnan(k) ? k : inverse(y, k);
    return isnan(found) ? exp(log1p(k * y) / k) : found;
}

/* its derivative in y, (1 + k y)^(1/k - 1) */
static double inv_boxcox_dy(double y, double k) {
    if (exponential(y, k)) return exp(y);
    if (isinf(k) && k * y > 0) return isinf(y) ? NAN : 0;
    double b = base(y, k);
    if (k == 1) return b >= 0 ? 1 : NAN;
    if (b == 0) return k < 0 || k > 1 ? INFINITY : 0;
    return exp(log_base(y, k) * ((1 - k) / k));
}

/* its derivative in k, (1 + k y)^(1/k) (w/(1 + w) - log(1 + w))/k^2. Next to w = 0, with q = w/(2 + w),
 * log(1 + w) = 2 atanh(q) and w/(1 + w) = 2 q/(1 + q). */
static double inv_boxcox_dk(double y, double k) {
    if (isinf(k) && k * y > 0) return isinf(y) ? NAN : -0.0;
    if (y == 0) return -0.0;
    double w = k == 0 ? 0 : k * y, q = w / (2 + w), b = base(y, k), value = inverse(y, k);
    if (b == 0) return inv_boxcox_dy(y, k) * y / k;
    if (value == 0) return 0;
    if (fabs(w) < 0.4) return -value * y * y * (0.5 * (1 - q) * (1 - q) * (1 / (1 + q) + q * atanh_tail(q)));
    return value * (((isinf(w) ? 1 : w / b) - log_base(y, k)) / k / k);
}
