/* Compressed copies: what arrives, what was left of it on the way, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define HOST MGCOMP_MEMCPY_KIND_HOST_TO_HOST
#define U32 MGCOMP_ELEMENT_U32

enum { N = 300000, RAW = 4 * N };

static uint32_t from[N], to[N];

int main(void)
{
    mgcompMemcpyReport report;
    mgcompCopier copier, none = {0};
    mgcompRequest requests[4];
    uint64_t bytes;
    uint32_t i;

    for (i = 0; i < N; i++)
        from[i] = i % 3 == 0 ? i : 0; /* two thirds are zeros */
    GOOD(mgcompCreateCopier(1, -1, &copier));
    GOOD(mgcompMemcpyCompressed(copier, to, from, RAW, HOST, U32, "fixed:zvc", NULL, &report));
    CHECK(memcmp(from, to, RAW) == 0);
    /* A third of the values, a bit for each, and the frames' own bytes. */
    CHECK(report.rawBytes == RAW && report.codedBytes > RAW / 3 + N / 8 && report.codedBytes < RAW / 2);
    CHECK(report.algorithm == MGCOMP_ALGORITHM_ZVC);
    GOOD(mgcompMemcpyCompressed(copier, to, from, RAW, HOST, U32, "fixed:none", NULL, &report));
    CHECK(report.codedBytes == RAW && report.algorithm == MGCOMP_ALGORITHM_NONE);
    GOOD(mgcompMemcpyCompressed(copier, to, from, RAW, HOST, U32, NULL, NULL, NULL));
    GOOD(mgcompMemcpyCompressed(copier, NULL, NULL, 0, HOST, U32, NULL, NULL, NULL));

    memset(to, 1, RAW);
    for (i = 0; i < 4; i++)
        GOOD(mgcompMemcpyCompressedAsync(copier, to + i * N / 4, from + i * N / 4, RAW / 4, HOST, U32, "fixed:zvc", NULL,
                                         &requests[i]));
    for (i = 4; i-- > 0;) {
        GOOD(mgcompWaitRequest(requests[i], &bytes));
        CHECK(bytes > 0 && bytes < RAW / 8);
    }
    CHECK(memcmp(from, to, RAW) == 0);

    REFUSED(ARGUMENT, "in common", mgcompMemcpyCompressed(copier, from + 1, from, 8, HOST, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "source is NULL", mgcompMemcpyCompressed(copier, to, NULL, 8, HOST, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "7 bytes", mgcompMemcpyCompressed(copier, to, from, 7, HOST, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "lzma", mgcompMemcpyCompressed(copier, to, from, 8, HOST, U32, "fixed:lzma", NULL, NULL));
    REFUSED(ARGUMENT, "kind 4", mgcompMemcpyCompressed(copier, to, from, 8, (mgcompMemcpyKind)4, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "cudaDevice is -2", mgcompCreateCopier(1, -2, &copier));
    REFUSED(MGCOMP_RESULT_UNSUPPORTED, "", mgcompCreateCopier(1, 99, &copier)); /* no such device, or none at all */
    REFUSED(ARGUMENT, "without a CUDA device",
            mgcompMemcpyCompressed(copier, to, from, 8, MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "cudaStream", mgcompMemcpyCompressed(copier, to, from, 8, HOST, U32, NULL, &copier, NULL));
    REFUSED(ARGUMENT, "request is NULL", mgcompMemcpyCompressedAsync(copier, to, from, 8, HOST, U32, NULL, NULL, NULL));
    REFUSED(ARGUMENT, "1025", mgcompCreateCopier(1025, -1, &copier));
    REFUSED(HANDLE, "empty", mgcompDestroyCopier(none));
    GOOD(mgcompDestroyCopier(copier));
    REFUSED(HANDLE, "a copier", mgcompDestroyCopier(copier));
    REFUSED(HANDLE, "a copier", mgcompMemcpyCompressed(copier, to, from, 8, HOST, U32, NULL, NULL, NULL));
    return 0;
}
