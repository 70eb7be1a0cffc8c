/* From snapshots to the form and target of an allocation, which then holds as much as was said. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define BPC MGCOMP_BUDDY_FORM_BPC

enum { ENTRIES = 100, WORDS = 32 * ENTRIES, RAW = 4 * WORDS };

static uint32_t snapshot[WORDS], back[WORDS];

/* Entries of zeros, of a ramp (a code of 2 bytes), and of noise. */
static void fill(uint32_t zeros, uint32_t ramps)
{
    uint64_t state = 1;
    uint32_t i;

    for (i = 0; i < WORDS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        snapshot[i] = i / 32 < zeros ? 0 : i / 32 < zeros + ramps ? i % 32 : (uint32_t)(state >> 32);
    }
}

int main(void)
{
    const mgcompBuddyForm bpc = BPC, wrong = (mgcompBuddyForm)2;
    mgcompBuddyProfile profile, none = {0};
    mgcompBuddyChoice choice;
    mgcompBuddyPool pool;
    mgcompBuddyAllocation allocation;
    mgcompBuddyStats stats;
    double share;

    GOOD(mgcompCreateBuddyProfile(MGCOMP_ELEMENT_U32, &profile));
    REFUSED(ARGUMENT, "0 snapshots", mgcompChooseBuddyTarget(profile, 0, NULL, 0, &choice));
    REFUSED(ARGUMENT, "snapshot 0 is empty", mgcompAddBuddySnapshot(profile, NULL, 0));

    /* 10 of 100 entries do not fit: under 11 %, not under 10 %. */
    fill(50, 40);
    GOOD(mgcompAddBuddySnapshot(profile, snapshot, RAW));
    GOOD(mgcompChooseBuddyTarget(profile, 11, &bpc, 1, &choice));
    CHECK(choice.form == BPC && choice.target == MGCOMP_BUDDY_TARGET_SIXTEEN);
    CHECK(choice.entries == 100 && choice.zeroEntries == 50 && choice.overflowingEntries == 10);
    /* 8 bytes of each entry, half a byte of metadata, and what is left of each in whole sectors. */
    CHECK(choice.rawBytes == RAW && choice.deviceBytes == 800 && choice.metadataBytes == 64);
    CHECK(choice.buddyBytes == 128 * ENTRIES);
    GOOD(mgcompGetBuddyOverflow(profile, BPC, MGCOMP_BUDDY_TARGET_SIXTEEN, &share));
    CHECK(share > 0.0999 && share < 0.1001);
    GOOD(mgcompGetBuddyOverflow(profile, BPC, MGCOMP_BUDDY_TARGET_ONE, &share));
    CHECK(share == 0);
    GOOD(mgcompChooseBuddyTarget(profile, 10, &bpc, 1, &choice));
    CHECK(choice.target == MGCOMP_BUDDY_TARGET_ONE && choice.overflowingEntries == 0);
    GOOD(mgcompChooseBuddyTarget(profile, 0, NULL, 0, &choice));
    CHECK(choice.target == MGCOMP_BUDDY_TARGET_SIXTEEN);

    /* An allocation as was chosen takes what was said. */
    GOOD(mgcompCreateBuddyPool(1 << 20, 1 << 20, &pool));
    GOOD(mgcompAllocateBuddy(pool, RAW, choice.form, MGCOMP_ELEMENT_U32, choice.target, &allocation));
    GOOD(mgcompWriteBuddy(pool, allocation, 0, snapshot, RAW));
    GOOD(mgcompReadBuddy(pool, allocation, 0, back, RAW));
    CHECK(memcmp(snapshot, back, RAW) == 0);
    GOOD(mgcompGetBuddyStats(pool, allocation, &stats));
    CHECK(stats.deviceBytes == choice.deviceBytes && stats.metadataBytes == choice.metadataBytes);
    CHECK(stats.buddyBytes == choice.buddyBytes && stats.overflowingEntries == choice.overflowingEntries);
    GOOD(mgcompDestroyBuddyPool(pool));

    /* Another snapshot, half of which does not fit: 60 of 200 together. */
    fill(50, 0);
    GOOD(mgcompAddBuddySnapshot(profile, snapshot, RAW));
    GOOD(mgcompChooseBuddyTarget(profile, 31, &bpc, 1, &choice));
    CHECK(choice.target == MGCOMP_BUDDY_TARGET_FOUR && choice.entries == 200 && choice.overflowingEntries == 60);
    GOOD(mgcompChooseBuddyTarget(profile, 30, &bpc, 1, &choice));
    CHECK(choice.target == MGCOMP_BUDDY_TARGET_ONE);

    REFUSED(ARGUMENT, "9 %", mgcompChooseBuddyTarget(profile, 9, NULL, 0, &choice));
    REFUSED(ARGUMENT, "255 %", mgcompChooseBuddyTarget(profile, 300, NULL, 0, &choice));
    REFUSED(ARGUMENT, "form 2", mgcompChooseBuddyTarget(profile, 30, &wrong, 1, &choice));
    REFUSED(ARGUMENT, "forms is NULL", mgcompChooseBuddyTarget(profile, 30, NULL, 1, &choice));
    REFUSED(ARGUMENT, "choice is NULL", mgcompChooseBuddyTarget(profile, 30, NULL, 0, NULL));
    REFUSED(ARGUMENT, "8/5 is not for", mgcompGetBuddyOverflow(profile, BPC, MGCOMP_BUDDY_TARGET_EIGHT_FIFTHS, &share));
    REFUSED(ARGUMENT, "target 7", mgcompGetBuddyOverflow(profile, BPC, (mgcompBuddyTarget)7, &share));
    REFUSED(ARGUMENT, "snapshot is NULL", mgcompAddBuddySnapshot(profile, NULL, 4));
    REFUSED(ARGUMENT, "element 10", mgcompCreateBuddyProfile((mgcompElement)10, &profile));
    REFUSED(ARGUMENT, "profile is NULL", mgcompCreateBuddyProfile(MGCOMP_ELEMENT_U8, NULL));
    REFUSED(HANDLE, "empty", mgcompAddBuddySnapshot(none, snapshot, RAW));
    GOOD(mgcompDestroyBuddyProfile(profile));
    REFUSED(HANDLE, "a buddy profile", mgcompDestroyBuddyProfile(profile));
    REFUSED(HANDLE, "a buddy profile", mgcompChooseBuddyTarget(profile, 30, NULL, 0, &choice));
    return 0;
}
