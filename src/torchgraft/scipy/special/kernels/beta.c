/* beta.c - derivatives of the regularised incomplete beta function I_x(a, b) = 1 - I_(1-x)(b, a) and of its inverses.
 *
 * dI/da = int_0^x f (log t + psi(a+b) - psi(a)) dt = - int_x^1 (the same),  f = t^(a-1) (1-t)^(b-1) / B(a, b),
 * as E log t = psi(a) - psi(a+b); in b likewise with log(1-t), so that dI/db (a, b, x) = - dI/da (b, a, 1-x). Each
 * integrand changes sign once; on the proper side of that point the integral has one sign. So dI/da < 0 < dI/db,
 * without zeros, and neither is a difference of large numbers. With y = 1 - x, n = a + b and the binomial mass
 * D = x^a y^b Gamma(n+1)/(Gamma(a+1) Gamma(b+1)) (by Loader's method, gammabeta.h) the derivatives are D a b/n times
 * functions of moderate size:
 *
 * n > 3, n x > 3/2, n y > 3/2: quadrature in the logit, t/(1-t) = (x/y) e^-u below x (above: exchange a, x with b, y):
 *     int_0^inf exp(-(s u + n g)) w(u) du,  s = a - n x,  g(u) = x u + log(1 - x + x e^-u)  (convex),
 *     -log(t/x) = y u + g,  log((1-t)/y) = x u - g.  Nearest singularities at distance pi: 32 nodes give 1e-14.
 *     g: Taylor series for short ranges (n large); else by log1p in terms of the smaller of x, y: n g keeps its digits.
 * Otherwise, x the smaller side (n x <= 3/2, or n <= 3 and x <= 1/2): DLMF 8.17.7 differentiated,
 *     I = F (1 + a S),  F = x^a Gamma(n)/(Gamma(a+1) Gamma(b)),  S = sum_k t_k/(a+k),  t_k = (1-b)_k x^k/k!.
 *     (8.17.8 has positive terms, but loses dI/db for a -> 0, where I -> 1 for every b; here psi(n) - psi(b) and a S
 *     are O(a) each. The quadrature would have flat integrands with long ranges.)
 *
 * Limits: a = 0 or b = 0 stands for -> 0+; outside the domain and for NaN: NaN. */
#include "gammabeta.h"

typedef struct {
    double a, b;
    dd x, y;
    double log_x, log_y;
    dd n, e;
} point;  /* e = b x - a y = n x - a */

typedef struct { double da, db, tail; } pair;  /* tail: I or 1 - I */

/* With a below TINY everything goes as a power of a: compute at TINY and scale. Both small: closed form. */
#define VERY_SMALL 1e-20

static double scale(double a, double b) { return a < TINY && b > VERY_SMALL ? a / TINY : 1; }

static point make_point(double a, double b, double x) {
    if (scale(a, b) < 1) a = TINY;
    if (scale(b, a) < 1) b = TINY;
    dd y = dd_sum(1, -x);
    dd e = dd_add(dd_prod(b, x), dd_neg(dd_mul((dd){a, 0}, y)));
    return (point){a, b, {x, 0}, y, log(x), log1p(-x), dd_sum(a, b), e};
}

static point exchange(point p) { return (point){p.b, p.a, p.y, p.x, p.log_y, p.log_x, p.n, dd_neg(p.e)}; }

/* D, or NOTHING below exp(-least). A parameter of at least LARGE goes by Stirling's formula; then with the smaller one
 * a < LARGE, D = (n x)^a e^(-n x) / Gamma(a+1) * sqrt(n/b) exp(stirling(n) - stirling(b) - deviance(b, n y)). */
static mass binomial_above(point p, double least) {
    if (p.a > p.b) p = exchange(p);
    double a = p.a, b = p.b, n = p.n.hi;
    if (b < LARGE) {
        double u = a * p.log_x, v = b * p.log_y, f = tgamma(n + 1) / (tgamma(a + 1) * tgamma(b + 1));
        if (fabs(u) + fabs(v) < PLAIN) return (mass){{u + v, 0}, f};
        dd e = dd_add(dd_mul((dd){a, 0}, dd_log(p.x)), dd_mul((dd){b, 0}, dd_log(p.y)));
        return (mass){e, f};
    }
    double rough = a * (log(a / n) - p.log_x) + b * (log(b / n) - p.log_y);
    if (n < HUGE_PARAMETER && !(rough < least)) return NOTHING;
    dd nx = dd_mul(p.n, p.x), dev = deviance(b, dd_mul(p.n, p.y), dd_neg(p.e));
    if (a >= LARGE) dev = dd_add(dev, deviance(a, nx, p.e));
    if (!(dev.hi < least)) return NOTHING;
    double stirling = stirling_error(n) - stirling_error(b);
    if (a < LARGE) {
        dd e = dd_add(dd_neg(dev), dd_add(dd_mul((dd){a, 0}, dd_log(nx)), dd_neg(nx)));
        return (mass){dd_add(e, (dd){stirling, 0}), sqrt(n / b) / tgamma(a + 1)};
    }
    return (mass){dd_add(dd_neg(dev), (dd){stirling - stirling_error(a), 0}), sqrt(n / b / (TWO_PI * a))};
}

static mass binomial(point p) { return binomial_above(p, VANISHING); }

static double log_x_plus_psi_n(point p) {
    double n = p.n.hi;
    return n >= LARGE ? log(n * p.x.hi) + digamma_minus_log(n) : p.log_x + psi(n);
}

/* ---- derivatives divided by D a b/n = x y times the density ---- */

static pair series(point p) {
    double a = p.a, b = p.b, x = p.x.hi, t = 1, dt = 0, S = 0, S_a = 0, S_b = 0, step;
    for (double k = 1;; k += 1) {
        double f = x / k, r = 1 / (a + k);
        dt = f * ((k - b) * dt - t);
        t *= f * (k - b);
        S += t * r;
        S_a += t * r * (k * r);
        S_b += dt * r;
        step = fabs(t) + fabs(dt);
        if (!(step > 1e-17 * fabs(S_b)) || step < 1e-300) break;
    }
    double I = 1 + a * S;
    double gap = log_x_plus_psi_n(p) - psi(a + 1);
    double F = exp(-b * p.log_y) / a;
    return (pair){F * (gap * I + S_a), F * (digamma_diff(b, a) * I + a * S_b), F * I};
}

/* ---- quadrature ---- */

#define SHORT_RANGE 0.25  /* up to here g by its series of TERMS terms */
#define TERMS 15

/* log x + psi(n) - psi(a), accurate also where it is small and a large */
static double log_gap(point p) {
    double r = p.e.hi / p.a;
    if (p.a >= LARGE && fabs(r) < 0.5) return log1p(r) + digamma_diff_rest(p.a, p.b);
    return log_x_plus_psi_n(p) - psi(p.a);
}

/* range of u: s u + n g(u) = TAIL, from above, to 10 percent: least of three bounds, then Newton's method (convex) */
static double integration_range(double s, double n, double x, double y, double a, double b) {
    double nxy = n * x * y;
    double u = positive_root((s - 0.5 * TAIL) / (s + nxy), 2 * TAIL / (s + nxy));  /* g >= x y u^2/(2 + u) */
    if (x > 0.5) {
        double v = positive_root(s / nxy, 2 * TAIL / nxy);  /* g >= x y u^2/2 for u <= 2 log(x/y) */
        if (v <= 2 * log(x / y) && v < u) u = v;
        u = fmin(u, (TAIL - n * log(y)) / a);               /* g >= x u + log y */
    }
    for (int i = 0; i < 8 && u > SHORT_RANGE; i++) {
        double q = exp(-u), z = x <= 0.5 ? x * expm1(-u) : y * expm1(u);
        double f = x <= 0.5 ? a * u + n * log1p(z) : n * log1p(z) - b * u;
        double step = (f - TAIL) / (s + n * x * y * (1 - q) / (y + x * q));
        u -= step;
        if (step < 0.1 * u) break;
    }
    return u;
}

/* x[i] = log1p(x[i]) for -1/2 <= x[i] < 2^1000, about 2 ulp, in a form to be vectorised like exp_all: 1 + x = 2^k m,
 * m in [1/sqrt 2, sqrt 2], log m = 2 atanh((m - 1)/(m + 1)), and what 1 + x has rounded away. */
static void log1p_all(double *x) {
    double v[NODES], m[NODES], k[NODES];
    uint64_t bits[NODES], top[NODES];
    for (int i = 0; i < NODES; i++) v[i] = 1 + x[i];
    memcpy(bits, v, sizeof bits);
    for (int i = 0; i < NODES; i++) {
        top[i] = (bits[i] - 0x3fe6a09e667f3bcdULL + ((uint64_t)1024 << 52)) >> 52;  /* k + 1024 */
        bits[i] -= (top[i] - 1024) << 52;
        top[i] |= 0x4330000000000000ULL;                                            /* 2^52 + k + 1024 */
    }
    memcpy(m, bits, sizeof bits);
    memcpy(k, top, sizeof top);
    for (int i = 0; i < NODES; i++) {
        double n = k[i] - (0x1p52 + 1024), lost = (x[i] - (v[i] - 1)) / v[i], s = (m[i] - 1) / (m[i] + 1);
        double tail = 2 * s * s * s * atanh_tail(s) + (lost + n * 0x1.ef35793c76730p-45);
        x[i] = n * 0x1.62e42fefa3800p-1 + (2 * s + tail);
    }
}

typedef struct { double one, own, other; } moments;  /* of 1, -log(t/x), log((1-t)/y) */

/* own = y u + g, other = x u - g and w = exp(-(s u + n g)) at the nodes; the range of u */
static double lower_nodes(point p, double *own, double *other, double *w) {
    double a = p.a, b = p.b, x = p.x.hi, y = p.y.hi, n = p.n.hi, s = -p.e.hi;
    double range = integration_range(s, n, x, y, a, b);
    if (range <= SHORT_RANGE) {
        double c[TERMS + 1];  /* x e^-u/(y + x e^-u) = x + sum c_k u^k solves c' = -c (1 - c); g' = x - c */
        c[1] = -x * y;
        for (int k = 1; k < TERMS; k++) {
            double sum = (x - y) * c[k];
            for (int i = 1; i < k; i++) sum += c[i] * c[k - i];
            c[k + 1] = sum / (k + 1);
        }
        for (int k = 1; k <= TERMS; k++) c[k] /= -(k + 1);
        for (int i = 0; i < NODES; i++) {
            double u = range * node[i], g = c[TERMS];
            for (int k = TERMS - 1; k >= 1; k--) g = g * u + c[k];
            g *= u * u;
            own[i] = y * u + g;
            other[i] = x * u - g;
            w[i] = -(s * u + n * g);
        }
    } else if (x <= 0.5) {
        expm1_tail_at_nodes(range, w);
        for (int i = 0; i < NODES; i++) w[i] = x * (w[i] - range * node[i]);
        log1p_all(w);
        for (int i = 0; i < NODES; i++) {
            double u = range * node[i], l = w[i];
            own[i] = u + l;
            other[i] = -l;
            w[i] = -(a * u + n * l);
        }
    } else {
        expm1_tail_at_nodes(-range, w);
        for (int i = 0; i < NODES; i++) w[i] = y * (w[i] + range * node[i]);
        log1p_all(w);
        for (int i = 0; i < NODES; i++) {
            double u = range * node[i], l = w[i];
            own[i] = l;
            other[i] = u - l;
            w[i] = b * u - n * l;
        }
    }
    exp_all(w);
    return range;
}

/* int_0^inf exp(-(s u + n g)) (1, y u + g, x u - g) du */
static moments lower_moments(point p) {
    double own[NODES], other[NODES], w[NODES], range = lower_nodes(p, own, other, w);
    moments m = {0, 0, 0};
    for (int i = 0; i < NODES; i++) {
        double v = weight[i] * w[i];
        m.one += v;
        m.own += v * own[i];
        m.other += v * other[i];
    }
    return (moments){range * m.one, range * m.own, range * m.other};
}

/* One side gives both derivatives unless x is between their turning points; even there if the difference is mild. */
static pair quadrature(point p, int want_a, int want_b) {
    point q = exchange(p);
    double gap_a = want_a ? log_gap(p) : 0, gap_b = want_b ? log_gap(q) : 0, da = 0, db = 0;
    if ((want_a && gap_a < 0) || (want_b && gap_b > 0)) {
        moments m = lower_moments(p);
        if (want_a && gap_a * m.one < 0.5 * m.own) {
            da = gap_a * m.one - m.own;
            want_a = 0;
        }
        if (want_b && -gap_b * m.one < 0.5 * m.other) {
            db = gap_b * m.one + m.other;
            want_b = 0;
        }
    }
    if (want_a || want_b) {
        moments m = lower_moments(q);
        if (want_a) da = -gap_a * m.one - m.other;
        if (want_b) db = -gap_b * m.one + m.own;
    }
    return (pair){da, db, 0};
}

static double small_side(double n) { return n <= 3 ? 0.5 : 1.5 / n; }

static pair reduced_derivatives(point p, int want_a, int want_b) {
    double n = p.n.hi, small = small_side(n);
    if (n < VERY_SMALL) return (pair){-1 / p.a / n, 1 / p.b / n, 0};  /* I = b/n but for terms of n log x */
    if (p.x.hi <= small) return series(p);
    if (p.y.hi <= small) {
        pair r = series(exchange(p));
        return (pair){-r.db, -r.da, r.tail};
    }
    return quadrature(p, want_a, want_b);
}

/* ---- functions ---- */

static int outside(double a, double b, double x) {
    return !(a >= 0 && b >= 0 && x >= 0 && x <= 1) || (a == 0 && b == 0) || (isinf(a) && isinf(b));
}

static int at_boundary(double a, double b, double x) { return x == 0 || x == 1 || isinf(a) || isinf(b); }

static pair derivatives_at(point p, mass d, double a, double b, int want_a, int want_b) {
    double n = p.n.hi;
    if (n < VERY_SMALL) return (pair){-(b / n) / n, (a / n) / n, 0};
    if (underflows(d)) return (pair){-0.0, 0, 0};
    pair r = reduced_derivatives(p, want_a, want_b);
    double f = p.a * (p.b / n);
    return (pair){scaled_exp(d.e, d.f * (f * r.da)) * scale(b, a), scaled_exp(d.e, d.f * (f * r.db)) * scale(a, b), 0};
}

static pair derivatives(double a, double b, double x, int want_a, int want_b) {
    if (outside(a, b, x)) return (pair){NAN, NAN, NAN};
    if (at_boundary(a, b, x)) return (pair){0, 0, 0};
    point p = make_point(a, b, x);
    return derivatives_at(p, binomial(p), a, b, want_a, want_b);
}

static double betainc_da(double a, double b, double x) { return derivatives(a, b, x, 1, 0).da; }

static double betainc_db(double a, double b, double x) { return derivatives(a, b, x, 0, 1).db; }

/* D a b/(n x y); D may be subnormal or 0, or 1/x infinite, where the density is a normal number */
static double density_at(point p, mass d, double a, double b) {
    if (isinf(d.e.hi)) return 0;
    if (p.x.hi < 1e-100) d.e = dd_add(d.e, dd_neg(dd_log(p.x))), p.x = (dd){1, 0};
    double f = p.a * (p.b / p.n.hi), lift = f < 0x1p300 ? 0x1p200 : 1;
    return scaled_exp(d.e, d.f * f * lift) / (p.x.hi * lift * p.y.hi) * scale(a, b) * scale(b, a);
}

static double density_at_0(double a, double b) { return a < 1 ? INFINITY : a == 1 ? b : 0; }

/* dI/dx = x^(a-1) (1-x)^(b-1) / B(a, b) */
static double beta_density(double a, double b, double x) {
    if (outside(a, b, x)) return NAN;
    if (isinf(a) || isinf(b)) return 0;
    if (x == 0) return density_at_0(a, b);
    if (x == 1) return density_at_0(b, a);
    point p = make_point(a, b, x);
    return density_at(p, binomial(p), a, b);
}

/* (dI/da)/(dI/dx), (dI/db)/(dI/dx): minus the derivatives of x = betaincinv(a, b, p) and betainccinv(a, b, q) */
static pair ratios(double a, double b, double x, int want_a, int want_b) {
    if (outside(a, b, x)) return (pair){NAN, NAN, NAN};
    if (at_boundary(a, b, x)) return (pair){0, 0, 0};
    point p = make_point(a, b, x);
    pair r = reduced_derivatives(p, want_a, want_b);
    return (pair){r.da * p.x.hi * p.y.hi / scale(a, b), r.db * p.x.hi * p.y.hi / scale(b, a), 0};
}

static double betainc_da_over_density(double a, double b, double x) { return ratios(a, b, x, 1, 0).da; }

static double betainc_db_over_density(double a, double b, double x) { return ratios(a, b, x, 0, 1).db; }

/* An x below the least normal number is that number or 0 in SciPy's inverses, but I is there a power of x: the true x is
 * LEAST e^s. */
#define LEAST 0x1p-1022

static int below_least(double a, double b, double x, double p, double q) {
    return x <= LEAST && a > 0 && b > 0 && p > 0 && q > 0 && !isinf(a) && !isinf(b) && !isnan(p) && !isnan(q);
}

static double log_of(double p, double q) { return p < q ? log(p) : log1p(-q); }

/* log(a B(a, b)), a small: parts of order a */
static double log_a_beta(double a, double b) { return lgamma_diff(1, a) - lgamma_diff(b, a); }

/* s, where I = x^a/(a B(a, b)) = p = 1 - q */
static double shift(double a, double b, double p, double q) {
    return (log_of(p, q) + log_a_beta(a, b)) / a - log(LEAST);
}

/* dx/da, dx/db of x = betaincinv(a, b, p), also of betainccinv(a, b, q), p + q = 1 */
static double betaincinv_da(double a, double b, double x, double p, double q) {
    if (!below_least(a, b, x, p, q)) return -betainc_da_over_density(a, b, x);
    double s = shift(a, b, p, q), f = exp(s);
    return f == 0 ? 0 : f * (-betainc_da_over_density(a, b, LEAST) - LEAST * s / a);
}

static double betaincinv_db(double a, double b, double x, double p, double q) {
    if (!below_least(a, b, x, p, q)) return -betainc_db_over_density(a, b, x);
    double f = exp(shift(a, b, p, q));
    return f == 0 ? -0.0 : f * -betainc_db_over_density(a, b, LEAST);
}

/* dx/dp of x = betaincinv(a, b, p), and -dx/dq of betainccinv(a, b, q), p + q = 1. 1/density would multiply the
 * rounding error of x by |a y - b x|/y; I/density is flat, and p is known. For x next to 1, where 1 - x has lost its
 * digits, call with y = betainccinv(b, a, p): betaincinv_dp(b, a, y, q, p). */
static double betaincinv_dp(double a, double b, double x, double p, double q) {
    if (outside(a, b, x) || isnan(p) || isnan(q)) return NAN;
    if (below_least(a, b, x, p, q)) return exp(shift(a, b, p, q) + log(LEAST) - log(a) - log_of(p, q));
    if (at_boundary(a, b, x)) return 1 / beta_density(a, b, x);
    point at = make_point(a, b, x);
    double small = small_side(at.n.hi), xy = at.x.hi * at.y.hi;
    if (scale(a, b) < 1 || scale(b, a) < 1) return 1 / beta_density(a, b, x);
    if (at.x.hi <= small) return p < q ? series(at).tail * xy / p : 1 / beta_density(a, b, x);
    if (at.y.hi <= small) return q < p ? series(exchange(at)).tail * xy / q : 1 / beta_density(a, b, x);
    return at.e.hi < 0 ? lower_moments(at).one * xy / p : lower_moments(exchange(at)).one * xy / q;
}

/* ---- values, where SciPy's are wrong ---- */

/* log I, and I/(dI/du), u = log(x/y) */
typedef struct {
    dd log;
    double ratio;
} level;

/* S of the series of I */
static double series_sum(point p) {
    double t = 1, S = 0, term;
    for (double k = 1;; k += 1) {
        t *= p.x.hi / k * (k - p.b);
        term = t / (p.a + k);
        S += term;
        if (!(fabs(term) > 1e-17 * fabs(S))) return S;
    }
}

/* log(1 - I), x the greater side: parts of order b, as I is where b is small */
static double log_upper(point p) { return p.b * p.log_y - log_a_beta(p.b, p.a) + log1p(p.b * series_sum(exchange(p))); }

/* by what I is to be multiplied where b is below TINY: share */
static level lower_level(point p, double share) {
    mass d = binomial_above(p, INFINITY);
    double small = small_side(p.n.hi), f = d.f * p.a * (p.b / p.n.hi);
    if (p.x.hi > small && p.y.hi <= small) {
        dd log_I = dd_log((dd){-expm1(log_upper(p)), 0});
        return (level){dd_add(log_I, dd_log((dd){share, 0})), exp(log_I.hi - d.e.hi - log(f))};
    }
    double ratio = p.x.hi <= small ? (1 + p.a * series_sum(p)) * exp(-p.b * p.log_y) / p.a : lower_moments(p).one;
    return (level){
        dd_add(d.e, dd_add(dd_log((dd){share, 0}), dd_log(dd_prod(f, ratio)))), ratio}; /* f share may underflow */
}

/* x, y of x/y = r with all their digits, and e */
static point odds_point(double a, double b, double r) {
    if (scale(a, b) < 1) a = TINY;
    if (scale(b, a) < 1) b = TINY;
    dd sum = r > 1 ? dd_sum(r, 1) : dd_sum(1, r), x = dd_div((dd){r, 0}, sum), y = dd_div((dd){1, 0}, sum);
    dd e = dd_div(dd_add(dd_prod(b, r), (dd){-a, 0}), sum);
    return (point){
        a, b, x, y, x.hi < 0.5 ? log(x.hi) : log1p(-y.hi), y.hi < 0.5 ? log(y.hi) : log1p(-x.hi), dd_sum(a, b), e};
}

typedef struct { double x, y; } sides;

/* x where I = p, p <= 1/2. log I is concave in u = log(x/y): Newton's method comes to it from below, wherever it starts, which
 * is at r = x/y if that is a number. Where x is no normal number, I is a power of it. */
static sides lower_quantile(double a, double b, double p, double r) {
    double share = scale(b, a);
    if (!(r > LEAST && r < 1 / LEAST)) r = exp(fmin(fmax((log(p) + log_a_beta(a, b)) / a, log(LEAST)), 0));
    dd log_p = dd_log((dd){p, 0});
    for (int i = 0; i < 200; i++) {
        level at = lower_level(odds_point(a, b, r), share);
        dd f = dd_add(at.log, dd_neg(log_p));
        double step = -(f.hi + f.lo) * at.ratio;
        if (r <= LEAST && step < 0) return (sides){LEAST * exp(shift(a, b, p, 1 - p)), 1};
        if (r >= 1 / LEAST && step > 0) return (sides){1, LEAST * exp(shift(b, a, 1 - p, p))};
        double last = r;
        r = fmin(fmax(r * exp(step), LEAST), 1 / LEAST);
        if (fabs(f.hi) < 1e-8 || r == last) break;
    }
    return (sides){r / (1 + r), 1 / (1 + r)};
}

static sides quantile(double a, double b, double p, double q, double r) {
    if (p <= 0.5) return lower_quantile(a, b, p, r);
    sides of = lower_quantile(b, a, q, 1 / r);
    return (sides){of.y, of.x};
}

/* SciPy's I loses its digits with a b. */
static int are_tiny(double a, double b) { return a > 0 && b > 0 && a * b < 1e-290; }

/* I of those, r = x/y. Of two it is b/n but for terms of n log x. */
static double tiny_level(double a, double b, double r) {
    if (a + b < VERY_SMALL) return b / (a + b);
    return a < b ? 1 : scaled_exp(lower_level(odds_point(a, b, r), scale(b, a)).log, 1);
}

/* 1 - I */
static double tiny_rest(double a, double b, double r) {
    if (a + b < VERY_SMALL) return a / (a + b);
    return b < a ? 1 : scaled_exp(lower_level(exchange(odds_point(a, b, r)), scale(a, b)).log, 1);
}

/* I of parameters so large that all is next to the mean; NaN at the mean */
static double step(double a, double b, double x) {
    double odds = x / (1 - x) * (b / a);
    return odds < 1 - 1e-15 ? 0 : odds > 1 + 1e-15 ? 1 : NAN;
}

static int are_huge(double a, double b) { return isinf(a + b) && fmin(a, b) > 1e40 && !isinf(a) && !isinf(b); }

/* betainc(a, b, x) where SciPy says I */
static double betainc_value(double a, double b, double x, double I) {
    if (are_huge(a, b) && x > 0 && x < 1) return step(a, b, x);
    return are_tiny(a, b) && x > 0 && x < 1 ? unless_lost(I, tiny_level(a, b, x / (1 - x)), 1e-12) : I;
}

/* betaincc(a, b, x) where SciPy says J, next to x = 0 also I of betainc: there J has lost 1 - x. */
static double betaincc_value(double a, double b, double x, double J, double I) {
    if (I < 0.5 && x > 0) return 1 - betainc_value(a, b, x, I);
    if (are_huge(a, b) && x > 0 && x < 1) return 1 - step(a, b, x);
    if (!are_tiny(a, b) || !(x > 0 && x < 1)) return J;
    return unless_lost(J, tiny_rest(a, b, x / (1 - x)), 1e-12);
}

/* What SciPy's x of betaincinv(a, b, p), or of betainccinv(b, a, p), may be: for tiny p it has few digits, is NaN or has
 * stayed where it began, and it ends at the least normal number. */
static int is_doubtful(double a, double b, double p, double x) {
    int astray = !(x > LEAST) || x == 0x1p-56 || p < 1e-50;
    return astray && a > 0 && b > 0 && p > 0 && p < 1 && fmax(a, b) < 1e290;
}

/* betaincinv(a, b, p) where SciPy says x */
static double betaincinv_value(double a, double b, double p, double x) {
    return is_doubtful(a, b, p, x) ? unless_lost(x, quantile(a, b, p, 1 - p, x / (1 - x)).x, 1e-12) : x;
}

/* betainccinv(a, b, q) where SciPy says x */
static double betainccinv_value(double a, double b, double q, double x) {
    return is_doubtful(a, b, q, x) ? unless_lost(x, quantile(a, b, 1 - q, q, x / (1 - x)).x, 1e-12) : x;
}
