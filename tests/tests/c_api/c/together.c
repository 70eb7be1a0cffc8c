/* Three ranks that work together: every collective, blocking and not, against answers worked out by hand. */
#include "ranks.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define U32 MGCOMP_ELEMENT_U32
#define WAIT NULL

enum { RANKS = 3, LONG = 500000 };

/* Calls a collective that takes a request as its last argument: once to wait, once to go on meanwhile. */
#define BOTH_WAYS(name, ...) \
    do { \
        mgcompRequest request_; \
        GOOD(name(__VA_ARGS__, WAIT)); \
        GOOD(name(__VA_ARGS__, &request_)); \
        GOOD(mgcompWaitRequest(request_, NULL)); \
    } while (0)

static int same(const uint32_t *numbers, uint32_t a, uint32_t b, uint32_t c)
{
    return numbers[0] == a && numbers[1] == b && numbers[2] == c;
}

static void moving(mgcompCommunicator world, uint32_t rank)
{
    const mgcompBlock apart[RANKS] = {{8, 4}, {0, 4}, {4, 4}};
    uint32_t mine = 10 + rank, all[RANKS] = {0}, from[RANKS], i;

    for (i = 0; i < RANKS; i++)
        from[i] = 10 * rank + i;
    mgcompRequest barrier;
    GOOD(mgcompBarrier(world, WAIT));
    GOOD(mgcompBarrier(world, &barrier));
    GOOD(mgcompWaitRequest(barrier, NULL));

    i = rank == 1 ? 77 : 0;
    BOTH_WAYS(mgcompBroadcast, world, 1, &i, 4, U32);
    CHECK(i == 77);
    BOTH_WAYS(mgcompAllGather, world, &mine, 4, all, 12, U32);
    CHECK(same(all, 10, 11, 12));
    BOTH_WAYS(mgcompAllGatherV, world, &mine, 4, all, 12, apart, U32);
    CHECK(same(all, 11, 12, 10));
    memset(all, 0, sizeof all);
    BOTH_WAYS(mgcompGather, world, 2, &mine, 4, rank == 2 ? all : NULL, rank == 2 ? 12 : 0, U32);
    CHECK(rank != 2 || same(all, 10, 11, 12));
    BOTH_WAYS(mgcompGatherV, world, 0, &mine, 4, all, 12, apart, U32);
    CHECK(rank != 0 || same(all, 11, 12, 10));
    all[0] = 20, all[1] = 21, all[2] = 22;
    BOTH_WAYS(mgcompScatter, world, 1, rank == 1 ? all : NULL, rank == 1 ? 12 : 0, &mine, 4, U32);
    CHECK(mine == 20 + rank);
    BOTH_WAYS(mgcompScatterV, world, 1, all, 12, apart, &mine, 4, U32);
    CHECK(mine == ((uint32_t[]){22, 20, 21}[rank]));
    BOTH_WAYS(mgcompAllToAll, world, from, 12, all, 12, U32);
    CHECK(same(all, rank, 10 + rank, 20 + rank));
    BOTH_WAYS(mgcompAllToAllV, world, from, 12, apart, all, 12, apart, U32);
    /* Member j sends member i what lies at apart[i]: 10 j + {2, 0, 1}[i]; it goes to apart[j]. */
    i = (uint32_t[]){2, 0, 1}[rank];
    CHECK(same(all, 10 + i, 20 + i, i));
    /* In place: each has its block in the middle of what it gathers. */
    memset(all, 0, sizeof all);
    all[rank] = 5 + rank;
    GOOD(mgcompAllGather(world, &all[rank], 4, all, 12, U32, WAIT));
    CHECK(same(all, 5, 6, 7));
    memcpy(all, from, sizeof all);
    BOTH_WAYS(mgcompAllToAll, world, all, 12, all, 12, U32); /* there and back again */
    CHECK(same(all, 10 * rank, 10 * rank + 1, 10 * rank + 2));
    GOOD(mgcompAllToAllV(world, all, 12, apart, all, 12, apart, U32, WAIT));
    CHECK(same(all, 10 + i, 20 + i, i));
}

/* What only root uses is not looked at elsewhere, whatever was given. */
static void at_root(mgcompCommunicator world, uint32_t rank)
{
    const mgcompBlock apart[RANKS] = {{8, 4}, {0, 4}, {4, 4}}, *const blocks = rank == 1 ? apart : NULL;
    uint32_t mine = 10 + rank, all[RANKS] = {0};
    void *const buffer = rank == 1 ? all : NULL;
    const size_t bytes = rank == 1 ? 12 : SIZE_MAX;

    BOTH_WAYS(mgcompGather, world, 1, &mine, 4, buffer, bytes, U32);
    CHECK(rank != 1 || same(all, 10, 11, 12));
    BOTH_WAYS(mgcompGatherV, world, 1, &mine, 4, buffer, bytes, blocks, U32);
    CHECK(rank != 1 || same(all, 11, 12, 10));
    BOTH_WAYS(mgcompScatter, world, 1, buffer, bytes, &mine, 4, U32);
    CHECK(mine == ((uint32_t[]){11, 12, 10}[rank]));
    BOTH_WAYS(mgcompScatterV, world, 1, buffer, bytes, blocks, &mine, 4, U32);
    CHECK(mine == 10 + rank);
    BOTH_WAYS(mgcompReduce, world, 1, &mine, 4, buffer, rank == 1 ? 4 : bytes, MGCOMP_DATATYPE_U32,
              MGCOMP_OPERATION_MAX);
    CHECK(rank != 1 || all[0] == 12);
}

static void reducing(mgcompCommunicator world, uint32_t rank)
{
    const mgcompBlock uneven[RANKS] = {{0, 4}, {4, 8}, {12, 0}};
    uint32_t mine[RANKS] = {1, 10 + rank, 100 * rank}, all[RANKS];
    float third = 1.0F, average = 0;

    BOTH_WAYS(mgcompAllReduce, world, mine, 12, all, 12, MGCOMP_DATATYPE_U32, MGCOMP_OPERATION_SUM);
    CHECK(same(all, 3, 33, 300));
    BOTH_WAYS(mgcompReduce, world, 0, mine, 12, rank == 0 ? all : NULL, rank == 0 ? 12 : 0, MGCOMP_DATATYPE_U32,
              MGCOMP_OPERATION_MAX);
    CHECK(rank != 0 || same(all, 1, 12, 200));
    BOTH_WAYS(mgcompReduceScatter, world, mine, 12, all, 4, MGCOMP_DATATYPE_U32, MGCOMP_OPERATION_MIN);
    CHECK(all[0] == ((uint32_t[]){1, 10, 0}[rank]));
    BOTH_WAYS(mgcompReduceScatterV, world, mine, 12, uneven, all, uneven[rank].bytes, MGCOMP_DATATYPE_U32,
              MGCOMP_OPERATION_SUM);
    CHECK(rank != 0 || all[0] == 3);
    CHECK(rank != 1 || (all[0] == 33 && all[1] == 300));
    GOOD(mgcompAllReduce(world, &third, 4, &average, 4, MGCOMP_DATATYPE_F32, MGCOMP_OPERATION_AVG, WAIT));
    CHECK(average == 1.0F);
    GOOD(mgcompAllReduce(world, mine, 12, mine, 12, MGCOMP_DATATYPE_U32, MGCOMP_OPERATION_SUM, WAIT));
    CHECK(same(mine, 3, 33, 300));
}

static void messages(mgcompCommunicator world, uint32_t rank)
{
    const uint32_t next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    uint32_t *to = malloc(4 * LONG), *from = malloc(4 * LONG), i;
    mgcompRequest send, receive;
    uint64_t bytes = 0;

    CHECK(to != NULL && from != NULL);
    for (i = 0; i < LONG; i++)
        to[i] = i ^ rank;
    GOOD(mgcompReceive(world, before, 3, from, 4 * LONG, NULL, &receive));
    GOOD(mgcompSend(world, next, 3, to, 4 * LONG, U32, &send));
    GOOD(mgcompWaitRequest(receive, &bytes));
    GOOD(mgcompWaitRequest(send, NULL));
    CHECK(bytes == 4 * LONG);
    for (i = 0; i < LONG; i++)
        CHECK(from[i] == (i ^ before));
    if (rank == 0) {
        GOOD(mgcompSend(world, 1, 4, to, 8, U32, WAIT));
        CHECK(mgcompSend(world, 1, 4, to, 8, U32, WAIT) != MGCOMP_RESULT_SUCCESS);
    } else if (rank == 1) {
        GOOD(mgcompReceive(world, 0, 4, from, 100, &bytes, WAIT));
        CHECK(bytes == 8 && from[1] == 1);
        REFUSED(MGCOMP_RESULT_BUFFER_TOO_SMALL, "8 bytes", mgcompReceive(world, 0, 4, from, 4, &bytes, WAIT));
    }
    REFUSED(ARGUMENT, "no rank 3 among 3", mgcompSend(world, 3, 1, to, 4, U32, &send));
    REFUSED(ARGUMENT, "no rank 3 among 3", mgcompReceive(world, 3, 1, from, 4, NULL, WAIT));
    REFUSED(ARGUMENT, "is this member", mgcompSend(world, rank, 1, to, 4, U32, &send));
    REFUSED(ARGUMENT, "is this member", mgcompReceive(world, rank, 1, from, 4, NULL, WAIT));
    free(to);
    free(from);
}

/* What all members refuse, before anything is sent. */
static void refused(mgcompCommunicator world)
{
    const mgcompCommunicator none = {0};
    const mgcompBlock same_place[RANKS] = {{0, 4}, {0, 4}, {4, 4}}, outside[RANKS] = {{0, 4}, {4, 4}, {10, 4}};
    uint32_t numbers[2 * RANKS] = {0};
    mgcompRequest request;

    REFUSED(ARGUMENT, "12 are needed", mgcompAllGather(world, numbers, 4, numbers + 1, 8, U32, WAIT));
    REFUSED(ARGUMENT, "overlap", mgcompAllToAll(world, numbers, 12, numbers + 1, 12, U32, WAIT));
    REFUSED(ARGUMENT, "overlap", mgcompAllReduce(world, numbers, 8, numbers + 1, 8, MGCOMP_DATATYPE_U32,
                                                 MGCOMP_OPERATION_SUM, WAIT));
    REFUSED(ARGUMENT, "overlap", mgcompAllGatherV(world, numbers + 5, 4, numbers, 12, same_place, U32, WAIT));
    REFUSED(ARGUMENT, "block 2", mgcompAllGatherV(world, numbers + 5, 4, numbers, 12, outside, U32, WAIT));
    REFUSED(ARGUMENT, "blocks is NULL", mgcompAllGatherV(world, numbers + 5, 4, numbers, 12, NULL, U32, WAIT));
    REFUSED(ARGUMENT, "6 bytes", mgcompAllReduce(world, numbers, 6, numbers + 3, 6, MGCOMP_DATATYPE_U32,
                                                 MGCOMP_OPERATION_SUM, WAIT));
    REFUSED(ARGUMENT, "datatype 12", mgcompAllReduce(world, numbers, 4, numbers + 3, 4, (mgcompDatatype)12,
                                                     MGCOMP_OPERATION_SUM, WAIT));
    REFUSED(ARGUMENT, "operation 4", mgcompAllReduce(world, numbers, 4, numbers + 3, 4, MGCOMP_DATATYPE_U32,
                                                     (mgcompOperation)4, WAIT));
    REFUSED(ARGUMENT, "receive is NULL", mgcompAllGather(world, numbers, 4, NULL, 12, U32, WAIT));
    REFUSED(ARGUMENT, "no rank 9", mgcompBroadcast(world, 9, numbers, 4, U32, WAIT));
    GOOD(mgcompBroadcast(world, 9, numbers, 4, U32, &request));
    REFUSED(ARGUMENT, "no rank 9", mgcompWaitRequest(request, NULL));
    REFUSED(HANDLE, "empty", mgcompBarrier(none, WAIT));
}

static void together(mgcompNode node, uint32_t rank)
{
    mgcompCommunicator world, again, half;
    uint32_t number, size;

    GOOD(mgcompCreateCommunicator(node, &world));
    REFUSED(ARGUMENT, "already", mgcompCreateCommunicator(node, &again));
    GOOD(mgcompGetCommunicatorRank(world, &number, &size));
    CHECK(number == rank && size == RANKS);
    moving(world, rank);
    at_root(world, rank);
    reducing(world, rank);
    messages(world, rank);
    refused(world);

    /* Members 2 and 0, in this order; 1 is in none. */
    GOOD(mgcompSplitCommunicator(world, rank == 1 ? MGCOMP_NO_COLOR : 7, rank == 2 ? -1 : 0, &half));
    if (rank == 1) {
        CHECK(half.id == 0);
    } else {
        GOOD(mgcompGetCommunicatorRank(half, &number, &size));
        CHECK(size == 2 && number == (rank == 2 ? 0 : 1));
        GOOD(mgcompAllReduce(half, &rank, 4, &number, 4, MGCOMP_DATATYPE_U32, MGCOMP_OPERATION_SUM, WAIT));
        CHECK(number == 2);
        GOOD(mgcompDestroyCommunicator(half));
        REFUSED(HANDLE, "a communicator", mgcompBarrier(half, WAIT));
    }
    GOOD(mgcompBarrier(world, WAIT));
    GOOD(mgcompDestroyCommunicator(world));
    REFUSED(HANDLE, "a communicator", mgcompDestroyCommunicator(world));
}

/* A rank that leaves ends what the others do with it, in bounded time; their buffers are free when their nodes are gone. */
static void left_alone(void)
{
    mgcompNode nodes[RANKS];
    mgcompCommunicator world;
    mgcompRequest request;
    uint32_t all[RANKS], mine = 1;

    GOOD(mgcompStartNodesLoopback(RANKS, NULL, nodes));
    GOOD(mgcompWaitForPeers(nodes[0], LONG_NS));
    GOOD(mgcompCreateCommunicator(nodes[0], &world));
    GOOD(mgcompAllGather(world, &mine, 4, all, 12, U32, &request));
    GOOD(mgcompDestroyNode(nodes[1]));
    REFUSED(MGCOMP_RESULT_TRANSFER, "rank 1", mgcompWaitRequest(request, NULL));
    REFUSED(MGCOMP_RESULT_TRANSFER, "rank 1", mgcompBarrier(world, WAIT));
    GOOD(mgcompDestroyNode(nodes[0]));
    REFUSED(MGCOMP_RESULT_TRANSFER, "", mgcompBarrier(world, WAIT));
    GOOD(mgcompDestroyCommunicator(world));
    GOOD(mgcompDestroyNode(nodes[2]));
}

int main(void)
{
    mgcompNode nodes[RANKS];

    GOOD(mgcompStartNodesLoopback(RANKS, NULL, nodes));
    on_all(nodes, RANKS, together);
    left_alone();
    return 0;
}
