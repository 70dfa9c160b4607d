/* A kernel that slides over an array of up to three axes, which is zero outside:

       out[i] = sum over j of kernel[j] x[i + j - lead]

   Nothing is padded: an infinite value meets no zero that is not there. Single precision is summed in double. */

typedef __typeof__(_Generic((T)0, float: (double)0, float _Complex: (double _Complex)0, default: (T)0)) W;

enum { BLOCK = 256 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Adds a row times a number to sums, for indices of sums from `low` to `high`. */
static void add_row(int64_t low, int64_t high, W factor, const T *row, W *restrict sums) {
    for (int64_t i = low; i < high; i++) sums[i] += factor * row[i];
}

/* Adds a row times four numbers, shifted by 0 to 3: four times the work for one load and store of each sum. */
static void add_four(int64_t low, int64_t high, const W *factors, const T *row, W *restrict sums) {
    W first = factors[0], second = factors[1], third = factors[2], fourth = factors[3];
    for (int64_t i = low; i < high; i++)
        sums[i] += first * row[i] + second * row[i + 1] + third * row[i + 2] + fourth * row[i + 3];
}

/* Adds one row of the kernel at one row of x to a block of sums, whose first is at `start`. */
static void sweep(int64_t start, int64_t count, int64_t w, int64_t r, int64_t left, const T *row, const T *kernel,
                  W *sums) {
    for (int64_t j = 0; j < r; j += 4) {
        int64_t shift = start + j - left, group = least(4, r - j);
        const T *at = row + shift;
        int64_t low = most(0, -shift), high = least(count, w - shift - 3);
        if (group == 4 && low < high) {
            W factors[4] = {kernel[j], kernel[j + 1], kernel[j + 2], kernel[j + 3]};
            add_four(low, high, factors, at, sums);
        } else {
            low = high = 0;
        }
        for (int64_t k = 0; k < group; k++) { /* what the four have not in common */
            int64_t first = most(0, -shift - k), last = least(count, w - shift - k);
            if (low == high) {
                add_row(first, last, kernel[j + k], at + k, sums);
            } else {
                add_row(first, least(low, last), kernel[j + k], at + k, sums);
                add_row(most(high, first), last, kernel[j + k], at + k, sums);
            }
        }
    }
}

/* Products of a row with one to four neighbouring pieces of another: sums[k] += sum over j of kernel[j] row[j + k]. */
static inline __attribute__((always_inline)) void dot_some(const int pieces, int64_t n, const T *restrict kernel,
                                                           const T *restrict row, W *sums) {
    W parts[4][4] = {{0}};
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)
        for (int k = 0; k < pieces; k++)
            for (int l = 0; l < 4; l++) parts[k][l] += (W)kernel[j + l] * row[j + l + k];
    for (; j < n; j++)
        for (int k = 0; k < pieces; k++) parts[k][0] += (W)kernel[j] * row[j + k];
    for (int k = 0; k < pieces; k++) sums[k] += (parts[k][0] + parts[k][1]) + (parts[k][2] + parts[k][3]);
}

/* As `sweep`, for a row of the kernel that is longer than that of the sums. */
static void dot(int64_t start, int64_t count, int64_t w, int64_t r, int64_t left, const T *row, const T *kernel,
                W *sums) {
    for (int64_t i = 0; i < count; i += 4) {
        int64_t shift = start + i - left, pieces = least(4, count - i);
        int64_t low = most(0, -shift), high = least(r, w - shift - (pieces - 1)), n = high - low;
        if (n > 0) {
            const T *a = kernel + low, *b = row + shift + low;
            if (pieces == 4) dot_some(4, n, a, b, sums + i);
            else if (pieces == 3) dot_some(3, n, a, b, sums + i);
            else if (pieces == 2) dot_some(2, n, a, b, sums + i);
            else dot_some(1, n, a, b, sums + i);
        } else {
            low = high = 0;
        }
        for (int64_t k = 0; k < pieces; k++) { /* what they have not in common */
            int64_t first = most(0, -shift - k), last = least(r, w - shift - k);
            for (int64_t j = first; j < least(last, n > 0 ? low : last); j++)
                sums[i + k] += (W)kernel[j] * row[j + shift + k];
            for (int64_t j = most(first, high); n > 0 && j < last; j++)
                sums[i + k] += (W)kernel[j] * row[j + shift + k];
        }
    }
}

void slide(int64_t d, int64_t h, int64_t w, int64_t p, int64_t q, int64_t r, const T *x, const T *kernel, int64_t depth,
           int64_t height, int64_t width, int64_t front, int64_t top, int64_t left, T *out) {
    for (int64_t a = 0; a < depth; a++)
        for (int64_t b = 0; b < height; b++)
            for (int64_t start = 0; start < width; start += BLOCK) {
                int64_t count = least(BLOCK, width - start);
                W sums[BLOCK] = {0};
                for (int64_t s = most(0, front - a); s < least(p, d + front - a); s++)
                    for (int64_t t = most(0, top - b); t < least(q, h + top - b); t++) {
                        const T *row = x + ((a + s - front) * h + b + t - top) * w, *factors = kernel + (s * q + t) * r;
                        (width < r ? dot : sweep)(start, count, w, r, left, row, factors, sums);
                    }
                T *to = out + (a * height + b) * width + start;
                for (int64_t i = 0; i < count; i++) to[i] = (T)sums[i];
            }
}
