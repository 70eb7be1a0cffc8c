/* Two ranks over each link: remote memory and messages; and what is refused. */
#include "ranks.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define TRANSFER MGCOMP_RESULT_TRANSFER

enum { N = 300000, RAW = 4 * N };

/* Waits for a request again and again. Whether it meets the other thread is chance; that nothing else happens is not. */
static void *disturb(void *argument)
{
    mgcompRequest *request = argument;
    mgcompResult result;
    long turns = 0;

    do {
        result = mgcompWaitRequestFor(*request, 1000, NULL);
        turns++;
    } while (result == MGCOMP_RESULT_TIMEOUT || result == MGCOMP_RESULT_BUSY);
    CHECK(turns > 0 && (result == MGCOMP_RESULT_SUCCESS || said(HANDLE, "request")));
    return result == MGCOMP_RESULT_SUCCESS ? request : NULL;
}

/* Two threads wait for one request: one of them gets it, the other is refused, and nothing else happens. */
static void requests(mgcompNode node, uint32_t peer, uint32_t rank)
{
    mgcompRequest receive, send;
    mgcompResult result;
    pthread_t thread;
    void *got;
    uint64_t bytes = 0;
    uint32_t finished = 7;
    char word[8] = "";

    GOOD(mgcompReceiveMessage(node, peer, 5, word, sizeof word, &receive));
    if (rank == 0) { /* the peer cannot have sent: it has not been told to */
        GOOD(mgcompTestRequest(receive, &finished, &bytes));
        CHECK(finished == 0);
        REFUSED(MGCOMP_RESULT_TIMEOUT, "1000 ns", mgcompWaitRequestFor(receive, 1000, &bytes));
        CHECK(pthread_create(&thread, NULL, disturb, &receive) == 0);
    } else {
        GOOD(mgcompWaitRequest(receive, &bytes));
        CHECK(bytes == 6 && strcmp(word, "hello") == 0);
    }
    GOOD(mgcompSendMessage(node, peer, 5, "hello", 6, MGCOMP_ELEMENT_U8, &send));
    GOOD(mgcompWaitRequest(send, NULL));
    if (rank == 0) {
        do
            result = mgcompWaitRequest(receive, &bytes);
        while (result == MGCOMP_RESULT_BUSY);
        CHECK(pthread_join(thread, &got) == 0);
        CHECK((result == MGCOMP_RESULT_SUCCESS) != (got != NULL));
        CHECK(strcmp(word, "hello") == 0);
    }
    REFUSED(HANDLE, "a request", mgcompWaitRequest(receive, &bytes));
    REFUSED(HANDLE, "a request", mgcompTestRequest(receive, &finished, &bytes));
    REFUSED(HANDLE, "a request", mgcompWaitRequest(send, NULL));
}

static void finish(mgcompRequest request, uint64_t expected)
{
    uint64_t bytes = 0;

    GOOD(mgcompWaitRequest(request, &bytes));
    CHECK(bytes == expected);
}

/* Each rank tells the other where its memory is, reads and writes there, and sends. */
static void exchange(mgcompNode node, uint32_t rank)
{
    const uint32_t peer = 1 - rank;
    uint32_t *memory = malloc(RAW), *copy = malloc(RAW), i, first = 0, ranks = 0;
    mgcompRequest send, receive, request;
    mgcompNodeStats stats;
    uint64_t address, there = 0;

    CHECK(memory != NULL && copy != NULL);
    for (i = 0; i < N; i++)
        memory[i] = i + rank;
    GOOD(mgcompGetNodeRank(node, &i, &ranks));
    CHECK(i == rank && ranks == 2);
    GOOD(mgcompRegisterMemory(node, memory, RAW, MGCOMP_ELEMENT_U32, MGCOMP_ACCESS_READ | MGCOMP_ACCESS_WRITE,
                              &address));
    GOOD(mgcompReceiveMessage(node, peer, 1, &there, sizeof there, &receive));
    GOOD(mgcompSendMessage(node, peer, 1, &address, sizeof address, MGCOMP_ELEMENT_U64, &send));
    finish(send, 8);
    finish(receive, 8);

    GOOD(mgcompReadRemote(node, peer, there, copy, RAW, &request));
    finish(request, RAW);
    for (i = 0; i < N; i++)
        CHECK(copy[i] == i + peer);
    /* Both have read before one writes. */
    GOOD(mgcompReceiveMessage(node, peer, 2, NULL, 0, &receive));
    GOOD(mgcompSendMessage(node, peer, 2, NULL, 0, MGCOMP_ELEMENT_U8, &send));
    finish(send, 0);
    finish(receive, 0);
    first = 1000 + rank;
    GOOD(mgcompWriteRemote(node, peer, &first, 4, MGCOMP_ELEMENT_U32, there + 8, &request));
    finish(request, 4);
    GOOD(mgcompReadRemote(node, peer, there + 4, copy, 12, &request));
    finish(request, 12);
    CHECK(copy[0] == 1 + peer && copy[1] == 1000 + rank && copy[2] == 3 + peer);
    requests(node, peer, rank);

    REFUSED(TRANSFER, "outside", (mgcompReadRemote(node, peer, there + 4, copy, RAW, &request),
                           mgcompWaitRequest(request, NULL)));
    REFUSED(TRANSFER, "", (mgcompReadRemote(node, peer, 77ull << 32, copy, 4, &request),
                           mgcompWaitRequest(request, NULL)));
    REFUSED(ARGUMENT, "no peer", (mgcompReadRemote(node, 2, there, copy, 4, &request), mgcompWaitRequest(request, NULL)));
    REFUSED(ARGUMENT, "48 bits", mgcompReadRemote(node, peer, 1ull << 48, copy, 4, &request));
    REFUSED(ARGUMENT, "highest bit", mgcompSendMessage(node, peer, 1ull << 63, copy, 4, MGCOMP_ELEMENT_U8, &request));
    REFUSED(ARGUMENT, "into is NULL", mgcompReadRemote(node, peer, there, NULL, 4, &request));
    REFUSED(ARGUMENT, "request is NULL", mgcompReadRemote(node, peer, there, copy, 4, NULL));
    REFUSED(ARGUMENT, "access is 4", mgcompRegisterMemory(node, copy, 4, MGCOMP_ELEMENT_U8, 4, &address));
    REFUSED(ARGUMENT, "no bytes", mgcompRegisterMemory(node, copy, 0, MGCOMP_ELEMENT_U8, 1, &address));
    REFUSED(ARGUMENT, "no memory is registered", mgcompUnregisterMemory(node, address + 1));
    /* Too long for the receive: both hear of it. */
    GOOD(mgcompReceiveMessage(node, peer, 3, copy, 4, &receive));
    GOOD(mgcompSendMessage(node, peer, 3, memory, 8, MGCOMP_ELEMENT_U8, &send));
    REFUSED(MGCOMP_RESULT_BUFFER_TOO_SMALL, "8 bytes", mgcompWaitRequest(receive, NULL));
    CHECK(mgcompWaitRequest(send, NULL) != MGCOMP_RESULT_SUCCESS);

    GOOD(mgcompGetNodeStats(node, &stats));
    CHECK(stats.rawBytes >= RAW && stats.codedBytes < stats.rawBytes / 2);
    GOOD(mgcompReceiveMessage(node, peer, 2, NULL, 0, &receive));
    GOOD(mgcompSendMessage(node, peer, 2, NULL, 0, MGCOMP_ELEMENT_U8, &send));
    finish(send, 0);
    finish(receive, 0);
    GOOD(mgcompUnregisterMemory(node, address));
    REFUSED(ARGUMENT, "no memory is registered", mgcompUnregisterMemory(node, address));
    free(memory); /* the program's again */
    free(copy);
}

static mgcompNodeOptions options(void)
{
    mgcompNodeOptions options;

    memset(&options, 0, sizeof options);
    options.policy = "fixed:int";
    options.codecThreads = 1;
    options.connectTimeoutNs = LONG_NS;
    options.silenceTimeoutNs = LONG_NS;
    return options;
}

static void loopback(void)
{
    const mgcompNodeOptions usual = options();
    mgcompNodeOptions wrong = options();
    mgcompNode nodes[2], none = {0};
    uint32_t rank;

    GOOD(mgcompStartNodesLoopback(2, &usual, nodes));
    on_all(nodes, 2, exchange);
    REFUSED(HANDLE, "a node", mgcompDestroyNode(nodes[0]));
    REFUSED(HANDLE, "a node", mgcompGetNodeRank(nodes[1], &rank, NULL));
    REFUSED(HANDLE, "empty", mgcompWaitForPeers(none, 0));
    REFUSED(ARGUMENT, "0 ranks", mgcompStartNodesLoopback(0, NULL, nodes));
    REFUSED(ARGUMENT, "nodes is NULL", mgcompStartNodesLoopback(2, NULL, NULL));
    wrong.policy = "fastest";
    REFUSED(ARGUMENT, "fastest", mgcompStartNodesLoopback(2, &wrong, nodes));
    wrong = usual;
    wrong.codecThreads = 257;
    REFUSED(ARGUMENT, "257", mgcompStartNodesLoopback(2, &wrong, nodes));
}

/* A node is destroyed with requests under way, which fail, with memory that is registered, and with a communicator. */
static void destroyed(void)
{
    mgcompNode nodes[2];
    mgcompCommunicator world;
    mgcompRequest request, received, gathered;
    uint64_t address, word = 0, other = 0, *both = malloc(16);

    GOOD(mgcompStartNodesLoopback(2, NULL, nodes));
    GOOD(mgcompWaitForPeers(nodes[0], LONG_NS));
    GOOD(mgcompRegisterMemory(nodes[0], &address, 8, MGCOMP_ELEMENT_U8, MGCOMP_ACCESS_READ, &address));
    GOOD(mgcompReceiveMessage(nodes[0], 1, 9, &word, sizeof word, &request));
    GOOD(mgcompCreateCommunicator(nodes[0], &world));
    GOOD(mgcompReceive(world, 1, 9, &other, sizeof other, NULL, &received));
    CHECK(both != NULL);
    GOOD(mgcompAllGather(world, &address, 8, both, 16, MGCOMP_ELEMENT_U64, &gathered));
    GOOD(mgcompDestroyNode(nodes[0]));
    free(both); /* the program's again, although nobody has finished the requests */
    REFUSED(TRANSFER, "", mgcompWaitRequest(request, NULL));
    REFUSED(TRANSFER, "", mgcompWaitRequest(received, NULL));
    REFUSED(TRANSFER, "", mgcompWaitRequest(gathered, NULL));
    GOOD(mgcompDestroyCommunicator(world));
    GOOD(mgcompDestroyNode(nodes[1]));
}

typedef struct {
    const char *rank_file;
    unsigned char secret[MGCOMP_SECRET_BYTES];
    uint32_t rank;
} Place;

static void *start_and_exchange(void *argument)
{
    const mgcompNodeOptions usual = options();
    const Place *place = argument;
    mgcompNode node;

    if (place->rank_file != NULL)
        GOOD(mgcompStartNodeTcp(place->rank_file, place->rank, &usual, &node));
    else
        GOOD(mgcompStartNodeShm(place->secret, 2, place->rank, &usual, &node));
    GOOD(mgcompWaitForPeers(node, LONG_NS));
    exchange(node, place->rank);
    GOOD(mgcompDestroyNode(node));
    return NULL;
}

static void over(const char *rank_file)
{
    Place places[2];
    pthread_t threads[2];
    FILE *chance = fopen("/dev/urandom", "rb");
    uint32_t rank;

    memset(places, 0, sizeof places);
    CHECK(chance != NULL && fread(places[0].secret, MGCOMP_SECRET_BYTES, 1, chance) == 1 && fclose(chance) == 0);
    places[1] = places[0];
    for (rank = 0; rank < 2; rank++) {
        places[rank].rank_file = rank_file;
        places[rank].rank = rank;
        CHECK(pthread_create(&threads[rank], NULL, start_and_exchange, &places[rank]) == 0);
    }
    for (rank = 0; rank < 2; rank++)
        CHECK(pthread_join(threads[rank], NULL) == 0);
}

int main(int count, char **words)
{
    mgcompNode node;
    const unsigned char secret[MGCOMP_SECRET_BYTES] = {0};

    CHECK(count == 2); /* the name of a rank file */
    loopback();
    destroyed();
    over(NULL);
    over(words[1]);
    REFUSED(ARGUMENT, "nowhere", mgcompStartNodeTcp("nowhere", 0, NULL, &node));
    REFUSED(ARGUMENT, "", mgcompStartNodeTcp(words[1], 2, NULL, &node));
    REFUSED(ARGUMENT, "secret is NULL", mgcompStartNodeShm(NULL, 2, 0, NULL, &node));
    REFUSED(ARGUMENT, "", mgcompStartNodeShm(secret, 2, 2, NULL, &node));
    REFUSED(ARGUMENT, "65537 ranks", mgcompStartNodeShm(secret, 65537, 0, NULL, &node));
    return 0;
}
