/* polygamma.c - the digamma and polygamma functions of any real argument, and the derivative of log B(a, b).
 *
 * psi(n, x) = (-1)^(n+1) n! zeta(n+1, x) (DLMF 25.11.12). For x > 0 Hurwitz's function is summed up to where the
 * Euler-Maclaurin formula (25.11.43) takes over. For x < 0 the reflection formula (5.15.6) has the sum over all poles:
 * with r = x - round(x), s = n + 1,
 *     sum_k (x+k)^-s = sum over all integers of (r+k)^-s  -  (-1)^s zeta(s, 1-x),
 * of which nothing is large but the terms at the two poles next to x, where they belong. */
#include "gammabeta.h"
#include "wide.h"

/* (q/(q+k))^s; from a higher power the rounding of the quotient would be seen */
static double power_of(double s, double q, double k) {
    double r = q / (q + k);
    return s == 2 ? r * r : s == 3 ? r * r * r : exp(-s * log1p(k / q));
}

/* sum_{k >= 1} (q/(q+k))^s, q > 0, s >= 2 */
static double zeta_rest(double s, double q) {
    static const double c[] = {
        1.0 / 12,
        -1.0 / 720,
        1.0 / 30240,
        -1.0 / 1209600,
        1.0 / 47900160,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0};
    double sum = 0, k = 1, term;
    for (; q + k < 2 * s + 10; k += 1) {
        term = power_of(s, q, k);
        sum += term;
        if (term * (q + k) <= 1e-18 * sum) return sum;
    }
    double a = q + k;
    double rising = s / a, tail = a / (s - 1) + 0.5;
    for (int i = 0; i < 8; i++) {
        tail += c[i] * rising;
        rising *= (s + 2 * i + 1) / a * ((s + 2 * i + 2) / a);
    }
    return sum + power_of(s, q, k) * tail;
}

/* n! q^-(n+1) f, which may be in range where its factors are not; the factorial is wide, as tgamma is 4 ulp off */
static double scaled_by_power(double n, double q, double f) {
    if (n > 170) {
        wide half = wide_exp((wide_log_gamma((wide)n + 1) - ((wide)n + 1) * wide_log(q)) / 2);
        return (double)(half * f * half);
    }
    wide factorial = 1;
    for (int k = 2; k <= n; k++) factorial *= k;
    double power = pow(q, -(n + 1));
    if (power > 1e-290 && power < 1e290) return (double)(factorial * (power * (wide)f));
    double half = pow(q, -0.5 * (n + 1));
    return half * (double)factorial * f * half;
}

/* (p/q)^s, |p| <= |q|, with a relative error below 1e-18, or small beside 1: the sum over two poles cancels */
static wide quotient_power(double s, wide p, wide q) {
    wide square = p / q, power = 1;
    if (s > 16) return (fmod(s, 2) != 0 && square < 0 ? -1 : 1) * exp(s * log1p((double)((wide_abs(p) - q) / q)));
    for (int k = (int)s; k > 0; k /= 2, square *= square)
        if (k % 2) power *= square;
    return power;
}

/* pi cot(pi r), |r| <= 1/2 */
static double pi_cot(double r) { return copysign(PI * sin(PI * (0.5 - fabs(r))) / sin(PI * fabs(r)), r); }

/* psi(x); at 0 the infinity of its side, at the other poles, which have two, NaN */
static double digamma_real(double x) {
    if (x > 0) return psi(x);
    if (x == 0) return -1 / x;
    double r = x - nearbyint(x);
    return r == 0 ? NAN : psi(1 - x) - pi_cot(r);
}

/* psi(n, x); at the poles what SciPy says, (-1)^(n+1) inf */
static double polygamma_real(double n, double x) {
    if (!(n >= 0) || isinf(n) || n != floor(n) || isnan(x)) return NAN;
    if (n == 0) return digamma_real(x);
    double s = n + 1, even = fmod(s, 2) == 0 ? 1 : -1;
    if (isinf(x)) return x > 0 ? even * 0 : NAN;
    if (x > 0) return even * scaled_by_power(n, x, 1 + zeta_rest(s, x));
    double r = x - nearbyint(x);
    if (r == 0) return even * INFINITY;
    if (x < 0 && fabs(r) == 0.5 && even < 0)
        return -scaled_by_power(n, 1 - x, 1 + zeta_rest(s, 1 - x)); /* pairs cancel */
    wide up = quotient_power(s, r, (wide)1 + r), down = quotient_power(s, r, (wide)1 - r);
    wide sum = 1 + up + up * zeta_rest(s, 1 + r), far = quotient_power(s, r, (wide)1 - x);
    if (x < -0.5) sum += even * (down + down * zeta_rest(s, 1 - r) - far * (1 + zeta_rest(s, 1 - x)));
    return even * scaled_by_power(n, fabs(r), (double)(r < 0 ? even * sum : sum));
}

/* d/da log B(a, b) = psi(a) - psi(a+b), which loses nothing where b is small beside a */
static double betaln_da(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    if (isinf(a)) return a > 0 && b < INFINITY ? -0.0 : NAN;
    if (isinf(b)) return b > 0 ? -INFINITY : NAN;
    if (a >= 0 && b >= 0) return a == 0 ? (b > 0 ? -INFINITY : NAN) : -digamma_diff(a, b);
    double n = a + b;
    if (a > 0 && n > 0) return digamma_diff(n, -b);
    if (a >= 0 || n >= 0) return digamma_real(a) - digamma_real(n);
    double r = a - nearbyint(a), q = n - nearbyint(n), poles = PI * sin(PI * remainder(b, 2));
    double both = sin(PI * remainder(a, 2)) * sin(PI * remainder(n, 2));
    if (r == 0 || q == 0) return NAN;
    return (b > 0 ? digamma_diff(1 - n, b) : -digamma_diff(1 - a, -b)) - poles / both;
}

/* psi'(a) - psi'(a+b), likewise: recurrence (DLMF 5.15.5), then the asymptotic series (5.15.8) at p = 1/a less that at
 * q = 1/(a+b), by p^(m+1) - q^(m+1) = (p - q) sum, sum = p^m + p^(m-1) q + ... */
static double betaln_da_da(double a, double b) {
    static const double c[] = {0.5, 1.0 / 6,  0, -1.0 / 30,     0, 1.0 / 42, 0, -1.0 / 30,
                               0,   5.0 / 66, 0, -691.0 / 2730, 0, 7.0 / 6,  0, -3617.0 / 510};
    if (!(a > 0 && b >= 0) || isinf(a) || isinf(b)) return polygamma_real(1, a) - polygamma_real(1, a + b);
    double result = 0;
    for (; a < LARGE; a += 1) result += b / (a + b) / a * (1 / a + 1 / (a + b));
    double p = 1 / a, q = 1 / (a + b), power = 1, sum = 1, series = 1;
    for (int m = 0; m < 16; m++) {
        power *= q;
        sum = p * sum + power;
        series += c[m] * sum;
    }
    return result + b * p * q * series;
}
