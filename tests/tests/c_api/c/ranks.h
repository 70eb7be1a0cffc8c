/* Ranks of one process, each on a thread. */
#ifndef RANKS_H
#define RANKS_H

#include "check.h"

#include <pthread.h>

/* Far more than anything here takes. */
#define LONG_NS (60 * (uint64_t)1000000000)

typedef struct {
    mgcompNode node;
    uint32_t rank;
    void (*work)(mgcompNode, uint32_t);
} Seat;

static inline void *sit(void *argument)
{
    Seat *seat = argument;

    GOOD(mgcompWaitForPeers(seat->node, LONG_NS));
    seat->work(seat->node, seat->rank);
    return NULL;
}

/* Does `work` on all ranks, which have started, and ends them. */
static inline void on_all(mgcompNode *nodes, uint32_t ranks, void (*work)(mgcompNode, uint32_t))
{
    pthread_t threads[8];
    Seat seats[8];
    uint32_t rank;

    for (rank = 0; rank < ranks; rank++) {
        seats[rank].node = nodes[rank];
        seats[rank].rank = rank;
        seats[rank].work = work;
        CHECK(pthread_create(&threads[rank], NULL, sit, &seats[rank]) == 0);
    }
    for (rank = 0; rank < ranks; rank++)
        CHECK(pthread_join(threads[rank], NULL) == 0);
    for (rank = 0; rank < ranks; rank++)
        GOOD(mgcompDestroyNode(nodes[rank]));
}

#endif
