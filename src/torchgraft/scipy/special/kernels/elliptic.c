/*
 * First and second derivatives of the complete elliptic integrals K and E in the parameter m, from c = 1 - m >= 0.
 *
 * The closed forms (DLMF 19.4.1, 19.4.2) divide differences of E and K by m. The three integrals over [0, pi/2] of
 *
 *   B: cos^2 D^-1,   D: sin^2 D^-1,   J: sin^2 cos^2 D^-3,   D = sqrt(1 - m sin^2)
 *
 * have no such trouble: K = B + D, E = K - m D, J = (D - B)/m, and by differentiation under the integral
 *
 *   K' = B/(2c)    K'' = J/(4c) + B/(2c^2)    E' = -D/2    E'' = (J - B/c)/4.
 *
 * The arithmetic-geometric mean gives all three (DLMF 19.8(i), where E = K (1 - sum 2^(n-1) c_n^2)): the first
 * term of the sum, m/2, is what cancels, and the second is m^2/(8 (1 + sqrt c)^2) times 2/m^2 without m. With S =
 * (sum from n = 1)/m^2: D = K (1/2 + m S), B = K (1/2 - m S), J = 2 K S. The differences that are left, at m -> 1 and
 * m -> -oo, cost a factor of log c: 7e-13 at c = 1e-299, 1e-14 where m is a double next to 1.
 */
#include <math.h>

#define PI 3.14159265358979323846

typedef struct { double k, b, d, j; } integrals;

static integrals complete(double c) {
    double m = 1 - c, g = sqrt(c), a = (1 + g) / 2, part = 1 / (4 * a), sum = part * part, weight = 1, term;
    g = sqrt(g);
    do { /* part is c_n/m, where c_1 = m/(4 a_1) and c_(n+1) = c_n^2/(4 a_(n+1)) */
        double mean = (a + g) / 2;
        part *= part * m / (4 * mean);
        weight *= 2;
        term = weight * part * part;
        sum += term;
        g = sqrt(a * g), a = mean;
    } while (term > 1e-18 * sum && weight < 0x1p60); /* the mean converges quadratically */
    double k = PI / (2 * a);
    return (integrals){k, k * (0.5 - m * sum), k * (0.5 + m * sum), 2 * k * sum};
}

static double ellipk_by_c(double c, int n) {
    if (!(c >= 0)) return NAN;
    if (c == 0) return INFINITY;
    if (isinf(c)) return 0;
    integrals i = complete(c);
    return n == 1 ? i.b / (2 * c) : (i.j / 4 + i.b / (2 * c)) / c;
}

static double ellipe_by_c(double c, int n) {
    if (!(c >= 0)) return NAN;
    if (c == 0) return -INFINITY;
    if (isinf(c)) return -0.0;
    integrals i = complete(c);
    return n == 1 ? -i.d / 2 : (i.j - i.b / c) / 4;
}

/* The values, where there is no SciPy: on CUDA. */
static double ellipk_alone(double c) {
    if (!(c >= 0)) return NAN;
    return c == 0 ? INFINITY : isinf(c) ? 0 : complete(c).k;
}

/* For c <= 1/2 by Legendre's relation (DLMF 19.7.1), where B would lose digits: with K', D' of the parameter c,
 * E = (pi/2 + K c D')/K'. A negative m turns into m/(m - 1) (DLMF 19.7.2). */
static double ellipe_alone(double c) {
    if (!(c >= 0)) return NAN;
    if (c == 0) return 1;
    if (isinf(c)) return INFINITY;
    double factor = c > 1 ? sqrt(c) : 1, least = c > 1 ? 1 / c : c;
    integrals i = complete(least);
    if (least > 0.5) return factor * (i.b + least * i.d);
    integrals other = complete(1 - least);
    return factor * (PI / 2 + i.k * least * other.d) / other.k;
}
