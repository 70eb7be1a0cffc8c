/* Two ranks whose buffers are in the memory of CUDA devices, by their addresses alone: messages, collectives, remote memory, the
 * offload queue; and what is refused. Nobody waits for the default stream before the library is called. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"
#include "ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define U32 MGCOMP_ELEMENT_U32
#define WAIT NULL

enum { RANKS = 2, N = 50000, RAW = 4 * N };

static void *contexts[RANKS];

/* A value of a rank: two thirds of them are zeros. */
static uint32_t value(uint32_t rank, uint32_t i)
{
    return i % 3 == 0 ? i + rank + 1 : 0;
}

/* Memory of a device, not that of the thread. */
static void *allocate(uint32_t device, size_t bytes)
{
    uint64_t address;

    enter(contexts[device]);
    CHECK(cu.allocate(&address, bytes) == 0);
    leave();
    return (void *)(uintptr_t)address;
}

static void release(uint32_t device, void *memory)
{
    enter(contexts[device]);
    CHECK(cu.free((uint64_t)(uintptr_t)memory) == 0);
    leave();
}

/* Enqueues on the default stream that memory of a device gets the values of a rank. `values` is there until that is done. */
static void put(uint32_t device, void *memory, uint32_t rank, uint32_t *values)
{
    uint32_t i;

    for (i = 0; i < N; i++)
        values[i] = value(rank, i);
    enter(contexts[device]);
    CHECK(cu.fill((uint64_t)(uintptr_t)memory, 9, RAW, NULL) == 0);
    CHECK(cu.upload((uint64_t)(uintptr_t)memory, values, RAW, NULL) == 0);
    leave();
}

/* What memory of a device holds now. */
static void get(uint32_t device, const void *memory, uint32_t *values)
{
    enter(contexts[device]);
    CHECK(cu.download(values, (uint64_t)(uintptr_t)memory, RAW, NULL) == 0);
    leave();
}

static int is_of(uint32_t rank, const uint32_t *values)
{
    uint32_t i;

    for (i = 0; i < N; i++)
        if (values[i] != value(rank, i))
            return 0;
    return 1;
}

static char *after(void *memory, size_t bytes)
{
    return (char *)memory + bytes;
}

/* From device to device, from device to host, and in place. */
static void together(mgcompNode node, uint32_t rank)
{
    const uint32_t peer = 1 - rank;
    uint32_t *values = malloc(2 * RAW), *seen = malloc(RAW), i;
    void *tensor = allocate(rank, RAW), *both = allocate(rank, 2 * RAW);
    mgcompRequest sending, receiving;
    mgcompCommunicator world;
    mgcompNodeStats stats;
    uint64_t bytes, address, theirs;

    CHECK(values != NULL && seen != NULL);
    GOOD(mgcompCreateCommunicator(node, &world));
    put(rank, tensor, rank, values);
    GOOD(mgcompReceive(world, peer, 1, both, RAW, NULL, &receiving));
    GOOD(mgcompSend(world, peer, 1, tensor, RAW, U32, &sending));
    GOOD(mgcompWaitRequest(receiving, &bytes));
    GOOD(mgcompWaitRequest(sending, NULL));
    CHECK(bytes == RAW);
    get(rank, both, seen);
    CHECK(is_of(peer, seen));

    GOOD(mgcompReceiveMessage(node, peer, 2, seen, RAW, &receiving));
    GOOD(mgcompSendMessage(node, peer, 2, both, RAW, U32, &sending));
    GOOD(mgcompWaitRequest(receiving, NULL));
    GOOD(mgcompWaitRequest(sending, NULL));
    CHECK(is_of(rank, seen));

    /* Each has its block in the middle of what it gathers. */
    put(rank, after(both, rank * RAW), rank, values);
    GOOD(mgcompAllGather(world, after(both, rank * RAW), RAW, both, 2 * RAW, U32, WAIT));
    for (i = 0; i < RANKS; i++) {
        get(rank, after(both, i * RAW), seen);
        CHECK(is_of(i, seen));
    }
    put(rank, tensor, rank, values);
    GOOD(mgcompAllReduce(world, tensor, RAW, tensor, RAW, MGCOMP_DATATYPE_U32, MGCOMP_OPERATION_SUM, WAIT));
    get(rank, tensor, seen);
    for (i = 0; i < N; i++)
        CHECK(seen[i] == (i % 3 == 0 ? 2 * i + 3 : 0));

    /* Rank 0 reads what rank 1 has, and writes it back behind that. */
    put(rank, both, rank, values);
    GOOD(mgcompBroadcast(world, 0, tensor, RAW, U32, WAIT)); /* it is done when the streams are */
    GOOD(mgcompRegisterMemory(node, both, 2 * RAW, U32, MGCOMP_ACCESS_READ + MGCOMP_ACCESS_WRITE, &address));
    GOOD(mgcompAllGather(world, &address, 8, values, 16, MGCOMP_ELEMENT_U64, WAIT));
    if (rank == 0) {
        memcpy(&theirs, values + 2, 8);
        GOOD(mgcompReadRemote(node, 1, theirs, tensor, RAW, &receiving));
        GOOD(mgcompWaitRequest(receiving, NULL));
        get(0, tensor, seen);
        CHECK(is_of(1, seen));
        GOOD(mgcompWriteRemote(node, 1, tensor, RAW, U32, theirs + RAW, &sending));
        GOOD(mgcompWaitRequest(sending, NULL));
    }
    GOOD(mgcompBarrier(world, WAIT));
    GOOD(mgcompUnregisterMemory(node, address));
    get(rank, after(both, RAW), seen);
    CHECK(rank == 0 || is_of(1, seen));
    GOOD(mgcompGetNodeStats(node, &stats));
    CHECK(stats.codedBytes < stats.rawBytes / 2 && stats.encodeNs > 0);
    GOOD(mgcompBarrier(world, WAIT));
    GOOD(mgcompDestroyCommunicator(world));
    release(rank, tensor);
    release(rank, both);
    free(values);
    free(seen);
}

/* Out of a device's memory, and back to another place in it. */
static void offload(void)
{
    static uint32_t values[N], seen[N];
    void *tensor = allocate(1, RAW), *other = allocate(1, RAW);
    mgcompOffloadTicket ticket;
    mgcompOffloadQueue queue;
    mgcompMemcpyReport report;
    mgcompRequest request;

    GOOD(mgcompCreateOffloadQueue(1, 0, "fixed:zvc", 1 << 20, &queue));
    put(1, tensor, 1, values);
    GOOD(mgcompOffload(queue, tensor, RAW, U32, &ticket));
    GOOD(mgcompWaitOffload(queue, ticket, &report));
    CHECK(report.rawBytes == RAW && report.codedBytes < RAW / 2 && report.algorithm == MGCOMP_ALGORITHM_ZVC);
    GOOD(mgcompPrefetch(queue, ticket, other, RAW, &request));
    GOOD(mgcompWaitRequest(request, NULL));
    get(1, other, seen);
    CHECK(is_of(1, seen));
    GOOD(mgcompDestroyOffloadQueue(queue));
    release(1, tensor);
    release(1, other);
}

/* Memory of a context that the library is not in, a default stream that nothing may be enqueued on, and a child made by fork. */
static void refusals(void)
{
    void *tensor = allocate(0, 8), *apart, *recording, *graph;
    mgcompRequest request;
    mgcompNode nodes[RANKS];
    uint64_t foreign;
    pid_t child;
    int status;

    GOOD(mgcompStartNodesLoopback(RANKS, NULL, nodes));
    CHECK(cu.create(&apart, 0, 1) == 0);
    CHECK(cu.allocate(&foreign, 8) == 0);
    REFUSED(ARGUMENT, "from is in the memory of CUDA device 1, but not in its primary context",
            mgcompSendMessage(nodes[0], 1, 0, (void *)(uintptr_t)foreign, 8, U32, &request));
    CHECK(cu.free(foreign) == 0);
    leave();
    /* The default stream waits for this one, which records: it is left alone, and so is the recording. */
    enter(contexts[0]);
    CHECK(cu.create_stream(&recording, 0) == 0 && cu.begin_capture(recording, 0) == 0);
    REFUSED(MGCOMP_RESULT_SYSTEM, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
            mgcompSendMessage(nodes[0], 1, 0, tensor, 8, U32, &request));
    CHECK(cu.end_capture(recording, &graph) == 0 && cu.destroy_graph(graph) == 0 && cu.destroy_stream(recording) == 0);
    leave();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60); /* threads of the stub may have held something when it was made */
        REFUSED(MGCOMP_RESULT_TRANSFER, "forked", mgcompReceiveMessage(nodes[0], 1, 0, tensor, 8, &request));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    GOOD(mgcompDestroyNode(nodes[0]));
    GOOD(mgcompDestroyNode(nodes[1]));
    release(0, tensor);
}

int main(void)
{
    mgcompNodeOptions options = {0};
    mgcompNode nodes[RANKS];
    int i;

    open_driver();
    for (i = 0; i < RANKS; i++)
        CHECK(cu.retain(&contexts[i], i) == 0);
    options.policy = "fixed:zvc";
    GOOD(mgcompStartNodesLoopback(RANKS, &options, nodes));
    on_all(nodes, RANKS, together);
    offload();
    refusals();
    return 0;
}
