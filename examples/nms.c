/* Non-maximum suppression: the box of the best score, then the best of those that overlap with none that is kept. */

static double area(double width, double height) { return width > 0 && height > 0 ? width * height : 0; }

static double smaller(double a, double b) { return a < b ? a : b; }

static double larger(double a, double b) { return a > b ? a : b; }

/* A box is its left, upper, right and lower edge. */
static bool overlap(const T *a, const T *b, double threshold) {
    double both = area(smaller(a[2], b[2]) - larger(a[0], b[0]), smaller(a[3], b[3]) - larger(a[1], b[1]));
    return both > threshold * (area(a[2] - a[0], a[3] - a[1]) + area(b[2] - b[0], b[3] - b[1]) - both);
}

void nms(int64_t n, uint8_t *left, const T *boxes, const T *scores, double threshold, T *box, T *score, int64_t *index,
         int64_t *k) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) left[i] = 1;
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (left[i] && (best < 0 || scores[i] > scores[best])) best = i;
        if (best < 0) break;
        left[best] = 0;
        for (int64_t i = 0; i < n; i++)
            if (left[i] && overlap(boxes + 4 * best, boxes + 4 * i, threshold)) left[i] = 0;
        index[kept] = best;
        for (int64_t j = 0; j < 4; j++) box[4 * kept + j] = boxes[4 * best + j];
        score[kept++] = scores[best];
    }
    *k = kept;
}
