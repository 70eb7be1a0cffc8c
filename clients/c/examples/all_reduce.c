/* Four ranks, threads of one process, add up gradients; each then has the sum.
 *
 *     cc all_reduce.c -lmgcomp -pthread -o all_reduce && ./all_reduce
 *
 * Ranks on several machines start by mgcompStartNodeTcp instead, each in a process of its own.
 */
#include <mgcomp.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4, NUMBERS = 1 << 20 };

/* Ends the program with the text of the last error if a call failed. */
static void check(mgcompResult result)
{
    const char *message;

    if (result == MGCOMP_RESULT_SUCCESS)
        return;
    mgcompLastError(&message);
    fprintf(stderr, "mgcomp: %s\n", message);
    exit(1);
}

static void *rank_of(void *argument)
{
    const mgcompNode node = *(const mgcompNode *)argument;
    const size_t bytes = NUMBERS * sizeof(float);
    float *gradient = malloc(bytes);
    mgcompCommunicator world;
    mgcompRequest request;
    mgcompNodeStats stats;
    uint32_t rank, ranks, i;

    if (gradient == NULL)
        exit(1);
    check(mgcompWaitForPeers(node, 20 * (uint64_t)1000000000));
    check(mgcompCreateCommunicator(node, &world));
    check(mgcompGetCommunicatorRank(world, &rank, &ranks));
    for (i = 0; i < NUMBERS; i++)
        gradient[i] = i % 4 == 0 ? (float)(rank + 1) : 0.0F;

    /* In place, and while the program does something else. */
    check(mgcompAllReduce(world, gradient, bytes, gradient, bytes, MGCOMP_DATATYPE_F32, MGCOMP_OPERATION_SUM, &request));
    check(mgcompWaitRequest(request, NULL));
    for (i = 0; i < NUMBERS; i++)
        if (gradient[i] != (i % 4 == 0 ? 10.0F : 0.0F)) {
            fprintf(stderr, "rank %u: number %u is %g\n", rank, i, (double)gradient[i]);
            exit(1);
        }

    check(mgcompBarrier(world, NULL)); /* nobody leaves before all are done */
    check(mgcompGetNodeStats(node, &stats));
    printf("rank %u of %u: sent %lu bytes as %lu\n", rank, ranks, (unsigned long)stats.rawBytes,
           (unsigned long)stats.codedBytes);
    check(mgcompDestroyCommunicator(world));
    free(gradient);
    return NULL;
}

int main(void)
{
    mgcompNodeOptions options = {0};
    mgcompNode nodes[RANKS];
    pthread_t threads[RANKS];
    int i;

    options.policy = "fixed:xp"; /* "adaptive" sends raw where the link is as fast as memory is */
    check(mgcompStartNodesLoopback(RANKS, &options, nodes));
    for (i = 0; i < RANKS; i++)
        if (pthread_create(&threads[i], NULL, rank_of, &nodes[i]) != 0)
            return 1;
    for (i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (i = 0; i < RANKS; i++)
        check(mgcompDestroyNode(nodes[i]));
    return 0;
}
