/* Functions of one number that have two results: SciPy's where there is SciPy and they are right, else those of
 * integrals.h. */
#include "integrals.h"

#ifdef __CUDACC__

#define BY_SCIPY(name, ...) name##_value(__VA_ARGS__)

#else

TG_IMPORT(void, scipy_sici, (double, double *, double *))
TG_IMPORT(void, scipy_shichi, (double, double *, double *))
TG_IMPORT(void, scipy_fresnel, (double, double *, double *))

#define BY_SCIPY(name, ...) scipy_##name(__VA_ARGS__)

#endif

void sici(T x, T *out0, T *out1) {
    double si, ci;
    BY_SCIPY(sici, x, &si, &ci);
    *out0 = (T)si, *out1 = x == -INFINITY ? 0 : (T)ci;
}

void shichi(T x, T *out0, T *out1) {
    double shi, chi;
    BY_SCIPY(shichi, x, &shi, &chi);
    if (isinf(shi)) shichi_value(x, &shi, &chi); /* SciPy's are so too early */
    *out0 = (T)shi, *out1 = (T)chi;
}

void fresnel(T z, T *out0, T *out1) {
    double s, c;
    if (fabs(z) > 36) fresnel_value(z, &s, &c); /* SciPy's phase loses digits */
    else BY_SCIPY(fresnel, z, &s, &c);
    *out0 = (T)s, *out1 = (T)c;
}
