/* The runs of equal neighbours: the value of each, and how many there are. `values` and `counts` have room for n. */
void unique_consecutive(int64_t n, const T *x, T *values, int64_t *counts, int64_t *k) {
    int64_t runs = 0;
    for (int64_t i = 0; i < n; i++) {
        if (runs && x[i] == values[runs - 1]) {
            counts[runs - 1]++;
        } else {
            values[runs] = x[i];
            counts[runs++] = 1;
        }
    }
    *k = runs;
}
