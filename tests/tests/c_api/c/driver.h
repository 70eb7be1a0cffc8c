/* The CUDA driver, by its own calls, as a program has it that knows nothing of mgcomp. */
#ifndef DRIVER_H
#define DRIVER_H

#include "check.h"

#include <dlfcn.h>

/* What the program calls of the driver, with the types of cuda.h. */
static struct {
    int (*init)(unsigned);
    int (*retain)(void **context, int device);
    int (*create)(void **context, unsigned flags, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*allocate)(uint64_t *address, size_t bytes);
    int (*free)(uint64_t address);
    int (*allocate_host)(void **memory, size_t bytes, unsigned flags);
    int (*free_host)(void *memory);
    int (*create_stream)(void **stream, unsigned flags);
    int (*destroy_stream)(void *stream);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*destroy_graph)(void *graph);
    int (*fill)(uint64_t address, unsigned char value, size_t bytes, void *stream);
    int (*upload)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*download)(void *to, uint64_t from, size_t bytes, void *stream);
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*await_value)(void *stream, uint64_t address, uint32_t value, unsigned flags);
    int (*write_value)(void *stream, uint64_t address, uint32_t value, unsigned flags);
} cu;

static inline void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    CHECK(found != NULL);
    memcpy(function, &found, sizeof found);
}

static inline void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    CHECK(library != NULL);
    find(library, "cuInit", &cu.init);
    find(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    find(library, "cuCtxCreate_v2", &cu.create);
    find(library, "cuCtxPushCurrent_v2", &cu.push);
    find(library, "cuCtxPopCurrent_v2", &cu.pop);
    find(library, "cuMemAlloc_v2", &cu.allocate);
    find(library, "cuMemFree_v2", &cu.free);
    find(library, "cuMemHostAlloc", &cu.allocate_host);
    find(library, "cuMemFreeHost", &cu.free_host);
    find(library, "cuStreamCreate", &cu.create_stream);
    find(library, "cuStreamDestroy_v2", &cu.destroy_stream);
    find(library, "cuStreamBeginCapture_v2", &cu.begin_capture);
    find(library, "cuStreamEndCapture", &cu.end_capture);
    find(library, "cuGraphDestroy", &cu.destroy_graph);
    find(library, "cuMemsetD8Async", &cu.fill);
    find(library, "cuMemcpyHtoDAsync_v2", &cu.upload);
    find(library, "cuMemcpyDtoHAsync_v2", &cu.download);
    find(library, "cuMemcpyAsync", &cu.copy);
    find(library, "cuStreamWaitValue32_v2", &cu.await_value);
    find(library, "cuStreamWriteValue32_v2", &cu.write_value);
    CHECK(cu.init(0) == 0);
}

/* Makes a context that of this thread, until it leaves it. */
static inline void enter(void *context)
{
    CHECK(cu.push(context) == 0);
}

static inline void leave(void)
{
    void *context;

    CHECK(cu.pop(&context) == 0);
}

#endif
