// Entries of XP in buddy memory, written and read: what fits its slot in device memory, the rest in its place in buddy
// memory.
//
// Block:   an entry of 32 KiB at a time; of the last one of an allocation what is left.
// Traffic: raw bytes once; of an entry what is stored of it once, 16 bytes a thread. Buddy memory, which may be a link away,
//          is touched only for what does not fit slots. What masks have taken out of an entry that is stored raw after
//          all, which is rare, is brought again.
// Bound:   as xp.cu.
// Threads: as in xp.cu. An entry that a read has whole goes where it is wanted as it is decoded; any other is decoded in
//          shared memory first.
// Tail:    of an entry that the range has in part, a write reads what is there first; the last entry of an allocation is
//          filled up with zeros to a multiple of 128.
// Scope:   threads of one block meet at barriers; blocks when they end, in the workspace.
// Input:   anything: states and codes that somebody else wrote to. No state leads out of its slot and place. An entry that
//          is wrong is left as it was, by a read and by a write that needs it, and all others are dealt with.
#include "buddy/bytes.cuh"
#include "buddy/settle.cuh"
#include "xp/decode.cuh"
#include "xp/encode.cuh"

// What an entry's state counts, in bytes: what is stored of it are whole units.
#define XP_BUDDY_UNIT MGC_UNIT

// An entry, and which of its bytes the range has. It is kept in shared memory, because all threads need it all the time and
// none has registers for it.
struct XpBuddyEntry {
  u64 number;
  u32 raw_len;     // whole units of 128
  u32 slot_len;    // what of it has room in device memory
  u32 stored_len;  // as its state says; more than raw_len if that has no meaning
  u32 from, end;   // bytes, counted from its start
  bool is_partial;  // whether the range lacks one
  u8* data;  // where byte 0 of it is or goes; wraps around if the range starts behind that
};

// Finds entry `number`; for one thread.
MGC_DEV XpBuddyEntry xp_buddy_entry(const MgcBuddy& buddy, u64 number) {
  constexpr u32 LEN = MGC_BUDDY_XP_ENTRY_LEN;
  const u64 start = number * LEN, left = buddy.len - start, wanted = buddy.end - start;
  const u32 own = left < LEN ? (u32)left : LEN;
  XpBuddyEntry entry;
  entry.number = number;
  entry.raw_len = round_up(own, MGC_BUDDY_ENTRY_LEN);
  // Sixteenths of the raw bytes, as of all entries.
  entry.slot_len = entry.raw_len / MGC_BUDDY_ENTRY_LEN * (buddy.slot_len / (LEN / MGC_BUDDY_ENTRY_LEN));
  entry.stored_len = XP_BUDDY_UNIT * ((const u16*)buddy.states)[number];
  entry.from = buddy.start > start ? (u32)(buddy.start - start) : 0;
  entry.end = wanted < LEN ? (u32)wanted : LEN;
  entry.is_partial = entry.from != 0 || entry.end < own;
  entry.data = buddy.data + (start - buddy.start);
  return entry;
}

// Copies bytes to where an entry is stored, or from there. Shared memory has them on a multiple of 16.
MGC_DEV void xp_buddy_store(const MgcBuddy& buddy, const XpBuddyEntry& entry, const u8* from, u32 len) {
  u8* const slot = buddy.slots + entry.number * buddy.slot_len;
  u8* const spill = buddy.spills + entry.number * buddy.spill_len - entry.slot_len;
  copy_bytes<MGC_BLOCK_THREADS>(slot, from, slot, 0, len < entry.slot_len ? len : entry.slot_len);
  if (len > entry.slot_len) copy_bytes<MGC_BLOCK_THREADS>(spill, from, spill, entry.slot_len, len);
}

MGC_DEV void xp_buddy_fetch(const MgcBuddy& buddy, const XpBuddyEntry& entry, u8* to) {
  const u32 len = entry.stored_len;
  const u8* const slot = buddy.slots + entry.number * buddy.slot_len;
  const u8* const spill = buddy.spills + entry.number * buddy.spill_len - entry.slot_len;
  copy_bytes<MGC_BLOCK_THREADS>(to, slot, slot, 0, len < entry.slot_len ? len : entry.slot_len);
  if (len > entry.slot_len) copy_bytes<MGC_BLOCK_THREADS>(to, spill, spill, entry.slot_len, len);
}

MGC_DEV void xp_buddy_zero(u8* to, u32 len) {
  for (u32 at = threadIdx.x * MGC_UNIT; at < len; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    *(uint4*)(to + at) = make_uint4(0, 0, 0, 0);
  }
}

// Brings the raw bytes of an entry to `raw`, on a multiple of 16, by way of shared memory that ends at `end`. Each thread
// returns what it found wrong; if any did, nothing is written to `raw`.
MGC_DEV u32 xp_buddy_open(const MgcBuddy& buddy, const XpBuddyEntry& entry, XpDecodeShared& shared, u8* scratch, u8* end,
                          u8* raw) {
  if (entry.stored_len > entry.raw_len) return MGC_BAD_ENTRY_STATE;
  if (entry.stored_len == 0) {
    xp_buddy_zero(raw, entry.raw_len);
    return MGC_GOOD;
  }
  if (entry.stored_len == entry.raw_len) {
    xp_buddy_fetch(buddy, entry, raw);
    return MGC_GOOD;
  }
  // Coded bytes end where the memory does: what reads behind them is out of bounds.
  u8* const stored = end - entry.stored_len;
  xp_buddy_fetch(buddy, entry, stored);
  __syncthreads();  // What is stored is there.
  CodedChunk chunk = {};
  chunk.stored = stored;
  chunk.scratch = scratch;
  chunk.dst = raw;
  chunk.stored_len = entry.stored_len;
  chunk.raw_len = entry.raw_len;
  chunk.capacity = MGC_BUDDY_XP_ENTRY_LEN;
  chunk.element = buddy.element;
  chunk.width_log2 = (u32)element_width_log2(buddy.element);
  return xp_decode(shared, chunk);
}

// What the threads of a block know of the entry that they work on, and what they have counted.
struct XpBuddyTask {
  XpBuddyEntry entry;
  BuddyCounts counts;
};

// Counts an entry that is read.
MGC_DEV void xp_buddy_count_read(const XpBuddyEntry& entry, BuddyCounts& counts) {
  if (threadIdx.x != 0) return;
  counts.reads++;
  if (entry.stored_len <= entry.raw_len && entry.stored_len > entry.slot_len) counts.buddy_reads++;
}

// Reads what of the range lies in an entry. `memory` is scratch, room if the launch has any, and room for stored bytes.
MGC_DEV void xp_buddy_read_entry(const MgcBuddy& buddy, XpBuddyTask& task, XpDecodeShared& shared, u8* memory) {
  const XpBuddyEntry& entry = task.entry;
  const bool is_whole = entry.from == 0 && entry.end == entry.raw_len && (u64)entry.data % MGC_UNIT == 0;
  u8* const room = memory + MGC_BUDDY_XP_ENTRY_LEN / 1024 * xp_launch::DECODE_SCRATCH;
  u8* const end = memory + xp_buddy_shared_len(buddy, false);
  xp_buddy_count_read(entry, task.counts);
  const u32 code = xp_buddy_open(buddy, entry, shared, memory, end, is_whole ? entry.data : room);
  tell_entry(buddy, entry.number, code);
  // A barrier: raw bytes are there for all threads.
  if (block_fails(code) || is_whole) return;
  copy_bytes<MGC_BLOCK_THREADS>(entry.data, room, entry.data, entry.from, entry.end);
}

// Either of the two works on an entry at a time.
union XpBuddyShared {
  XpDecodeShared decode;
  XpEncodeShared encode;
};

// Where a write has what in shared memory.
struct XpBuddyRoom {
  u8* raw;
  u8* scratch;
  u8* end;  // of all, where codes end
};

// Brings the raw bytes that a write leaves in an entry: those of the range, around them what is there, behind them zeros.
// False if what is there is wrong, which is told. There is a barrier behind.
MGC_DEV bool xp_buddy_gather(const MgcBuddy& buddy, const XpBuddyEntry& entry, XpBuddyShared& shared,
                            const XpBuddyRoom& room) {
  u32 code = MGC_GOOD;
  if (entry.is_partial) code = xp_buddy_open(buddy, entry, shared.decode, room.scratch, room.end, room.raw);
  tell_entry(buddy, entry.number, code);
  if (entry.is_partial && block_fails(code)) return false;
  copy_bytes<MGC_BLOCK_THREADS>(room.raw, entry.data, entry.data, entry.from, entry.end);
  const u32 at = entry.end + threadIdx.x;
  if (entry.end % MGC_BUDDY_ENTRY_LEN != 0 && entry.number * MGC_BUDDY_XP_ENTRY_LEN + entry.end == buddy.len &&
      at < entry.raw_len) {
    room.raw[at] = 0;
  }
  __syncthreads();  // Raw bytes are there.
  return true;
}

// Whether raw bytes are all zero. A barrier.
MGC_DEV bool xp_buddy_is_zero(const u8* raw, u32 len) {
  u32 ones = 0;
  for (u32 at = threadIdx.x * MGC_UNIT; at < len; at += MGC_BLOCK_THREADS * MGC_UNIT) {
    const uint4 unit = *(const uint4*)(raw + at);
    ones |= unit.x | unit.y | unit.z | unit.w;
  }
  return __syncthreads_or(ones != 0) == 0;
}

MGC_DEV u32 xp_buddy_plan(XpEncodeShared& shared, const RawChunk& chunk) {
  switch (chunk.width_log2) {
    case 0: return xp_plan<u8>(shared, chunk);
    case 1: return xp_plan<u16>(shared, chunk);
    case 2: return xp_plan<u32>(shared, chunk);
    default: return xp_plan<u64>(shared, chunk);
  }
}

MGC_DEV void xp_buddy_emit(XpEncodeShared& shared, const RawChunk& chunk, u8* coded) {
  switch (chunk.width_log2) {
    case 0: xp_emit<u8>(shared, chunk, coded); break;
    case 1: xp_emit<u16>(shared, chunk, coded); break;
    case 2: xp_emit<u32>(shared, chunk, coded); break;
    default: xp_emit<u64>(shared, chunk, coded); break;
  }
}

// What is to be stored of an entry.
struct XpBuddyCode {
  const u8* from;
  u32 len;         // whole units
  bool is_spoilt;  // these should be the raw bytes, and some were taken out of them
};

// Codes raw bytes. There is a barrier behind.
MGC_DEV XpBuddyCode xp_buddy_encode(const MgcBuddy& buddy, const XpBuddyEntry& entry, XpEncodeShared& shared,
                                    const XpBuddyRoom& room) {
  RawChunk chunk = {};
  chunk.raw = room.raw;
  chunk.from = nullptr;  // Not all of them are in one place.
  chunk.scratch = room.scratch;
  chunk.raw_len = entry.raw_len;
  chunk.capacity = MGC_BUDDY_XP_ENTRY_LEN;
  chunk.element = buddy.element;
  chunk.width_log2 = (u32)element_width_log2(buddy.element);
  if (threadIdx.x == 0) shared.plan.mode = 0;
  const u32 len = xp_buddy_plan(shared, chunk), stored_len = round_up(len, XP_BUDDY_UNIT);
  __syncthreads();  // The plan is there.
  if (stored_len >= entry.raw_len) {
    return {room.raw, entry.raw_len, (shared.plan.mode & (XP_ZERO_MASK | XP_CHANGE_MASK)) != 0};
  }
  u8* const coded = room.end - stored_len;
  xp_buddy_emit(shared, chunk, coded);
  __syncthreads();  // The code is there, and what stands behind it up to a unit.
  if (len + threadIdx.x < stored_len) coded[len + threadIdx.x] = 0;
  __syncthreads();  // The padding is there.
  return {coded, stored_len, false};
}

// Keeps what is to be stored of an entry, and counts it.
MGC_DEV void xp_buddy_keep(const MgcBuddy& buddy, XpBuddyTask& task, const XpBuddyCode& code) {
  const XpBuddyEntry& entry = task.entry;
  BuddyCounts& counts = task.counts;
  xp_buddy_store(buddy, entry, code.from, code.len);
  if (threadIdx.x != 0) return;
  const bool overflowed = entry.stored_len <= entry.raw_len && entry.stored_len > entry.slot_len;
  const bool overflows = code.len > entry.slot_len;
  ((u16*)buddy.states)[entry.number] = (u16)(code.len / XP_BUDDY_UNIT);
  counts.writes++;
  counts.buddy_writes += overflows ? 1 : 0;
  counts.overflowing += (overflows ? 1ull : 0ull) - (overflowed ? 1ull : 0ull);
}

// Writes what of the range lies in an entry.
MGC_DEV void xp_buddy_write_entry(const MgcBuddy& buddy, XpBuddyTask& task, XpBuddyShared& shared,
                                  const XpBuddyRoom& room) {
  const XpBuddyEntry& entry = task.entry;
  if (entry.is_partial) xp_buddy_count_read(entry, task.counts);
  XpBuddyCode code = {room.raw, entry.raw_len, true};
  // The second time the raw bytes stay as they are.
#pragma unroll 1
  for (u32 time = 0; time < 2 && code.is_spoilt; time++) {
    if (!xp_buddy_gather(buddy, entry, shared, room)) return;
    if (time != 0) break;
    code = {room.raw, 0, false};
    if (!xp_buddy_is_zero(room.raw, entry.raw_len)) code = xp_buddy_encode(buddy, entry, shared.encode, room);
  }
  xp_buddy_keep(buddy, task, code);
}

// What a read does with an entry, and a write. (Of lambdas the compiler would make functions that are called.)
struct XpBuddyReader {
  MGC_DEV void move(const MgcBuddy& buddy, XpBuddyTask& task, u8* memory) {
    MGC_SHARED(XpDecodeShared, shared);
    xp_buddy_read_entry(buddy, task, shared, memory);
  }
};

struct XpBuddyWriter {
  MGC_DEV void move(const MgcBuddy& buddy, XpBuddyTask& task, u8* memory) {
    MGC_SHARED(XpBuddyShared, shared);
    u8* const scratch = memory + MGC_BUDDY_XP_ENTRY_LEN;
    const XpBuddyRoom room = {memory, scratch, memory + xp_buddy_shared_len(buddy, true)};
    xp_buddy_write_entry(buddy, task, shared, room);
  }
};

// The entries of the range that a block has, one after the other, each with the shared memory of the launch; and what comes
// of them all.
template <class Mover>
MGC_DEV void xp_buddy_for_entries(const MgcBuddy& buddy) {
  MGC_SHARED(XpBuddyTask, task);
  MGC_DYNAMIC_SHARED(memory);
  if (threadIdx.x == 0) task.counts = {0, 0, 0, 0, 0};
  const u64 first = buddy.start / MGC_BUDDY_XP_ENTRY_LEN;
  // Fits: below 2^44 bytes.
  const u32 count = (u32)((buddy.end + MGC_BUDDY_XP_ENTRY_LEN - 1) / MGC_BUDDY_XP_ENTRY_LEN - first);
  for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
    __syncthreads();  // Nobody works on the entry before.
    if (threadIdx.x == 0) task.entry = xp_buddy_entry(buddy, first + at);
    __syncthreads();  // It is known.
    Mover::move(buddy, task, memory);
  }
  settle_buddy(buddy, threadIdx.x == 0, task.counts);
}

// Both kernels take MGC_BLOCK_THREADS threads a block, any number of blocks, and `xp_buddy_shared_len` bytes of shared
// memory besides their own 17 KiB: to write 80 KiB, so two blocks have room on a multiprocessor of compute capability 9.0 or
// 10.0 (228 KiB), and one on others; to read 42 KiB, or 74 KiB if there is an entry that needs room, of which two blocks have
// room there, too, and without that room on 8.0 (164 KiB). The registers allow two everywhere.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 2) xp_buddy_read(MGC_PARAM(MgcBuddy) buddy) {
  xp_buddy_for_entries<XpBuddyReader>(buddy);
}

MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 2) xp_buddy_write(MGC_PARAM(MgcBuddy) buddy) {
  xp_buddy_for_entries<XpBuddyWriter>(buddy);
}
