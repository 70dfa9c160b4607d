/*
 * The real branches k = 0 and -1 of Lambert's W, and their derivatives of every order, 1 or 2 ulp.
 *
 * Next to the branch point -1/e the number is u = 1 + W, of size sqrt(2 (e z + 1)): a W that is right to the last digit
 * has half of the digits of u, and u is in the denominator of every derivative. There u itself is the unknown, of
 *
 *   1 + (u - 1) exp(u) = s,  s = e z + 1 with e in two doubles.
 *
 * Elsewhere it is W, of W = z exp(-W), or of W = log(-z) - log(-W) on the branch -1. All by Newton's method.
 * Derivatives: DLMF 4.13.4, and by induction W^(n) = exp(-n W) p_n(u)/u^(2n - 1), p_1 = 1,
 * p_(n+1) = u p_n' - (n u + 2n - 1) p_n (Corless et al., "On the Lambert W function", 1996, eq. 3.5).
 */
#include <math.h>

#define MOST 32 /* order of a derivative */
#define BRANCH_POINT (-0x1.78b56362cef38p-2) /* the double next to -1/e, a little below: it stands for it */
#define NEAR 0.26 /* s where the unknown is u: W = -2 on the branch -1 */

/* e z + 1, or any number above NEAR where it is one */
static double above_branch_point(double z) {
    if (z > 0) return 1;
    double high = 0x1.5bf0a8b145769p+1 * z, low = fma(0x1.5bf0a8b145769p+1, z, -high);
    double sum = 1 + high, error = high - (sum - 1);
    return z == BRANCH_POINT ? 0 : sum + (error + low + 0x1.4d57ee2b1013ap-53 * z);
}

/* 1 + (u - 1) exp(u), the sum of u^k/(k (k - 2)!) from k = 2 on */
static double curve(double u) {
    double power = u * u, sum = power / 2;
    for (int k = 3; k < 30; k++) {
        power *= u / (k - 2);
        sum += power / k;
        if (fabs(power) < 1e-17 * sum) break;
    }
    return sum;
}

/* u = 1 + W for 0 <= s <= NEAR, from DLMF 4.13.6 */
static double offset_near(double s, int k) {
    double p = copysign(sqrt(2 * s), k ? -1.0 : 1.0), u = p * (1 - p / 3 + 11 * p * p / 72);
    for (int i = 0; i < 4 && u != 0; i++) u -= (curve(u) - s) / (u * exp(u));
    return u;
}

static double principal(double z) {
    double w = z < 1 ? z / (1 + z) : log1p(z) * (1 - log1p(log1p(z)) / (2 + log1p(z)));
    if (isinf(z) || z == 0) return z;
    for (int i = 0; i < 8; i++) {
        double step = (w - z * exp(-w)) / (1 + w);
        step /= 1 + 0.5 * step / (1 + w); /* Halley's */
        w -= step;
        if (fabs(step) < 1e-9 * fabs(w)) break;
    }
    return w;
}

static double lower(double z) {
    double l = log(-z), w = l - log(-l);
    for (int i = 0; i < 12; i++) {
        double step = (w - (l - log(-w))) / (1 + 1 / w);
        w -= step;
        if (fabs(step) < 1e-9 * fabs(w)) break;
    }
    return w;
}

static double lambertw_of(double z, int k, double *u) {
    double s = above_branch_point(z), w;
    *u = NAN;
    if (!(s >= 0) || (k == -1 && z > 0)) return NAN;
    if (s <= NEAR) return (*u = offset_near(s, k)) - 1;
    w = k == 0 ? principal(z) : z == 0 ? -INFINITY : lower(z);
    *u = 1 + w;
    return w;
}

static double lambertw_derivative(double z, int k, int n) {
    double u, w = lambertw_of(z, k, &u), p[MOST + 1] = {1}, sum = 0;
    if (isnan(w) || n > MOST) return NAN;
    if (isinf(w)) return w > 0 ? (n % 2 ? 0.0 : -0.0) : w;
    for (int m = 1; m < n; m++) {
        for (int i = m; i > 0; i--) p[i] = (i - 2.0 * m + 1) * p[i] - m * p[i - 1];
        p[0] *= 1 - 2.0 * m;
    }
    for (int i = n - 1; i >= 0; i--) sum = sum * u + p[i];
    double ratio = fabs(w) > 1 ? w / u / z : exp(-w) / u, result = ratio * sum;
    for (int m = 1; m < n; m++) result *= ratio / u;
    return result;
}

static double lambertw_value(double z, int k) {
    double u;
    return lambertw_of(z, k, &u);
}
