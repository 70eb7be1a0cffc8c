// What one launch over buddy memory works on: an allocation whose entries lie in two memories, and a range of it.
//
// FORMAT.md says where every byte lies. The struct is a kernel parameter, as a batch is; hosts mirror it field by field.
#pragma once
#include "codecs.cuh"
#include "common/block.cuh"

struct MgcBuddy {
  // The allocation.
  u8* slots;   // in device memory, on a multiple of 32: that of entry i starts at byte i * slot_len
  u8* states;  // in device memory, on a multiple of 32
  u8* spills;  // in buddy memory, on a multiple of 32: the place of entry i starts at byte i * spill_len
  u64 len;     // in bytes, at least 1
  u32 slot_len, spill_len;  // of an entry that is no shorter than others
  u64* totals;              // MGC_BUDDY_COUNTS words that each launch adds its counts to; null if nobody keeps them
  // The call: bytes `start` to `end` - 1 of the allocation, of which there is at least one.
  u64 start, end;
  u8* data;        // what they are or become, at any address
  u64* report;     // 1 + MGC_BUDDY_COUNTS words: status, counts; see settle.cuh
  u64* workspace;  // a BuddyWorkspace; zero before and after
  u32 element, gap;  // of the allocation, which entries of XP need to know
};
static_assert(sizeof(MgcBuddy) == 96, "the hosts have the same struct");

// Counts of a launch, or of who counts in it; the last may be negative, in two's complement.
struct BuddyCounts {
  u64 reads;         // entries read
  u64 buddy_reads;   // of these, entries of which a part was in buddy memory
  u64 writes;        // entries written
  u64 buddy_writes;  // of these, entries of which a part went to buddy memory
  u64 overflowing;   // by how many entries more than before do not fit their slots
};
static_assert(sizeof(BuddyCounts) == 8 * MGC_BUDDY_COUNTS, "the hosts know the length");

// What a warp that codes entries of BPC keeps in shared memory.
struct BuddyTile {
  u8 raw[MGC_BUDDY_TILE * MGC_BUDDY_ENTRY_LEN];
  u32 codes[MGC_BUDDY_TILE * MGC_BUDDY_CODE_WORDS];
  BuddyCounts counts;
  u64 gap;  // so that the next one starts on a multiple of 16
};

// Dynamic shared memory of a launch over entries of BPC in bytes.
MGC_DEV u32 bpc_buddy_shared_len() { return MGC_BLOCK_WARPS * sizeof(BuddyTile); }

// Whether a read of entries of XP needs room for one that cannot be decoded to where it goes: because the range has it in
// part, or it goes to no multiple of 16.
MGC_DEV bool xp_buddy_needs_room(const MgcBuddy& buddy) {
  const bool ends_well = buddy.end % MGC_BUDDY_XP_ENTRY_LEN == 0 ||
                         (buddy.end == buddy.len && buddy.len % MGC_BUDDY_ENTRY_LEN == 0);
  return buddy.start % MGC_BUDDY_XP_ENTRY_LEN != 0 || !ends_well || (u64)buddy.data % MGC_UNIT != 0;
}

// Dynamic shared memory of a launch over entries of XP in bytes: scratch, what is stored, and raw bytes.
MGC_DEV u32 xp_buddy_shared_len(const MgcBuddy& buddy, bool writes) {
  constexpr u32 LEN = MGC_BUDDY_XP_ENTRY_LEN;
  const u32 scratch = writes ? xp_launch::ENCODE_SCRATCH : xp_launch::DECODE_SCRATCH;
  return LEN / 1024 * scratch + (writes || xp_buddy_needs_room(buddy) ? 2 * LEN : LEN);
}
