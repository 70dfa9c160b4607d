/* Digital filters with a recursive part, in the transposed direct form II that scipy.signal.lfilter documents:

       y[n] = b[0] x[n] + z[0],   z[k] <- z[k + 1] + b[k + 1] x[n] - a[k + 1] y[n],   z[taps - 1] = 0

   with coefficients divided by a[0]. Each step waits for the one before it, so several rows go side by side, in the
   lanes of vectors: rows are transposed block by block. Single precision is computed in double. */

typedef __typeof__(_Generic((T)0, float: (double)0, float _Complex: (double _Complex)0, default: (T)0)) W;

/* Four real numbers, which processors compute with at once; a complex number stays alone. */
typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
typedef __typeof__(_Generic((W)0, double: (Four){0}, default: (W)0)) V;

enum { BLOCK = 64, LANES = sizeof(V) / sizeof(W), WIDTH = 2 };

#define INLINE static inline __attribute__((always_inline))

static void normalise(int64_t taps, const T *from, W a0, W *to) {
    for (int64_t k = 0; k < taps; k++) to[k] = from[k] / a0;
}

/* A block of rows, each `stride` after the one before it, as columns of `lanes`; there may be fewer rows. */
INLINE void load(const int lanes, int64_t rows, int64_t count, const T *from, int64_t stride, V *block) {
    W *to = (W *)block;
    for (int l = 0; l < lanes; l++)
        if (l < rows)
            for (int64_t i = 0; i < count; i++) to[i * lanes + l] = from[l * stride + i];
        else
            for (int64_t i = 0; i < count; i++) to[i * lanes + l] = 0;
}

INLINE void store(const int lanes, int64_t rows, int64_t count, const V *block, T *to, int64_t stride) {
    const W *from = (const W *)block;
    for (int l = 0; l < lanes && l < rows; l++)
        for (int64_t i = 0; i < count; i++) to[l * stride + i] = (T)from[i * lanes + l];
}

INLINE void filter_rows(const int width, int64_t taps, int64_t rows, int64_t n, const W *restrict b,
                        const W *restrict a, const T *x, const T *zi, const bool sections, V *restrict z, T *y, T *zf) {
    const int lanes = width * LANES;
    V block[BLOCK * WIDTH];
    load(lanes, rows, taps - 1, zi, taps - 1, z);
    for (int h = 0; h < width; h++) z[(taps - 1) * width + h] = (V){0};
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t count = n - start < BLOCK ? n - start : BLOCK;
        load(lanes, rows, count, x + start, n, block);
        for (V *at = block; at < block + count * width; at += width)
            for (int h = 0; h < width; h++) {
                V in = at[h], out = z[h] + b[0] * in;
                for (int64_t k = 1; k < taps; k++) {
                    V *here = z + (k - 1) * width + h, forward = in * b[k], back = out * a[k];
                    /* SciPy's lfilter and sosfilt add in different orders, and rounding shows it. */
                    *here = sections ? forward - back + here[width] : here[width] + forward - back;
                }
                at[h] = out;
            }
        store(lanes, rows, count, block, y + start, n);
    }
    store(lanes, rows, taps - 1, z, zf, taps - 1);
}

/* The same from the last sample to the first, without b: out[i] = drive[i] - a[1] out[i + 1] - a[2] out[i + 2] ... */
INLINE void reverse_rows(const int width, int64_t taps, int64_t rows, int64_t n, const W *restrict a, const T *drive,
                         const T *state, V *restrict z, T *to) {
    const int lanes = width * LANES;
    V block[BLOCK * WIDTH];
    for (int64_t k = 0; k < taps; k++) /* what the state, which stands behind the last sample, adds to the samples */
        for (int l = 0; l < lanes; l++) {
            W sum = 0;
            for (int64_t j = k + 1; j < taps && l < rows; j++) sum -= a[j] * state[l * (taps - 1) + j - 1 - k];
            ((W *)z)[k * lanes + l] = sum;
        }
    for (int64_t end = n; end > 0; end -= BLOCK) {
        int64_t start = end < BLOCK ? 0 : end - BLOCK;
        load(lanes, rows, end - start, drive + start, n, block);
        for (int64_t l = 0; l < rows && start >= BLOCK; l++) /* what lies behind, no processor foresees */
            for (int64_t i = start - BLOCK; i < start; i += 64 / (int64_t)sizeof(T)) {
                __builtin_prefetch(drive + l * n + i);
                __builtin_prefetch(to + l * (n + taps - 1) + i, 1);
            }
        for (V *at = block + (end - start) * width; (at -= width) >= block;)
            for (int h = 0; h < width; h++) {
                V out = at[h] + z[h];
                for (int64_t k = 1; k < taps; k++) {
                    V *here = z + (k - 1) * width + h, back = out * a[k];
                    *here = here[width] - back;
                }
                at[h] = out;
            }
        store(lanes, rows, end - start, block, to + start, n + taps - 1);
    }
    for (int64_t l = 0; l < rows; l++)
        for (int64_t k = 0; k < taps - 1; k++) to[l * (n + taps - 1) + n + k] = state[l * (taps - 1) + k];
}

/* Calls with numbers that the compiler knows, where they are the usual ones: z stays in registers then. */
#define EACH_CASE(CALL)                                                                         \
    for (int64_t r = 0, some; r < rows; r += some) {                                            \
        some = rows - r <= LANES ? rows - r : rows - r < LANES * WIDTH ? LANES : LANES * WIDTH; \
        if (some <= LANES) CALL(1, taps);                                                       \
        else if (taps == 2) CALL(WIDTH, 2);                                                     \
        else if (taps == 3) CALL(WIDTH, 3);                                                     \
        else if (taps == 4) CALL(WIDTH, 4);                                                     \
        else if (taps == 5) CALL(WIDTH, 5);                                                     \
        else CALL(WIDTH, taps);                                                                 \
    }

int filtered(int64_t taps, int64_t rows, int64_t n, const T *b, const T *a, const T *x, const T *zi, bool sections,
             T *y, T *zf) {
    if (taps == 0 || a[0] == 0) return 1;
    V *z = malloc((size_t)taps * (WIDTH * sizeof(V) + 2 * sizeof(W)));
    if (!z) return 2;
    W *b1 = (W *)(z + taps * WIDTH), *a1 = b1 + taps;
    normalise(taps, b, a[0], b1);
    normalise(taps, a, a[0], a1);
#define CALL(WIDE, K) \
    filter_rows(WIDE, K, some, n, b1, a1, x + r * n, zi + r * (K - 1), sections, z, y + r * n, zf + r * (K - 1))
    EACH_CASE(CALL)
#undef CALL
    free(z);
    return 0;
}

int reverse_recursion(int64_t taps, int64_t rows, int64_t n, const T *a, const T *drive, const T *state, T *out) {
    if (taps == 0) return 1;
    V *z = malloc((size_t)taps * (WIDTH * sizeof(V) + sizeof(W)));
    if (!z) return 2;
    W *a1 = (W *)(z + taps * WIDTH);
    normalise(taps, a, 1, a1);
#define CALL(WIDE, K) reverse_rows(WIDE, K, some, n, a1, drive + r * n, state + r * (K - 1), z, out + r * (n + K - 1))
    EACH_CASE(CALL)
#undef CALL
    free(z);
    return 0;
}
