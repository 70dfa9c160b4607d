/* Exponential smoothing of one sequence. torchgraft defines T for each dtype before it includes this file. */
#ifndef TORCHGRAFT
#include <stdint.h>
typedef float T; /* for editors */
#endif

void smooth(int64_t n, const T *x, const T *decay, T *out) {
    T last = 0;
    for (int64_t i = 0; i < n; i++) out[i] = last = *decay * last + x[i];
}

/* The same recurrence from the end; torchgraft sums grad_decay, which all sequences share. */
void smooth_vjp_x_decay(int64_t n, const T *grad, const T *decay, const T *out, T *grad_x, T *grad_decay) {
    T last = 0, sum = 0;
    for (int64_t i = n; i-- > 0;) {
        grad_x[i] = last = *decay * last + grad[i];
        if (i > 0) sum += last * out[i - 1];
    }
    *grad_decay = sum;
}
