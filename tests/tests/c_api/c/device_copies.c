/* Copies between the host and a CUDA device, in the order of the program's own streams; and copies of nothing. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <time.h>
#include <unistd.h>

#define OUT MGCOMP_MEMCPY_KIND_DEVICE_TO_HOST
#define IN MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE
#define WITHIN MGCOMP_MEMCPY_KIND_DEVICE_TO_DEVICE
#define U32 MGCOMP_ELEMENT_U32
#define ZVC "fixed:zvc"

enum { N = 300000, RAW = 4 * N };

static uint32_t from[N], back[N];
static void *context;

static void *allocate(size_t bytes)
{
    uint64_t address;

    enter(context);
    CHECK(cu.allocate(&address, bytes) == 0);
    leave();
    return (void *)(uintptr_t)address;
}

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

static void round_trip(mgcompCopier copier, void *one, void *two, void *stream)
{
    mgcompMemcpyReport report;
    mgcompKept kept;

    memset(back, 0, RAW);
    GOOD(mgcompMemcpyCompressed(copier, one, from, RAW, IN, U32, ZVC, stream, &report));
    CHECK(report.rawBytes == RAW && report.codedBytes < RAW / 2);
    GOOD(mgcompMemcpyCompressed(copier, two, one, RAW, WITHIN, U32, ZVC, stream, &report));
    GOOD(mgcompMemcpyCompressed(copier, back, two, RAW, OUT, U32, ZVC, stream, &report));
    CHECK(report.algorithm == MGCOMP_ALGORITHM_ZVC && memcmp(back, from, RAW) == 0);
    GOOD(mgcompKeepCompressed(copier, two, RAW, OUT, U32, ZVC, stream, &kept, &report));
    enter(context);
    CHECK(cu.fill(address_of(two), 0, RAW, stream) == 0);
    leave();
    GOOD(mgcompExpandKept(copier, two, RAW, kept, IN, stream, &report));
    memset(back, 0, RAW);
    GOOD(mgcompMemcpyCompressed(copier, back, two, RAW, OUT, U32, "fixed:none", stream, &report));
    CHECK(memcmp(back, from, RAW) == 0);
    GOOD(mgcompDestroyKept(kept));
}

/* What a stream still brings to the host is copied on when it is there, and the call does not wait for that. Nor does it, or
 * what waits, spoil what the program records meanwhile. */
static void behind_a_stream(mgcompCopier copier, void *one, void *two, const char *policy)
{
    const struct timespec a_while = {0, 20000000};
    mgcompRequest request;
    void *stream, *other, *recording, *graph, *middle, *word = allocate(4);

    alarm(60); /* it would hang */
    GOOD(mgcompMemcpyCompressed(copier, one, from, RAW, IN, U32, ZVC, NULL, NULL));
    enter(context);
    CHECK(cu.allocate_host(&middle, RAW, 0) == 0);
    memset(middle, 0, RAW);
    memset(back, 0, RAW);
    CHECK(cu.create_stream(&stream, 1) == 0 && cu.create_stream(&other, 1) == 0);
    CHECK(cu.create_stream(&recording, 1) == 0);
    CHECK(cu.fill(address_of(word), 0, 4, stream) == 0);
    CHECK(cu.await_value(stream, address_of(word), 1, 0) == 0);
    CHECK(cu.copy(address_of(middle), address_of(one), RAW, stream) == 0);
    CHECK(cu.begin_capture(recording, 0) == 0);
    leave();
    GOOD(mgcompMemcpyCompressedAsync(copier, two, middle, RAW, IN, U32, policy, stream, &request));
    nanosleep(&a_while, NULL);
    enter(context);
    CHECK(cu.end_capture(recording, &graph) == 0 && cu.destroy_graph(graph) == 0);
    CHECK(cu.destroy_stream(recording) == 0);
    CHECK(cu.write_value(other, address_of(word), 1, 0) == 0);
    leave();
    GOOD(mgcompWaitRequest(request, NULL));
    alarm(0);
    GOOD(mgcompMemcpyCompressed(copier, back, two, RAW, OUT, U32, ZVC, stream, NULL));
    CHECK(memcmp(back, from, RAW) == 0);
    enter(context);
    CHECK(cu.destroy_stream(stream) == 0 && cu.destroy_stream(other) == 0);
    CHECK(cu.free(address_of(word)) == 0 && cu.free_host(middle) == 0);
    leave();
}

/* NULL is a buffer of 0 bytes, of whichever values. */
static void nothing(mgcompCopier copier, void *device)
{
    const mgcompElement wide[] = {MGCOMP_ELEMENT_F16, U32, MGCOMP_ELEMENT_U64};
    mgcompMemcpyReport report;
    mgcompRequest request;
    mgcompKept kept;
    size_t i;

    for (i = 0; i < 3; i++) {
        GOOD(mgcompMemcpyCompressed(copier, NULL, from, 0, IN, wide[i], NULL, NULL, &report));
        CHECK(report.rawBytes == 0);
        GOOD(mgcompMemcpyCompressed(copier, back, NULL, 0, OUT, wide[i], ZVC, NULL, &report));
        GOOD(mgcompMemcpyCompressed(copier, NULL, NULL, 0, WITHIN, wide[i], ZVC, NULL, &report));
        GOOD(mgcompMemcpyCompressed(copier, NULL, device, 0, WITHIN, wide[i], NULL, NULL, &report));
        GOOD(mgcompMemcpyCompressedAsync(copier, NULL, NULL, 0, OUT, wide[i], NULL, NULL, &request));
        GOOD(mgcompWaitRequest(request, NULL));
        GOOD(mgcompKeepCompressed(copier, NULL, 0, OUT, wide[i], ZVC, NULL, &kept, &report));
        GOOD(mgcompExpandKept(copier, NULL, 0, kept, IN, NULL, &report));
        CHECK(report.rawBytes == 0);
        GOOD(mgcompDestroyKept(kept));
    }
}

int main(void)
{
    mgcompCopier copier;
    void *one, *two, *stream;
    uint32_t i;

    for (i = 0; i < N; i++)
        from[i] = i % 3 == 0 ? i + 1 : 0; /* two thirds are zeros */
    open_driver();
    CHECK(cu.retain(&context, 0) == 0);
    GOOD(mgcompCreateCopier(1, 0, &copier));
    one = allocate(RAW);
    two = allocate(RAW);
    enter(context);
    CHECK(cu.create_stream(&stream, 1) == 0);
    leave();
    round_trip(copier, one, two, NULL);
    round_trip(copier, one, two, stream);
    behind_a_stream(copier, one, two, ZVC);
    behind_a_stream(copier, one, two, "fixed:none");
    behind_a_stream(copier, one, two, NULL);
    nothing(copier, one);
    GOOD(mgcompDestroyCopier(copier));
    enter(context);
    CHECK(cu.destroy_stream(stream) == 0 && cu.free(address_of(one)) == 0 && cu.free(address_of(two)) == 0);
    leave();
    return 0;
}
