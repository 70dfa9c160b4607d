// A function template serves every type of elements. What it throws reaches Python with its text.
#include <numeric>
#include <stdexcept>

template <class E>
void linear(int64_t n, int64_t m, const E *input, const E *weight, const E *bias, E *out) {
    if (n == 0) throw std::invalid_argument("a layer without inputs");
    for (int64_t i = 0; i < m; i++)
        out[i] = std::inner_product(input, input + n, weight + i * n, bias ? bias[i] : E(0));
}

template <class E>
void linear_vjp(int64_t n, int64_t m, const E *grad, const E *input, const E *weight, E *grad_input, E *grad_weight) {
    for (int64_t j = 0; j < n; j++) grad_input[j] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            grad_input[j] += grad[i] * weight[i * n + j];
            grad_weight[i * n + j] = grad[i] * input[j];
        }
}
