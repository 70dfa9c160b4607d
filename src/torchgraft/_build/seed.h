/* The seed of a sample, for a function that takes one. */
#pragma GCC system_header
#include <torchgraft/random.h>

/* A seed without axes is one for all: each sample's is made of it and the sample's number. */
static inline int64_t tg_seed(const tg_call *call, const tg_tensor *seed, int64_t sample) {
    bool shared = seed->dim == 0 && call->dim > 0;
    int64_t own;
    memcpy(&own, shared ? seed->data : tg_at(call, seed, sample), sizeof own);
    return shared ? tg_fold(own, sample) : own;
}
