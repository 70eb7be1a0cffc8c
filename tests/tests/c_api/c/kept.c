/* Copies that stay compressed: what they take, what they expand to, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define HOST MGCOMP_MEMCPY_KIND_HOST_TO_HOST
#define OUT MGCOMP_MEMCPY_KIND_DEVICE_TO_HOST
#define IN MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE
#define U32 MGCOMP_ELEMENT_U32

enum { N = 300000, RAW = 4 * N };

static uint32_t from[N], to[N];

int main(void)
{
    mgcompMemcpyReport report;
    mgcompCopier copier, other;
    mgcompKept kept, none = {0}, empty, plain, later[4];
    mgcompKeptInfo info;
    mgcompRequest requests[4];
    uint64_t bytes;
    uint32_t i;

    for (i = 0; i < N; i++)
        from[i] = i % 3 == 0 ? i : 0; /* two thirds are zeros */
    GOOD(mgcompCreateCopier(1, -1, &copier));
    GOOD(mgcompKeepCompressed(copier, from, RAW, HOST, U32, "fixed:zvc", NULL, &kept, &report));
    /* A third of the values, a bit for each, and the frames' own bytes. */
    CHECK(report.rawBytes == RAW && report.codedBytes > RAW / 3 + N / 8 && report.codedBytes < RAW / 2);
    GOOD(mgcompGetKeptInfo(kept, &info));
    CHECK(info.rawBytes == RAW && info.codedBytes == report.codedBytes);
    CHECK(info.element == U32 && info.algorithm == MGCOMP_ALGORITHM_ZVC);
    GOOD(mgcompExpandKept(copier, to, RAW, kept, HOST, NULL, &report));
    CHECK(memcmp(from, to, RAW) == 0 && report.rawBytes == RAW && report.codedBytes == info.codedBytes);

    /* What does not shrink is kept as it is; nothing is kept as nothing. */
    GOOD(mgcompKeepCompressed(copier, from, RAW, HOST, U32, "fixed:none", NULL, &plain, NULL));
    GOOD(mgcompGetKeptInfo(plain, &info));
    CHECK(info.codedBytes == RAW && info.algorithm == MGCOMP_ALGORITHM_NONE);
    GOOD(mgcompKeepCompressed(copier, NULL, 0, HOST, U32, NULL, NULL, &empty, NULL));
    GOOD(mgcompExpandKept(copier, NULL, 0, empty, HOST, NULL, NULL));
    REFUSED(ARGUMENT, "destination of 8", mgcompExpandKept(copier, to, 8, empty, HOST, NULL, NULL));
    GOOD(mgcompDestroyKept(empty));

    /* Without waiting, several at once. What was kept does not change when its source does. */
    for (i = 0; i < 4; i++)
        GOOD(mgcompKeepCompressedAsync(copier, from + i * N / 4, RAW / 4, HOST, U32, "fixed:zvc", NULL, &later[i],
                                       &requests[i]));
    for (i = 4; i-- > 0;) {
        GOOD(mgcompWaitRequest(requests[i], &bytes));
        GOOD(mgcompGetKeptInfo(later[i], &info));
        CHECK(bytes == info.codedBytes && bytes > 0 && bytes < RAW / 8 && info.rawBytes == RAW / 4);
    }
    memcpy(to, from, RAW);
    memset(from, 9, RAW);
    /* Any copier expands it, and the one that has kept it may be gone. */
    GOOD(mgcompDestroyCopier(copier));
    REFUSED(HANDLE, "a copier", mgcompExpandKept(copier, from, RAW, kept, HOST, NULL, NULL));
    GOOD(mgcompCreateCopier(2, -1, &other));
    for (i = 0; i < 4; i++)
        GOOD(mgcompExpandKeptAsync(other, from + i * N / 4, RAW / 4, later[i], HOST, NULL, &requests[i]));
    for (i = 0; i < 4; i++)
        GOOD(mgcompDestroyKept(later[i])); /* those under way go on */
    for (i = 0; i < 4; i++)
        GOOD(mgcompWaitRequest(requests[i], NULL));
    CHECK(memcmp(from, to, RAW) == 0);

    /* Destroyed before it is there: the request still tells what it came to. */
    GOOD(mgcompKeepCompressedAsync(other, from, RAW, HOST, U32, "fixed:zvc", NULL, &later[0], &requests[0]));
    GOOD(mgcompDestroyKept(later[0]));
    GOOD(mgcompWaitRequest(requests[0], &bytes));
    CHECK(bytes < RAW / 2);
    /* Nothing that has not been waited for can be used, however far it is. */
    GOOD(mgcompKeepCompressedAsync(other, from, RAW, HOST, U32, "fixed:zvc", NULL, &later[0], &requests[0]));
    REFUSED(MGCOMP_RESULT_BUSY, "not kept yet", mgcompGetKeptInfo(later[0], &info));
    REFUSED(MGCOMP_RESULT_BUSY, "not kept yet", mgcompExpandKept(other, to, RAW, later[0], HOST, NULL, NULL));
    GOOD(mgcompWaitRequest(requests[0], NULL));
    GOOD(mgcompExpandKept(other, to, RAW, later[0], HOST, NULL, NULL));
    GOOD(mgcompDestroyKept(later[0]));

    REFUSED(ARGUMENT, "destination of 1199996", mgcompExpandKept(other, to, RAW - 4, kept, HOST, NULL, NULL));
    REFUSED(ARGUMENT, "kind says device to host", mgcompExpandKept(other, to, RAW, kept, OUT, NULL, NULL));
    REFUSED(ARGUMENT, "kind says host to device",
            mgcompKeepCompressed(other, from, RAW, IN, U32, NULL, NULL, &kept, NULL));
    REFUSED(ARGUMENT, "without a CUDA device", mgcompExpandKept(other, to, RAW, kept, IN, NULL, NULL));
    REFUSED(ARGUMENT, "without a CUDA device",
            mgcompKeepCompressed(other, from, RAW, OUT, U32, NULL, NULL, &later[0], NULL));
    REFUSED(ARGUMENT, "7 bytes", mgcompKeepCompressed(other, from, 7, HOST, U32, NULL, NULL, &later[0], NULL));
    REFUSED(ARGUMENT, "7 bytes",
            mgcompKeepCompressedAsync(other, from, 7, HOST, U32, NULL, NULL, &later[0], &requests[0]));
    REFUSED(ARGUMENT, "source is NULL", mgcompKeepCompressed(other, NULL, 8, HOST, U32, NULL, NULL, &later[0], NULL));
    REFUSED(ARGUMENT, "kept is NULL", mgcompKeepCompressed(other, from, 8, HOST, U32, NULL, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "kept is NULL",
            mgcompKeepCompressedAsync(other, from, 8, HOST, U32, NULL, NULL, NULL, &requests[0]));
    REFUSED(ARGUMENT, "request is NULL",
            mgcompKeepCompressedAsync(other, from, 8, HOST, U32, NULL, NULL, &later[0], NULL));
    REFUSED(HANDLE, "empty", mgcompGetKeptInfo(none, &info));
    GOOD(mgcompDestroyKept(kept));
    REFUSED(HANDLE, "something kept", mgcompDestroyKept(kept));
    REFUSED(HANDLE, "something kept", mgcompExpandKept(other, to, RAW, kept, HOST, NULL, NULL));
    REFUSED(HANDLE, "something kept", mgcompExpandKeptAsync(other, to, RAW, kept, HOST, NULL, &requests[0]));
    GOOD(mgcompDestroyKept(plain));
    GOOD(mgcompDestroyCopier(other));
    return 0;
}
