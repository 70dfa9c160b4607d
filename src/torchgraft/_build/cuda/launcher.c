/* Launches kernels on CUDA: one boxed function for all operators, whose first argument is the address of what a kernel
 * is made of. It reads tensors as the libraries for the CPU do (`shim.c`), fills the frame that `text.py` declares, and
 * hands it to the driver on torch's current stream.
 */
#include "shim.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>

/* TG_AXES, TG_TENSORS, TG_THREADS, TG_FILLED, TG_WORDS and TG_DEVICES are those of `text.py` and `launcher.py`, which builds this file. */
#define TG_ENTRIES 4
#define TG_BLOCKS 1048576 /* of a launch; where there is more to do, each thread does more */

enum { TG_TENSOR, TG_SEED, TG_INTEGER, TG_FLOAT, TG_BOOLEAN };

typedef struct { /* of an argument or a result */
    const char *name;
    int32_t kind, optional, dtype, item;
    int32_t core; /* axes of one sample; for each, which of the sizes it has in full, or -1 for its own */
    const int32_t *axes;
    int32_t after; /* of a result that is an argument's new value: its number among the tensors; else -1 */
} tg_slot;

typedef struct tg_kernel tg_kernel;
struct tg_kernel {
    const char *operator_name;
    const tg_slot *arguments, *results;
    int64_t argument_count, result_count, tensor_count, number_count;
    int64_t size_count; /* of the axes; -1 where an element is seen */
    int64_t by_hand;    /* the caller says grid, block and shared memory, behind the sizes */
    int64_t trailing;   /* lists after the arguments: sizes, shapes of outputs */
    int64_t neighbours; /* that a thread takes at once, where there are many */
    const void *images[TG_DEVICES][TG_ENTRIES]; /* machine code; NULL where none was asked for yet */
    void *functions[TG_DEVICES][TG_ENTRIES];    /* as the driver knows them, once they are loaded */
    int64_t shared[TG_DEVICES];                 /* bytes of shared memory that the driver was asked for */
    void (*equip)(tg_call *, tg_value *stack);  /* finds machine code before a call, in a library of its own */
};

static const char *const tg_names[TG_ENTRIES] = {"tg_flat32", "tg_rows32", "tg_flat64", "tg_rows64"};

/* -- the driver, and torch's part of CUDA ------------------------------------------------------------------------ */

#define TG_DRIVER(X)                                             \
    X(int, cuGetErrorString, (int, const char **))               \
    X(int, cuCtxGetCurrent, (void **))                           \
    X(int, cuCtxSetCurrent, (void *))                            \
    X(int, cuDeviceGet, (int *, int))                            \
    X(int, cuDevicePrimaryCtxRetain, (void **, int))             \
    X(int, cuDeviceGetAttribute, (int *, int, int))              \
    X(int, cuStreamIsCapturing, (void *, int *))                 \
    X(int, cuModuleLoadData, (void **, const void *))            \
    X(int, cuModuleGetFunction, (void **, void *, const char *)) \
    X(int, cuFuncSetAttribute, (void *, int, int))               \
    X(int, cuLaunchKernel,                                       \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

#define TG_OF_TORCH(X)                                                 \
    X(int32_t, aoti_torch_get_device_index, (tg_handle, int32_t *))    \
    X(int32_t, aoti_torch_create_device_guard, (int32_t, tg_handle *)) \
    X(int32_t, aoti_torch_delete_device_guard, (tg_handle))            \
    X(int32_t, aoti_torch_get_current_cuda_stream, (int32_t, void **))

static struct { TG_DRIVER(TG_MEMBER) TG_OF_TORCH(TG_MEMBER) } tg_cuda;

#define TG_FIND_IN(result, name, arguments) *(void **)&tg_cuda.name = dlsym(library, #name);
#define TG_NOT_IN(result, name, arguments) \
    if (!tg_cuda.name) return #name;

/* Finds the functions of the driver and of torch, whose library for CUDA depends on that for the CPU; returns the name
 * of what is missing, or NULL. */
TG_EXPORT const char *tg_load(const char *torch, const char *torch_cuda, const char *driver) {
    const char *missing = tg_find_symbols(torch);
    if (missing) return missing;
    void *library = dlopen(torch_cuda, RTLD_NOW);
    if (!library) return torch_cuda;
    TG_OF_TORCH(TG_FIND_IN)
    TG_OF_TORCH(TG_NOT_IN)
    library = dlopen(driver, RTLD_NOW);
    if (!library) return driver;
    TG_DRIVER(TG_FIND_IN)
    TG_DRIVER(TG_NOT_IN)
    return NULL;
}

static void tg_driver(tg_call *call, int status, const char *what) {
    if (!status) return;
    const char *why = "";
    tg_cuda.cuGetErrorString(status, &why);
    tg_fail(call, "CUDA %s: %s (error %d)", what, why ? why : "", status);
}

/* The device of the call becomes current, as does its context in a thread that has none yet. */
static void tg_enter(tg_call *call, tg_handle *guard) {
    tg_require(call, tg_cuda.aoti_torch_create_device_guard(call->device_index, guard), "cannot enter the device of",
               call->operator_name);
    tg_keep(call, *guard, tg_cuda.aoti_torch_delete_device_guard);
    void *context = NULL;
    int device = 0;
    tg_driver(call, tg_cuda.cuCtxGetCurrent(&context), "has no context");
    if (context) return;
    tg_driver(call, tg_cuda.cuDeviceGet(&device, call->device_index), "has no such device");
    tg_driver(call, tg_cuda.cuDevicePrimaryCtxRetain(&context, device), "has no context");
    tg_driver(call, tg_cuda.cuCtxSetCurrent(context), "cannot enter its context");
}

/* -- a call ---------------------------------------------------------------------------------------------------- */

typedef struct { int64_t dim, sizes[TG_DIMS], strides[TG_TENSORS][TG_DIMS]; /* strides in bytes */ } tg_walk;

static bool tg_is_tensor(const tg_slot *slot) { return slot->kind == TG_TENSOR || slot->kind == TG_SEED; }

/* Leaves axes of size 1 out, and makes one of neighbours that all tensors walk evenly. */
static void tg_collapse(const tg_call *call, const tg_tensor *tensors, int64_t count, tg_walk *walk) {
    walk->dim = 0;
    for (int64_t d = 0; d < call->dim; d++) {
        int64_t size = call->sizes[d];
        if (size == 1) continue;
        bool even = walk->dim > 0;
        for (int64_t i = 0; even && i < count; i++)
            even = walk->strides[i][walk->dim - 1] == tensors[i].batch_strides[d] * size;
        if (!even) walk->sizes[walk->dim++] = 1;
        walk->sizes[walk->dim - 1] *= size;
        for (int64_t i = 0; i < count; i++) walk->strides[i][walk->dim - 1] = tensors[i].batch_strides[d];
    }
}

static bool tg_is_flat(const tg_walk *walk, const tg_tensor *tensors, int64_t count) {
    for (int64_t i = 0; walk->dim && i < count; i++)
        if (walk->dim > 1 || walk->strides[i][0] != tensors[i].item) return false;
    return true;
}

/* How many neighbours a thread takes at once. Few elements are one for each, so that all threads have work; and a group
 * lies within a row. */
static int64_t tg_per(const tg_kernel *kernel, const tg_walk *walk, bool flat, int64_t samples) {
    const int64_t most = kernel->neighbours;
    if (most == 1 || samples < most * TG_FILLED) return 1;
    return flat || walk->sizes[walk->dim - 1] % most == 0 ? most : 1;
}

static void *tg_function(tg_call *call, tg_kernel *kernel, int entry, void *stream) {
    const int device = call->device_index;
    if (device >= TG_DEVICES) tg_fail(call, "there are more than %d devices", TG_DEVICES);
    void **function = &kernel->functions[device][entry], *module = NULL;
    if (*function) return *function;
    int capturing = 0;
    tg_driver(call, tg_cuda.cuStreamIsCapturing(stream, &capturing), "cannot be asked for a capture");
    if (capturing)
        tg_fail(call, "the kernel is loaded by its first call, which a CUDA graph cannot capture: call it once before");
    if (!kernel->images[device][entry]) tg_fail(call, "tg_missing %d %d", device, entry);
    tg_driver(call, tg_cuda.cuModuleLoadData(&module, kernel->images[device][entry]), "refused the kernel");
    tg_driver(call, tg_cuda.cuModuleGetFunction(function, module, tg_names[entry]), "lacks the kernel");
    return *function;
}

enum { TG_GRID, TG_BLOCK = 3, TG_SHARED = 6, TG_EXTENTS };

#define TG_PLAIN_SHARED 49152 /* bytes that a block has without being asked for */
#define TG_MAX_SHARED 8       /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
#define TG_FIXED (3 + TG_AXES) /* words of a frame before sizes, numbers and tensors */
#define TG_OF_TENSOR (1 + TG_AXES)

typedef struct {
    void *function; /* NULL where there is nothing to do */
    int64_t extents[TG_EXTENTS], words, frame[TG_WORDS];
} tg_launch;

/* Asks the driver for shared memory, which it gives to a function and not to a launch: another thread may need more. */
static void tg_ask_for_shared(tg_call *call, tg_kernel *kernel, void *function, int64_t shared) {
    static char busy;
    int64_t *asked = &kernel->shared[call->device_index];
    int status = 0;
    while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) sched_yield();
    if (shared > *asked && !(status = tg_cuda.cuFuncSetAttribute(function, TG_MAX_SHARED, (int)shared)))
        *asked = shared;
    __atomic_clear(&busy, __ATOMIC_RELEASE);
    tg_driver(call, status, "refused so much shared memory");
}

static void tg_go(tg_call *call, tg_kernel *kernel, tg_launch *launch, void *stream) {
    const int64_t *grid = launch->extents + TG_GRID, *block = launch->extents + TG_BLOCK;
    const int64_t shared = launch->extents[TG_SHARED];
    void *parameters[] = {launch->frame};
    if (!launch->function) return;
    if (shared > TG_PLAIN_SHARED) tg_ask_for_shared(call, kernel, launch->function, shared);
    int status = tg_cuda.cuLaunchKernel(launch->function, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2],
                                        (unsigned)block[0], (unsigned)block[1], (unsigned)block[2], (unsigned)shared,
                                        stream, parameters, NULL);
    if (!status) return;
    char what[TG_TEXT];
    snprintf(what, sizeof what,
             "refused the launch of a grid of (%lld, %lld, %lld), blocks of (%lld, %lld, %lld), %lld bytes shared",
             (long long)grid[0], (long long)grid[1], (long long)grid[2], (long long)block[0], (long long)block[1],
             (long long)block[2], (long long)shared);
    tg_driver(call, status, what);
}

/* Fills the frame as `text.py` lays it out. `sizes` are followed by extents, where the caller says them. */
static void tg_lay(tg_call *call, tg_kernel *kernel, const int64_t *sizes, const tg_value *numbers,
                   const tg_tensor *tensors, void *stream, tg_launch *launch) {
    const int64_t count = kernel->tensor_count, size_count = tg_max(kernel->size_count, 0);
    int64_t samples = 1, *at = launch->frame;
    launch->function = NULL;
    launch->words = 0;
    for (int64_t d = 0; d < call->dim; d++) samples *= call->sizes[d];
    if (samples == 0 || (kernel->by_hand && sizes[size_count + TG_GRID] == 0)) return;
    tg_walk walk;
    tg_collapse(call, tensors, count, &walk);
    const bool flat = kernel->by_hand || (kernel->size_count < 0 && tg_is_flat(&walk, tensors, count));
    if (walk.dim > TG_AXES)
        tg_fail(call, "the tensors walk along %lld axes, a kernel along %d at most: pass contiguous ones",
                (long long)walk.dim, TG_AXES);
    const int64_t per = tg_per(kernel, &walk, flat, samples);
    *at++ = samples;
    *at++ = walk.dim;
    *at++ = per;
    for (int64_t d = 0; d < TG_AXES; d++) *at++ = d < walk.dim ? walk.sizes[d] : 0;
    if (size_count) memcpy(at, sizes, (size_t)size_count * sizeof *at);
    at += size_count;
    memcpy(at, numbers, (size_t)kernel->number_count * sizeof *at);
    at += kernel->number_count;
    for (int64_t i = 0; i < count; i++) {
        *at++ = (int64_t)tensors[i].data;
        for (int64_t d = 0; d < TG_AXES; d++) *at++ = d < walk.dim ? walk.strides[i][d] : 0;
    }
    launch->words = at - launch->frame;
    /* The index of a thread that has run past the end must still fit. */
    launch->function = tg_function(call, kernel, kernel->by_hand ? 0 : (samples > INT32_MAX ? 2 : 0) + !flat, stream);
    const int64_t blocks = tg_min(((samples + per - 1) / per + TG_THREADS - 1) / TG_THREADS, TG_BLOCKS);
    const int64_t plain[TG_EXTENTS] = {blocks, 1, 1, TG_THREADS, 1, 1, 0};
    memcpy(launch->extents, kernel->by_hand ? sizes + size_count : plain, sizeof plain);
}

static void *tg_stream(tg_call *call) {
    void *stream = NULL;
    tg_require(call, tg_cuda.aoti_torch_get_current_cuda_stream(call->device_index, &stream), "no stream for",
               call->operator_name);
    return stream;
}

/* What calls on tensors that look alike have in common; `ready_call.py` says more, for the CPU. */
typedef struct {
    tg_kernel *kernel;
    int32_t device_type, device_index;
    bool ready;
    tg_launch launch;
    int64_t spans[TG_TENSORS]; /* of the arguments, in bytes */
    tg_shape shapes[];         /* of the results */
} tg_prepared;

static __thread tg_prepared *tg_preparing;

/* The next call on this thread leaves what it found out in `memory`, and launches nothing. */
TG_EXPORT void tg_prepare(tg_prepared *memory) { tg_preparing = memory; }
TG_EXPORT bool tg_is_ready(const tg_prepared *memory) { return memory->ready; }
TG_EXPORT bool tg_has_ready_calls(void) { return tg_gives_objects(); }
TG_EXPORT int64_t tg_prepared_size(const tg_kernel *kernel) {
    return (int64_t)(sizeof(tg_prepared) + (size_t)kernel->result_count * sizeof(tg_shape));
}

static bool tg_left(const tg_call *call, tg_kernel *kernel, const tg_tensor *tensors, const tg_launch *launch) {
    const int64_t given = kernel->tensor_count - kernel->result_count;
    tg_prepared *memory = tg_preparing;
    tg_preparing = NULL;
    if (!memory) return false;
    memory->kernel = kernel;
    memory->device_type = call->device_type;
    memory->device_index = call->device_index;
    memory->launch = *launch;
    for (int64_t i = 0; i < given; i++) memory->spans[i] = tensors[i].handle ? tg_span(&tensors[i]) : 0;
    for (int64_t i = 0; i < kernel->result_count; i++) tg_look_at(&memory->shapes[i], tensors[given + i].handle);
    memory->ready = !call->copies; /* which are made in each call */
    return true;
}

/* The arguments from the stack: tensors into `tensors`, numbers as the frame has them. */
static void tg_take(tg_call *call, const tg_kernel *kernel, tg_value *stack, tg_tensor *tensors, tg_value *numbers) {
    for (int64_t i = 0; i < kernel->argument_count; i++) { /* first what has to be given back, whatever fails */
        const tg_slot *slot = &kernel->arguments[i];
        if (tg_is_tensor(slot) && (!slot->optional || tg_some(&stack[i]))) tg_own(call, stack[i]);
        if (slot->kind == TG_SEED) *numbers++ = 0; /* known when the batch is */
        if (tg_is_tensor(slot)) continue;
        *numbers++ = slot->optional ? tg_some(&stack[i]) : true;
        *numbers++ = slot->kind == TG_BOOLEAN ? (uint8_t)stack[i] != 0 : stack[i];
    }
    if (kernel->equip) kernel->equip(call, stack);
    bool first = true;
    for (int64_t i = 0, n = 0; i < kernel->argument_count; i++) {
        const tg_slot *slot = &kernel->arguments[i];
        if (!tg_is_tensor(slot)) continue;
        if (!stack[i]) {
            tg_absent(&tensors[n++]);
            continue;
        }
        int32_t index = -1;
        tg_cuda.aoti_torch_get_device_index((tg_handle)stack[i], &index);
        if (first) {
            tg_torch.aoti_torch_get_device_type((tg_handle)stack[i], &call->device_type);
            call->device_index = index;
            first = false;
        }
        tg_read(call, &tensors[n], slot->name, stack[i], slot->core, slot->dtype, slot->item);
        if (index != call->device_index) tg_fail(call, "argument '%s' is on another device", slot->name);
        tg_batch(call, &tensors[n++]);
    }
}

/* The data of an argument, each sample contiguous and in full. */
static void tg_fetch(tg_call *call, const tg_slot *slot, tg_tensor *tensor, const int64_t *sizes) {
    int64_t core[TG_DIMS];
    if (!tensor->handle) {
        memset(tensor->batch_strides, 0, sizeof tensor->batch_strides);
        return;
    }
    const int64_t *own = tensor->sizes + tensor->dim - slot->core;
    for (int64_t i = 0; i < slot->core; i++) core[i] = slot->axes[i] < 0 ? own[i] : sizes[slot->axes[i]];
    tg_open(call, tensor, core, slot->dtype);
}

/* Where a seed is one number for all elements, the frame says so. */
static void tg_share_seeds(const tg_call *call, const tg_kernel *kernel, const tg_tensor *tensors, tg_value *numbers) {
    for (int64_t i = 0, n = 0; i < kernel->argument_count; i++) {
        const tg_slot *slot = &kernel->arguments[i];
        if (slot->kind == TG_SEED) *numbers = tensors[n].dim == 0 && call->dim > 0;
        numbers += slot->kind == TG_SEED ? 1 : tg_is_tensor(slot) ? 0 : 2;
        n += tg_is_tensor(slot);
    }
}

static void tg_body(tg_call *call, tg_kernel *kernel, tg_value *stack) {
    tg_tensor tensors[TG_TENSORS];
    tg_value numbers[TG_WORDS];
    int64_t size_length = 0, length = 0, shape_at = 0, dim = 0, core = 0;
    tg_handle guard;
    const int64_t *sizes = NULL, *shapes = NULL, *shape = NULL;
    tg_value *trailing = &stack[kernel->argument_count];
    if (kernel->trailing > 1) sizes = tg_numbers(call, trailing++, &size_length);
    if (kernel->trailing) shapes = tg_numbers(call, trailing, &length);
    if (kernel->size_count >= 0 && size_length != kernel->size_count + (kernel->by_hand ? TG_EXTENTS : 0))
        tg_fail(call, "the sizes are not as they should be");
    tg_take(call, kernel, stack, tensors, numbers);
    for (int64_t i = 0; shapes && i < kernel->result_count; i++) {
        shape = tg_given(call, shapes, length, &shape_at, &dim);
        tg_join(call, kernel->results[i].name, dim - kernel->results[i].core, shape);
    }
    tg_share_seeds(call, kernel, tensors, numbers);
    tg_enter(call, &guard);
    const int64_t given = kernel->tensor_count - kernel->result_count;
    for (int64_t i = 0, n = 0; i < kernel->argument_count; i++)
        if (tg_is_tensor(&kernel->arguments[i])) tg_fetch(call, &kernel->arguments[i], &tensors[n++], sizes);
    shape_at = 0;
    for (int64_t i = 0; i < kernel->result_count; i++) {
        const tg_slot *slot = &kernel->results[i];
        core = slot->core;
        if (shapes) shape = tg_given(call, shapes, length, &shape_at, &dim);
        else shape = call->sizes, dim = call->dim;
        tg_make(call, &tensors[given + i], slot->name, dim, shape, core, slot->dtype, slot->item);
        if (call->chunks) tg_fail(call, "'%s' would be summed over samples", slot->name);
    }
    tg_launch launch;
    void *stream = tg_stream(call);
    tg_lay(call, kernel, sizes, numbers, tensors, stream, &launch);
    if (!tg_left(call, kernel, tensors, &launch)) tg_go(call, kernel, &launch, stream);
    for (int64_t i = 0; i < kernel->result_count; i++) stack[i] = tg_give(call, tensors[given + i].handle);
}

/* In a frame of its own, so that nothing that longjmp would lose is in it. */
static bool tg_protected(tg_call *call, tg_kernel *kernel, tg_value *stack) {
    bool done = !_setjmp(call->failed);
    if (done) tg_body(call, kernel, stack);
    tg_release(call);
    return done;
}

/* A call of the dispatcher; the results may take the place of the arguments. */
static void tg_run(tg_kernel *kernel, const tg_value *given, tg_value *results) {
    tg_call call;
    tg_value stack[TG_WORDS];
    memcpy(stack, given, (size_t)(kernel->argument_count + kernel->trailing) * sizeof *stack);
    tg_start(&call, kernel->operator_name);
    bool done = tg_protected(&call, kernel, stack);
    if (!done) tg_torch.aoti_torch_check(false, kernel->operator_name, "torchgraft", 0, call.text);
    memcpy(results, stack, (size_t)kernel->result_count * sizeof *stack);
}

static void tg_entry(tg_value *stack, uint64_t in, uint64_t out) {
    (void)in, (void)out;
    tg_run((tg_kernel *)stack[0], stack + 1, stack);
}

TG_EXPORT int32_t tg_register(const char *space, const char *name, const char *key) {
    return tg_implement(space, name, key, tg_entry, "torchgraft on CUDA");
}

/* -- calls that are ready, without the dispatcher ---------------------------------------------------------------- */

static int64_t tg_number(const tg_slot *slot, tg_python given) {
    if (slot->kind == TG_FLOAT) return (int64_t)tg_from_double(tg_torch.PyFloat_AsDouble(given));
    return slot->kind == TG_BOOLEAN ? tg_torch.PyObject_IsTrue(given) > 0 : tg_torch.PyLong_AsLongLong(given);
}

/* Puts what a call brings into the frame: numbers, and where the tensors' data are. */
static bool tg_bring(const tg_kernel *kernel, tg_python const *given, int64_t *number, int64_t *data) {
    for (int64_t i = 0; i < kernel->argument_count; i++) {
        const tg_slot *slot = &kernel->arguments[i];
        const bool there = !tg_is_none(given[i]);
        if (tg_is_tensor(slot)) {
            if (there) *data = (int64_t)tg_data(given[i]);
            data += TG_OF_TENSOR;
            number += slot->kind == TG_SEED;
        } else {
            *number++ = there;
            *number++ = there ? tg_number(slot, given[i]) : 0;
            if (tg_torch.PyErr_Occurred())
                tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "a number does not fit its type in C");
        }
        if (tg_torch.PyErr_Occurred()) return false;
    }
    return true;
}

/* Whether a written argument has memory in common with another one. */
static bool tg_overlaps(const tg_prepared *memory, const int64_t *data) {
    const tg_kernel *kernel = memory->kernel;
    const int64_t given = kernel->tensor_count - kernel->result_count;
    for (int64_t i = 0; i < kernel->result_count; i++) {
        const int64_t written = kernel->results[i].after;
        for (int64_t j = 0; written >= 0 && j < given; j++)
            if (j != written && tg_overlap((const char *)data[written * TG_OF_TENSOR], memory->spans[written],
                                           (const char *)data[j * TG_OF_TENSOR], memory->spans[j]))
                return true;
    }
    return false;
}

/* Makes the outputs and launches; returns how many there are, or -1. In place, a written argument's new value goes into
 * its memory. In a frame of its own, so that nothing that longjmp would lose is in it. */
static int tg_repeat(tg_call *call, const tg_prepared *memory, tg_launch *launch, int64_t *data, bool in_place,
                     tg_value *stack) {
    const tg_kernel *kernel = memory->kernel;
    int64_t *result = data + (kernel->tensor_count - kernel->result_count) * TG_OF_TENSOR;
    tg_handle guard;
    int count = 0;
    if (_setjmp(call->failed)) {
        tg_release(call);
        return -1;
    }
    tg_enter(call, &guard);
    for (int64_t i = 0; i < kernel->result_count; i++) {
        const int64_t after = kernel->results[i].after;
        tg_tensor made = {.name = kernel->results[i].name};
        if (in_place && after >= 0) made.data = (char *)data[after * TG_OF_TENSOR];
        else tg_make_again(call, &made, &memory->shapes[i]);
        result[i * TG_OF_TENSOR] = (int64_t)made.data;
        if (made.handle) stack[count++] = (tg_value)made.handle;
    }
    tg_go(call, memory->kernel, launch, tg_stream(call));
    for (int i = 0; i < count; i++) tg_give(call, (tg_handle)stack[i]);
    tg_release(call);
    return count;
}

/* The memory is read alone, so that several threads may be here: other threads of Python go on meanwhile. */
static tg_python tg_call_ready(tg_python self, tg_python const *given, ptrdiff_t count, bool in_place) {
    const tg_prepared *memory = (const tg_prepared *)tg_torch.PyByteArray_AsString(self);
    const tg_kernel *kernel = memory->kernel;
    tg_call call;
    tg_launch launch;
    tg_value stack[TG_TENSORS];
    if (count != kernel->argument_count) {
        tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "takes another number of arguments");
        return NULL;
    }
    memcpy(&launch, &memory->launch, offsetof(tg_launch, frame) + (size_t)memory->launch.words * sizeof *launch.frame);
    int64_t *numbers = launch.frame + TG_FIXED + tg_max(kernel->size_count, 0), *data = numbers + kernel->number_count;
    if (!tg_bring(kernel, given, numbers, data)) return NULL;
    if (in_place && tg_overlaps(memory, data)) {
        tg_torch.Py_IncRef(tg_torch.not_implemented);
        return tg_torch.not_implemented;
    }
    tg_start(&call, kernel->operator_name);
    call.device_type = memory->device_type;
    call.device_index = memory->device_index;
    void *state = tg_torch.PyEval_SaveThread();
    const int made = tg_repeat(&call, memory, &launch, data, in_place, stack);
    tg_torch.PyEval_RestoreThread(state);
    if (made >= 0) return tg_objects(stack, made);
    tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, call.text);
    return NULL;
}

static tg_python tg_fresh(tg_python self, tg_python const *given, ptrdiff_t count) {
    return tg_call_ready(self, given, count, false);
}

static tg_python tg_in_place(tg_python self, tg_python const *given, ptrdiff_t count) {
    return tg_call_ready(self, given, count, true);
}

TG_EXPORT tg_method tg_method_fresh = {"launch", tg_fresh, 0x80 /* METH_FASTCALL */, NULL};
TG_EXPORT tg_method tg_method_in_place = {"launch", tg_in_place, 0x80, NULL};
