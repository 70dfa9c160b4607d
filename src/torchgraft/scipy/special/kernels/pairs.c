/* SciPy's functions of one number that have two results. */

#include <math.h>

TG_IMPORT(void, scipy_sici, (double, double *, double *))
TG_IMPORT(void, scipy_shichi, (double, double *, double *))
TG_IMPORT(void, scipy_fresnel, (double, double *, double *))

void sici(T x, T *out0, T *out1) {
    double si, ci;
    scipy_sici(x, &si, &ci);
    *out0 = (T)si, *out1 = x == -INFINITY ? 0 : (T)ci;
}

void shichi(T x, T *out0, T *out1) {
    double shi, chi;
    scipy_shichi(x, &shi, &chi);
    *out0 = (T)shi, *out1 = (T)chi;
}

void fresnel(T z, T *out0, T *out1) {
    double s, c;
    scipy_fresnel(z, &s, &c);
    *out0 = (T)s, *out1 = (T)c;
}
