// What a launch over buddy memory counts, and how its blocks add that up.
#pragma once
#include "buddy/allocation.cuh"

// Sums over all blocks. The status, with the entry in place of the chunk, is kept with all its bits inverted, so that none
// is zero and that of the first entry is largest.
struct BuddyWorkspace {
  u32 done;  // blocks that have ended
  u32 gap;
  u64 status;
  BuddyCounts counts;
};
static_assert(sizeof(BuddyWorkspace) <= 8 * MGC_WORKSPACE_WORDS, "hosts give as much as for a batch");

// Tells what a thread found wrong with an entry, if anything.
MGC_DEV void tell_entry(const MgcBuddy& buddy, u64 entry, u32 code) {
  const u64 status = ~(entry << MGC_STATUS_CODE_BITS | code);
  if (code != MGC_GOOD) atomicMax(&((BuddyWorkspace*)buddy.workspace)->status, status);
}

// Adds what was counted, by those threads that have `counted`, to what the others did; the last block makes the report of
// it.
MGC_DEV void settle_buddy(const MgcBuddy& buddy, bool counted, const BuddyCounts& counts) {
  BuddyWorkspace* const workspace = (BuddyWorkspace*)buddy.workspace;
  if (counted) {
    BuddyCounts* const all = &workspace->counts;
    if (counts.reads != 0) atomicAdd(&all->reads, counts.reads);
    if (counts.buddy_reads != 0) atomicAdd(&all->buddy_reads, counts.buddy_reads);
    if (counts.writes != 0) atomicAdd(&all->writes, counts.writes);
    if (counts.buddy_writes != 0) atomicAdd(&all->buddy_writes, counts.buddy_writes);
    if (counts.overflowing != 0) atomicAdd(&all->overflowing, counts.overflowing);
  }
  __syncthreads();  // All of the block have added.
  if (threadIdx.x != 0 || atomic_add_acq_rel_gpu(&workspace->done, 1) + 1 != gridDim.x) return;
  const u64 first = ld_relaxed_gpu(&workspace->status);
  buddy.report[0] = first == 0 ? MGC_GOOD : ~first;
  u64* const words = (u64*)&workspace->counts;
  for (u32 i = 0; i < MGC_BUDDY_COUNTS; i++) {
    const u64 count = ld_relaxed_gpu(words + i);
    buddy.report[1 + i] = count;
    if (buddy.totals != nullptr && count != 0) atomicAdd(&buddy.totals[i], count);
    words[i] = 0;
  }
  workspace->status = 0;
  workspace->done = 0;
}
