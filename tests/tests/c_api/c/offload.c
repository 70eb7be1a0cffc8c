/* The queue for what leaves for a while: what comes back, the bound on host memory, tickets, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define FULL MGCOMP_RESULT_NO_MEMORY
#define F32 MGCOMP_ELEMENT_F32

enum { LAYERS = 8, N = 64 << 10, RAW = 4 * N };

static float layers[LAYERS][N], back[N];

/* A value of a layer: half of them are zeros. */
static float value(uint32_t layer, uint32_t i)
{
    return i % 2 ? (float)(layer * N + i) : 0;
}

static int is_layer(const float *values, uint32_t layer)
{
    uint32_t i;

    for (i = 0; i < N; i++)
        if (values[i] != value(layer, i))
            return 0;
    return 1;
}

/* Forward and backward: each layer's memory is used for something else meanwhile. */
static void train(mgcompOffloadQueue queue)
{
    mgcompOffloadTicket tickets[LAYERS];
    mgcompRequest request;
    mgcompMemcpyReport report;
    mgcompOffloadStats stats;
    uint64_t bytes;
    uint32_t i, j;

    for (i = 0; i < LAYERS; i++) {
        for (j = 0; j < N; j++)
            layers[i][j] = value(i, j);
        GOOD(mgcompOffload(queue, layers[i], RAW, F32, &tickets[i]));
    }
    for (i = 0; i < LAYERS; i++) {
        GOOD(mgcompWaitOffload(queue, tickets[i], &report));
        CHECK(report.rawBytes == RAW && report.codedBytes > RAW / 2 && report.codedBytes < RAW * 2 / 3);
        GOOD(mgcompWaitOffload(queue, tickets[i], NULL)); /* as often as one likes */
        memset(layers[i], 7, RAW);
    }
    GOOD(mgcompGetOffloadStats(queue, &stats));
    CHECK(stats.offloaded == LAYERS && stats.rawBytes == (uint64_t)LAYERS * RAW && stats.prefetched == 0);
    CHECK(stats.usedBytes > stats.codedBytes && stats.usedBytes < stats.codedBytes / 8 * 9 + 1024 * LAYERS);
    for (i = LAYERS; i-- > 0;) {
        GOOD(mgcompPrefetch(queue, tickets[i], layers[i], RAW, &request));
        GOOD(mgcompWaitRequest(request, &bytes));
        CHECK(bytes > RAW / 2 && bytes < RAW * 2 / 3);
        CHECK(is_layer(layers[i], i));
        REFUSED(HANDLE, "an offload ticket", mgcompWaitOffload(queue, tickets[i], NULL));
        REFUSED(HANDLE, "an offload ticket", mgcompPrefetch(queue, tickets[i], back, RAW, &request));
    }
    GOOD(mgcompGetOffloadStats(queue, &stats));
    CHECK(stats.prefetched == LAYERS && stats.usedBytes == 0 && stats.failed == 0 && stats.peakBytes > RAW);
}

/* Not waited for in between: the way back begins when the way out has ended, in the memory that it came from too. */
static void at_once(mgcompOffloadQueue queue)
{
    mgcompOffloadTicket tickets[LAYERS];
    mgcompRequest requests[LAYERS];
    uint32_t i, finished, j;

    for (i = 0; i < LAYERS; i++) {
        for (j = 0; j < N; j++)
            layers[i][j] = value(i + 1, j);
        GOOD(mgcompOffload(queue, layers[i], RAW, F32, &tickets[i]));
        GOOD(mgcompPrefetch(queue, tickets[i], i % 2 ? back : layers[i], RAW, &requests[i]));
        if (i % 2) {
            GOOD(mgcompWaitRequest(requests[i], NULL));
            CHECK(is_layer(back, i + 1));
        }
    }
    for (i = 0; i < LAYERS; i += 2) {
        do
            GOOD(mgcompTestRequest(requests[i], &finished, NULL));
        while (!finished);
        CHECK(is_layer(layers[i], i + 1));
    }
}

/* Room for one buffer as it is, and two or three of them compressed. */
static void with_little_memory(void)
{
    mgcompOffloadQueue queue, other;
    mgcompOffloadTicket first, second, third, foreign = {0};
    mgcompOffloadStats stats;
    mgcompRequest request;
    mgcompResult result;

    GOOD(mgcompCreateOffloadQueue(1, 0, "fixed:zvc", RAW * 8 / 5, &queue));
    GOOD(mgcompCreateOffloadQueue(1, 1, NULL, RAW, &other));
    REFUSED(FULL, "do not fit", mgcompOffload(other, layers[0], RAW, F32, &first)); /* the ticket needs some, too */
    GOOD(mgcompOffload(queue, layers[0], RAW, F32, &first));
    GOOD(mgcompOffload(queue, layers[1], RAW, F32, &second)); /* waits until the first one is small */
    GOOD(mgcompWaitOffload(queue, second, NULL));
    REFUSED(FULL, "of host memory are in use", mgcompOffload(queue, layers[2], RAW, F32, &third));
    REFUSED(FULL, "of host memory are in use", mgcompTryOffload(queue, layers[2], RAW, F32, &third));
    GOOD(mgcompDiscardOffload(queue, first));
    REFUSED(HANDLE, "an offload ticket", mgcompDiscardOffload(queue, first));
    GOOD(mgcompTryOffload(queue, layers[2], RAW, F32, &third));
    result = mgcompTryOffload(queue, layers[3], RAW, F32, &first);
    CHECK(result == FULL); /* the third one counts in full, or two are there */

    REFUSED(HANDLE, "an offload ticket", mgcompPrefetch(other, third, back, RAW, &request));
    foreign.id = queue.id;
    REFUSED(HANDLE, "an offload ticket", mgcompPrefetch(queue, foreign, back, RAW, &request));
    REFUSED(ARGUMENT, "destination of", mgcompPrefetch(queue, third, back, RAW - 4, &request));
    REFUSED(ARGUMENT, "buffer is NULL", mgcompPrefetch(queue, third, NULL, RAW, &request));
    REFUSED(ARGUMENT, "request is NULL", mgcompPrefetch(queue, third, back, RAW, NULL));
    GOOD(mgcompPrefetch(queue, third, back, RAW, &request));
    CHECK(mgcompDiscardOffload(queue, third) == HANDLE); /* it is on its way back, or there */
    GOOD(mgcompWaitRequest(request, NULL));
    CHECK(memcmp(back, layers[2], RAW) == 0);
    GOOD(mgcompGetOffloadStats(queue, &stats));
    CHECK(stats.offloaded == 3 && stats.prefetched == 1 && stats.discarded == 1 && stats.peakBytes <= RAW * 8 / 5);
    GOOD(mgcompDestroyOffloadQueue(other));
    /* With what it keeps, and what is still on its way. */
    GOOD(mgcompTryOffload(queue, layers[4], RAW, F32, &third));
    GOOD(mgcompDestroyOffloadQueue(queue));
    REFUSED(HANDLE, "an offload queue", mgcompWaitOffload(queue, second, NULL));
    REFUSED(HANDLE, "an offload queue", mgcompDestroyOffloadQueue(queue));
}

/* A request whose queue goes: it fails, and its memory is free. */
static void left_behind(void)
{
    mgcompOffloadQueue queue;
    mgcompOffloadTicket ticket;
    mgcompRequest request;
    mgcompResult result;

    GOOD(mgcompCreateOffloadQueue(1, 0, "fixed:zvc", 1 << 30, &queue));
    GOOD(mgcompSetOffloadReadCap(queue, 1e-7)); /* 12.5 bytes a second: nothing ever ends by itself */
    GOOD(mgcompOffload(queue, layers, RAW, F32, &ticket));
    GOOD(mgcompOffload(queue, layers, sizeof layers, F32, &ticket));
    GOOD(mgcompPrefetch(queue, ticket, layers, sizeof layers, &request));
    CHECK(mgcompWaitRequestFor(request, 1000000, NULL) == MGCOMP_RESULT_TIMEOUT);
    GOOD(mgcompDestroyOffloadQueue(queue));
    result = mgcompWaitRequest(request, NULL);
    CHECK(result == MGCOMP_RESULT_TRANSFER && said(result, "gone"));
}

int main(void)
{
    mgcompOffloadQueue queue, none = {0};
    mgcompOffloadTicket ticket;
    mgcompOffloadStats stats;

    GOOD(mgcompCreateOffloadQueue(0, 1, "fixed:zvc", 64 << 20, &queue));
    train(queue);
    at_once(queue);
    with_little_memory();
    left_behind();

    GOOD(mgcompOffload(queue, NULL, 0, F32, &ticket));
    GOOD(mgcompDiscardOffload(queue, ticket));
    REFUSED(ARGUMENT, "7 bytes", mgcompOffload(queue, layers, 7, F32, &ticket));
    REFUSED(ARGUMENT, "buffer is NULL", mgcompOffload(queue, NULL, 8, F32, &ticket));
    REFUSED(ARGUMENT, "ticket is NULL", mgcompOffload(queue, layers, 8, F32, NULL));
    REFUSED(ARGUMENT, "element 10", mgcompOffload(queue, layers, 8, (mgcompElement)10, &ticket));
    REFUSED(ARGUMENT, "inOrder is 2", mgcompCreateOffloadQueue(0, 2, NULL, 1 << 20, &queue));
    REFUSED(ARGUMENT, "1025", mgcompCreateOffloadQueue(1025, 0, NULL, 1 << 20, &queue));
    REFUSED(ARGUMENT, "lzma", mgcompCreateOffloadQueue(1, 0, "fixed:lzma", 1 << 20, &queue));
    REFUSED(ARGUMENT, "", mgcompSetOffloadReadCap(queue, -1));
    REFUSED(HANDLE, "empty", mgcompGetOffloadStats(none, &stats));
    GOOD(mgcompDestroyOffloadQueue(queue));
    return 0;
}
