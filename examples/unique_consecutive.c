/* The runs of equal neighbours: the value of each, and how many there are. `values` and `counts` have room for n. */
void unique_consecutive(int64_t n, const T *x, T *values, int64_t *counts, int64_t *k) {
    int64_t runs = 0, start = 0;
    for (int64_t i = 1; i <= n; i++) {
        if (i < n && x[i] == x[i - 1]) continue;
        values[runs] = x[start];
        counts[runs++] = i - start;
        start = i;
    }
    *k = runs;
}
