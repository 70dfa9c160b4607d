/* What `shim.h` declares. */
#include "shim.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#define TG_CHUNKS 16      /* into which a sum over samples is split, whatever the number of threads */
#define TG_SUMS 8388608   /* elements that the sums of all chunks may take */
#define TG_GRAIN 32768    /* elements that are worth a thread */
#define TG_LONG 200000    /* elements that are worth letting other Python threads run */
#define TG_ABI ((2ull << 56) | (11ull << 48)) /* of torch 2.11, the oldest that is supported */

#define TG_FIND(result, name, arguments) *(void **)&tg_torch.name = dlsym(torch, #name);
#define TG_FIND_PYTHON(result, name, arguments) *(void **)&tg_torch.name = dlsym(RTLD_DEFAULT, #name);
#define TG_MISSING(result, name, arguments) \
    if (!tg_torch.name) return #name;

struct tg_symbols tg_torch;

/* `THPVariable_Wrap`, in the library that lies beside libtorch_cpu. */
static void *tg_find_wrap(const char *library) {
    static const char cpu[] = "libtorch_cpu", python[] = "libtorch_python";
    char path[4096];
    const char *at = strstr(library, cpu);
    if (!at || strlen(library) + sizeof python >= sizeof path) return NULL;
    snprintf(path, sizeof path, "%.*s%s%s", (int)(at - library), library, python, at + sizeof cpu - 1);
    void *torch = dlopen(path, RTLD_NOLOAD | RTLD_NOW);
    return torch ? dlsym(torch, "_Z16THPVariable_WrapRKN2at10TensorBaseE") : NULL;
}

const char *tg_find_symbols(const char *library) {
    void *torch = dlopen(library, RTLD_NOLOAD | RTLD_NOW);
    if (!torch) return library;
    TG_SYMBOLS(TG_FIND)
    TG_SYMBOLS(TG_MISSING)
    TG_NEWER_SYMBOLS(TG_FIND)
    TG_PYTHON_SYMBOLS(TG_FIND_PYTHON)
    tg_torch.PyExc_RuntimeError = (tg_python *)dlsym(RTLD_DEFAULT, "PyExc_RuntimeError");
    tg_torch.none = (tg_python)dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    tg_torch.not_implemented = (tg_python)dlsym(RTLD_DEFAULT, "_Py_NotImplementedStruct");
    if (tg_torch.PyObject_VectorcallMethod) *(void **)&tg_torch.wrap = tg_find_wrap(library);
    return NULL;
}

int32_t tg_implement(const char *space, const char *name, const char *key, tg_boxed function, const char *file) {
    tg_handle library;
    if (tg_torch.aoti_torch_library_init_impl(space, key, file, 0, &library)) return 1;
    return tg_torch.torch_library_impl(library, name, function, TG_ABI);
}

int32_t tg_define(const char *space, const char *schema, const char *file) {
    tg_handle library;
    if (tg_torch.aoti_torch_library_init_fragment(space, file, 0, &library)) return 1;
    return tg_torch.aoti_torch_library_def(library, schema);
}

/* -- a call ---------------------------------------------------------------------------------------------------- */

void tg_release(tg_call *call) {
    while (call->count) {
        tg_kept *last = &call->kept[--call->count];
        if (last->thing) last->drop((tg_handle)last->thing);
    }
    if (call->kept != call->first) free(call->kept);
    call->kept = call->first;
}

__attribute__((noreturn)) void tg_fail(tg_call *call, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(call->text, TG_TEXT, format, values);
    va_end(values);
    _longjmp(call->failed, 1);
}

void tg_require(tg_call *call, int32_t failed, const char *problem, const char *name) {
    if (!failed) return;
    const char *why = NULL;
    if (tg_torch.torch_exception_get_what_without_backtrace)
        why = tg_torch.torch_exception_get_what_without_backtrace();
    tg_fail(call, "%s '%s'%s%s", problem, name, why && *why ? ": " : "", why ? why : "");
}

void tg_keep(tg_call *call, void *thing, int32_t (*drop)(tg_handle)) {
    if (call->count == call->room) {
        size_t bytes = (size_t)call->room * sizeof *call->kept;
        tg_kept *more = (tg_kept *)malloc(2 * bytes);
        if (!more) {
            drop((tg_handle)thing);
            tg_fail(call, "no memory");
        }
        memcpy(more, call->kept, bytes);
        if (call->kept != call->first) free(call->kept);
        call->kept = more;
        call->room *= 2;
    }
    call->kept[call->count].thing = thing;
    call->kept[call->count++].drop = drop;
}

static int32_t tg_free(tg_handle memory) {
    free(memory);
    return 0;
}

void *tg_memory(tg_call *call, int64_t count, int64_t item) {
    int64_t bytes;
    if (__builtin_mul_overflow(count + 1, item, &bytes)) tg_fail(call, "no memory");
    void *memory = calloc(1, (size_t)bytes);
    if (!memory) tg_fail(call, "no memory");
    tg_keep(call, memory, tg_free);
    return memory;
}

tg_value tg_give(tg_call *call, tg_handle handle) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->kept[i].thing == handle) call->kept[i].thing = NULL;
    return (tg_value)handle;
}

tg_value tg_give_list(tg_call *call, const tg_tensor *tensors, int64_t count) {
    tg_handle list;
    tg_require(call, tg_torch.torch_new_list_reserve_size((size_t)count, &list), "no memory for", "a list");
    tg_keep(call, list, tg_torch.torch_delete_list);
    for (int64_t i = 0; i < count; i++)
        tg_require(call, tg_torch.torch_list_push_back(list, (tg_value)tensors[i].handle), "no memory for", "a list");
    for (int64_t i = 0; i < count; i++) tg_give(call, tensors[i].handle); /* the list owns them now */
    return tg_give(call, list);
}

/* -- arguments ------------------------------------------------------------------------------------------------- */

bool tg_some(tg_value *slot) {
    if (!*slot) return false;
    tg_value *word = (tg_value *)*slot;
    *slot = *word;
    tg_torch._ZdlPv(word);
    return true;
}

tg_value *tg_list(tg_call *call, tg_value slot, int64_t *length, int32_t (*owned)(tg_handle)) {
    size_t size = 0;
    tg_keep(call, (void *)slot, tg_torch.torch_delete_list);
    tg_require(call, tg_torch.torch_list_size((tg_handle)slot, &size), "cannot read", "a list");
    tg_value *items = (tg_value *)tg_memory(call, (int64_t)size, sizeof *items);
    *length = (int64_t)size;
    for (size_t i = 0; i < size; i++) {
        tg_require(call, tg_torch.torch_list_get_item((tg_handle)slot, i, &items[i]), "cannot read", "an item");
        if (owned) tg_keep(call, (void *)items[i], owned);
    }
    return items;
}

const int64_t *tg_numbers(tg_call *call, tg_value *slot, int64_t *length) {
    return tg_some(slot) ? (const int64_t *)tg_list(call, *slot, length, NULL) : NULL;
}

const char *tg_string(tg_call *call, tg_value slot, int64_t *length) {
    size_t size = 0;
    const char *text = "";
    tg_require(call, tg_torch.torch_string_length((tg_handle)slot, &size), "cannot read", "a string");
    tg_require(call, tg_torch.torch_string_c_str((tg_handle)slot, &text), "cannot read", "a string");
    *length = (int64_t)size;
    return text;
}

void tg_read(tg_call *call, tg_tensor *tensor, const char *name, tg_value slot, int64_t core, int32_t dtype,
             int64_t item) {
    int32_t found = -1, device = -1;
    tg_handle handle = (tg_handle)slot;
    tensor->name = name;
    tensor->handle = handle;
    tensor->item = item;
    tg_torch.aoti_torch_get_dtype(handle, &found);
    if (found != dtype) tg_fail(call, "argument '%s' has dtype %d, this kernel was built for %d", name, found, dtype);
    tg_torch.aoti_torch_get_device_type(handle, &device);
    if (device != call->device_type)
        tg_fail(call, call->device_type ? "argument '%s' is on another device" : "argument '%s' is not on the CPU",
                name);
    tg_torch.aoti_torch_get_dim(handle, &tensor->dim);
    tensor->core = core < 0 ? tensor->dim : core;
    if (tensor->dim < core || tensor->dim >= TG_DIMS)
        tg_fail(call, "argument '%s' has %lld axes, expected at least %lld", name, (long long)tensor->dim,
                (long long)core);
    tg_torch.aoti_torch_get_sizes(handle, (int64_t **)&tensor->sizes);
    tg_torch.aoti_torch_get_strides(handle, (int64_t **)&tensor->strides);
}

/* -- sizes ----------------------------------------------------------------------------------------------------- */

void tg_expect(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t size) {
    int64_t found = tg_size(tensor, axis);
    if (found != size)
        tg_fail(call, "argument '%s': axis %s is %lld, expected %lld", tensor->name, text, (long long)found,
                (long long)size);
}

void tg_bind(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t *size) {
    if (*size < 0) *size = tg_size(tensor, axis);
    tg_expect(call, tensor, axis, text, *size);
}

void tg_bind_broadcast(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t *size) {
    if (*size < 0 || *size == 1) *size = tg_size(tensor, axis);
    if (tg_size(tensor, axis) != 1) tg_expect(call, tensor, axis, text, *size);
}

void tg_expect_broadcast(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t size) {
    if (tg_size(tensor, axis) != 1) tg_expect(call, tensor, axis, text, size);
}

int64_t tg_floordiv(tg_call *call, int64_t a, int64_t b) {
    if (b == 0) tg_fail(call, "an axis divides by zero");
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t tg_mod(tg_call *call, int64_t a, int64_t b) { return a - b * tg_floordiv(call, a, b); }

/* -- batches --------------------------------------------------------------------------------------------------- */

void tg_join(tg_call *call, const char *name, int64_t lead, const int64_t *sizes) {
    int64_t more = lead - call->dim;
    if (more > 0) {
        memmove(call->sizes + more, call->sizes, (size_t)call->dim * sizeof *call->sizes);
        for (int64_t i = 0; i < more; i++) call->sizes[i] = 1;
        call->dim = lead;
    }
    for (int64_t i = 0; i < lead; i++) {
        int64_t *size = &call->sizes[call->dim - lead + i], mine = sizes[i];
        if (*size == 1) *size = mine;
        else if (mine != 1 && mine != *size)
            tg_fail(call, "'%s': leading axes do not broadcast: %lld and %lld", name, (long long)mine,
                    (long long)*size);
    }
}

void tg_batch(tg_call *call, const tg_tensor *tensor) {
    tg_join(call, tensor->name, tensor->dim - tensor->core, tensor->sizes);
}

static bool tg_is_contiguous(const tg_tensor *tensor, const int64_t *core) {
    int64_t step = 1;
    for (int64_t i = tensor->core; i-- > 0;) {
        int64_t axis = tensor->dim - tensor->core + i;
        if (tensor->sizes[axis] != core[i]) return false; /* broadcasts */
        if (core[i] != 1 && tensor->strides[axis] != step) return false;
        step *= core[i];
    }
    return true;
}

static void tg_strides(int64_t dim, const int64_t *sizes, int64_t *strides) {
    int64_t step = 1;
    for (int64_t i = dim; i-- > 0;) {
        strides[i] = step;
        step *= sizes[i] > 1 ? sizes[i] : 1;
    }
}

void tg_open(tg_call *call, tg_tensor *tensor, const int64_t *core, int32_t dtype) {
    void *data = NULL;
    if (!tg_is_contiguous(tensor, core)) {
        int64_t sizes[TG_DIMS], strides[TG_DIMS], lead = tensor->dim - tensor->core;
        tg_handle copy;
        memcpy(sizes, tensor->sizes, (size_t)lead * sizeof *sizes);
        memcpy(sizes + lead, core, (size_t)tensor->core * sizeof *sizes);
        tg_strides(tensor->dim, sizes, strides);
        tg_require(call,
                   tg_torch.aoti_torch_empty_strided(tensor->dim, sizes, strides, dtype, call->device_type,
                                                     call->device_index, &copy),
                   "no contiguous copy of", tensor->name);
        tg_own(call, (tg_value)copy);
        call->copies = true;
        tg_require(call, tg_torch.aoti_torch_copy_(copy, tensor->handle, 0), "no contiguous copy of", tensor->name);
        tensor->handle = copy;
        tg_torch.aoti_torch_get_sizes(copy, (int64_t **)&tensor->sizes);
        tg_torch.aoti_torch_get_strides(copy, (int64_t **)&tensor->strides);
    }
    tg_require(call, tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data), "no data of", tensor->name);
    tensor->data = (char *)data;
    for (int64_t i = 0; i < call->dim; i++) {
        int64_t axis = i - (call->dim - (tensor->dim - tensor->core));
        bool moves = axis >= 0 && tensor->sizes[axis] != 1;
        tensor->batch_strides[i] = moves ? tensor->strides[axis] * tensor->item : 0;
    }
}

void tg_open_whole(tg_call *call, tg_tensor *tensor) {
    void *data = NULL;
    tg_require(call, tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data), "no data of", tensor->name);
    tensor->data = (char *)data;
}

void tg_make(tg_call *call, tg_tensor *tensor, const char *name, int64_t dim, const int64_t *sizes, int64_t core,
             int32_t dtype, int64_t item) {
    int64_t strides[TG_DIMS];
    void *data = NULL;
    memset(tensor, 0, offsetof(tg_tensor, batch_strides));
    tensor->name = name;
    tensor->item = item;
    tensor->sums = NULL;
    tensor->dim = dim;
    tensor->core = core;
    tg_strides(dim, sizes, strides);
    tg_require(call,
               tg_torch.aoti_torch_empty_strided(dim, sizes, strides, dtype, call->device_type, call->device_index,
                                                 &tensor->handle),
               "no memory for output", name);
    tg_own(call, (tg_value)tensor->handle);
    tg_require(call, tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data), "no data of", name);
    tensor->data = (char *)data;
    for (int64_t i = 0; i < call->dim; i++) {
        int64_t axis = i - (call->dim - (dim - core));
        bool moves = axis >= 0 && sizes[axis] != 1;
        tensor->batch_strides[i] = moves ? strides[axis] * item : 0;
        if (!moves && call->sizes[i] != 1) call->chunks = -1; /* summed; `tg_samples` says in how many chunks */
    }
}

void tg_look(tg_tensor *tensor) {
    tg_torch.aoti_torch_get_sizes(tensor->handle, (int64_t **)&tensor->sizes);
    tg_torch.aoti_torch_get_strides(tensor->handle, (int64_t **)&tensor->strides);
}

void tg_make_sample(tg_call *call, tg_tensor *tensor, const char *name, int64_t count, const int64_t *core,
                    int32_t dtype, int64_t item) {
    int64_t sizes[TG_DIMS];
    if (call->dim + count >= TG_DIMS) tg_fail(call, "output '%s' has too many axes", name);
    for (int64_t i = 0; i < count; i++)
        if (core[i] < 0) tg_fail(call, "output '%s': axis %lld is %lld", name, (long long)i, (long long)core[i]);
    memcpy(sizes, call->sizes, (size_t)call->dim * sizeof *sizes);
    memcpy(sizes + call->dim, core, (size_t)count * sizeof *sizes);
    tg_make(call, tensor, name, call->dim + count, sizes, count, dtype, item);
}

void tg_bound(tg_call *call, const char *late, int64_t bound) {
    if (bound < 0) tg_fail(call, "'%s' is negative: %lld", late, (long long)bound);
}

void tg_said(tg_call *call, const char *late, int64_t size, int64_t bound) {
    if (size == -1) tg_fail(call, "the function did not say how large '%s' is", late);
    if (size < 0 || size > bound)
        tg_fail(call, "the function says a size of %lld, but '%s' is at most %lld", (long long)size, late,
                (long long)bound);
}

void tg_cut(tg_call *call, tg_tensor *tensor, const int64_t *found, int32_t dtype) {
    tg_tensor whole = *tensor;
    int64_t last = -1, block = whole.item, blocks = 1, index[TG_DIMS] = {0};
    tg_look(&whole);
    for (int64_t i = 0; i < whole.dim; i++)
        if (found[i] != whole.sizes[i]) last = i;
    if (last < 0) return;
    tg_make(call, tensor, whole.name, whole.dim, found, whole.core, dtype, whole.item);
    for (int64_t i = 0; i < whole.dim; i++) *(i < last ? &blocks : &block) *= found[i];
    if (!block) return;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t offset = 0;
        for (int64_t i = 0; i < last; i++) offset += index[i] * whole.strides[i];
        memcpy(tensor->data + b * block, whole.data + offset * whole.item, (size_t)block);
        for (int64_t i = last; i-- > 0 && ++index[i] == found[i];) index[i] = 0;
    }
}

const int64_t *tg_given(tg_call *call, const int64_t *shapes, int64_t length, int64_t *at, int64_t *dim) {
    if (*at >= length || shapes[*at] < 0 || shapes[*at] >= TG_DIMS || *at + 1 + shapes[*at] > length)
        tg_fail(call, "the shapes of the outputs are not as they should be");
    *dim = shapes[*at];
    const int64_t *sizes = shapes + *at + 1;
    *at += 1 + *dim;
    return sizes;
}

int64_t tg_given_length(tg_call *call, const int64_t *shapes, int64_t length, int64_t *at) {
    if (*at >= length || shapes[*at] < 0) tg_fail(call, "the length of a list is not as it should be");
    return shapes[(*at)++];
}

void tg_at_each(const tg_call *call, const tg_tensor *tensors, int64_t count, int64_t sample, const void **found) {
    for (int64_t i = 0; i < count; i++) found[i] = tg_at(call, &tensors[i], sample);
}

void tg_note(tg_call *call, int code, const char *text) {
    int none = 0;
    if (!__atomic_compare_exchange_n(&call->error, &none, code, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    if (text) snprintf(call->text, TG_TEXT, "%s", text);
    else snprintf(call->text, TG_TEXT, "the function returned %d", code);
}

/* Runs on this thread, or on torch's; other Python threads go on meanwhile where there is much to do. */
static void tg_spread(tg_call *call, int64_t count, int64_t grain, int64_t work, tg_range run, void *context) {
    void *state = NULL;
    bool holds = work > TG_LONG && tg_torch.PyGILState_Check && tg_torch.PyGILState_Check();
    if (holds) state = tg_torch.PyEval_SaveThread();
    int32_t failed = 0;
    if (count <= grain) run(0, count, context);
    else failed = tg_torch.torch_parallel_for(0, count, grain, run, context);
    if (state) tg_torch.PyEval_RestoreThread(state);
    tg_require(call, failed, "threads failed in", call->operator_name);
    if (call->error) _longjmp(call->failed, 1);
}

static int64_t tg_times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

void tg_samples(tg_call *call, int64_t work, tg_range run, void *context) {
    call->samples = 1;
    for (int64_t i = 0; i < call->dim; i++) call->samples *= call->sizes[i];
    work = tg_max(1, work);
    int64_t all = tg_times(call->samples, work), grain = tg_max(1, TG_GRAIN / work);
    if (call->chunks) tg_spread(call, call->chunks, 1, all, run, context);
    else tg_spread(call, call->samples, grain, all, run, context);
}

/* -- sums over samples ----------------------------------------------------------------------------------------- */

void tg_split(tg_call *call, int64_t work, int64_t elements) {
    int64_t samples = 1;
    for (int64_t i = 0; i < call->dim; i++) samples *= call->sizes[i];
    int64_t worth = tg_min(samples, tg_times(samples, work) / TG_GRAIN), room = TG_SUMS / tg_max(1, elements);
    call->chunks = tg_max(1, tg_min(TG_CHUNKS, tg_min(worth, room)));
}

void tg_sum(tg_call *call, tg_tensor *tensor, int64_t parts) {
    bool summed = false;
    for (int64_t i = 0; i < call->dim; i++) summed |= call->sizes[i] != 1 && tensor->batch_strides[i] == 0;
    if (!summed) return;
    tensor->parts = parts;
    tensor->count = parts;
    for (int64_t i = 0; i < tensor->dim; i++) tensor->count *= tensor->sizes[i];
    tensor->sums = (double *)tg_memory(call, tg_times(tensor->count, call->chunks), sizeof(double));
}

void tg_add(const tg_call *call, const tg_tensor *tensor, int64_t chunk, int64_t sample, int64_t core,
            const void *part) {
    if (!tensor->sums) return;
    int64_t real = tensor->item / tensor->parts, offset = (tg_at(call, tensor, sample) - tensor->data) / real;
    double *sums = tensor->sums + chunk * tensor->count + offset;
    if (real == sizeof(float))
        for (int64_t i = 0; i < core * tensor->parts; i++) sums[i] += ((const float *)part)[i];
    else
        for (int64_t i = 0; i < core * tensor->parts; i++) sums[i] += ((const double *)part)[i];
}

void tg_total(const tg_call *call, tg_tensor *tensor) {
    if (!tensor->sums) return;
    for (int64_t i = 0; i < tensor->count; i++) {
        double sum = 0;
        for (int64_t chunk = 0; chunk < call->chunks; chunk++) sum += tensor->sums[chunk * tensor->count + i];
        if (tensor->item / tensor->parts == sizeof(float)) ((float *)tensor->data)[i] = (float)sum;
        else ((double *)tensor->data)[i] = sum;
    }
}

/* -- elements -------------------------------------------------------------------------------------------------- */

bool tg_like(const tg_call *call, const tg_tensor *tensor, const tg_tensor *out) {
    for (int64_t i = 0; i < call->dim; i++)
        if (call->sizes[i] != 1 && tensor->batch_strides[i] / tensor->item != out->batch_strides[i] / out->item)
            return false;
    return true;
}

void tg_elements(tg_call *call, bool flat, tg_range run_flat, tg_range run_rows, void *context) {
    int64_t count = 1, length = tg_row_length(call);
    for (int64_t i = 0; i < call->dim; i++) count *= call->sizes[i];
    if (count == 0) return;
    int64_t pieces = flat ? count : count / length, grain = flat ? TG_GRAIN : tg_max(1, TG_GRAIN / length);
    tg_spread(call, pieces, grain, count, flat ? run_flat : run_rows, context);
}

/* -- Python, without the dispatcher ------------------------------------------------------------------------------ */

bool tg_gives_objects(void) {
    return (tg_torch.torch_tensor_to_pyobject || tg_torch.wrap) && tg_torch.PyObject_VectorcallMethod;
}

char *tg_data(tg_python tensor) {
    /* Here, since whoever loads the library does not hold Python's lock. */
    if (!tg_torch.data_ptr) tg_torch.data_ptr = tg_torch.PyUnicode_InternFromString("data_ptr");
    tg_python address = tg_torch.PyObject_VectorcallMethod(tg_torch.data_ptr, &tensor, 1, NULL);
    if (!address) return NULL;
    char *data = (char *)tg_torch.PyLong_AsVoidPtr(address);
    tg_torch.Py_DecRef(address);
    return data;
}

/* The object of a tensor, whose handle goes. */
static tg_python tg_object(tg_handle tensor) {
    void *object = NULL;
    if (tg_torch.torch_tensor_to_pyobject) tg_torch.torch_tensor_to_pyobject(tensor, NULL, &object);
    else object = tg_torch.wrap(tensor); /* a handle is the address of an at::Tensor */
    tg_torch.aoti_torch_delete_tensor_object(tensor);
    if (!object && !tg_torch.PyErr_Occurred())
        tg_torch.PyErr_SetString(*tg_torch.PyExc_RuntimeError, "an output is no Python object");
    return (tg_python)object;
}

tg_python tg_objects(const tg_value *stack, int count) {
    if (count == 0) {
        tg_torch.Py_IncRef(tg_torch.none);
        return tg_torch.none;
    }
    if (count == 1) return tg_object((tg_handle)stack[0]);
    tg_python tuple = tg_torch.PyTuple_New(count);
    bool failed = !tuple;
    for (int i = 0; i < count; i++) {
        tg_python object = tg_object((tg_handle)stack[i]);
        failed |= !object;
        if (tuple && object) tg_torch.PyTuple_SetItem(tuple, i, object);
    }
    if (failed && tuple) tg_torch.Py_DecRef(tuple);
    return failed ? NULL : tuple;
}

int64_t tg_span(const tg_tensor *tensor) {
    int64_t last = 0;
    for (int64_t i = 0; i < tensor->dim; i++) {
        if (tensor->sizes[i] == 0) return 0;
        last += (tensor->sizes[i] - 1) * tensor->strides[i];
    }
    return (last + 1) * tensor->item;
}

void tg_look_at(tg_shape *shape, tg_handle tensor) {
    int64_t *sizes = NULL, *strides = NULL;
    tg_torch.aoti_torch_get_dim(tensor, &shape->dim);
    tg_torch.aoti_torch_get_sizes(tensor, &sizes);
    tg_torch.aoti_torch_get_strides(tensor, &strides);
    tg_torch.aoti_torch_get_dtype(tensor, &shape->dtype);
    memcpy(shape->sizes, sizes, (size_t)shape->dim * sizeof *sizes);
    memcpy(shape->strides, strides, (size_t)shape->dim * sizeof *strides);
}

void tg_make_again(tg_call *call, tg_tensor *tensor, const tg_shape *shape) {
    void *data = NULL;
    tg_require(call,
               tg_torch.aoti_torch_empty_strided(shape->dim, shape->sizes, shape->strides, shape->dtype,
                                                 call->device_type, call->device_index, &tensor->handle),
               "no memory for output", tensor->name);
    tg_own(call, (tg_value)tensor->handle);
    tg_require(call, tg_torch.aoti_torch_get_data_ptr(tensor->handle, &data), "no data of", tensor->name);
    tensor->data = (char *)data;
}
