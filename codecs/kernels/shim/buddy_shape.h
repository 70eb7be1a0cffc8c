// What the entries of an allocation in buddy memory take of each memory.
#pragma once
#include "../buddy/allocation.cuh"

struct BuddyShape {
  bool is_xp;  // told by the slots: those of XP have 2 KiB at least
  u64 slots_len, states_len, spills_len;
};

inline BuddyShape buddy_shape(u64 len, u32 slot_len, u32 spill_len) {
  const bool is_xp = slot_len > MGC_BUDDY_ENTRY_LEN;
  const u64 entry_len = is_xp ? MGC_BUDDY_XP_ENTRY_LEN : MGC_BUDDY_ENTRY_LEN;
  const u64 raw_len = (len + MGC_BUDDY_ENTRY_LEN - 1) / MGC_BUDDY_ENTRY_LEN * MGC_BUDDY_ENTRY_LEN;
  const u64 whole = raw_len / entry_len, last = raw_len % entry_len, entries = whole + (last != 0 ? 1 : 0);
  const u64 last_slot = last * slot_len / entry_len, last_spill = (last - last_slot + 31) / 32 * 32;
  const u64 states_len = is_xp ? 2 * entries : (entries + 1) / 2;
  return {is_xp, whole * slot_len + last_slot, states_len, whole * spill_len + last_spill};
}
