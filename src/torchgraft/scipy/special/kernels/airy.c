/*
 * The Airy functions Ai, Ai', Bi, Bi' of real argument, and their derivatives of any order.
 *
 *   -10 to 100   SciPy's values, which are good to 4e-14 there; on CUDA Bessel functions of order 1/3 and 2/3
 *   beyond       the asymptotic expansions DLMF 9.7.5 to 9.7.12, good to 1e-16 of the amplitude. The phase
 *                zeta = 2/3 |z|^(3/2) has two long doubles: SciPy's, of one double, is 1e-10 off at z = -1e4
 *
 * Higher derivatives by Airy's equation differentiated, f^(n+2) = z f^(n) + n f^(n-1), DLMF 9.2.1.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "wide.h"

#define SQRT_PI 1.77245385090551602730

/* 2/3 x^(3/2) = zeta + low */
static wide phase_of(double x, wide *low) {
    wide s = wide_sqrt(x), r = wide_fma(-s, s, x) / (2 * s); /* sqrt(x) = s + r */
    wide p = x * s, e = wide_fma(x, s, -p) + x * r;          /* x^(3/2) = p + e */
    wide zeta = p / 1.5;
    *low = (wide_fma(-zeta, 1.5, p) + e) / 1.5;
    return zeta;
}

#ifdef __CUDACC__

#include "bessel.h"

/* Power series, DLMF 9.4.1 to 9.4.4, of the solutions f and g with f(0) = g'(0) = 1, |x| < 1/2. */
static void series(double x, double *values) {
    const double ai_0 = 0.355028053887817239, minus_slope = 0.258819403792806798, cube = x * x * x,
                 root_3 = 1.7320508075688772;
    double f = 1, g = x, df = x * x / 2, dg = 1, sums[] = {f, g, df, dg};
    for (int k = 3; k < 24; k += 3) {
        sums[0] += f *= cube / ((k - 1.0) * k), sums[1] += g *= cube / (k * (k + 1.0));
        sums[2] += df *= cube / (k * (k + 2.0)), sums[3] += dg *= cube / ((k - 2.0) * k);
    }
    values[0] = ai_0 * sums[0] - minus_slope * sums[1], values[1] = ai_0 * sums[2] - minus_slope * sums[3];
    values[2] = root_3 * (ai_0 * sums[0] + minus_slope * sums[1]);
    values[3] = root_3 * (ai_0 * sums[2] + minus_slope * sums[3]);
}

/* A Bessel function of zeta + rest. */
static double moved(bessel b, double rest) { return scaled(b.f[0] + rest * b.f[1], b.e); }

/* Without SciPy's code, by Bessel functions of orders 1/3 and 2/3, DLMF 9.6.2 to 9.6.9 with 10.2.3, 10.4.1, 10.27.2. */
static void in_between(double z, double *f) {
    if (!(fabs(z) >= 0.5)) {
        series(z, f);
        return;
    }
    wide low, sum = phase_of(fabs(z), &low);
    double zeta = (double)sum, rest = (double)(sum - zeta + low), x = fabs(z), third = 1 / 3., root = sqrt(x / 3);
    if (z > 0) {
        double k1 = moved(k_of(third, zeta), rest), k2 = moved(k_of(2 * third, zeta), rest);
        f[0] = root / PI * k1, f[1] = -x / sqrt(3) / PI * k2;
        f[2] = root * 2 * moved(i_of(third, zeta), rest) + sqrt(x) / PI * k1;
        f[3] = x * (2 / sqrt(3) * moved(i_of(2 * third, zeta), rest) + k2 / PI);
    } else {
        double j1 = moved(j_of(third, zeta), rest), y1 = moved(y_of(third, zeta), rest);
        double j2 = moved(j_of(2 * third, zeta), rest), y2 = moved(y_of(2 * third, zeta), rest);
        f[0] = sqrt(x) / 2 * (j1 - y1 / sqrt(3)), f[1] = x / 2 * (j2 + y2 / sqrt(3));
        f[2] = -sqrt(x) / 2 * (j1 / sqrt(3) + y1), f[3] = x / 2 * (j2 / sqrt(3) - y2);
    }
}

#define FARTHEST_PHASE 1e12

#else

TG_IMPORT(void, scipy_airy, (double, double *, double *, double *, double *))

static void in_between(double z, double *f) { scipy_airy(z, &f[0], &f[1], &f[2], &f[3]); }

#define FARTHEST_PHASE 1e18

#endif

/*
 * Sums over even and odd k of turn^k u_k/zeta^k and turn^k v_k/zeta^k, u_k and v_k of DLMF 9.7.2: with turn = i, of
 * which even powers are real, for oscillating functions; with turn = 1 for the others.
 */
typedef struct { double u[2], v[2]; } sums;

static sums expansion(double zeta, bool oscillating) {
    sums s = {{1, 0}, {1, 0}};
    double u = 1;
    for (int k = 1; k < 40 && fabs(u) > 1e-18; k++) {
        u *= (6 * k - 5.0) * (6 * k - 3.0) * (6 * k - 1.0) / (216.0 * k * (2 * k - 1) * zeta);
        double term = oscillating && k % 4 >= 2 ? -u : u;
        s.u[k % 2] += term, s.v[k % 2] += term * (6 * k + 1) / (1 - 6 * k);
    }
    return s;
}

/* Ai(-x), Ai'(-x), Bi(-x), Bi'(-x) for x > 10; NaN where the phase is not known. */
static void oscillating(double x, double *f) {
    if (x > FARTHEST_PHASE) {
        f[0] = f[1] = f[2] = f[3] = NAN;
        return;
    }
    wide low, zeta = phase_of(x, &low);
    wide cz = wide_cos(zeta), sz = wide_sin(zeta), cl = wide_cos(low), sl = wide_sin(low), half = wide_sqrt(0.5);
    wide cosine = cz * cl - sz * sl, sine = sz * cl + cz * sl;
    double c = (double)((cosine + sine) * half), s = (double)((sine - cosine) * half); /* of zeta - pi/4 */
    double quarter = sqrt(sqrt(x)), a = 1 / (SQRT_PI * quarter), b = quarter / SQRT_PI;
    sums p = expansion((double)zeta, true);
    f[0] = a * (c * p.u[0] + s * p.u[1]);
    f[1] = b * (s * p.v[0] - c * p.v[1]);
    f[2] = a * (c * p.u[1] - s * p.u[0]);
    f[3] = b * (c * p.v[0] + s * p.v[1]);
}

/* Ai(x), Ai'(x), Bi(x), Bi'(x) for x > 100 */
static void exponential(double x, double *f) {
    wide low, zeta = phase_of(x, &low), half = wide_exp(zeta / 2), up = half * (1 + low),
              down = wide_exp(-zeta) * (1 - low) / 2;
    double quarter = sqrt(sqrt(x)), a = 1 / (SQRT_PI * quarter), b = quarter / SQRT_PI;
    sums p = expansion((double)zeta, false);
    f[0] = (double)(a * (p.u[0] - p.u[1]) * down);
    f[1] = (double)(-b * (p.v[0] - p.v[1]) * down);
    f[2] = (double)(a * (p.u[0] + p.u[1]) * up) * (double)half; /* exp(zeta) may be infinite, and they not */
    f[3] = (double)(b * (p.v[0] + p.v[1]) * up) * (double)half;
}

static void airy_at(double z, double *f) {
    if (z > 1e4) f[0] = f[1] = 0, f[2] = f[3] = INFINITY;
    else if (z == -INFINITY) f[0] = f[2] = 0, f[1] = f[3] = NAN; /* oscillations that grow */
    else if (z > 100) exponential(z, f);
    else if (z < -10) oscillating(-z, f);
    else in_between(z, f);
}

/* Derivatives of order n of Ai, Ai', Bi, Bi'. */
static void airy_derivatives(double z, int64_t n, double *f) {
    airy_at(z, f);
    if (z > 1e4) return;
    for (int i = 0; i < 4; i += 2) {
        double before = 0, here = f[i], next = f[i + 1]; /* f^(k - 1), f^(k), f^(k + 1) */
        for (int64_t k = 0; k < n; k++) {
            double after = z * here + (k ? k * before : 0);
            before = here, here = next, next = after;
        }
        f[i] = here, f[i + 1] = next;
    }
}

/* ---- operators ---- */

void airy(T z, T *out0, T *out1, T *out2, T *out3) {
    double f[4];
    airy_at(z, f);
    *out0 = (T)f[0], *out1 = (T)f[1], *out2 = (T)f[2], *out3 = (T)f[3];
}

void airy_nth(T z, int64_t n, T *out0, T *out1, T *out2, T *out3) {
    double f[4];
    airy_derivatives(z, n, f);
    *out0 = (T)f[0], *out1 = (T)f[1], *out2 = (T)f[2], *out3 = (T)f[3];
}
