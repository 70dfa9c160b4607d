/* A digital filter: a[0] y[i] = sum_j b[j] x[i - j] - sum_(j > 0) a[j] y[i - j]. */

int lfilter(int64_t n, int64_t p, int64_t q, const T *x, const T *b, const T *a, T *out) {
    if (q == 0 || a[0] == 0) return 1;
    for (int64_t i = 0; i < n; i++) {
        T sum = 0;
        for (int64_t j = 0; j < p && j <= i; j++) sum += b[j] * x[i - j];
        for (int64_t j = 1; j < q && j <= i; j++) sum -= a[j] * out[i - j];
        out[i] = sum / a[0];
    }
    return 0;
}
