/* What every kernel library of torchgraft has: libtorch's C symbols, and tensors as kernels see them.
 *
 * libtorch_cpu exports a C interface that is stable from release to release. Its symbols are looked up in the library
 * that is loaded already, so that nothing is linked to it, and one binary serves every version of torch. Written in
 * what C and C++ have in common. Errors unwind by longjmp to `tg_protected`, over frames of ours alone.
 *
 * `shim.c`, which is compiled once for a machine, defines what is declared here; what loops call is here itself.
 */
#pragma GCC system_header
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#define TG_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TG_EXPORT __attribute__((visibility("default")))
#endif
#define TORCHGRAFT 1

/* A C function that a Python module lends: a pointer, which is set where the library is loaded. */
#define TG_IMPORT(result, name, arguments) \
    static result(*name) arguments;        \
    TG_EXPORT void *tg_import_##name(void) { return (void *)&name; }

#define TG_UNUSED __attribute__((unused))
#define TG_HIDDEN __attribute__((visibility("hidden")))
#define TG_DIMS 64
#define TG_TEXT 1024

typedef uint64_t tg_value; /* one slot of the boxed calling convention: a number, a handle, a pointer */
typedef struct tg_opaque *tg_handle;
typedef void (*tg_boxed)(tg_value *, uint64_t, uint64_t);
typedef void (*tg_range)(int64_t, int64_t, void *);
typedef struct tg_object *tg_python; /* PyObject */

#define TG_SYMBOLS(X)                                                                                           \
    X(int32_t, aoti_torch_get_dim, (tg_handle, int64_t *))                                                      \
    X(int32_t, aoti_torch_get_sizes, (tg_handle, int64_t **))                                                   \
    X(int32_t, aoti_torch_get_strides, (tg_handle, int64_t **))                                                 \
    X(int32_t, aoti_torch_get_dtype, (tg_handle, int32_t *))                                                    \
    X(int32_t, aoti_torch_get_device_type, (tg_handle, int32_t *))                                              \
    X(int32_t, aoti_torch_get_data_ptr, (tg_handle, void **))                                                   \
    X(int32_t, aoti_torch_empty_strided,                                                                        \
      (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tg_handle *))                      \
    X(int32_t, aoti_torch_copy_, (tg_handle, tg_handle, int32_t))                                               \
    X(int32_t, aoti_torch_delete_tensor_object, (tg_handle))                                                    \
    X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))                       \
    X(int32_t, aoti_torch_library_init_impl, (const char *, const char *, const char *, uint32_t, tg_handle *)) \
    X(int32_t, aoti_torch_library_init_fragment, (const char *, const char *, uint32_t, tg_handle *))           \
    X(int32_t, aoti_torch_library_def, (tg_handle, const char *))                                               \
    X(int32_t, torch_library_impl, (tg_handle, const char *, tg_boxed, uint64_t))                               \
    X(int32_t, torch_parallel_for, (int64_t, int64_t, int64_t, tg_range, void *))                               \
    X(int32_t, torch_list_size, (tg_handle, size_t *))                                                          \
    X(int32_t, torch_list_get_item, (tg_handle, size_t, tg_value *))                                            \
    X(int32_t, torch_delete_list, (tg_handle))                                                                  \
    X(int32_t, torch_new_list_reserve_size, (size_t, tg_handle *))                                              \
    X(int32_t, torch_list_push_back, (tg_handle, tg_value))                                                     \
    X(int32_t, torch_string_length, (tg_handle, size_t *))                                                      \
    X(int32_t, torch_string_c_str, (tg_handle, const char **))                                                  \
    X(int32_t, torch_delete_string, (tg_handle))                                                                \
    X(void *, _Znwm, (size_t))   /* operator new and delete: optional arguments come in their memory */         \
    X(void, _ZdlPv, (void *))

#define TG_NEWER_SYMBOLS(X) /* NULL where torch is too old */           \
    X(const char *, torch_exception_get_what_without_backtrace, (void)) \
    X(int32_t, torch_tensor_to_pyobject, (tg_handle, void *, void **))

#define TG_PYTHON_SYMBOLS(X) /* NULL in a program without Python */ \
    X(int, PyGILState_Check, (void))                                \
    X(void *, PyEval_SaveThread, (void))                            \
    X(void, PyEval_RestoreThread, (void *))                         \
    X(void, PyErr_SetString, (tg_python, const char *))             \
    X(tg_python, PyErr_Occurred, (void))                            \
    X(double, PyFloat_AsDouble, (tg_python))                        \
    X(long long, PyLong_AsLongLong, (tg_python))                    \
    X(int, PyObject_IsTrue, (tg_python))                            \
    X(tg_python, PyTuple_New, (ptrdiff_t))                          \
    X(int, PyTuple_SetItem, (tg_python, ptrdiff_t, tg_python))      \
    X(void, Py_IncRef, (tg_python))                                 \
    X(void, Py_DecRef, (tg_python))                                 \
    X(char *, PyByteArray_AsString, (tg_python))                    \
    X(tg_python, PyUnicode_InternFromString, (const char *))        \
    X(void *, PyLong_AsVoidPtr, (tg_python))                        \
    X(tg_python, PyObject_VectorcallMethod, (tg_python, tg_python const *, size_t, tg_python))

#define TG_MEMBER(result, name, arguments) result(*name) arguments;
#pragma GCC visibility push(hidden)

extern struct tg_symbols {
    TG_SYMBOLS(TG_MEMBER)
    TG_NEWER_SYMBOLS(TG_MEMBER)
    TG_PYTHON_SYMBOLS(TG_MEMBER)
    tg_python *PyExc_RuntimeError, none, not_implemented, data_ptr;
    tg_python (*wrap)(tg_handle); /* of torch's Python library, where torch_tensor_to_pyobject is not yet there */
} tg_torch;

/* Finds the symbols; returns the name of one that is missing, or NULL. */
const char *tg_find_symbols(const char *library);

/* Registers a function as the kernel of an operator that exists, for a dispatch key such as "CPU". */
int32_t tg_implement(const char *space, const char *name, const char *key, tg_boxed function, const char *file);

/* Defines an operator, for a program without Python. */
int32_t tg_define(const char *space, const char *schema, const char *file);

/* -- a call ---------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    tg_handle handle; /* NULL for an optional tensor that is not there */
    char *data;
    int64_t dim, core, item; /* number of axes, of those of one sample, bytes of an element */
    const int64_t *sizes, *strides;
    int64_t batch_strides[TG_DIMS]; /* in bytes, for the batch axes of the call */
    double *sums;                   /* of an output over which samples are summed: one block for each chunk */
    int64_t count, parts;           /* elements, and real numbers in an element of those sums */
} tg_tensor;

typedef struct {
    void *thing;
    int32_t (*drop)(tg_handle);
} tg_kept;

typedef struct {
    const char *operator_name;
    tg_kept *kept, first[16]; /* what is dropped at the end, whatever happens */
    int64_t count, room;
    int64_t dim, sizes[TG_DIMS], samples; /* the batch */
    int64_t chunks;                       /* 0 where no output is summed */
    bool copies;                          /* a tensor was copied for the call */
    int32_t device_type, device_index;    /* of all tensors; 0 and -1 are the CPU */
    int error;
    char text[TG_TEXT];
    jmp_buf failed;
} tg_call;

static inline void tg_start(tg_call *call, const char *operator_name) {
    call->operator_name = operator_name;
    call->kept = call->first;
    call->count = call->dim = call->chunks = 0;
    call->copies = false;
    call->device_type = 0;
    call->device_index = -1;
    call->room = (int64_t)(sizeof call->first / sizeof *call->first);
    call->error = 0;
    call->text[0] = 0;
}

void tg_release(tg_call *call);

/* Ends the call with an error. */
__attribute__((noreturn)) void tg_fail(tg_call *call, const char *format, ...);

/* Ends the call where one of libtorch's functions failed. */
void tg_require(tg_call *call, int32_t failed, const char *problem, const char *name);
void tg_keep(tg_call *call, void *thing, int32_t (*drop)(tg_handle));

static inline void tg_own(tg_call *call, tg_value handle) {
    if (handle) tg_keep(call, (void *)handle, tg_torch.aoti_torch_delete_tensor_object);
}

void *tg_memory(tg_call *call, int64_t count, int64_t item);

/* Hands a tensor to the caller, who owns it then. */
tg_value tg_give(tg_call *call, tg_handle handle);

/* The same for tensors in a list. */
tg_value tg_give_list(tg_call *call, const tg_tensor *tensors, int64_t count);

/* -- arguments ------------------------------------------------------------------------------------------------- */

static inline double tg_as_double(tg_value value) {
    double number;
    memcpy(&number, &value, sizeof number);
    return number;
}

static inline tg_value tg_from_double(double number) {
    tg_value value;
    memcpy(&value, &number, sizeof value);
    return value;
}

/* What an optional argument holds: false for None. */
bool tg_some(tg_value *slot);

/* The items of a list of words, which the call keeps; `owned` drops each. */
tg_value *tg_list(tg_call *call, tg_value slot, int64_t *length, int32_t (*owned)(tg_handle));

/* An optional list of numbers: NULL for None. */
const int64_t *tg_numbers(tg_call *call, tg_value *slot, int64_t *length);
const char *tg_string(tg_call *call, tg_value slot, int64_t *length);
void tg_read(tg_call *call, tg_tensor *tensor, const char *name, tg_value slot, int64_t core, int32_t dtype,
             int64_t item);

/* A tensor that was not passed. */
static inline void tg_absent(tg_tensor *tensor) { memset(tensor, 0, sizeof *tensor); }

/* -- sizes ----------------------------------------------------------------------------------------------------- */

static inline int64_t tg_size(const tg_tensor *tensor, int64_t axis) {
    return tensor->sizes[tensor->dim - tensor->core + axis];
}

/* The sizes of one sample. */
static inline const int64_t *tg_core_sizes(const tg_tensor *tensor) {
    return tensor->sizes + (tensor->dim - tensor->core);
}

void tg_expect(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t size);

/* The size that an axis gives to a name, or must have because the name has one; -1 is none. */
void tg_bind(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t *size);

/* The same for an axis that may be 1 instead. */
void tg_bind_broadcast(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t *size);
void tg_expect_broadcast(tg_call *call, const tg_tensor *tensor, int64_t axis, const char *text, int64_t size);
int64_t tg_floordiv(tg_call *call, int64_t a, int64_t b);
int64_t tg_mod(tg_call *call, int64_t a, int64_t b);
static inline int64_t tg_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tg_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* -- batches --------------------------------------------------------------------------------------------------- */

/* Leading axes broadcast. */
void tg_join(tg_call *call, const char *name, int64_t lead, const int64_t *sizes);
void tg_batch(tg_call *call, const tg_tensor *tensor);

/* The data, each sample contiguous and of the shape `core`, and where each sample is. */
void tg_open(tg_call *call, tg_tensor *tensor, const int64_t *core, int32_t dtype);

/* The data as they are, for a function that is told sizes and strides. */
void tg_open_whole(tg_call *call, tg_tensor *tensor);

/* A new tensor. Batch axes of size 1 are summed over, where the batch has more there. */
void tg_make(tg_call *call, tg_tensor *tensor, const char *name, int64_t dim, const int64_t *sizes, int64_t core,
             int32_t dtype, int64_t item);

/* Sizes and strides of an output, for a function that is told them, and for sums. */
void tg_look(tg_tensor *tensor);

/* An output of the batch's axes and those of one sample. */
void tg_make_sample(tg_call *call, tg_tensor *tensor, const char *name, int64_t count, const int64_t *core,
                    int32_t dtype, int64_t item);

/* Refuses memory of less than no elements. */
void tg_bound(tg_call *call, const char *late, int64_t bound);

/* Refuses a size that the function has not said, or that is more than its memory holds. */
void tg_said(tg_call *call, const char *late, int64_t size, int64_t bound);

/* An output of the sizes that were found, without the rest of its memory. */
void tg_cut(tg_call *call, tg_tensor *tensor, const int64_t *found, int32_t dtype);

/* The shape of an output that the caller gives: a number of axes, then their sizes; `at` moves on. */
const int64_t *tg_given(tg_call *call, const int64_t *shapes, int64_t length, int64_t *at, int64_t *dim);

/* The length of a list that the caller gives; the shapes of its tensors follow. */
int64_t tg_given_length(tg_call *call, const int64_t *shapes, int64_t length, int64_t *at);

/* Where a sample of a tensor is. */
static inline char *tg_at(const tg_call *call, const tg_tensor *tensor, int64_t sample) {
    char *data = tensor->data;
    for (int64_t i = call->dim; i-- > 0;) {
        data += sample % call->sizes[i] * tensor->batch_strides[i];
        sample /= call->sizes[i];
    }
    return data;
}

void tg_at_each(const tg_call *call, const tg_tensor *tensors, int64_t count, int64_t sample, const void **found);

/* What went wrong in a user's function; the first one on any thread is told. */
void tg_note(tg_call *call, int code, const char *text);

/* Every sample, or every chunk of them. */
void tg_samples(tg_call *call, int64_t work, tg_range run, void *context);

/* -- sums over samples ----------------------------------------------------------------------------------------- */

/* Into how many chunks the samples are split: whatever the number of threads, so that sums do not depend on it.
 * `elements` is what a chunk's sums take. */
void tg_split(tg_call *call, int64_t work, int64_t elements);

/* Where a chunk begins; without sums, each sample is its own. */
static inline int64_t tg_first(const tg_call *call, int64_t chunk) {
    if (!call->chunks) return chunk;
    return call->samples / call->chunks * chunk + tg_min(chunk, call->samples % call->chunks);
}

/* Prepares the sums of an output over which samples are summed. */
void tg_sum(tg_call *call, tg_tensor *tensor, int64_t parts);

/* Adds one sample's part, `core` elements at `part`, to the sums of a chunk. */
void tg_add(const tg_call *call, const tg_tensor *tensor, int64_t chunk, int64_t sample, int64_t core,
            const void *part);

/* Writes the sums into the output. */
void tg_total(const tg_call *call, tg_tensor *tensor);

/* -- elements -------------------------------------------------------------------------------------------------- */

/* Whether two tensors have the same element at the same place in memory. */
bool tg_like(const tg_call *call, const tg_tensor *tensor, const tg_tensor *out);

/* A row is what the last axis has. */
static inline int64_t tg_row_length(const tg_call *call) { return call->dim ? call->sizes[call->dim - 1] : 1; }

static inline int64_t tg_step(const tg_call *call, const tg_tensor *tensor) {
    return call->dim ? tensor->batch_strides[call->dim - 1] : 0;
}

void tg_elements(tg_call *call, bool flat, tg_range run_flat, tg_range run_rows, void *context);

/* -- Python, without the dispatcher ------------------------------------------------------------------------------ */

typedef struct { /* PyMethodDef */
    const char *name;
    tg_python (*function)(tg_python, tg_python const *, ptrdiff_t);
    int flags;
    const char *text;
} tg_method;

typedef struct {
    int64_t dim, sizes[TG_DIMS], strides[TG_DIMS];
    int32_t dtype;
} tg_shape;

static inline bool tg_is_none(tg_python object) { return object == tg_torch.none; }

/* Whether tensors can be handed to Python. */
bool tg_gives_objects(void);

/* The address of a tensor's data; with Python's error set where it has none. */
char *tg_data(tg_python tensor);

/* The outputs as one object, or as a tuple; None if there are none. */
tg_python tg_objects(const tg_value *stack, int count);

/* Bytes from the first element of a tensor to the last one. */
int64_t tg_span(const tg_tensor *tensor);
static inline bool tg_overlap(const char *one, int64_t span, const char *other, int64_t other_span) {
    return one < other + other_span && other < one + span;
}

/* An output's shape, and another output like it. */
void tg_look_at(tg_shape *shape, tg_handle tensor);
void tg_make_again(tg_call *call, tg_tensor *tensor, const tg_shape *shape);

/* Begins a call that is ready. */
static inline void tg_again(tg_call *call) {
    call->kept = call->first;
    call->room = (int64_t)(sizeof call->first / sizeof *call->first);
    call->count = call->error = 0;
    call->text[0] = 0;
}

#pragma GCC visibility pop
