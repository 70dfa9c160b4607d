/* What every kernel library of torchgraft has: libtorch's C symbols, and tensors as kernels see them.
 *
 * libtorch_cpu exports a C interface that is stable from release to release. Its symbols are looked up in the library
 * that Python has loaded already, so that nothing is linked, and one binary serves every version of torch.
 */
#pragma GCC system_header
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TG_EXPORT __attribute__((visibility("default")))
#define TG_UNUSED __attribute__((unused))
#define TG_DIMS 64

typedef uint64_t tg_value; /* one slot of the boxed calling convention: a number, a handle, a pointer */
typedef struct tg_opaque *tg_handle;
typedef void (*tg_boxed)(tg_value *, uint64_t, uint64_t);

#define TG_SYMBOLS(X)                                                                                             \
    X(int32_t, aoti_torch_get_dim, (tg_handle, int64_t *))                                                        \
    X(int32_t, aoti_torch_get_sizes, (tg_handle, int64_t **))                                                     \
    X(int32_t, aoti_torch_get_strides, (tg_handle, int64_t **))                                                   \
    X(int32_t, aoti_torch_get_dtype, (tg_handle, int32_t *))                                                      \
    X(int32_t, aoti_torch_get_device_type, (tg_handle, int32_t *))                                                \
    X(int32_t, aoti_torch_get_data_ptr, (tg_handle, void **))                                                     \
    X(int32_t, aoti_torch_empty_strided,                                                                          \
      (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tg_handle *))                        \
    X(int32_t, aoti_torch_copy_, (tg_handle, tg_handle, int32_t))                                                 \
    X(int32_t, aoti_torch_delete_tensor_object, (tg_handle))                                                      \
    X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))                         \
    X(int32_t, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, tg_handle *))   \
    X(int32_t, torch_library_impl, (tg_handle, const char *, tg_boxed, uint64_t))                                 \
    X(int32_t, torch_parallel_for, (int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *))       \
    X(int32_t, torch_list_size, (tg_handle, size_t *))                                                            \
    X(int32_t, torch_list_get_item, (tg_handle, size_t, tg_value *))                                              \
    X(int32_t, torch_delete_list, (tg_handle))                                                                    \
    X(int32_t, torch_string_length, (tg_handle, size_t *))                                                        \
    X(int32_t, torch_string_c_str, (tg_handle, const char **))                                                    \
    X(int32_t, torch_delete_string, (tg_handle))

static struct {
#define X(result, name, arguments) result(*name) arguments;
    TG_SYMBOLS(X)
#undef X
    void (*operator_delete)(void *); /* of C++: optional arguments come in its memory */
} tg_torch;

/* Finds the symbols; returns the name of one that is missing, or NULL. */
static TG_UNUSED const char *tg_find_symbols(const char *library) {
    void *torch = dlopen(library, RTLD_NOLOAD | RTLD_NOW);
    if (!torch) return library;
#define X(result, name, arguments)                      \
    *(void **)&tg_torch.name = dlsym(torch, #name);     \
    if (!tg_torch.name) return #name;
    TG_SYMBOLS(X)
#undef X
    *(void **)&tg_torch.operator_delete = dlsym(torch, "_ZdlPv");
    return tg_torch.operator_delete ? NULL : "operator delete";
}

/* Registers a function as the CPU kernel of an operator that exists. */
static TG_UNUSED int32_t tg_implement(const char *space, const char *name, tg_boxed function, const char *file) {
    tg_handle library;
    if (tg_torch.aoti_torch_library_init_impl(space, "CPU", file, 0, &library)) return 1;
    return tg_torch.torch_library_impl(library, name, function, (2ull << 56) | (11ull << 48));
}

/* -- tensors ------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    tg_handle handle; /* NULL for an optional tensor that is not there */
    char *data;
    int64_t dim, core, item; /* number of axes, of those of one sample, bytes of an element */
    const int64_t *sizes, *strides;
    int64_t batch_strides[TG_DIMS]; /* in bytes, for the batch axes of the call */
} tg_tensor;

typedef struct {
    const char *operator_name;
    tg_handle owned[TG_DIMS]; /* tensors, deleted at the end, whatever happens */
    int count;
    struct {
        tg_handle handle;
        int32_t (*delete)(tg_handle);
    } kept[TG_DIMS]; /* what else is to be deleted */
    int kept_count;
    int64_t dim, sizes[TG_DIMS], samples; /* the batch */
    int64_t grain;
    int error;
} tg_call;

static TG_UNUSED void tg_own(tg_call *call, tg_handle handle) {
    if (handle) call->owned[call->count++] = handle;
}

static TG_UNUSED void tg_release(tg_call *call) {
    while (call->count)
        if (call->owned[--call->count]) tg_torch.aoti_torch_delete_tensor_object(call->owned[call->count]);
    while (call->kept_count--) call->kept[call->kept_count].delete(call->kept[call->kept_count].handle);
    call->kept_count = 0;
}

static TG_UNUSED void tg_keep(tg_call *call, void *handle, int32_t (*delete)(tg_handle)) {
    call->kept[call->kept_count].handle = handle;
    call->kept[call->kept_count++].delete = delete;
}

static TG_UNUSED int32_t tg_free(tg_handle memory) {
    free(memory);
    return 0;
}

static TG_UNUSED double tg_as_double(tg_value value) {
    double number;
    memcpy(&number, &value, sizeof number);
    return number;
}

/* Hands a tensor to the caller, who owns it then. */
static TG_UNUSED tg_value tg_give(tg_call *call, tg_handle handle) {
    for (int i = 0; i < call->count; i++)
        if (call->owned[i] == handle) call->owned[i] = NULL;
    return (tg_value)handle;
}

/* What an optional argument holds: false for None. */
static TG_UNUSED bool tg_some(tg_value *slot) {
    if (!*slot) return false;
    tg_value *word = (tg_value *)*slot;
    *slot = *word;
    tg_torch.operator_delete(word);
    return true;
}

/* Raises in Python: libtorch throws its exception through this frame. */
static TG_UNUSED __attribute__((noreturn)) void tg_fail(tg_call *call, const char *format, ...) {
    char text[1024];
    int begun = snprintf(text, sizeof text, "operator '%s': ", call->operator_name);
    va_list values;
    va_start(values, format);
    vsnprintf(text + begun, sizeof text - (size_t)begun, format, values);
    va_end(values);
    tg_release(call);
    tg_torch.aoti_torch_check(false, call->operator_name, "torchgraft", 0, text);
    __builtin_trap();
}

static TG_UNUSED void tg_read(tg_call *call, tg_tensor *tensor, const char *name, tg_handle handle, int64_t core,
                              int32_t dtype, int64_t item) {
    int32_t found, device;
    tensor->name = name;
    tensor->handle = handle;
    tensor->core = core;
    tensor->item = item;
    tg_torch.aoti_torch_get_dtype(handle, &found);
    if (found != dtype) tg_fail(call, "argument '%s' has dtype %d, this kernel was built for %d", name, found, dtype);
    tg_torch.aoti_torch_get_device_type(handle, &device);
    if (device != 0) tg_fail(call, "argument '%s' is not on the CPU", name);
    tg_torch.aoti_torch_get_dim(handle, &tensor->dim);
    if (tensor->dim < core || tensor->dim >= TG_DIMS)
        tg_fail(call, "argument '%s' has %lld axes, expected at least %lld", name, (long long)tensor->dim,
                (long long)core);
    tg_torch.aoti_torch_get_sizes(handle, (int64_t **)&tensor->sizes);
    tg_torch.aoti_torch_get_strides(handle, (int64_t **)&tensor->strides);
}

/* The size of an axis of one sample; -1 where the tensor is not there. */
static TG_UNUSED int64_t tg_size(const tg_tensor *tensor, int64_t axis) {
    return tensor->handle ? tensor->sizes[tensor->dim - tensor->core + axis] : -1;
}

static TG_UNUSED void tg_expect(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t size) {
    int64_t found = tg_size(tensor, axis);
    if (tensor->handle && found != size)
        tg_fail(call, "argument '%s': axis %s is %lld, expected %lld", tensor->name, text, (long long)found,
                (long long)size);
}

/* The size of an axis that may be 1 instead. */
static TG_UNUSED int64_t tg_broadcast(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text,
                                      int64_t size) {
    int64_t found = tg_size(tensor, axis);
    if (found == 1) return size;
    if (size != 1) tg_expect(call, tensor, axis, text, size);
    return found;
}

static TG_UNUSED int64_t tg_floordiv(tg_call *call, int64_t a, int64_t b) {
    if (b == 0) tg_fail(call, "an axis divides by zero");
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static TG_UNUSED int64_t tg_mod(tg_call *call, int64_t a, int64_t b) { return a - b * tg_floordiv(call, a, b); }
static TG_UNUSED int64_t tg_min(int64_t a, int64_t b) { return a < b ? a : b; }
static TG_UNUSED int64_t tg_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* -- batches --------------------------------------------------------------------------------------------------- */

/* Leading axes broadcast. */
static TG_UNUSED void tg_batch(tg_call *call, const tg_tensor *tensor) {
    if (!tensor->handle) return;
    int64_t lead = tensor->dim - tensor->core, more = lead - call->dim;
    if (more > 0) {
        memmove(call->sizes + more, call->sizes, (size_t)call->dim * sizeof *call->sizes);
        for (int64_t i = 0; i < more; i++) call->sizes[i] = 1;
        call->dim = lead;
    }
    for (int64_t i = 0; i < lead; i++) {
        int64_t *size = &call->sizes[call->dim - lead + i], mine = tensor->sizes[i];
        if (*size == 1)
            *size = mine;
        else if (mine != 1 && mine != *size)
            tg_fail(call, "argument '%s': leading axes do not broadcast: %lld and %lld", tensor->name,
                    (long long)mine, (long long)*size);
    }
}

static TG_UNUSED bool tg_is_contiguous(const tg_tensor *tensor, const int64_t *core) {
    int64_t step = 1;
    for (int64_t i = tensor->core; i-- > 0;) {
        int64_t axis = tensor->dim - tensor->core + i;
        if (tensor->sizes[axis] != core[i]) return false; /* broadcasts */
        if (core[i] != 1 && tensor->strides[axis] != step) return false;
        step *= core[i];
    }
    return true;
}

static TG_UNUSED void tg_strides(int64_t dim, const int64_t *sizes, int64_t *strides) {
    int64_t step = 1;
    for (int64_t i = dim; i-- > 0;) {
        strides[i] = step;
        step *= sizes[i] > 1 ? sizes[i] : 1;
    }
}

/* The data, each sample contiguous and of the shape `core`, and where each sample is. */
static TG_UNUSED void tg_open(tg_call *call, tg_tensor *tensor, const int64_t *core, int32_t dtype) {
    void *data;
    if (!tensor->handle) return;
    if (!tg_is_contiguous(tensor, core)) {
        int64_t sizes[TG_DIMS], strides[TG_DIMS], lead = tensor->dim - tensor->core;
        tg_handle copy;
        memcpy(sizes, tensor->sizes, (size_t)lead * sizeof *sizes);
        memcpy(sizes + lead, core, (size_t)tensor->core * sizeof *sizes);
        tg_strides(tensor->dim, sizes, strides);
        if (tg_torch.aoti_torch_empty_strided(tensor->dim, sizes, strides, dtype, 0, -1, &copy))
            tg_fail(call, "no memory for a contiguous copy of '%s'", tensor->name);
        tg_own(call, copy);
        if (tg_torch.aoti_torch_copy_(copy, tensor->handle, 0))
            tg_fail(call, "argument '%s' could not be copied", tensor->name);
        tensor->handle = copy;
        tg_torch.aoti_torch_get_sizes(copy, (int64_t **)&tensor->sizes);
        tg_torch.aoti_torch_get_strides(copy, (int64_t **)&tensor->strides);
    }
    tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data);
    tensor->data = data;
    for (int64_t i = 0; i < call->dim; i++) {
        int64_t axis = i - (call->dim - (tensor->dim - tensor->core));
        bool moves = axis >= 0 && tensor->sizes[axis] != 1;
        tensor->batch_strides[i] = moves ? tensor->strides[axis] * tensor->item : 0;
    }
}

/* A new tensor of the batch's axes and those of one sample. */
static TG_UNUSED void tg_make(tg_call *call, tg_tensor *tensor, const char *name, int64_t count, const int64_t *core,
                              int32_t dtype, int64_t item) {
    int64_t sizes[TG_DIMS], strides[TG_DIMS];
    void *data;
    tensor->name = name;
    tensor->core = count;
    tensor->item = item;
    tensor->dim = call->dim + count;
    for (int64_t i = 0; i < count; i++)
        if (core[i] < 0) tg_fail(call, "output '%s': axis %lld is %lld", name, (long long)i, (long long)core[i]);
    memcpy(sizes, call->sizes, (size_t)call->dim * sizeof *sizes);
    memcpy(sizes + call->dim, core, (size_t)count * sizeof *sizes);
    tg_strides(tensor->dim, sizes, strides);
    if (tg_torch.aoti_torch_empty_strided(tensor->dim, sizes, strides, dtype, 0, -1, &tensor->handle))
        tg_fail(call, "no memory for the output '%s'", name);
    tg_own(call, tensor->handle);
    tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data);
    tensor->data = data;
    for (int64_t i = 0; i < call->dim; i++) tensor->batch_strides[i] = sizes[i] != 1 ? strides[i] * item : 0;
}

/* Where a sample of a tensor is. */
static TG_UNUSED char *tg_at(const tg_call *call, const tg_tensor *tensor, int64_t sample) {
    if (!tensor->handle) return NULL;
    char *data = tensor->data;
    for (int64_t i = call->dim; i-- > 0;) {
        data += sample % call->sizes[i] * tensor->batch_strides[i];
        sample /= call->sizes[i];
    }
    return data;
}

/* Every sample: on this thread where there is little to do, else on torch's. */
static TG_UNUSED void tg_samples(tg_call *call, int64_t work, void (*run)(int64_t, int64_t, void *), void *context) {
    call->samples = 1;
    for (int64_t i = 0; i < call->dim; i++) call->samples *= call->sizes[i];
    int64_t grain = tg_max(1, 32768 / tg_max(1, work));
    if (call->samples <= grain)
        run(0, call->samples, context);
    else if (tg_torch.torch_parallel_for(0, call->samples, grain, run, context))
        tg_fail(call, "failed on one of torch's threads");
    if (call->error) tg_fail(call, "the kernel returned %d", call->error);
}

/* -- elements -------------------------------------------------------------------------------------------------- */

/* Whether two tensors have the same element at the same place in memory. */
static TG_UNUSED bool tg_like(const tg_call *call, const tg_tensor *tensor, const tg_tensor *out) {
    for (int64_t i = 0; i < call->dim; i++)
        if (call->sizes[i] != 1 && tensor->batch_strides[i] / tensor->item != out->batch_strides[i] / out->item)
            return false;
    return true;
}

/* A row is what the last axis has. */
static TG_UNUSED int64_t tg_row_length(const tg_call *call) { return call->dim ? call->sizes[call->dim - 1] : 1; }

static TG_UNUSED int64_t tg_step(const tg_call *call, const tg_tensor *tensor) {
    return call->dim ? tensor->batch_strides[call->dim - 1] : 0;
}

static TG_UNUSED void tg_elements(tg_call *call, bool flat, void (*run_flat)(int64_t, int64_t, void *),
                                  void (*run_rows)(int64_t, int64_t, void *), void *context) {
    int64_t count = 1, length = tg_row_length(call);
    for (int64_t i = 0; i < call->dim; i++) count *= call->sizes[i];
    if (count == 0) return;
    int64_t pieces = flat ? count : count / length, grain = flat ? 32768 : tg_max(1, 32768 / length);
    if (pieces <= grain)
        (flat ? run_flat : run_rows)(0, pieces, context);
    else if (tg_torch.torch_parallel_for(0, pieces, grain, flat ? run_flat : run_rows, context))
        tg_fail(call, "failed on one of torch's threads");
}
