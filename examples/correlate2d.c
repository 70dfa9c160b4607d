/* Cross-correlation of one image with one kernel, where they overlap in full, and both of its adjoints.

   Every inner loop runs along a row, over neighbours in memory: the compiler makes vectors of it. */

/* Adds a row times a number to another one. */
static void add_row(int64_t n, T factor, const T *restrict row, T *restrict sum) {
    for (int64_t j = 0; j < n; j++) sum[j] += factor * row[j];
}

/* Adds a row times four numbers, shifted by 0 to 3: four times the work for one load and store of each sum. */
static void add_four(int64_t n, const T *factors, const T *restrict row, T *restrict sum) {
    T first = factors[0], second = factors[1], third = factors[2], fourth = factors[3];
    for (int64_t j = 0; j < n; j++)
        sum[j] += first * row[j] + second * row[j + 1] + third * row[j + 2] + fourth * row[j + 3];
}

/* A row times another, in eight sums, because the order of floating-point additions is the programmer's to change. */
static T dot_rows(int64_t n, const T *restrict a, const T *restrict b) {
    T sums[8] = {0}, rest = 0;
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        for (int64_t k = 0; k < 8; k++) sums[k] += a[j + k] * b[j + k];
    for (; j < n; j++) rest += a[j] * b[j];
    for (int64_t k = 0; k < 8; k++) rest += sums[k];
    return rest;
}

void correlate2d(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *x, const T *kernel, T *out) {
    int64_t rows = h - kh + 1, columns = w - kw + 1;
    for (int64_t i = 0; i < rows; i++) {
        T *sum = out + i * columns;
        for (int64_t j = 0; j < columns; j++) sum[j] = 0;
        for (int64_t a = 0; a < kh; a++) {
            const T *row = x + (i + a) * w, *factors = kernel + a * kw;
            int64_t b = 0;
            for (; b + 4 <= kw; b += 4) add_four(columns, factors + b, row + b, sum);
            for (; b < kw; b++) add_row(columns, factors[b], row + b, sum);
        }
    }
}

void correlate2d_adjoint_x(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *grad, const T *kernel, T *grad_x) {
    int64_t rows = h - kh + 1, columns = w - kw + 1;
    for (int64_t i = 0; i < h * w; i++) grad_x[i] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t a = 0; a < kh; a++)
            for (int64_t b = 0; b < kw; b++)
                add_row(columns, kernel[a * kw + b], grad + i * columns, grad_x + (i + a) * w + b);
}

void correlate2d_adjoint_kernel(int64_t h, int64_t w, int64_t kh, int64_t kw, const T *grad, const T *x,
                                T *grad_kernel) {
    int64_t rows = h - kh + 1, columns = w - kw + 1;
    for (int64_t a = 0; a < kh; a++)
        for (int64_t b = 0; b < kw; b++) {
            T sum = 0;
            for (int64_t i = 0; i < rows; i++) sum += dot_rows(columns, grad + i * columns, x + (i + a) * w + b);
            grad_kernel[a * kw + b] = sum;
        }
}
