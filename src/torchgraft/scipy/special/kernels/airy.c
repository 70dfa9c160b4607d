/*
 * The Airy functions Ai, Ai', Bi, Bi' of real argument, and their derivatives of any order.
 *
 *   -10 to 100   SciPy's values, which are good to 4e-14 there
 *   beyond       the asymptotic expansions DLMF 9.7.5 to 9.7.12, good to 1e-16 of the amplitude. The phase
 *                zeta = 2/3 |z|^(3/2) has two long doubles: SciPy's, of one double, is 1e-10 off at z = -1e4
 *
 * Higher derivatives by Airy's equation differentiated, f^(n+2) = z f^(n) + n f^(n-1), DLMF 9.2.1.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

TG_IMPORT(void, scipy_airy, (double, double *, double *, double *, double *))

#define SQRT_PI 1.77245385090551602730

/* 2/3 x^(3/2) = zeta + low */
static long double zeta_of(double x, long double *low) {
    long double s = sqrtl(x), r = fmal(-s, s, x) / (2 * s); /* sqrt(x) = s + r */
    long double p = x * s, e = fmal(x, s, -p) + x * r;      /* x^(3/2) = p + e */
    long double zeta = p / 1.5L;
    *low = (fmal(-zeta, 1.5L, p) + e) / 1.5L;
    return zeta;
}

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

/* Ai(-x), Ai'(-x), Bi(-x), Bi'(-x) for x > 10 */
static void oscillating(double x, double *f) {
    long double low, zeta = zeta_of(x, &low);
    long double cz = cosl(zeta), sz = sinl(zeta), cl = cosl(low), sl = sinl(low), half = sqrtl(0.5L);
    long double cosine = cz * cl - sz * sl, sine = sz * cl + cz * sl;
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
    long double low, zeta = zeta_of(x, &low), up = expl(zeta) * (1 + low), down = expl(-zeta) * (1 - low) / 2;
    double quarter = sqrt(sqrt(x)), a = 1 / (SQRT_PI * quarter), b = quarter / SQRT_PI;
    sums p = expansion((double)zeta, false);
    f[0] = (double)(a * (p.u[0] - p.u[1]) * down);
    f[1] = (double)(-b * (p.v[0] - p.v[1]) * down);
    f[2] = (double)(a * (p.u[0] + p.u[1]) * up);
    f[3] = (double)(b * (p.v[0] + p.v[1]) * up);
}

/* Ours where it is better, but for values. */
static void airy_at(double z, double *f) {
    if (z > 1e4) f[0] = f[1] = 0, f[2] = f[3] = INFINITY;
    else if (z == -INFINITY) f[0] = f[2] = 0, f[1] = f[3] = NAN; /* oscillations that grow */
    else if (z > 100) exponential(z, f);
    else if (z < -10) oscillating(-z, f);
    else scipy_airy(z, &f[0], &f[1], &f[2], &f[3]);
}

/* SciPy's values; ours where it has 0 or NaN too early. */
static void airy_values(double z, double *f) {
    if (!(z > 100)) scipy_airy(z, &f[0], &f[1], &f[2], &f[3]);
    if (fabs(z) > 100 && (z > 0 || isnan(f[0]))) airy_at(z, f);
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
    airy_values(z, f);
    *out0 = (T)f[0], *out1 = (T)f[1], *out2 = (T)f[2], *out3 = (T)f[3];
}

void airy_nth(T z, int64_t n, T *out0, T *out1, T *out2, T *out3) {
    double f[4];
    airy_derivatives(z, n, f);
    *out0 = (T)f[0], *out1 = (T)f[1], *out2 = (T)f[2], *out3 = (T)f[3];
}
