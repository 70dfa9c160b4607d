/* A program that calls one function of a kernel on arrays from a file: no torch, no Python.
 *
 * Every sample of every array is a piece of memory of its own, of exactly its size, so that AddressSanitizer sees each
 * step out of it; without a sanitizer, fences stand before and after it. In front of it is a gap as wide as itself, so
 * that a step of a whole sample does not end in another one. Written in what C and C++ have in common.
 */
#pragma GCC system_header
#include <dlfcn.h>
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCHGRAFT 1
#define TG_UNUSED __attribute__((unused))
#define TG_HIDDEN __attribute__((visibility("hidden")))
#define TG_ALIGNED 64 /* of a tensor's memory; its samples follow one another, and so may not be */
#define TG_GAP 512      /* bytes before a piece, at least and at most */
#define TG_WIDEST 1048576
#ifdef TG_SANITIZED
#define TG_FENCE 0 /* and behind it */
#else
#define TG_FENCE 512
#endif

typedef uint64_t tg_value;

static FILE *tg_in, *tg_out;
static int tg_poison;       /* of this run: what memory holds that nobody has written */
static int64_t tg_sample = -1; /* which is being computed */

typedef struct {
    const char *name;
    unsigned char *block, *data; /* what was allocated, and what the function gets of it */
    int64_t bytes;
    uint64_t digest;     /* of an input, which stays as it is; else 0 */
    unsigned char fence; /* what is around it: differs from piece to piece, and from run to run */
} tg_piece;

static tg_piece *tg_pieces;
static int64_t tg_count, tg_room;

/* What the other side reads in the error output: what happened, to which array, in which sample, at which byte. */
static TG_UNUSED void tg_tell(const char *what, const char *name, int64_t at, int64_t bytes) {
    fprintf(stderr, "\ntorchgraft: %s %s %lld %lld %lld\n", what, name, (long long)tg_sample, (long long)at,
            (long long)bytes);
}

static TG_UNUSED void tg_stop(const char *what, const char *name, int64_t at, int64_t bytes) {
    fflush(NULL);
    tg_tell(what, name, at, bytes);
    _Exit(78);
}

/* -- sanitizers ---------------------------------------------------------------------------------------------------- */

#ifdef TG_SANITIZED
#ifdef __cplusplus
extern "C" {
#endif
void *__asan_get_report_address(void);
const char *__asan_get_report_description(void);
const char *__asan_locate_address(void *address, char *name, size_t size, void **region, size_t *bytes);
void __asan_poison_memory_region(const volatile void *memory, size_t bytes);
__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

/* Called by AddressSanitizer before its report: which array it is about. For an address that is not on the heap,
   locating would wait for a lock that the report holds. */
void __asan_on_error(void) {
    char name[8];
    size_t bytes;
    void *region = NULL;
    unsigned char *address = (unsigned char *)__asan_get_report_address();
    const char *found = __asan_get_report_description();
    if (address && found && (strstr(found, "heap") || strstr(found, "poison")))
        __asan_locate_address(address, name, sizeof name, &region, &bytes);
    for (int64_t i = 0; region && i < tg_count; i++)
        if (tg_pieces[i].block == region)
            tg_tell("touched", tg_pieces[i].name, address - tg_pieces[i].data, tg_pieces[i].bytes);
}
#ifdef __cplusplus
}
#endif
#endif

static TG_UNUSED void tg_forbid(unsigned char *memory, int64_t bytes) {
#ifdef TG_SANITIZED
    __asan_poison_memory_region(memory, (size_t)bytes);
#else
    (void)memory, (void)bytes;
#endif
}

static TG_UNUSED void tg_find_leaks(void) {
#ifdef TG_SANITIZED
    if (__lsan_do_recoverable_leak_check) __lsan_do_recoverable_leak_check();
#endif
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static TG_UNUSED void tg_get(void *memory, int64_t bytes) {
    if (bytes && fread(memory, 1, (size_t)bytes, tg_in) != (size_t)bytes) tg_stop("broken", "input", 0, bytes);
}

static TG_UNUSED int64_t tg_word(void) {
    int64_t word;
    tg_get(&word, sizeof word);
    return word;
}

static TG_UNUSED int64_t *tg_words(void) {
    int64_t count = tg_word(), *words = (int64_t *)malloc((size_t)(count + 1) * sizeof *words);
    tg_get(words, count * (int64_t)sizeof *words);
    return words;
}

/* FNV-1a, by words. */
static TG_UNUSED uint64_t tg_digest(const unsigned char *memory, int64_t bytes) {
    uint64_t digest = 1469598103934665603ull, word;
    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, memory + i, sizeof word);
        digest = (digest ^ word) * 1099511628211ull;
    }
    for (int64_t i = bytes & ~(int64_t)7; i < bytes; i++) digest = (digest ^ memory[i]) * 1099511628211ull;
    return digest | 1;
}

/* A piece of memory, filled, and aligned as that sample of a tensor is. */
static TG_UNUSED unsigned char *tg_new(const char *name, int64_t bytes, int64_t sample, int fill) {
    if (tg_count == tg_room) {
        tg_room = tg_room ? 2 * tg_room : 64;
        tg_pieces = (tg_piece *)realloc(tg_pieces, (size_t)tg_room * sizeof *tg_pieces);
        if (!tg_pieces) tg_stop("memory", name, 0, bytes);
    }
    tg_piece *piece = &tg_pieces[tg_count];
    int64_t gap = bytes < TG_GAP ? TG_GAP : bytes < TG_WIDEST ? (bytes | (TG_ALIGNED - 1)) + 1 : TG_WIDEST;
    int64_t before = gap + (sample % TG_ALIGNED) * (bytes % TG_ALIGNED) % TG_ALIGNED;
    size_t all = (size_t)(before + bytes + TG_FENCE);
    void *block;
    if (bytes < 0 || posix_memalign(&block, TG_ALIGNED, all)) tg_stop("memory", name, 0, bytes);
    piece->name = name;
    piece->block = (unsigned char *)block;
    piece->data = piece->block + before;
    piece->bytes = bytes;
    piece->digest = 0;
    piece->fence = (unsigned char)(255 - tg_poison + tg_count % TG_ALIGNED);
    memset(piece->block, piece->fence, all);
    memset(piece->data, fill, (size_t)bytes);
    tg_forbid(piece->block, before);
    tg_count++;
    return piece->data;
}

/* A piece of the file. */
static TG_UNUSED unsigned char *tg_input(const char *name, int64_t bytes, int64_t sample) {
    unsigned char *data = tg_new(name, bytes, sample, 0);
    tg_get(data, bytes);
    tg_pieces[tg_count - 1].digest = tg_digest(data, bytes);
    return data;
}

/* The next piece of the file, after its size; a size of -1 stands for NULL. */
static TG_UNUSED unsigned char *tg_next(const char *name) {
    int64_t bytes = tg_word();
    return bytes < 0 ? NULL : tg_input(name, bytes, 0);
}

static TG_UNUSED void tg_inspect(const tg_piece *piece) {
    int64_t before = piece->data - piece->block,
            first = TG_FENCE ? 0 : before & ~(int64_t)7; /* seen by the sanitizer */
    for (int64_t i = before - 1; i >= first; i--)
        if (piece->block[i] != piece->fence) tg_stop("before", piece->name, i - before, piece->bytes);
    for (int64_t i = piece->bytes; i < piece->bytes + TG_FENCE; i++)
        if (piece->data[i] != piece->fence) tg_stop("past", piece->name, i, piece->bytes);
    if (piece->digest && piece->digest != tg_digest(piece->data, piece->bytes))
        tg_stop("changed", piece->name, 0, piece->bytes);
}

static TG_UNUSED void tg_put(int64_t word) {
    if (fwrite(&word, sizeof word, 1, tg_out) != 1) tg_stop("broken", "output", 0, sizeof word);
}

/* Forgets the last piece: an output, which is written, or a workspace. */
static TG_UNUSED void tg_drop(bool written) {
    tg_piece *piece = &tg_pieces[tg_count - 1];
    tg_inspect(piece);
    if (written && fwrite(piece->data, 1, (size_t)piece->bytes, tg_out) != (size_t)piece->bytes)
        tg_stop("broken", "output", 0, piece->bytes);
    tg_count--;
    free(piece->block);
}

/* After the last sample: what it was computed from, and what is still allocated. */
static TG_UNUSED void tg_finish(void) {
    tg_sample = -1;
    for (int64_t i = 0; i < tg_count; i++) tg_inspect(&tg_pieces[i]);
    tg_find_leaks();
}

/* -- what the call of the function is written in terms of ----------------------------------------------------------- */

typedef struct {
    void *handle; /* NULL for an optional array that is not there */
    unsigned char *data, **pieces;
    int64_t *index; /* which piece each sample has; NULL where there is one at a time */
    int64_t dim, *sizes, *strides;
} tg_tensor;

typedef struct { int64_t samples; } tg_call;

static TG_UNUSED unsigned char *tg_at(const tg_call *call, const tg_tensor *tensor, int64_t sample) {
    (void)call;
    return tensor->pieces[tensor->index ? tensor->index[sample] : 0];
}

static TG_UNUSED void tg_at_each(const tg_call *call, const tg_tensor *tensors, int64_t count, int64_t sample,
                                 const void **found) {
    for (int64_t i = 0; i < count; i++) found[i] = tg_at(call, &tensors[i], sample);
}

/* The seed of a sample, which the other side has made. */
static TG_UNUSED int64_t tg_seed(const tg_call *call, const tg_tensor *tensor, int64_t sample) {
    int64_t own;
    memcpy(&own, tg_at(call, tensor, sample), sizeof own);
    return own;
}

/* The function failed: by a code, or by what it has thrown, whose text may have several lines. */
static TG_UNUSED void tg_note(tg_call *call, int code, const char *text) {
    (void)call;
    if (!text) tg_stop("returned", "code", code, 0);
    fflush(NULL);
    tg_tell("threw", "text", 0, (int64_t)strlen(text));
    fputs(text, stderr);
    _Exit(78);
}

/* An array of the file: pieces of one size, which of them each sample has, its sizes and strides. */
static TG_UNUSED void tg_load(tg_tensor *tensor, const char *name) {
    int64_t count = tg_word(), bytes = tg_word();
    tensor->pieces = (unsigned char **)calloc((size_t)count + 1, sizeof *tensor->pieces);
    for (int64_t i = 0; i < count; i++) tensor->pieces[i] = tg_input(name, bytes, i);
    tensor->index = tg_words();
    tensor->handle = tensor->pieces;
    tensor->data = tensor->pieces[0];
    tensor->dim = tg_word();
    tensor->sizes = tg_words();
    tensor->strides = tg_words();
}

/* An output, of which the file has the sizes and strides. */
static TG_UNUSED void tg_outline(tg_tensor *tensor) {
    tensor->pieces = (unsigned char **)malloc(sizeof *tensor->pieces);
    tensor->dim = tg_word();
    tensor->sizes = tg_words();
    tensor->strides = tg_words();
}

/* The bytes of one sample of an output, of elements of a size. */
static TG_UNUSED int64_t tg_bytes(const tg_tensor *tensor, int64_t bytes) {
    for (int64_t i = 0; i < tensor->dim; i++) bytes *= tensor->sizes[i];
    return bytes;
}

/* Memory for one sample. */
static TG_UNUSED void tg_make(tg_tensor *tensor, const char *name, int64_t item) {
    tensor->data = tg_new(name, tg_bytes(tensor, item), tg_sample, tg_poison);
    *tensor->pieces = tensor->data;
}
