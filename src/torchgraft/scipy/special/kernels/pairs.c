/* Functions of one number that have two results: SciPy's, on CUDA those of integrals.h. */
#include "integrals.h"

#ifndef __CUDACC__

TG_IMPORT(void, scipy_sici, (double, double *, double *))
TG_IMPORT(void, scipy_shichi, (double, double *, double *))
TG_IMPORT(void, scipy_fresnel, (double, double *, double *))

#define sici_value scipy_sici
#define shichi_value scipy_shichi
#define fresnel_value scipy_fresnel

#endif

void sici(T x, T *out0, T *out1) {
    double si, ci;
    sici_value(x, &si, &ci);
    *out0 = (T)si, *out1 = x == -INFINITY ? 0 : (T)ci;
}

void shichi(T x, T *out0, T *out1) {
    double shi, chi;
    shichi_value(x, &shi, &chi);
    *out0 = (T)shi, *out1 = (T)chi;
}

void fresnel(T z, T *out0, T *out1) {
    double s, c;
    fresnel_value(z, &s, &c);
    *out0 = (T)s, *out1 = (T)c;
}
