/* A program that calls one function of a kernel on arrays from a file: no torch, no Python.
 *
 * Every sample of every array is a piece of memory of its own, of exactly its size, so that AddressSanitizer sees each
 * step out of it; without a sanitizer, fences stand before and after it. Written in what C and C++ have in common.
 */
#pragma GCC system_header
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCHGRAFT 1
#define TG_UNUSED __attribute__((unused))
#ifdef TG_SANITIZED
#define TG_FENCE 0
#else
#define TG_FENCE 64
#endif

typedef uint64_t tg_value;

static FILE *tg_in, *tg_out;
static int tg_poison; /* of this pass: what memory holds that nobody has written; the fences, its complement */

typedef struct {
    const char *name;
    unsigned char *memory; /* with the fences */
    int64_t bytes;
    uint64_t digest; /* of an input, which stays as it is */
} tg_piece;

static tg_piece *tg_pieces;
static int64_t tg_count, tg_room;

static TG_UNUSED void tg_stop(const char *what, const char *name, int64_t number) {
    fprintf(stderr, "torchgraft: %s %s %lld\n", what, name, (long long)number);
    fflush(NULL);
    _Exit(78);
}

static TG_UNUSED void tg_get(void *memory, int64_t bytes) {
    if (bytes && fread(memory, 1, (size_t)bytes, tg_in) != (size_t)bytes) tg_stop("broken", "input", 0);
}

static TG_UNUSED int64_t tg_word(void) {
    int64_t word;
    tg_get(&word, sizeof word);
    return word;
}

static TG_UNUSED uint64_t tg_digest(const unsigned char *memory, int64_t bytes) {
    uint64_t digest = 1469598103934665603ull; /* FNV-1a */
    for (int64_t i = 0; i < bytes; i++) digest = (digest ^ memory[i]) * 1099511628211ull;
    return digest;
}

static TG_UNUSED unsigned char *tg_new(const char *name, int64_t bytes) {
    if (tg_count == tg_room) {
        tg_room = tg_room ? 2 * tg_room : 64;
        tg_pieces = (tg_piece *)realloc(tg_pieces, (size_t)tg_room * sizeof *tg_pieces);
    }
    tg_piece *piece = &tg_pieces[tg_count++];
    piece->name = name;
    piece->bytes = bytes;
    piece->digest = 0;
    piece->memory = (unsigned char *)malloc((size_t)(bytes + 2 * TG_FENCE));
    if (!tg_pieces || !piece->memory) tg_stop("no memory for", name, bytes);
    memset(piece->memory, 255 - tg_poison, (size_t)(bytes + 2 * TG_FENCE));
    memset(piece->memory + TG_FENCE, tg_poison, (size_t)bytes);
    fprintf(stderr, "piece %p %lld %s\n", (void *)(piece->memory + TG_FENCE), (long long)bytes, name);
    return piece->memory + TG_FENCE;
}

/* The next piece of the file; a size of -1 stands for NULL. */
static TG_UNUSED unsigned char *tg_next(const char *name) {
    int64_t bytes = tg_word();
    if (bytes < 0) return NULL;
    unsigned char *memory = tg_new(name, bytes);
    tg_get(memory, bytes);
    tg_pieces[tg_count - 1].digest = tg_digest(memory, bytes) | 1;
    return memory;
}

/* The pieces of all samples of an array. */
static TG_UNUSED unsigned char **tg_samples_of(const char *name) {
    int64_t count = tg_word();
    unsigned char **pieces = (unsigned char **)malloc((size_t)(count + 1) * sizeof *pieces);
    for (int64_t i = 0; i < count; i++) pieces[i] = tg_next(name);
    return pieces;
}

static TG_UNUSED int64_t *tg_words(void) {
    int64_t count = tg_word(), *words = (int64_t *)malloc((size_t)(count + 1) * sizeof *words);
    tg_get(words, count * (int64_t)sizeof *words);
    return words;
}

static TG_UNUSED void tg_inspect_piece(const tg_piece *piece, int64_t sample) {
    for (int64_t i = 0; i < TG_FENCE; i++) {
        if (piece->memory[TG_FENCE - 1 - i] != 255 - tg_poison) tg_stop("before", piece->name, sample);
        if (piece->memory[TG_FENCE + piece->bytes + i] != 255 - tg_poison) tg_stop("past", piece->name, sample);
    }
    if (piece->digest && piece->digest != (tg_digest(piece->memory + TG_FENCE, piece->bytes) | 1))
        tg_stop("changed", piece->name, sample);
}

/* Fences and inputs after a sample: those made last, which are its own; all of them, where there are few. */
static TG_UNUSED void tg_inspect(int64_t sample) {
    for (int64_t i = tg_count > 64 ? tg_count - 64 : 0; i < tg_count; i++) tg_inspect_piece(&tg_pieces[i], sample);
}

static TG_UNUSED void tg_inspect_all(void) {
    for (int64_t i = 0; i < tg_count; i++) tg_inspect_piece(&tg_pieces[i], -1);
}

/* Writes an output, or forgets a workspace: the last piece. */
static TG_UNUSED void tg_drop(bool written) {
    tg_piece *piece = &tg_pieces[--tg_count];
    if (written) fwrite(piece->memory + TG_FENCE, 1, (size_t)piece->bytes, tg_out);
    free(piece->memory);
}

static TG_UNUSED void tg_said(const char *text) {
    fprintf(stderr, "torchgraft: threw %s\n", text);
    fflush(NULL);
    _Exit(78);
}

/* -- what the call of the function is written in terms of ------------------------------------------------------- */

typedef struct {
    void *handle; /* NULL for an optional array that is not there */
    unsigned char *data, **pieces;
    int64_t *index; /* which piece each sample has */
    int64_t dim, *sizes, *strides;
} tg_tensor;

typedef struct {
    int64_t samples;
} tg_call;

static TG_UNUSED unsigned char *tg_at(const tg_call *call, const tg_tensor *tensor, int64_t sample) {
    (void)call;
    return tensor->pieces[tensor->index ? tensor->index[sample] : 0];
}

static TG_UNUSED void tg_at_each(const tg_call *call, const tg_tensor *tensors, int64_t count, int64_t sample,
                                 const void **found) {
    for (int64_t i = 0; i < count; i++) found[i] = tg_at(call, &tensors[i], sample);
}

static TG_UNUSED void tg_note(tg_call *call, int code, const char *text) {
    (void)call;
    if (text) tg_said(text);
    tg_stop("returned", "a code", code);
}

/* An array of the file: its pieces, which of them each sample has, its sizes and strides. */
static TG_UNUSED void tg_load(tg_tensor *tensor, const char *name) {
    tensor->pieces = tg_samples_of(name);
    tensor->index = tg_words();
    tensor->handle = tensor->pieces;
    tensor->data = tensor->pieces[0];
    tensor->dim = tg_word();
    tensor->sizes = tg_words();
    tensor->strides = tg_words();
}

/* Memory for one sample of an output. */
static TG_UNUSED void tg_make(tg_tensor *tensor, const char *name, int64_t bytes) {
    tensor->data = tg_new(name, bytes);
    *tensor->pieces = tensor->data;
}
