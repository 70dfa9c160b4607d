/*
 * The Bessel functions J, Y, I, K of real order v >= 0 and argument x > 0, their derivatives in the order and in the
 * argument, and those of the scaled I exp(-x), K exp(x).
 *
 * Method: contour integrals. Each function is an integral of exp(phi(t)) with phi linear in v and in x, so that d/dv is
 * a factor -t (or t) under the integral, d/dx one like sinh t, and nothing is differenced. On a contour through the
 * saddle on which exp(phi) falls off double exponentially the trapezoidal rule converges geometrically: 15 to 60 nodes
 * give all digits. The step is 1/sqrt(a + b |phi''|): a for the distance of the singularities of the map, b for the
 * width of the saddle; at these a and b, found by experiment, the error of the rule is about 1e-16. A node needs
 * phi(t) - phi(base), base at or near the saddle, by formulas without cancellation, and phi(base) itself. That is up to
 * 1e4, where half an ulp of double is an error of 1e-12, so it is `wide` (of wide.h).
 *
 *   K          real line               int_0^oo exp(-x cosh t) cosh(vt) dt                               DLMF 10.32.9
 *   I          steepest descent        1/(2 pi i) int_{oo-i pi}^{oo+i pi} exp(x cosh t - vt) dt          10.32.12
 *   J, v > x   steepest descent        1/(2 pi i) int_{oo-i pi}^{oo+i pi} exp(x sinh t - vt) dt          10.9.17
 *   J, Y       near steepest descent   H_v = 1/(pi i) int_{-oo}^{oo+i pi} exp(x sinh t - vt) dt          10.9.18
 *
 * Regions:
 *   J   x^2 <= 8(v + 1): power series, it loses at most exp(x^2/(2(v + 1))) < 55 by cancellation and is the fastest,
 *       with wide sums;
 *       v > x and J/|Y| < exp(-2): own path, J is recessive on the path of H; else the path of H
 *   Y   x^2 <= 8, v < 10: Temme's series and the recurrence up in v, as the integral needs O(log 1/x) nodes; else H
 *   K   x^2 <= 2, v < 10: Temme, same reason (K = O(exp(-x)) is lost in the series beyond); else the real line
 *   I   x <= 21 or x^2 <= 2(v + 1): power series, faster, likewise: the slope of I exp(-x) is a small difference; else its path, where exp(-2x)
 *       is negligible: as v -> 0 the path takes a corner at i pi, which has this size
 *   I   v < 1/2, x^2 > 2: dI/dv = E'(v) - cos(pi v) K - sin(pi v)/pi dK/dv, E = (I_v + I_{-v})/2. E' is odd in v, of
 *       size v I/x, and K is exp(-2x) I: each is lost in the sum of the other, so each is computed apart
 *
 * Second derivatives in the argument are those of the power series, term by term; beyond it Bessel's equation gives them,
 * and quadrature those of the scaled functions.
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "wide.h"

#define TINY 1e-140 /* below, the first terms are the functions, and 1/x^2 may overflow */
#define NEGLIGIBLE (-41.0) /* exp(-41) = 1.6e-18 */
#define MOST_NODES 1000 /* of a series or a quadrature, which have 100 or so; beyond, something is NaN */
#define GONE 1500 /* exp(-1500) and exp(1500) are 0 and infinite, times what is no exponential too */
#define DISTANT 1e6 /* orders and arguments from where 64 bits do not hold the phase */
#define FARTHEST 1e20 /* and double-doubles */

/*
 * A function and its first and second derivative in the argument, f; the derivative in the order and that of it in the
 * argument, d; for I and K, s and t, the same of the scaled functions (s[1] = I' - I and so on: for large x the sum
 * loses it). f and d times exp(e), s and t times exp(es).
 */
typedef struct {
    double f[3], d[2], s[3], t[2];
    wide e, es;
} bessel;

/* Completes s and t by their sums; sign -1: I exp(-x), +1: K exp(x). */
OWN_CALL static bessel with_scaled(bessel p, int sign, double x) {
    p.es = p.e + sign * (wide)x, p.s[0] = p.f[0], p.s[1] = p.f[1] + sign * p.f[0];
    p.s[2] = isinf(p.f[2]) ? p.f[2] : p.f[2] + 2 * sign * p.f[1] + p.f[0];
    p.t[0] = p.d[0], p.t[1] = p.d[1] + sign * p.d[0];
    return p;
}

/* f'' by Bessel's equation, DLMF 10.2.1 (sign -1: J, Y), 10.25.1 (sign +1: I, K) */
OWN_CALL static bessel by_equation(bessel p, int sign, double v, double x) {
    p.f[2] = -p.f[1] / x + (sign + v / x * (v / x)) * p.f[0];
    return p;
}

/* Completes f and d by s and t. */
OWN_CALL static bessel with_plain(bessel p, int sign, double v, double x) {
    p.s[0] = p.f[0], p.f[1] = p.s[1] - sign * p.f[0];
    p.t[0] = p.d[0], p.d[1] = p.t[1] - sign * p.d[0];
    return by_equation(p, 1, v, x);
}

/* a exp(e) with one rounding where it under- or overflows. */
OWN_CALL static double scaled(double a, wide e) {
    if (a == 0 || e < -2000) return 0 * a;
    if (e > 2000) return a * INFINITY;
    double n = rint((double)(e / WIDE_LN2));
    return ldexp(a * exp((double)(e - n * WIDE_LN2)), (int)n);
}

/* sin(pi v), cos(pi v): exact reduction, exact zeros. */
OWN_CALL static inline double sinpi_(double v) {
    double r = fmod(fabs(v), 2), s = v < 0 ? -1 : 1;
    if (r >= 1) r -= 1, s = -s;
    return s * (r > 0.5 ? sin(PI * (1 - r)) : sin(PI * r));
}

OWN_CALL static inline double cospi_(double v) {
    double r = fmod(fabs(v), 2);
    if (r > 1) r = 2 - r;
    return r <= 0.25 ? cos(PI * r) : r >= 0.75 ? -cos(PI * (1 - r)) : sin(PI * (0.5 - r));
}

/* log(x/2), (x/2)^v, right for subnormal x too */
OWN_CALL static double log_half(double x) { return log(x) - (double)WIDE_LN2; }
OWN_CALL static double pow_half(double x, double v) { return pow(x, v) * exp2(-v); }

/* psi(z), z >= 1: recurrence to z >= 10, then DLMF 5.11.2. */
OWN_CALL static double digamma(double z) {
    double s = 0;
    for (; z < 10; z += 1) s -= 1 / z;
    double r = 1 / (z * z);
    double b =
        r * (1. / 12 -
             r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132 - r * (691. / 32760 - r * (1. / 12)))))));
    return s + (log(z) - 0.5 / z - b);
}

/* ---- power series: DLMF 10.2.2 (sign -1: J), 10.25.2 (sign +1: I); derivatives 10.15.1, 10.38.1 ---- */

/* 1/Gamma(v + 1) = a exp(e), v >= 0 */
OWN_CALL static double reciprocal_gamma(double v, wide *e) {
    *e = v < 150 ? 0 : -wide_log_gamma((wide)v + 1);
    return v < 150 ? 1 / (v < 1 ? tgamma(v + 1) : v * tgamma(v)) : 1; /* the rounding of v + 1 matters */
}

OWN_CALL static bessel power_series(double v, double x, int sign) {
    wide z = sign * (wide)x * x / 4, term = 1, f = 1, g = v, h = v * ((wide)v - 1); /* sums that may cancel */
    double l = log_half(x) - digamma(v + 1), d = l, m = v * l + 1;
    for (int k = 1; k < MOST_NODES; k++) {
        wide power = (wide)v + 2 * k, vk = (wide)v + k;
        term *= z / (k * vk);
        f += term, g += term * power, h += term * power * (power - 1);
        double small = (double)term;
        l -= 1 / (double)vk;
        d += small * l, m += small * ((double)power * l + 1);
        if (fabs(small) < 1e-19 * fmax(1, (double)f)) break;
    }
    g /= x, h = h / x / x, m /= x;
    wide e;
    double a = reciprocal_gamma(v, &e), direct = a * pow_half(x, v);
    if (e == 0 && direct > 1e-290) a = direct;
    else e += v * (wide_log(x) - WIDE_LN2);
    return (bessel){
        .f = {(double)(f * a), (double)(g * a), (double)(h * a)},
        .d = {d * a, m * a},
        .s = {(double)(f * a), (double)((g - f) * a), (double)((h - 2 * g + f) * a)},
        .t = {d * a, (m - d) * a},
        .e = e,
        .es = e - x,
    };
}

/* ---- small x: Temme's series of K and Y of orders eps = v - n, |eps| <= 1/2, and eps + 1 ---- */

/* A function even in eps, and its derivative by e = eps^2: dividing by eps before differentiating loses nothing. */
typedef struct { double v, d; } even;

static even add(even a, even b) { return (even){a.v + b.v, a.d + b.d}; }
static even mul(even a, even b) { return (even){a.v * b.v, a.v * b.d + a.d * b.v}; }
static even times(double c, even a) { return (even){c * a.v, c * a.d}; }

static even even_polynomial(const double *c, int n, double e) {
    even p = {0, 0};
    while (n--) p = (even){p.v * e + c[n], p.d * e + p.v};
    return p;
}

/* A function and its derivative in the order. */
typedef struct { double f, d; } pair;

/* a, b of orders v - 1, v to orders v - 1 + n, v + n: DLMF 10.6.1 (sign -1), 10.29.1 (sign +1) */
OWN_CALL static void recur_up(pair *a, pair *b, double v, int n, double x, int sign) {
    wide below = a->f, f = b->f; /* v / x is rounded n times */
    for (; n > 0; n--, v += 1) {
        double d = 2 * v / x * b->d + 2 / x * b->f + sign * a->d;
        wide next = (wide)2 * v / x * f + sign * below;
        below = f, f = next;
        *a = *b, b->f = (double)f, b->d = d;
        if (isinf(b->f) || isinf(d)) { /* the larger orders are as well */
            if (n > 1) *a = *b;
            return;
        }
    }
}

/*
 * (x/2)^-eps/Gamma(1 - eps) = s + eps f and (x/2)^eps/Gamma(1 + eps) = s - eps f, with s and f even in eps;
 * 1/Gamma(1 + eps) = g2 - eps g1 (Taylor series DLMF 5.7.1, g1 and g2 Temme's Gamma_1 and Gamma_2).
 */
OWN_CALL static void temme_start(double eps, double x, even *g1, even *g2, even *s, even *f) {
    static const double odd[] = {-0.57721566490153286061,    0.042002635034095235529,   0.042197734555544336748,
                                 -0.0072189432466630995424,  0.00021524167411497095,    2.0134854780788238656e-5,
                                 -1.1330272319816958824e-6,  -6.1160951044814158179e-9, 1.1812745704870201446e-9,
                                 -7.7822634399050712540e-12, -5.1003702874544759790e-13};
    static const double evn[] = {
        1,
        -0.65587807152025388108,
        0.16653861138229148950,
        -0.0096219715278769735621,
        -0.0011651675918590651121,
        0.00012805028238811618615,
        -1.2504934821426706573e-6,
        -2.0563384169776071035e-7,
        5.0020076444692229301e-9,
        1.0434267116911005105e-10,
        -3.6968056186422057082e-12,
        -2.0583260535665067832e-14};
    double e = eps * eps, L = -log_half(x), w = e * L * L, sg = fabs(eps * L);
    even ch, sc; /* cosh(eps L), sinh(eps L)/(eps L) */
    *g1 = even_polynomial(odd, 11, e), *g2 = even_polynomial(evn, 12, e);
    if (w < 0.25) {
        static const double c[] = {1,          1 / 2.,       1 / 24.,        1 / 720.,
                                   1 / 40320., 1 / 3628800., 1 / 479001600., 1 / 87178291200.};
        static const double h[] = {1,           1 / 6.,        1 / 120.,        1 / 5040.,
                                   1 / 362880., 1 / 39916800., 1 / 6227020800., 1 / 1307674368e3};
        ch = even_polynomial(c, 8, w), sc = even_polynomial(h, 8, w);
        ch.d *= L * L, sc.d *= L * L;
    } else {
        double sh = sinh(sg), c = cosh(sg);
        ch = (even){c, L * L * sh / sg / 2}, sc = (even){sh / sg, (c - sh / sg) / (2 * e)};
    }
    *f = add(mul(ch, *g1), times(L, mul(sc, *g2)));
    *s = add(mul(ch, *g2), times(L, mul((even){e, 1}, mul(sc, *g1))));
}

/* sign +1: K, -1: Y. Temme's f_k, p_k, q_k; p_k + q_k = s_k, (p_k - q_k)/eps = f_k. */
OWN_CALL static bessel temme(double v, double x, int sign) {
    double n = rint(v), eps = v - n, e = eps * eps, L = -log_half(x);
    even g1, g2, s, f;
    temme_start(eps, x, &g1, &g2, &s, &f);
    even gg = add(mul(g2, g2), times(-1, mul((even){e, 1}, mul(g1, g1)))); /* 1/(Gamma(1 + eps) Gamma(1 - eps)) */
    gg = (even){1 / gg.v, -gg.d / (gg.v * gg.v)};
    f = mul(gg, f), s = mul(gg, s);
    double sine = eps == 0 ? PI : sinpi_(eps) / eps, half = eps == 0 ? PI / 2 : sinpi_(eps / 2) / eps;
    double t = sign < 0 ? 2 * half * half * eps : 0, dt = sign < 0 ? PI * sine - 2 * half * half : 0;
    double l = g2.v - eps * g1.v, r = g2.v + eps * g1.v;       /* 1/Gamma(1 + eps), 1/Gamma(1 - eps) */
    double p = pow_half(x, -eps) / l / 2, q = pow_half(x, eps) / r / 2;
    double lp = L - (2 * eps * (g2.d - eps * g1.d) - g1.v) / l; /* logarithmic derivatives of p, q */
    double lq = -L - (2 * eps * (g2.d + eps * g1.d) + g1.v) / r;
    double c = 1, z = sign * (x / 2) * (x / 2), m = 0; /* m: d2/dvdx of order eps, which may be tiny */
    pair a = {0}, b = {0};
    wide af = 0, bf = 0; /* a.f, b.f: as x nears sqrt 2, b.f is a difference */
    for (int k = 0; k < MOST_NODES; k++) {
        double fd = 2 * eps * f.d, g = f.v + t * q, gd = fd + t * q * lq + dt * q;
        af += c * (wide)g, a.d += c * gd;
        bf += c * (p - k * (wide)g), b.d += c * (p * lp - k * gd);
        m += c / x * (2 * k * gd - 2 * eps * s.d + t * q + eps * (t * lq + dt) * q); /* x f_k' = -s_k, x q' = eps q */
        if (k && fabs(c) * k < 1e-18) break;
        double i = k + 1, ie = 1 / (i * i - e);
        even ri = {ie, ie * ie}, fk = mul(ri, add(times(i, f), s));
        s = mul(ri, add(times(i, s), mul((even){e, 1}, f)));
        f = fk;
        p /= i - eps, lp += 1 / (i - eps);
        q /= i + eps, lq -= 1 / (i + eps);
        c *= z / i;
    }
    a.f = (double)af, b.f = (double)(2 * bf / x), b.d *= 2 / x;
    recur_up(&a, &b, eps + 1, (int)n, x, sign);
    double norm = sign > 0 ? 1 : -2 / PI; /* f' = (v/x) f - f_{v+1}: DLMF 10.6.2, 10.29.2 */
    double g = isinf(b.f) ? -INFINITY : v / x * a.f - b.f;
    if (n > 0) m = isinf(b.d) ? -b.d : a.f / x + v / x * a.d - b.d;
    bessel found = {.f = {norm * a.f, norm * g}, .d = {norm * a.d, norm * m}};
    found = by_equation(found, sign, v, x);
    return sign > 0 ? with_scaled(found, 1, x) : found;
}

/* sinh(u) - u, S = sinh(u) (sign +1); sin(u) - u, S = sin(u) (sign -1) */
OWN_CALL static double minus(double S, double u, int sign) {
    double w = sign * u * u;
    if (u * u > 0.25) return S - u;
    return u * w *
           (1 / 6. +
            w * (1 / 120. + w * (1 / 5040. + w * (1 / 362880. + w * (1 / 39916800. + w * (1 / 6227020800.))))));
}

/* asinh(a/x) = log((a + b)/x), b^2 = a^2 + x^2; a/x may overflow. */
OWN_CALL static double asinh_ratio(double a, double b, double x) { return a < x ? asinh(a / x) : log(a + b) - log(x); }

/* 1/sqrt(a + b c), where b c may overflow, and a step of 0 would have no end */
OWN_CALL static double step(double a, double b, double c) { return 1 / hypot(sqrt(a), sqrt(b) * sqrt(c)); }

/* sin, cos t (sign -1), sinh, cosh t (sign +1) of |t| <= 2: power series at t/16, and four doublings */
OWN_CALL static void circular(double t, int sign, dd *sine, dd *cosine) {
    dd r = {t / 16, 0}, square = dd_mul(r, r), s = r, term = r;
    for (int k = 2; k < 24; k += 2) {
        term = dd_div(dd_mul(term, square), (dd){sign * k * (k + 1.0), 0});
        s = dd_add(s, term);
    }
    dd c = {1, 0};
    term = c;
    for (int k = 1; k < 24; k += 2) {
        term = dd_div(dd_mul(term, square), (dd){sign * k * (k + 1.0), 0});
        c = dd_add(c, term);
    }
    for (int i = 0; i < 4; i++) {
        dd twice = {2 * s.hi, 2 * s.lo}, next = dd_mul(twice, c);
        c = dd_add((dd){1, 0}, dd_mul(dd_mul(s, twice), (dd){sign, 0}));
        s = next;
    }
    *sine = s, *cosine = c;
}

/* x f - v t */
static dd exponent(double x, dd f, double v, double t) { return dd_add(dd_mul(f, (dd){x, 0}), dd_neg(dd_prod(v, t))); }

/* ---- K: trapezoidal rule on the real line ---- */

/* Nodes t = j h >= 0 (the integrand is even) outwards from the one next to base, sinh base = v/x; u = t - base. */
OWN_CALL static bessel k_integral(double v, double x) {
    double r = fmin(hypot(v, x), DBL_MAX), h = step(14, 2.4, r), base = asinh_ratio(v, r, x), mid = rint(base / h),
           off = mid * h - base;
    wide E = wide_exp(base), xc = x * ((E + 1 / E) / 2), xs = base > 0.1 ? x * ((E - 1 / E) / 2) : x * wide_sinh(base);
    double c = (double)xc, s = (double)xs, rho = (double)(v - xs), S1 = sinh(h / 2), C1 = cosh(h / 2), f = 0, d = 0,
           g = 0, q = 0, m = 0;
    double Sm = sinh(off / 2), Cm = sqrt(1 + Sm * Sm);
    for (int side = 1; side >= -1; side -= 2) {
        double S = Sm, C = Cm; /* sinh, cosh of u/2 */
        for (int i = 0; i < MOST_NODES && mid + i * side >= 0; i++) {
            double j = mid + i * side, t = j * h, u = off + i * side * h,
                   phi = rho * u - s * minus(2 * S * C, u, 1) - 2 * (c * S) * S;
            if (!(phi >= NEGLIGIBLE)) break;
            if (side > 0 || i > 0) {
                double w = exp(phi), o = v * t > 19 ? 1 : -expm1(-2 * v * t); /* cosh, sinh = exp(vt) (1 - o/2, o/2) */
                double even_part = j == 0 ? w / 2 : w * (1 - o / 2), odd_part = w * t * o / 2;
                double factor = (v * v / (c + x) + 2 * S * (c * S + s * C)) / x; /* cosh t - 1 = (c - x + ..)/x */
                f += even_part, g += even_part * factor, q += even_part * factor * factor;
                d += odd_part, m += odd_part * factor;
            }
            double S0 = S;
            S = S * C1 + side * C * S1;
            C = C * C1 + side * S0 * S1;
        }
    }
    bessel k = {.f = {f * h}, .d = {d * h}, .s = {0, -g * h, q * h}, .t = {0, -m * h}};
    wide half = wide_sinh((wide)base / 2);
    k.e = (wide)v * base - xc, k.es = (wide)v * base - x * half * half * 2;
    return with_plain(k, 1, v, x);
}

/* ---- I (v >= 1/2) and J (v > x, well apart): exact steepest descent ---- */

/*
 * On t = tau + i theta, 0 <= theta < pi, with c = (v/x) theta/sin(theta) = sinh(tau) for I, cosh(tau) for J, phi is
 * real: phi = x r cos(theta) - v tau, r = sqrt(c^2 +- 1) = cosh(tau), sinh(tau) (Watson, Bessel Functions, 8.31), so
 *   f = 1/pi int_0^pi exp(phi) dtheta,   df/dv = -1/pi int_0^pi (tau + theta tau') exp(phi) dtheta,
 * all terms of one sign, and d/dx is a factor under the integral over t, cosh t - 1 for I - scaled - and sinh t for J.
 * theta = 2 atan(sinh s), s = j h: double exponential decay as theta -> pi.
 */
OWN_CALL static bessel steepest(double v, double x, int sign) {
    double c0 = v / x, r0 = sign > 0 ? hypot(c0, 1) : sqrt((v - x) * (v + x)) / x;
    double tau0 = sign > 0 ? asinh(c0) : asinh(r0), near = sign > 0 ? 0 : 1 / tau0; /* J: r = 0 at theta ~ i tau0 */
    double h = step(20 + 30 * near * near, 10, x * r0);
    double S = 0, C = 1, S1 = sinh(h), C1 = cosh(h), f = 0, d = 0, g = 0, p = 0, m = 0;
    for (int j = 0; j < MOST_NODES; j++) {
        double a = j ? atan(S) / S : 1, y2 = S * S; /* tan^2(theta/2) */
        /* clang-format off */
        double q = y2 > 0.01 ? a - 1 + a * y2           /* theta/sin(theta) - 1 */
            : y2 * (2/3. - y2 * (2/15. - y2 * (2/35. - y2 * (2/63. - y2 * (2/99. - y2 * (2/143. - y2 * (2/195.)))))));
        /* clang-format on */
        double c = c0 * (1 + q), r = sqrt(r0 * r0 + c0 * c0 * q * (2 + q));
        double dr = c0 * c0 * q * (2 + q) / (r + r0), vers = 2 * y2 / (1 + y2), cosine = 1 - vers;
        double dtau = log1p((c0 * q + dr) / (c0 + r0)), phi = x * (dr * cosine - r0 * vers) - v * dtau;
        if (!(phi >= NEGLIGIBLE)) break;
        double w = exp(phi) * (j ? 2 : 1) / C; /* dtheta/ds = 2/cosh s */
        f += w;
        double slope = c * ((1 + q) * vers - q) / r; /* theta tau', tau' = c (1 - theta cot(theta))/(r theta) */
        double tau = tau0 + dtau, re = (sign > 0 ? c * c / (1 + r) : r) - r * vers; /* the factor of d/dx */
        double im = c * 2 * S / (1 + y2), tilt = slope * c / (1 + q); /* tilt = im tau' */
        g += w * (re + tilt), p += w * (re * re - im * im + 2 * re * tilt);
        d += w * (tau + slope), m += w * (re * (tau + slope) + tilt * tau - 2 * a * S * im);
        double S0 = S;
        S = S * C1 + C * S1;
        C = C * C1 + S0 * S1;
    }
    wide E = wide_exp(tau0), base = x * ((sign > 0 ? E + 1 / E : E - 1 / E) / 2) - (wide)v * tau0;
    if (sign < 0 && x > DISTANT) {
        dd sh, ch;
        circular(tau0, 1, &sh, &ch);
        base = wide_of_dd(exponent(x, sh, v, tau0));
    }
    wide half = wide_sinh((wide)tau0 / 2), low = x * half * half * 2 - (wide)v * tau0; /* base - x */
    h /= PI;
    if (sign > 0) return with_plain((bessel){{f * h}, {-d * h}, {0, g * h, p * h}, {0, -m * h}, base, low}, -1, v, x);
    return by_equation((bessel){.f = {f * h, g * h}, .d = {-d * h, -m * h}, .e = base}, -1, v, x);
}

/* ---- I, |v| < 1/2: d/dv of E = (I_v + I_{-v})/2, and of that d/dx of the scaled function, times exp(-x) ---- */

/*
 * x <= 21: power series of E, u_k = (P + Q)/2 and w_k = (P - Q)/(2v) with P, Q = (x/2)^(+-v)/Gamma(k + 1 +- v), in even
 * functions of v. x > 21: DLMF 10.40.5, whose two exponentials are E and -sin(pi v)/pi K.
 */
OWN_CALL static inline pair i_even_part(double v, double x) {
    double e = v * v;
    if (x > 21) {
        even a = {1, 0};
        double value = 0, slope = 0;
        for (int k = 1; k < MOST_NODES && fabs(a.v) + x * fabs(a.d) > 1e-17;
             k++) { /* a.v = 0 from k = 1 on at v = 1/2 */
            a = mul(a, (even){((2 * k - 1) * (2 * k - 1) - 4 * e) / (8 * k * x), -4 / (8 * k * x)});
            value += a.d, slope -= (k + 0.5) / x * a.d;
        }
        double front = 2 * v / sqrt(2 * PI * x);
        return (pair){front * value, front * slope};
    }
    even g1, g2, u, w;
    temme_start(v, x, &g1, &g2, &u, &w);
    w = times(-1, w);
    double c = 1, z = (x / 2) * (x / 2), value = 0, slope = 0, size = 0;
    for (int k = 1; k < MOST_NODES && fabs(c * u.v) > 1e-18 * size; k++) {
        value += c * u.d, size += fabs(c * u.v);
        slope += c * (2 * (k - 1) * u.d + w.v + e * w.d); /* times x: powers 2(k - 1) +- v */
        double r = 1 / (k * k - e);
        even uk = times(r, (even){k * u.v - e * w.v, k * u.d - e * w.d - w.v});
        even wk = times(r, (even){k * w.v - u.v, k * w.d - u.d});
        u = (even){uk.v, uk.d + r * uk.v}, w = (even){wk.v, wk.d + r * wk.v};
        c *= z / k;
    }
    double front = 2 * v * exp(-x);
    return (pair){front * value, front * (slope / x - value)};
}

/* ---- J and Y: contour of the Hankel function ---- */

/*
 * t = s + i theta(s), tan(theta/2) = y = m (sinh s + sqrt(sinh^2 s + sin^2 b)), m = 1/(2 cos^2(b/2)): from -oo to
 * oo + i pi through i b with slope 1; for b = pi/2 it is the steepest path of v = 0. i b is the saddle, cos b = v/x;
 * in the transition region and for v > x a point at the distance of the size of that region, x^(-1/3). All phi are
 * relative to phi(base), base = i b for x >= v, the saddle a = -acosh(v/x) for v > x.
 */
typedef struct {
    double v, x, a, b, sb, cb, tb, m; /* sin, cos b, tan(b/2) */
    double xc, xs, rho; /* x cosh a, x sinh a, phi'(base): 0 but for rounding, or off the saddle */
} contour;

typedef struct { double re, im, s, theta, slope, sh, ch; } node; /* phi - phi(base), t, dtheta/ds, sinh t */

/* The node at s = a + u; S, C = sinh, cosh u. */
OWN_CALL static node hankel_node(const contour *p, double u, double S, double C) {
    double x = p->x, sb = p->sb, cb = p->cb, tb = p->tb;
    double xsh = p->xc * S + p->xs * C, xch = p->xc * C + p->xs * S, sh = xsh / x; /* x sinh s, x cosh s */
    double root = sqrt(sh * sh + sb * sb), dy = p->m * (sh + sh * sh / (root + sb));
    double y = sh < 0 ? p->m * sb * sb / (root - sh) : tb + dy;
    double sine = 2 * y / (1 + y * y); /* 1 - cos(theta) = y sine */
    node n = {.s = p->a + u, .slope = sine * xch / (x * root), .sh = sh * (1 - y * sine), .ch = xch / x * sine};
    if (p->a < 0) {
        n.theta = 2 * atan(y);
        n.re = p->xc * minus(S, u, 1) + p->rho * u + p->xs * S * S / (1 + C) - xsh * y * sine;
        n.im = xch * minus(sine, n.theta, -1) + (p->rho + p->xc * S * S / (1 + C) + p->xs * S) * n.theta;
    } else {
        double z = dy / (1 + y * tb), eta = 2 * atan(z); /* eta = theta - b */
        double se = 2 * z / (1 + z * z), ve = z * se; /* sin, 1 - cos */
        n.theta = p->b + eta;
        n.re = -xsh * (sb * se + cb * ve) + x * cb * minus(S, u, 1) + p->rho * u;
        n.im = x * (S * S / (1 + C) * sine + cb * minus(se, eta, -1) - sb * ve) + p->rho * eta;
    }
    return n;
}

typedef struct { bessel j, y; } hankel_pair;

#define NOTHING_KNOWN \
    { .f = {NAN, NAN, NAN}, .d = {NAN, NAN}, .s = {NAN, NAN, NAN}, .t = {NAN, NAN} }
#define UNKNOWN ((hankel_pair){NOTHING_KNOWN, NOTHING_KNOWN})

OWN_CALL static hankel_pair hankel(double v, double x) {
    double w = sqrt(fabs(x - v)) * sqrt(x + v), least = fmin(1, 1.3 / cbrt(x)), c = 1, s = 0;
    contour p = {.v = v, .x = x, .b = atan2(w, v), .sb = w / x, .cb = v / x, .xc = x};
    wide e = 0; /* phi(base) = e + i chi, c + i s = exp(i chi) */
    if (x >= v && p.b >= least && (x < DISTANT || v * (v / x) < DISTANT)) { /* chi = x sin b - v b = x - v pi/2 + r */
        wide V = v, r = V * wide_asin(V / x) - V * V / (x + wide_sqrt((x - V) * (x + V))) - WIDE_PI / 2 * fmod(v, 4);
        double cr = (double)wide_cos(r), sr = (double)wide_sin(r), cx = cos(x), sx = sin(x);
        c = cx * cr - sx * sr, s = sx * cr + cx * sr;
    } else if (x > DISTANT) {
        dd sine, cosine, chi, rho;
        if (!(x < FARTHEST)) return UNKNOWN;
        circular(p.b = x >= v ? fmax(p.b, least) : least, -1, &sine, &cosine);
        p.sb = sine.hi, p.cb = cosine.hi;
        if (x < v) {
            circular(p.a = -asinh_ratio(w, v, x), 1, &sine, &cosine);
            p.xc = x * cosine.hi, p.xs = x * sine.hi;
        }
        chi = exponent(x, sine, v, x < v ? p.a : p.b), rho = exponent(x, cosine, v, 1), p.rho = rho.hi + rho.lo;
        if (x < v) e = wide_of_dd(chi);
        else c = cos(chi.hi) - sin(chi.hi) * chi.lo, s = sin(chi.hi) + cos(chi.hi) * chi.lo;
    } else {
        wide sl = wide_sin(least), cl = wide_cos(least);
        p.b = least, p.sb = (double)sl, p.cb = (double)cl;
        if (x >= v) {
            wide chi = x * sl - (wide)v * least;
            p.rho = (double)(x * cl - v), c = (double)wide_cos(chi), s = (double)wide_sin(chi);
        } else {
            p.a = -asinh_ratio(w, v, x);
            wide E = wide_exp(p.a), xc = x * ((E + 1 / E) / 2), xs = x * ((E - 1 / E) / 2);
            p.xc = (double)xc, p.xs = (double)xs, p.rho = (double)(xc - v), e = xs - (wide)v * p.a;
        }
    }
    p.tb = p.sb / (1 + p.cb), p.m = (1 + p.tb * p.tb) / 2;
    double h = step(40 / (p.b * p.b), 5, fmax(x * p.sb, -p.xs / 2)), S1 = sinh(h), C1 = cosh(h);
    double fr = 0, fi = 0, dr = 0, di = 0, gr = 0, gi = 0, mr = 0, mi = 0; /* factors 1, t, sinh t, t sinh t */
    for (int side = 1; side >= -1; side -= 2) {
        double S = 0, C = 1;
        for (int k = 0; k < MOST_NODES; k++) {
            node n = hankel_node(&p, side * k * h, S, C);
            if (!(n.re >= NEGLIGIBLE)) break;
            if (k || side > 0) {
                double size = exp(n.re), wr = size * cos(n.im), wi = size * sin(n.im);
                double pr = wr - n.slope * wi, pi = wi + n.slope * wr;
                fr += pr, fi += pi;
                double qr = n.sh * pr - n.ch * pi, qi = n.sh * pi + n.ch * pr;
                gr += qr, gi += qi;
                mr += n.s * qr - n.theta * qi, mi += n.s * qi + n.theta * qr;
                dr += n.s * pr - n.theta * pi, di += n.s * pi + n.theta * pr;
            }
            double S0 = S;
            S = S * C1 + side * C * S1;
            C = C * C1 + side * S0 * S1;
        }
    }
    c *= h / PI, s *= h / PI; /* H = exp(i chi)/(pi i) f, H' = exp(i chi)/(pi i) g, dH/dv = -exp(i chi)/(pi i) d */
    bessel j = {.f = {s * fr + c * fi, s * gr + c * gi}, .d = {-(s * dr + c * di), -(s * mr + c * mi)}, .e = e};
    bessel y = {.f = {s * fi - c * fr, s * gi - c * gr}, .d = {c * dr - s * di, c * mr - s * mi}, .e = e};
    return (hankel_pair){by_equation(j, -1, v, x), by_equation(y, -1, v, x)};
}

/* ---- regions ---- */

/* Next to 0, or beyond, where nothing is computed before it is known to be a number. */
static bool is_far(double v, double x) { return v > 1e4 || x > 1e4 || x < 1e-30; }

/* J is exp(-zeta), Y exp(zeta), but for powers: v acosh(v/x) - sqrt(v^2 - x^2) for v > x, else 0; DLMF 10.19.3 */
OWN_CALL static double zeta_of(double v, double x) {
    double q = x / v, t = sqrt((v - x) / v * (1 + q));
    return v > x ? v * (asinh(t / q) - t) : 0;
}

OWN_CALL static bessel j_of(double v, double x) {
    if (is_far(v, x) && zeta_of(v, x) > GONE) return (bessel){.f = {1, 1, 1}, .d = {-1, -1}, .e = -INFINITY};
    if (x * x <= 8 * (v + 1)) return power_series(v, x, -1); /* largest term/sum <= exp(2 x^2/(4(v + 1))) */
    if (v > x && zeta_of(v, x) > 1) return steepest(v, x, -1); /* J/Y ~ exp(-2 zeta) */
    return hankel(v, x).j;
}

OWN_CALL static bessel y_of(double v, double x) {
    if (is_far(v, x) && zeta_of(v, x) > GONE) return (bessel){.f = {-1, 1, -1}, .d = {-1, 1}, .e = INFINITY};
    if (x * x > 8 || v >= 10) return hankel(v, x).y;
    bessel near = temme(v, x, -1);
    if (isfinite(near.f[0]) && isfinite(near.d[0])) return near; /* else with an exponent */
    bessel y = hankel(v, x).y;
    if (isfinite(near.f[0])) y.f[0] = scaled(near.f[0], -y.e); /* next to 0 hankel's has nine digits */
    return y;
}

/*
 * I is exp(-e), K exp(e), but for powers: v asinh(v/x) - sqrt(v^2 + x^2), DLMF 10.41.3; with the factor of the scaled
 * functions x more. A quarter of it, which is a number.
 */
OWN_CALL static double quarter_exponent(double v, double x, bool scale) {
    double a = v / 4, b = x / 4, r = hypot(a, b), t = x < 1 ? asinh_ratio(v, hypot(v, x), x) : asinh_ratio(a, r, b);
    return scale ? a * (t - a / (r + b)) : a * t - r;
}

static bool by_series(double v, double x) { return x <= 21 || x * x <= 2 * (v + 1); }

OWN_CALL static bessel i_of(double v, double x) {
    if (is_far(v, x) && quarter_exponent(v, x, true) > GONE / 4) { /* I exp(-x) is 0 */
        double e = quarter_exponent(v, x, false), f = fabs(e) < GONE / 4 && v > 1e16 ? NAN : 1;
        if (e > GONE / 4 || e < -GONE / 4 || isnan(f))
            return (bessel){
                .f = {f, f, f}, .d = {-f, -f}, .s = {1, 1, 1}, .t = {-1, -1}, .e = -e * INFINITY, .es = -INFINITY};
    }
    return by_series(v, x) ? power_series(v, x, 1) : steepest(v, x, 1);
}

OWN_CALL static bessel k_of(double v, double x) {
    if (is_far(v, x) && quarter_exponent(v, x, true) > GONE / 4) { /* K exp(x) is infinite */
        double e = quarter_exponent(v, x, false), f = fabs(e) < GONE / 4 && v > 1e16 ? NAN : 1;
        if (e > GONE / 4 || e < -GONE / 4 || isnan(f))
            return (bessel){
                .f = {f, -f, f}, .d = {f, -f}, .s = {1, -1, 1}, .t = {1, -1}, .e = e * INFINITY, .es = INFINITY};
    }
    if (x * x <= 2 && v < 10) {
        bessel k = temme(v, x, 1);
        if (isfinite(k.f[0]) && isfinite(k.d[0])) return k;
    }
    return k_integral(v, x);
}
