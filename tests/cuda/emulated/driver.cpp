// The functions of libcuda, and of torch's library for CUDA, that the launcher calls: kernels run on the CPU. The image
// of a kernel is the path of a library that g++ made of its text. What was launched is kept, for tests to ask.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

typedef void (*grid)(const unsigned *, const void *);
static thread_local int guarded = -1;
static std::mutex one; // launch at a time, as a kernel's place in the grid is in globals
static void *const STREAM = (void *)0x7f0123456780; // It does not fit into 32 bits.

extern "C" {
struct {
    int64_t launches, loads, device, blocks, threads, n, guards;
    void *stream, *context;
    int device_of_tensors, capturing, refuses, dry, shared;
    char entry[16];
    int on_host; // so many tensors are not on a device
    int64_t frame[64]; // the first words of the last one
} stand_in = {};

int cuGetErrorString(int, const char **text) { return *text = "the stand-in says so", 0; }
int cuCtxGetCurrent(void **context) { return *context = stand_in.context, 0; }
int cuCtxSetCurrent(void *context) { return stand_in.context = context, 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int) { return *value = attribute == 75 ? 8 : 6, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = (void *)(int64_t)(device + 1), 0; }
int cuStreamIsCapturing(void *, int *capturing) { return *capturing = stand_in.capturing, 0; }

int cuModuleLoadData(void **module, const void *image) {
    *module = dlopen((const char *)image, RTLD_NOW | RTLD_LOCAL);
    if (!*module) return fprintf(stderr, "%s\n", dlerror()), 300;
    stand_in.loads++;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = dlsym(module, "tg_run_grid");
    strncpy(stand_in.entry, name, sizeof stand_in.entry - 1);
    return *function && dlsym(module, name) ? 0 : 500;
}

int cuFuncSetAttribute(void *, int attribute, int value) {
    if (attribute != 8 || value > 232448) return 1;
    return stand_in.shared = value, 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned across, unsigned down, unsigned deep,
                   unsigned shared, void *stream, void **parameters, void **) {
    const std::lock_guard<std::mutex> alone(one);
    if (stand_in.refuses || !x || across * down * deep > 1024) return 1;
    if (guarded != stand_in.device_of_tensors) return 2;
    if (shared > 49152 && (int)shared > stand_in.shared) return 1;
    const unsigned size[] = {x, y, z, across, down, deep};
    stand_in.launches++;
    stand_in.device = guarded;
    stand_in.blocks = x;
    stand_in.threads = across;
    stand_in.stream = stream;
    stand_in.n = *(int64_t *)parameters[0];
    std::memcpy(stand_in.frame, parameters[0], sizeof stand_in.frame);
    if (!stand_in.dry) ((grid)function)(size, parameters[0]);
    return 0;
}

int32_t aoti_torch_get_device_index(void *, int32_t *index) {
    return *index = stand_in.on_host-- > 0 ? -1 : stand_in.device_of_tensors, 0;
}
int32_t aoti_torch_create_device_guard(int32_t index, void **guard) {
    __atomic_fetch_add(&stand_in.guards, 1, __ATOMIC_RELAXED);
    guarded = index;
    return *guard = &guarded, 0;
}
int32_t aoti_torch_delete_device_guard(void *) {
    __atomic_fetch_sub(&stand_in.guards, 1, __ATOMIC_RELAXED);
    guarded = -1;
    return 0;
}
int32_t aoti_torch_get_current_cuda_stream(int32_t index, void **stream) {
    return *stream = (char *)STREAM + index, 0;
}
}
