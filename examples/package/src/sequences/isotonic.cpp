// Isotonic regression of one sequence by pooling adjacent violators: Ayer et al., Ann. Math. Statist. 26 (1955) 641.
#include <cstdint>
#include <vector>

namespace {
struct Block {
    double sum;
    int64_t count;
    double mean() const { return sum / count; }
};
}  // namespace

template <class E>
void isotonic(int64_t n, const E *x, E *out) {
    std::vector<Block> blocks;
    for (int64_t i = 0; i < n; i++) {
        Block last{x[i], 1};
        for (; !blocks.empty() && blocks.back().mean() >= last.mean(); blocks.pop_back())
            last = {last.sum + blocks.back().sum, last.count + blocks.back().count};
        blocks.push_back(last);
    }
    for (const Block &block : blocks)
        for (int64_t i = 0; i < block.count; i++) *out++ = static_cast<E>(block.mean());
}

// Within a block, whose elements are the equal ones, the result is the mean, and so is the gradient.
template <class E>
void isotonic_vjp_x(int64_t n, const E *grad, const E *out, E *grad_x) {
    for (int64_t first = 0, end; first < n; first = end) {
        double sum = 0;
        for (end = first; end < n && out[end] == out[first]; end++) sum += grad[end];
        for (int64_t i = first; i < end; i++) grad_x[i] = static_cast<E>(sum / (end - first));
    }
}
