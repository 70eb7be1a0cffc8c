/* Buddy pools: what is put in comes out, what it takes, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define BPC MGCOMP_BUDDY_FORM_BPC

enum { N = 64000, RAW = 4 * N };

static uint32_t ramp[N], back[N];

int main(void)
{
    mgcompBuddyPool pool, other;
    mgcompBuddyAllocation small, large, again, foreign;
    mgcompBuddyStats stats;
    uint32_t i;

    for (i = 0; i < N; i++)
        ramp[i] = i;
    GOOD(mgcompCreateBuddyPool(64 << 10, 1 << 20, &pool));
    GOOD(mgcompCreateBuddyPool(64 << 10, 1 << 20, &other));

    /* 8 entries of 128 bytes: 2 of 4 sectors each; 8 nibbles of metadata, which take a sector. */
    GOOD(mgcompAllocateBuddy(pool, 1000, BPC, MGCOMP_ELEMENT_U8, MGCOMP_BUDDY_TARGET_TWO, &small));
    GOOD(mgcompGetBuddyStats(pool, small, &stats));
    CHECK(stats.rawBytes == 1000 && stats.deviceBytes == 512 && stats.metadataBytes == 32);
    CHECK(stats.buddyBytes == 512 && stats.entries == 8 && stats.writes == 0);

    GOOD(mgcompAllocateBuddy(pool, RAW, BPC, MGCOMP_ELEMENT_U32, MGCOMP_BUDDY_TARGET_SIXTEEN, &large));
    GOOD(mgcompWriteBuddy(pool, large, 0, ramp, RAW));
    GOOD(mgcompReadBuddy(pool, large, 0, back, RAW));
    CHECK(memcmp(ramp, back, RAW) == 0);
    GOOD(mgcompReadBuddy(pool, large, 99, back, 1001));
    CHECK(memcmp((char *)ramp + 99, back, 1001) == 0);
    GOOD(mgcompWriteBuddy(pool, large, RAW - 5, "mgcomp", 5));
    GOOD(mgcompReadBuddy(pool, large, RAW - 6, back, 6));
    CHECK(memcmp((char *)back + 1, "mgcom", 5) == 0);
    GOOD(mgcompReadBuddy(pool, large, RAW, NULL, 0));
    GOOD(mgcompGetBuddyPoolStats(pool, &stats));
    CHECK(stats.rawBytes == RAW + 1000 && stats.deviceBytes == RAW / 16 + 512 && stats.writes == RAW / 128 + 1);

    REFUSED(ARGUMENT, "of an allocation of 256000 bytes", mgcompWriteBuddy(pool, large, RAW - 5, "mgcomp", 6));
    REFUSED(ARGUMENT, "are not a range", mgcompReadBuddy(pool, large, UINT64_MAX, back, 2));
    REFUSED(ARGUMENT, "data is NULL", mgcompWriteBuddy(pool, large, 0, NULL, 2));
    REFUSED(ARGUMENT, "at least one byte",
            mgcompAllocateBuddy(pool, 0, BPC, MGCOMP_ELEMENT_U8, MGCOMP_BUDDY_TARGET_ONE, &again));
    REFUSED(ARGUMENT, "target 8/5 is not for",
            mgcompAllocateBuddy(pool, 9, BPC, MGCOMP_ELEMENT_U8, MGCOMP_BUDDY_TARGET_EIGHT_FIFTHS, &again));
    REFUSED(ARGUMENT, "target 7",
            mgcompAllocateBuddy(pool, 9, BPC, MGCOMP_ELEMENT_U8, (mgcompBuddyTarget)7, &again));
    REFUSED(ARGUMENT, "form 2", mgcompAllocateBuddy(pool, 9, (mgcompBuddyForm)2, MGCOMP_ELEMENT_U8,
                                                    MGCOMP_BUDDY_TARGET_ONE, &again));
    REFUSED(MGCOMP_RESULT_NO_MEMORY, "device memory has no",
            mgcompAllocateBuddy(pool, 1 << 20, BPC, MGCOMP_ELEMENT_U8, MGCOMP_BUDDY_TARGET_ONE, &again));
    REFUSED(MGCOMP_RESULT_NO_MEMORY, "", mgcompCreateBuddyPool(UINT64_MAX / 2, 1, &other));
    REFUSED(ARGUMENT, "allocation is NULL",
            mgcompAllocateBuddy(pool, 9, BPC, MGCOMP_ELEMENT_U8, MGCOMP_BUDDY_TARGET_ONE, NULL));

    GOOD(mgcompFreeBuddy(pool, small));
    REFUSED(HANDLE, "a buddy allocation", mgcompFreeBuddy(pool, small));
    GOOD(mgcompAllocateBuddy(pool, 9, MGCOMP_BUDDY_FORM_XP, MGCOMP_ELEMENT_F32, MGCOMP_BUDDY_TARGET_EIGHT_THIRDS,
                             &again));
    REFUSED(HANDLE, "a buddy allocation", mgcompWriteBuddy(pool, small, 0, "x", 1));
    REFUSED(HANDLE, "a buddy allocation", mgcompWriteBuddy(other, again, 0, "x", 1));
    foreign.id = pool.id;
    REFUSED(HANDLE, "a buddy allocation", mgcompFreeBuddy(pool, foreign));
    GOOD(mgcompDestroyBuddyPool(pool));
    REFUSED(HANDLE, "a buddy pool", mgcompDestroyBuddyPool(pool));
    REFUSED(HANDLE, "a buddy pool", mgcompReadBuddy(pool, large, 0, back, 1));
    GOOD(mgcompDestroyBuddyPool(other));
    return 0;
}
