// Entries of BPC in buddy memory, written and read: what fits its slot in device memory, the rest in its place in buddy
// memory.
//
// Warp:    32 entries of 128 bytes at a time, on multiples of that, so that no two warps share a byte of states.
// Traffic: raw bytes once; of an entry what is stored of it once, 8 bytes a lane. Buddy memory, which may be a link away,
//          is touched only for what does not fit slots; eight entries are asked for before the first of them is used.
// Bound:   as bpc.cu, to plan and to encode.
// Threads: one has an entry; see bpc/entry.cuh. Raw bytes, and codes behind each other with a gap, are in shared memory.
// Tail:    of an entry that the range has in part, a write reads what is there first; the last entry of an allocation is
//          filled up with zeros.
// Scope:   lanes of one warp meet at its synchronisation; blocks when they end, in the workspace.
// Input:   anything: states and codes that somebody else wrote to. No state leads out of its slot and place. An entry that
//          is wrong is left as it was, by a read and by a write that needs it, and all others are dealt with.
#include "bpc/entry.cuh"
#include "buddy/bytes.cuh"
#include "buddy/settle.cuh"

// States; FORMAT.md has a table. 1 to 3 and 5 to 7 are sectors of a code, 8 and 9 its 8 bytes.
#define BUDDY_RAW 4
#define BUDDY_FULL 4  // is added to the state of a code that leaves bytes if it leaves none
#define BUDDY_SHORT 8
#define BUDDY_SHORT_FULL 9
#define BUDDY_STATES 10  // that have a meaning

#define BUDDY_SECTOR_LEN 32
#define BUDDY_SHORT_LEN 8
// More takes four sectors, like raw bytes.
#define BUDDY_LONGEST (MGC_BUDDY_ENTRY_LEN - BUDDY_SECTOR_LEN)

// Bytes that are stored of an entry; of a state without a meaning none.
MGC_DEV u32 buddy_stored_len(u32 state) {
  if (state <= BUDDY_RAW) return BUDDY_SECTOR_LEN * state;
  if (state < BUDDY_SHORT) return BUDDY_SECTOR_LEN * (state - BUDDY_FULL);
  return state < BUDDY_STATES ? BUDDY_SHORT_LEN : 0;
}

// The state of an entry whose code has `size` bytes.
MGC_DEV u32 buddy_state(u32 size) {
  if (size == 0) return 0;
  if (size <= BUDDY_SHORT_LEN) return size < BUDDY_SHORT_LEN ? BUDDY_SHORT : BUDDY_SHORT_FULL;
  if (size > BUDDY_LONGEST) return BUDDY_RAW;
  const u32 sectors = (size + BUDDY_SECTOR_LEN - 1) / BUDDY_SECTOR_LEN;
  return sectors + (size % BUDDY_SECTOR_LEN == 0 ? BUDDY_FULL : 0);
}

// Whether the code of a state leaves bytes, the last of which says how many.
MGC_DEV bool buddy_leaves(u32 state) { return state < BUDDY_RAW || state == BUDDY_SHORT; }

// Appends bits to words that nobody else writes.
struct WordAppender {
  u32* to;
  u32 pending, pending_len;  // less than a word

  // `bits` has no ones from bit `len` on; at most 32.
  __device__ void push(u32 bits, u32 len) {
    pending |= bits << pending_len;
    const u32 rest = __funnelshift_l(bits, 0, pending_len);
    pending_len += len;
    if (pending_len < 32) return;
    *to++ = pending;
    pending = rest;
    pending_len -= 32;
  }

  __device__ void finish() {
    if (pending_len != 0) *to++ = pending;
  }
};

// The entries that a warp works on, and which of their bytes the range has.
struct BuddyPart {
  u64 first;      // entry
  u32 from, end;  // bytes, counted from its start
  u32 state;      // of this lane's entry, as it was
  bool is_wanted;  // whether the range has a byte of it
};

MGC_DEV BuddyPart buddy_part(const MgcBuddy& buddy, u64 first) {
  const u32 lane = threadIdx.x % 32;
  const u64 start = first * MGC_BUDDY_ENTRY_LEN;
  const u64 left = buddy.end - start, most = MGC_BUDDY_TILE * MGC_BUDDY_ENTRY_LEN;
  BuddyPart part;
  part.first = first;
  part.from = buddy.start > start ? (u32)(buddy.start - start) : 0;
  part.end = (u32)(left < most ? left : most);
  // Of a byte that only one entry has, the other half is kept.
  const bool has_states = start + lane / 2 * 2 * MGC_BUDDY_ENTRY_LEN < buddy.len;
  const u32 states = has_states ? buddy.states[(first + lane) / 2] : 0;
  part.state = states >> 4 * (lane % 2) & 15;
  part.is_wanted = lane * MGC_BUDDY_ENTRY_LEN < part.end && (lane + 1) * MGC_BUDDY_ENTRY_LEN > part.from;
  return part;
}

// Where byte `at` of an entry is stored.
MGC_DEV u8* buddy_place(const MgcBuddy& buddy, u64 entry, u32 at) {
  if (at < buddy.slot_len) return buddy.slots + entry * buddy.slot_len + at;
  return buddy.spills + entry * buddy.spill_len + (at - buddy.slot_len);
}

// Where the stored bytes of the entry of a lane are in shared memory: raw ones with the raw ones.
MGC_DEV u32* buddy_words(BuddyTile& tile, u32 lane, u32 stored_len) {
  if (stored_len == MGC_BUDDY_ENTRY_LEN) return (u32*)tile.raw + lane * (MGC_BUDDY_ENTRY_LEN / 4);
  return tile.codes + lane * MGC_BUDDY_CODE_WORDS;
}

// Of the entries that a warp moves, 16 lanes have the bytes of one, 8 each, and it moves so many at a time.
#define BUDDY_STEP (2 * BUDDY_STEP_PAIRS)
#define BUDDY_STEP_PAIRS 4

// Brings what is stored of entries to shared memory; a lane brings how many bytes those of its entry are.
MGC_DEV void buddy_fetch(const MgcBuddy& buddy, u64 first, BuddyTile& tile, u32 stored_len) {
  const u32 lane = threadIdx.x % 32, at = 8 * (lane % 16);
#pragma unroll 1
  for (u32 step = lane / 16; step < MGC_BUDDY_TILE; step += BUDDY_STEP) {
    // All are asked for before the first is used.
    uint2 fetched[BUDDY_STEP_PAIRS];
    u32 lens[BUDDY_STEP_PAIRS];
#pragma unroll
    for (u32 pair = 0; pair < BUDDY_STEP_PAIRS; pair++) {
      const u32 owner = step + 2 * pair;
      lens[pair] = __shfl_sync(0xffffffffu, stored_len, owner);
      if (at < lens[pair]) fetched[pair] = *(const uint2*)buddy_place(buddy, first + owner, at);
    }
#pragma unroll
    for (u32 pair = 0; pair < BUDDY_STEP_PAIRS; pair++) {
      if (at >= lens[pair]) continue;
      u32* const words = buddy_words(tile, step + 2 * pair, lens[pair]) + at / 4;
      words[0] = fetched[pair].x;
      words[1] = fetched[pair].y;
    }
  }
}

// Writes what is to be stored of entries.
MGC_DEV void buddy_store(const MgcBuddy& buddy, u64 first, BuddyTile& tile, u32 stored_len) {
  const u32 lane = threadIdx.x % 32, at = 8 * (lane % 16);
#pragma unroll 4
  for (u32 owner = lane / 16; owner < MGC_BUDDY_TILE; owner += 2) {
    const u32 len = __shfl_sync(0xffffffffu, stored_len, owner);
    if (at >= len) continue;
    const u32* const words = buddy_words(tile, owner, len) + at / 4;
    *(uint2*)buddy_place(buddy, first + owner, at) = make_uint2(words[0], words[1]);
  }
}

// The length of the code in the stored bytes of a state that leaves some, which become `*size`.
MGC_DEV u32 buddy_code_len(const CodedChunk& stored, u32* size) {
  const u32 last = stored.stored_len - 1;
  const u32 left = stored.stored[last];
  const u32 most = stored.stored_len == BUDDY_SHORT_LEN ? BUDDY_SHORT_LEN - 1 : BUDDY_SECTOR_LEN - 1;
  if (left == 0 || left > most) return MGC_BAD_CHUNK_FIELD;
  *size = stored.stored_len - left;
  u32 padding = 0;
  for (u32 at = 8 * *size; at < 8 * last; at += 32) {
    const u32 bits = bpc_bits(stored, at), rest = 8 * last - at;
    padding |= rest < 32 ? bits & ((1u << rest) - 1) : bits;
  }
  return padding == 0 ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// Decodes the stored bytes of this lane's entry, which has this state, to its raw ones.
MGC_DEV u32 buddy_decode(BuddyTile& tile, u32 state) {
  const u32 lane = threadIdx.x % 32;
  if (state == BUDDY_RAW) return MGC_GOOD;
  CodedChunk stored;
  stored.stored = (const u8*)(tile.codes + lane * MGC_BUDDY_CODE_WORDS);
  stored.stored_len = buddy_stored_len(state);
  u32 size = stored.stored_len;
  if (size != 0 && buddy_leaves(state)) {
    const u32 code = buddy_code_len(stored, &size);
    if (code != MGC_GOOD) return code;
  }
  return bpc_read_entry(stored, 0, size, tile.raw + lane * MGC_BUDDY_ENTRY_LEN);
}

// Codes this lane's entry; returns its state.
MGC_DEV u32 buddy_encode(BuddyTile& tile) {
  const u32 lane = threadIdx.x % 32;
  u32 zeros;
  const u32 size = bpc_size(tile.raw + lane * MGC_BUDDY_ENTRY_LEN, &zeros);
  const u32 state = buddy_state(size), len = buddy_stored_len(state);
  if (size == 0 || state == BUDDY_RAW) return state;
  u32* const words = tile.codes + lane * MGC_BUDDY_CODE_WORDS;
  WordAppender out = {words, 0, 0};
  // In registers, else the compiler keeps what it knows of 33 planes from the size to the code, and has none for that.
  bpc_write_entry(tile.raw + in_register(lane) * MGC_BUDDY_ENTRY_LEN, in_register(zeros), out);
  out.finish();
  while (out.to < words + len / 4) *out.to++ = 0;
  if (size < len) words[len / 4 - 1] |= (len - size) << 24;
  return state;
}

// Keeps the states of a tile, in bytes that two lanes share.
MGC_DEV void buddy_keep_states(const MgcBuddy& buddy, const BuddyPart& part, u32 state) {
  const u32 lane = threadIdx.x % 32;
  const u32 both = state | __shfl_down_sync(0xffffffffu, state, 1) << 4;
  const u32 wanted = __ballot_sync(0xffffffffu, part.is_wanted);
  if (lane % 2 == 0 && (wanted >> lane & 3) != 0) buddy.states[(part.first + lane) / 2] = (u8)both;
}

// How many lanes it holds for.
MGC_DEV u32 count_lanes(bool holds) { return (u32)__popc(__ballot_sync(0xffffffffu, holds)); }

// Counts entries that were read; all lanes call it.
MGC_DEV void count_reads(BuddyTile& tile, u32 all, u32 overflowing) {
  if (threadIdx.x % 32 != 0) return;
  tile.counts.reads += all;
  tile.counts.buddy_reads += overflowing;
}

// As above, that were written; `before` did not fit when they were written last.
MGC_DEV void count_writes(BuddyTile& tile, u32 all, u32 overflowing, u32 before) {
  if (threadIdx.x % 32 != 0) return;
  tile.counts.writes += all;
  tile.counts.buddy_writes += overflowing;
  tile.counts.overflowing += (u64)overflowing - before;
}

// Reads the entries of those lanes that want theirs; returns what is wrong with them.
MGC_DEV u32 buddy_read(const MgcBuddy& buddy, const BuddyPart& part, bool wants, BuddyTile& tile) {
  const u32 len = wants ? buddy_stored_len(part.state) : 0;
  __syncwarp();  // Nobody uses the tile before.
  buddy_fetch(buddy, part.first, tile, len);
  count_reads(tile, count_lanes(wants), count_lanes(len > buddy.slot_len));
  __syncwarp();  // What is stored is there.
  u32 code = MGC_GOOD;
  if (wants) code = part.state < BUDDY_STATES ? buddy_decode(tile, part.state) : MGC_BAD_ENTRY_STATE;
  __syncwarp();  // Raw bytes are there for all lanes.
  return code;
}

// Reads what of the range lies in 32 entries.
MGC_DEV void buddy_read_tile(const MgcBuddy& buddy, u64 first, BuddyTile& tile) {
  const BuddyPart part = buddy_part(buddy, first);
  const u32 code = buddy_read(buddy, part, part.is_wanted, tile);
  tell_entry(buddy, first + threadIdx.x % 32, code);
  // Wraps around if the range starts behind the tile's start; with `part.from` it does not.
  u8* const to = buddy.data + (first * MGC_BUDDY_ENTRY_LEN - buddy.start);
  u32 bad = __ballot_sync(0xffffffffu, code != MGC_GOOD), from = part.from;
  while (bad != 0) {
    const u32 wrong = (u32)__ffs((int)bad) - 1, end = wrong * MGC_BUDDY_ENTRY_LEN;
    if (from < end) copy_bytes<32>(to, tile.raw, to, from, end);
    from = end + MGC_BUDDY_ENTRY_LEN;
    bad &= bad - 1;
  }
  if (from < part.end) copy_bytes<32>(to, tile.raw, to, from, part.end);
}

// Writes what of the range lies in 32 entries.
MGC_DEV void buddy_write_tile(const MgcBuddy& buddy, u64 first, BuddyTile& tile) {
  const BuddyPart part = buddy_part(buddy, first);
  const u64 start = first * MGC_BUDDY_ENTRY_LEN, left = buddy.len - start;
  const u32 own = threadIdx.x % 32 * MGC_BUDDY_ENTRY_LEN;
  // An entry that ends with the allocation is whole without its filling.
  const u32 own_end = left < own + MGC_BUDDY_ENTRY_LEN ? (u32)left : own + MGC_BUDDY_ENTRY_LEN;
  const bool is_partial = part.is_wanted && (part.from > own || part.end < own_end);
  u32 code = MGC_GOOD;
  if (__ballot_sync(0xffffffffu, is_partial) != 0) code = buddy_read(buddy, part, is_partial, tile);
  tell_entry(buddy, first + threadIdx.x % 32, code);
  const bool writes = part.is_wanted && code == MGC_GOOD;

  __syncwarp();  // Nobody looks at the entries before.
  const u8* const from = buddy.data + (start - buddy.start);
  copy_bytes<32>(tile.raw, from, from, part.from, part.end);
  if (buddy.end == buddy.len && part.end % MGC_BUDDY_ENTRY_LEN != 0) {
    const u32 filled = (part.end / MGC_BUDDY_ENTRY_LEN + 1) * MGC_BUDDY_ENTRY_LEN;
    for (u32 at = part.end + threadIdx.x % 32; at < filled; at += 32) tile.raw[at] = 0;
  }
  __syncwarp();  // Raw bytes are there.
  const u32 state = writes ? buddy_encode(tile) : part.state;
  const u32 len = writes ? buddy_stored_len(state) : 0;
  __syncwarp();  // Codes are there for all lanes.
  buddy_store(buddy, first, tile, len);
  buddy_keep_states(buddy, part, state);

  const bool did_overflow = writes && buddy_stored_len(part.state) > buddy.slot_len;
  count_writes(tile, count_lanes(writes), count_lanes(len > buddy.slot_len), count_lanes(did_overflow));
}

// Deals with the range, tile by tile.
template <class Move>
MGC_DEV void buddy_for_tiles(const MgcBuddy& buddy, Move move) {
  MGC_DYNAMIC_SHARED(shared);
  BuddyTile* const tiles = (BuddyTile*)shared;
  const u32 warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) tiles[warp].counts = {0, 0, 0, 0, 0};
  const u64 tile_len = MGC_BUDDY_TILE * MGC_BUDDY_ENTRY_LEN, first = buddy.start / tile_len;
  // Fits: below 2^44 bytes.
  const u32 count = (u32)((buddy.end + tile_len - 1) / tile_len - first), step = gridDim.x * MGC_BLOCK_WARPS;
  for (u32 at = blockIdx.x * MGC_BLOCK_WARPS + warp; at < count; at += step) {
    // Else the compiler keeps places in the tile from one to the next, and has no registers for that.
    move((first + at) * MGC_BUDDY_TILE, tiles[in_register(warp)]);
  }
  settle_buddy(buddy, threadIdx.x % 32 == 0, tiles[warp].counts);
}

// Both kernels take MGC_BLOCK_THREADS threads a block, any number of blocks, and `bpc_buddy_shared_len` bytes of shared
// memory: 57 KiB, and three blocks have room on a multiprocessor of compute capability 9.0 or 10.0, which has 228 KiB, two on
// one of 8.0 (164 KiB), and one where there are 100 KiB (8.6, 8.9, 12.0). The registers allow three everywhere.
MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 3) bpc_buddy_read(MGC_PARAM(MgcBuddy) buddy) {
  buddy_for_tiles(buddy, [&](u64 first, BuddyTile& tile) { buddy_read_tile(buddy, first, tile); });
}

MGC_KERNEL void __launch_bounds__(MGC_BLOCK_THREADS, 3) bpc_buddy_write(MGC_PARAM(MgcBuddy) buddy) {
  buddy_for_tiles(buddy, [&](u64 first, BuddyTile& tile) { buddy_write_tile(buddy, first, tile); });
}
