/* An image filtered with several kernels, each plus its bias, and the gradients of that. */
#include "correlate2d.c"

void filter_bank(int64_t h, int64_t w, int64_t filters, int64_t kh, int64_t kw, const T *x, const T *kernel,
              const T *bias, T *out) {
    int64_t size = (h - kh + 1) * (w - kw + 1);
    for (int64_t f = 0; f < filters; f++) {
        T *map = out + f * size;
        correlate2d(h, w, kh, kw, x, kernel + f * kh * kw, map);
        if (bias)
            for (int64_t j = 0; j < size; j++) map[j] += bias[f];
    }
}

void filter_bank_vjp_x(int64_t h, int64_t w, int64_t filters, int64_t kh, int64_t kw, const T *grad, const T *kernel,
                    T *part, T *grad_x) {
    int64_t size = (h - kh + 1) * (w - kw + 1);
    for (int64_t j = 0; j < h * w; j++) grad_x[j] = 0;
    for (int64_t f = 0; f < filters; f++) {
        correlate2d_adjoint_x(h, w, kh, kw, grad + f * size, kernel + f * kh * kw, part);
        add_row(h * w, 1, part, grad_x);
    }
}

void filter_bank_vjp_kernel(int64_t h, int64_t w, int64_t filters, int64_t kh, int64_t kw, const T *grad, const T *x,
                         T *grad_kernel) {
    int64_t size = (h - kh + 1) * (w - kw + 1);
    for (int64_t f = 0; f < filters; f++)
        correlate2d_adjoint_kernel(h, w, kh, kw, grad + f * size, x, grad_kernel + f * kh * kw);
}

void filter_bank_vjp_bias(int64_t h, int64_t w, int64_t filters, int64_t kh, int64_t kw, const T *grad, T *grad_bias) {
    int64_t size = (h - kh + 1) * (w - kw + 1);
    for (int64_t f = 0; f < filters; f++) {
        T sum = 0;
        for (int64_t j = 0; j < size; j++) sum += grad[f * size + j];
        grad_bias[f] = sum;
    }
}
