/* fisher.c - derivatives of the F distribution function I_x(a, b), a = dfn/2, b = dfd/2, x/y = (a/b) X, y = 1 - x.
 *
 * At a given X, x moves with a and b, and for many degrees of freedom the two terms of the chain rule cancel: dF/db
 * falls as 1/b^2, each of them as 1/b. So the density in X is differentiated under the integral. As
 * d log(t/(1-t))/da = 1/a, its logarithmic derivative in a is
 *     L(t) = log t + psi(n) - psi(a) + (a - n t)/a = delta - h(n t/a),  h(r) = r - 1 - log r,
 *     delta = (log a - psi(a)) - (log n - psi(n)) > 0,
 * with the mean 0; positive about t = a/n, where dF/da has a zero. The integral is taken from the side of x. With
 * r = n x/a and t = x e^-v, h(n t/a) = h(r) + (1 - r) v + r (e^-v - 1 + v), each term positive on the side of x.
 * In b: exchanged.
 * Notation, methods and their switches are those of beta.c. */
#include "beta.c"

/* psi(n) - psi(a) - log(n/a), n = a + b */
static double delta(double a, double b) {
    double sum = 0, start = a;
    for (; a < LARGE; a += 1) sum += (1 / a) * (b / (a + b));
    sum += digamma_diff_rest(a, b);
    return start == a ? sum : sum + (log1p(b / a) - log1p(b / start));
}

/* x and y of X with all their digits, and e = a y (X - 1) */
static point fisher_point(double dfn, double dfd, double X) {
    double a = 0.5 * dfn, b = 0.5 * dfd;
    double lift = a * X > 1e250 || b > 1e250 ? 0x1p-700 : a * X < 1e-200 && b < 1e-100 ? 0x1p300 : 1;
    dd u = dd_prod(a, X * lift), v = {b * lift, 0}, sum = u.hi > v.hi ? dd_add(u, v) : dd_add(v, u);
    dd x = dd_div(u, sum), y = dd_div(v, sum), e = dd_mul(dd_prod(y.hi, a), dd_sum(X, -1));
    e.lo += y.lo * a * (X - 1);
    if (X > 1) e = dd_mul(dd_add(dd_prod(x.hi, b), (dd){x.lo * b, 0}), dd_div(dd_sum(X, -1), (dd){X, 0}));
    if (scale(a, b) < 1 || scale(b, a) < 1) {
        a = fmax(a, TINY);
        b = fmax(b, TINY);
        e = dd_add(dd_mul(x, (dd){b, 0}), dd_neg(dd_mul(y, (dd){a, 0})));
    }
    double log_x = x.hi < 0.5 ? log(x.hi) : log1p(-y.hi), log_y = y.hi < 0.5 ? log(y.hi) : log1p(-x.hi);
    return (point){a, b, x, y, log_x, log_y, dd_sum(a, b), e};
}

/* The series of beta.c, where x moves too: d log x/da = y/a, d log x/db = -y/b. */
static pair fisher_series(point p) {
    double a = p.a, b = p.b, x = p.x.hi, y = p.y.hi, t = 1, dt = 0, S = 0, S_a = 0, S_b = 0, step;
    for (double k = 1;; k += 1) {
        double f = x / k, r = 1 / (a + k);
        dt = f * ((k - b) * dt - t * (x + k * (y / b)));
        t *= f * (k - b);
        S += t * r;
        S_a += t * k * r * (r + y);
        S_b += dt * r;
        step = fabs(t) + fabs(dt) * b;
        if (!(step > 1e-17 * fabs(S_b) * b) || step < 1e-300) break;
    }
    double I = 1 + a * S, gap_b = b < LARGE ? digamma_diff(b, a) - a * (y / b)
                                            : digamma_diff_rest(b, a) + log1p_rest(a / b) + a * (x / b);
    double gap_a = log_x_plus_psi_n(p) - psi(a + 1) + y, F = exp(-b * p.log_y) / a;
    return (pair){F * (gap_a * I + S_a), F * (gap_b * I + a * S_b), 0};
}

/* (e^-v - 1 + v) */
static double expm1_rest(double v) { return fabs(v) <= 1 ? expm1_tail(v) : expm1(-v) + v; }

/* x below the mode */
static pair fisher_lower(point p) {
    double own[NODES], other[NODES], w[NODES], range = lower_nodes(p, own, other, w);
    double at_a = p.e.hi / p.a, at_b = -p.e.hi / p.b, da = 0, db = 0;  /* r - 1 */
    double top_a = delta(p.a, p.b) + log1p_rest(at_a), top_b = delta(p.b, p.a) + log1p_rest(at_b);
    for (int i = 0; i < NODES; i++) {
        double f = weight[i] * w[i];
        da += f * (top_a + at_a * own[i] - (1 + at_a) * expm1_rest(own[i]));
        db += f * (top_b - at_b * other[i] - (1 + at_b) * expm1_rest(-other[i]));
    }
    return (pair){range * da, range * db, 0};
}

static pair fisher_reduced(point p) {
    double small = small_side(p.n.hi);
    int upper = p.x.hi > small && (p.y.hi <= small || p.e.hi > 0);
    point q = upper ? exchange(p) : p;
    pair r = q.x.hi <= small ? fisher_series(q) : fisher_lower(q);
    return upper ? (pair){-r.db, -r.da, 0} : r;
}

/* An X next to 0 on the scale of b/a: F is a power of it, and x may underflow. */
static int is_next_to_0(double a, double b, double X) { return (X < 1e-100 || a < 1e-88) && X * (a / b) < 1e-200; }

static double log_next_to_0(double a, double b, double X) { return a * (log(X) + log(a) - log(b)) - log_a_beta(a, b); }

static pair derivatives_next_to_0(double a, double b, double X) {
    double F = exp(log_next_to_0(a, b, X)),
           gap_b = b < LARGE ? digamma_diff(b, a) - a / b : digamma_diff_rest(b, a) + log1p_rest(a / b);
    return (pair){0.5 * F * (log(X) + log(a) - log(b) + 1 + psi(a + b) - psi(a + 1)), 0.5 * F * gap_b, 0};
}

static pair fisher_derivatives(double dfn, double dfd, double X) {
    if (!(dfn > 0 && dfd > 0 && X >= 0) || isinf(dfn) || isinf(dfd)) return (pair){NAN, NAN, 0};
    if (X == 0 || isinf(X)) return (pair){0, 0, 0};
    double a = 0.5 * dfn, b = 0.5 * dfd;
    if (a + b < VERY_SMALL) return (pair){-0.5 * (b / (a + b)) / (a + b), 0.5 * (a / (a + b)) / (a + b), 0};
    if (is_next_to_0(a, b, X)) return derivatives_next_to_0(a, b, X);
    if (is_next_to_0(b, a, 1 / X)) {
        pair r = derivatives_next_to_0(b, a, 1 / X);
        return (pair){-r.db, -r.da, 0};
    }
    point p = fisher_point(dfn, dfd, X);
    mass d = binomial(p);
    if (underflows(d) || p.x.hi == 0 || p.y.hi == 0) return (pair){0, 0, 0};
    pair r = fisher_reduced(p);
    double f = 0.5 * d.f * p.a * (p.b / p.n.hi);
    return (pair){scaled_exp(d.e, f * r.da) * scale(b, a), scaled_exp(d.e, f * r.db) * scale(a, b), 0};
}

static double fdtr_dfn(double dfn, double dfd, double X) { return fisher_derivatives(dfn, dfd, X).da; }

static double fdtr_dfd(double dfn, double dfd, double X) { return fisher_derivatives(dfn, dfd, X).db; }

/* dF/dX = D a b/(n X) */
static double fisher_density(double dfn, double dfd, double X) {
    if (!(dfn > 0 && dfd > 0 && X >= 0) || isinf(dfn) || isinf(dfd)) return NAN;
    if (X == 0) return dfn < 2 ? INFINITY : dfn == 2;
    if (isinf(X)) return 0;
    double a = 0.5 * dfn, b = 0.5 * dfd;
    if (is_next_to_0(a, b, X)) return exp(log_next_to_0(a, b, X) + log(a) - log(X));
    if (is_next_to_0(b, a, 1 / X)) return exp(log_next_to_0(b, a, 1 / X) + log(b) - log(X));
    point p = fisher_point(dfn, dfd, X);
    mass d = binomial(p);
    if (isinf(d.e.hi)) return 0;
    if (X < 1e-100) d.e = dd_add(d.e, dd_neg(dd_log((dd){X, 0}))), X = 1;
    return scaled_exp(d.e, d.f * p.a * (p.b / p.n.hi)) / X * scale(a, b) * scale(b, a);
}

static double fisher_L(double dfn, double dfd, double X, int second) {
    if (!(dfn > 0 && dfd > 0 && X >= 0) || isinf(dfn) || isinf(dfd)) return NAN;
    point p = fisher_point(dfn, dfd, X), q = second ? exchange(p) : p;
    return 0.5 * (delta(q.a, q.b) + log1p_rest(q.e.hi / q.a));
}

/* d log(dF/dX) / d dfn and / d dfd */
static double fisher_score_dfn(double dfn, double dfd, double X) { return fisher_L(dfn, dfd, X, 0); }

static double fisher_score_dfd(double dfn, double dfd, double X) { return fisher_L(dfn, dfd, X, 1); }

/* I, of parameters from TINY on */
static double level_of(point p) {
    double small = small_side(p.n.hi);
    if (p.x.hi <= small || p.y.hi <= small || p.e.hi < 0) return scaled_exp(lower_level(p, 1).log, 1);
    return 1 - scaled_exp(lower_level(exchange(p), 1).log, 1);
}

/* fdtr where SciPy says F: it is 0 where F is not a normal number, and x loses digits where it is none */
static double fdtr_value(double dfn, double dfd, double X, double F) {
    double a = 0.5 * dfn, b = 0.5 * dfd;
    if (!(a > 0 && b > 0 && X > 0) || isinf(X) || fmax(a, b) > HUGE_PARAMETER) return F;
    if (is_next_to_0(a, b, X)) return unless_lost(F, exp(log_next_to_0(a, b, X)), 1e-12);
    if ((X > 1e100 || b < 1e-88) && is_next_to_0(b, a, 1 / X))
        return unless_lost(F, -expm1(log_next_to_0(b, a, 1 / X)), 1e-12);
    if (are_tiny(a, b)) return unless_lost(F, tiny_level(a, b, X * (a / b)), 1e-12);
    return !(F > 0) && fmin(a, b) > TINY ? level_of(fisher_point(dfn, dfd, X)) : F;
}
