// Run-length encoding of zeros. FORMAT.md draws the chunk: number of controls, controls, literals, tail.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes), any element width; see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. In shared memory, runs are bitmaps of the
//          elements, so that a thread sees 32 elements at a time and no run waits for another.
// Tail:    bits of elements that are not there are clear in every bitmap; bytes short of an element are kept.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "common/elements.cuh"
#include "kernels.cuh"

#define RLE_COUNT_LEN 4
#define RLE_MAX_RUN 128
#define RLE_LITERALS 0x80

// Controls that a decoding thread reads at a time.
#define RLE_CONTROLS 16

// What a block keeps of a chunk to encode, in the scratch: for each window of 32 elements a mask of the elements
// in stretches of zeros, one of those that start a run, and what the windows before it have of each.
struct RleWindows {
  u32* zeros;  // at first all elements that are zero
  u32* starts;
  u16* controls_before;
  u16* literals_before;
  u32 count;
};

MGC_DEV RleWindows rle_windows(const RawChunk& chunk) {
  const u32 room = chunk.capacity / MGC_WINDOW;  // for elements of one byte
  u32* const zeros = (u32*)chunk.scratch;
  u16* const controls_before = (u16*)(zeros + 2 * room);
  const u32 elements = chunk.raw_len >> chunk.width_log2;
  const u32 count = (elements + MGC_WINDOW - 1) / MGC_WINDOW;
  return {zeros, zeros + room, controls_before, controls_before + room, count};
}

// Marks the elements that are zero.
template <class T>
MGC_DEV void rle_mark_zeros(const RawChunk& chunk, const RleWindows& windows) {
  const u32 elements = chunk.raw_len / (u32)sizeof(T), end = windows.count * 4;
  const UnitRange units = warp_units(units_of_masks<T>(end));
  for (u32 index = units.first; index < units.end; index += 32) {
    constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T);
    u32 mask;
    load_elements<T>(chunk.raw, elements, index, &mask);
    const u32 left = index * PER_UNIT < elements ? elements - index * PER_UNIT : 0;
    const u32 valid = left < PER_UNIT ? (1u << left) - 1 : (1u << PER_UNIT) - 1;
    put_unit_mask<T>((u8*)windows.zeros, end, index, ~mask & valid);
  }
}

// Which elements of window `index` are in a stretch of zeros, and in bit 32 whether the one before them is: of
// `least` zeros or more next to each other.
MGC_DEV u64 rle_stretches(const RleWindows& windows, u32 index, u32 least) {
  const u32 before = index > 0 ? windows.zeros[index - 1] : 0;
  const u32 behind = index + 1 < windows.count ? windows.zeros[index + 1] : 0;
  // The window from bit 4 on, with neighbours on both sides.
  const u64 zeros = before >> 28 | (u64)windows.zeros[index] << 4 | (u64)behind << 36;
  u64 first = zeros, all;
  if (least >= 2) first &= zeros >> 1;
  if (least >= 3) first &= zeros >> 2;
  all = first;
  if (least >= 2) all |= first << 1;
  if (least >= 3) all |= first << 2;
  return (u64)(u32)(all >> 4) | (all >> 3 & 1) << 32;
}

// Bit of the run that starts in the window because the stretch that reaches it, from `start` on, is cut there;
// no other run starts before bit `end`.
MGC_DEV u32 rle_cut(u32 window, u32 start, u32 end) {
  const u32 first = window * MGC_WINDOW;
  const u32 cut = (RLE_MAX_RUN - (first - start) % RLE_MAX_RUN) % RLE_MAX_RUN;
  return cut < end ? 1u << cut : 0;
}

// Turns zeros into stretches, finds where runs start, and counts: literals in the high half, controls in the
// low one.
MGC_DEV u64 rle_find_runs(const RleWindows& windows, u32 elements, u32 least) {
  MGC_SHARED(ScanShared<u32>, shared);
  MGC_SHARED(ScanShared<u64>, wide_shared);
  u64 sum = 0;
  u32 stretch_start = 0;
  for (u32 first = 0; first < windows.count; first += MGC_BLOCK_THREADS) {
    const u32 window = first + threadIdx.x;
    const bool is_window = window < windows.count;
    const u32 left = is_window ? elements - window * MGC_WINDOW : 0;
    const u32 valid = left >= MGC_WINDOW ? 0xffffffffu : (1u << left) - 1;
    const u64 stretches = is_window ? rle_stretches(windows, window, least) : 0;
    const u32 zeros = (u32)stretches;
    u32 starts = (zeros ^ (zeros << 1 | (u32)(stretches >> 32))) & valid;
    if (window == 0) starts |= valid & 1;

    const u32 last = starts != 0 ? window * MGC_WINDOW + 31 - (u32)__clz((int)starts) : 0;
    const u32 start = block_scan_max(last, stretch_start, shared, &stretch_start);
    const u32 end = starts != 0 ? (u32)__ffs((int)starts) - 1 : left < MGC_WINDOW ? left : MGC_WINDOW;
    starts |= rle_cut(window, start, end);

    u64 total;
    const u64 own = (u64)__popc(~zeros & valid) << 32 | (u32)__popc(starts);
    const u64 before = sum + block_scan(own, wide_shared, &total);
    sum += total;
    if (is_window) {
      windows.zeros[window] = zeros;
      windows.starts[window] = starts;
      windows.controls_before[window] = (u16)before;
      windows.literals_before[window] = (u16)(before >> 32);
    }
    __syncthreads();  // Threads read the zeros of their neighbours.
  }
  return sum;
}

// Writes the controls of all runs, a window per thread.
MGC_DEV void rle_put_controls(const RleWindows& windows, u32 elements, u8* controls) {
  for (u32 window = threadIdx.x; window < windows.count; window += MGC_BLOCK_THREADS) {
    u8* to = controls + windows.controls_before[window];
    for (u32 starts = windows.starts[window]; starts != 0; starts &= starts - 1) {
      const u32 bit = (u32)__ffs((int)starts) - 1;
      // The next run starts in this window, in one of the next, or where the elements end.
      u32 rest = starts & (starts - 1), in = window;
      while (rest == 0 && ++in < windows.count) rest = windows.starts[in];
      const u32 end = rest != 0 ? in * MGC_WINDOW + (u32)__ffs((int)rest) - 1 : elements;
      const u32 kind = windows.zeros[window] >> bit & 1 ? 0 : RLE_LITERALS;
      *to++ = (u8)(kind | (end - window * MGC_WINDOW - bit - 1));
    }
  }
}

template <class T>
MGC_DEV void rle_put_literals(const RawChunk& chunk, const RleWindows& windows, u8* literals) {
  constexpr u32 PER_UNIT = MGC_UNIT / sizeof(T);
  const u32 elements = chunk.raw_len / (u32)sizeof(T);
  for (u32 i = threadIdx.x; i * PER_UNIT < elements; i += MGC_BLOCK_THREADS) {
    const u32 window = i * PER_UNIT / MGC_WINDOW, first = i * PER_UNIT % MGC_WINDOW;
    const u32 left = elements - i * PER_UNIT;
    const u32 valid = left < PER_UNIT ? (1u << left) - 1 : (1u << PER_UNIT) - 1;
    const u32 literal = ~windows.zeros[window];
    const u32 before = windows.literals_before[window] + (u32)__popc(literal & ((1u << first) - 1));
    const uint4 unit = *(const uint4*)(chunk.raw + i * MGC_UNIT);
    keep_elements(unit, literal >> first & valid, (T*)literals + before);
  }
}

// What a chunk's controls add up to.
struct RleCounts {
  u32 elements, literals;
};

// Up to 16 controls of a thread, from control `first` on.
MGC_DEV RleCounts rle_sum(const u8* controls, u32 count, u32 first) {
  RleCounts sum = {0, 0};
  for (u32 i = first; i < first + RLE_CONTROLS && i < count; i++) {
    const u32 len = controls[i] % RLE_MAX_RUN + 1;
    sum.elements += len;
    if (controls[i] & RLE_LITERALS) sum.literals += len;
  }
  return sum;
}

// Adds up all controls. At most one per element, so that sums of 23 bits hold them.
MGC_DEV RleCounts rle_sum_all(const u8* controls, u32 count) {
  MGC_SHARED(ScanShared<u64>, shared);
  RleCounts own = {0, 0};
  for (u32 first = threadIdx.x * RLE_CONTROLS; first < count; first += MGC_BLOCK_THREADS * RLE_CONTROLS) {
    const RleCounts some = rle_sum(controls, count, first);
    own.elements += some.elements;
    own.literals += some.literals;
  }
  u64 total;
  block_scan((u64)own.literals << 32 | own.elements, shared, &total);
  return {(u32)total, (u32)(total >> 32)};
}

// Sets the bits of elements `start` to `end` - 1.
MGC_DEV void rle_set_bits(u32* masks, u32 start, u32 end) {
  for (u32 window = start / 32; window * 32 < end; window++) {
    const u32 from = window * 32 < start ? 0xffffffffu << start % 32 : 0xffffffffu;
    const u32 to = end - window * 32 < 32 ? (1u << end % 32) - 1 : 0xffffffffu;
    atomicOr(&masks[window], from & to);
  }
}

// Marks the elements of literal runs. The controls are known to add up to the elements.
MGC_DEV void rle_mark_literals(const u8* controls, u32 count, u32* masks, u32 windows) {
  MGC_SHARED(ScanShared<u32>, shared);
  for (u32 i = threadIdx.x; i < windows; i += MGC_BLOCK_THREADS) masks[i] = 0;
  __syncthreads();
  u32 done = 0;
  for (u32 first = 0; first < count; first += MGC_BLOCK_THREADS * RLE_CONTROLS) {
    const u32 own_first = first + threadIdx.x * RLE_CONTROLS;
    u32 total;
    u32 start = done + block_scan(rle_sum(controls, count, own_first).elements, shared, &total);
    for (u32 i = own_first; i < own_first + RLE_CONTROLS && i < count; i++) {
      const u32 end = start + controls[i] % RLE_MAX_RUN + 1;
      if (controls[i] & RLE_LITERALS) rle_set_bits(masks, start, end);
      start = end;
    }
    done += total;
  }
  __syncthreads();
}

struct Rle {
  static constexpr u32 ENCODE_BLOCKS = 5, DECODE_BLOCKS = 5;

  struct Plan {
    u32 len;
    u32 controls;
  };

  // Where the literals start.
  MGC_DEV u32 literals_at(u32 controls, u32 width_log2) {
    return round_up(RLE_COUNT_LEN + controls, 1u << width_log2);
  }

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const RleWindows windows = rle_windows(chunk);
    switch (chunk.width_log2) {
      case 0: rle_mark_zeros<u8>(chunk, windows); break;
      case 1: rle_mark_zeros<u16>(chunk, windows); break;
      case 2: rle_mark_zeros<u32>(chunk, windows); break;
      default: rle_mark_zeros<u64>(chunk, windows); break;
    }
    __syncthreads();
    const u32 elements = chunk.raw_len >> chunk.width_log2;
    const u64 counts = rle_find_runs(windows, elements, (2u >> chunk.width_log2) + 1);
    const u32 controls = (u32)counts, literals = (u32)(counts >> 32);
    const u32 tail_len = chunk.raw_len - (elements << chunk.width_log2);
    const u32 len = literals_at(controls, chunk.width_log2) + (literals << chunk.width_log2) + tail_len;
    return {len, controls};
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const RleWindows windows = rle_windows(chunk);
    const u32 elements = chunk.raw_len >> chunk.width_log2;
    const u32 controls_end = RLE_COUNT_LEN + plan.controls;
    u8* const literals = coded + literals_at(plan.controls, chunk.width_log2);
    rle_put_controls(windows, elements, coded + RLE_COUNT_LEN);
    switch (chunk.width_log2) {
      case 0: rle_put_literals<u8>(chunk, windows, literals); break;
      case 1: rle_put_literals<u16>(chunk, windows, literals); break;
      case 2: rle_put_literals<u32>(chunk, windows, literals); break;
      default: rle_put_literals<u64>(chunk, windows, literals); break;
    }
    const u32 t = threadIdx.x, elements_len = elements << chunk.width_log2;
    const u32 tail_len = chunk.raw_len - elements_len;
    if (t == 0) *(u32*)coded = plan.controls;
    if (coded + controls_end + t < literals) coded[controls_end + t] = 0;
    if (t < tail_len) coded[plan.len - tail_len + t] = chunk.raw[elements_len + t];
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    u32* const masks = (u32*)chunk.scratch;
    u16* const literals_before = (u16*)(masks + chunk.capacity / MGC_WINDOW);
    const u32 elements = chunk.raw_len >> chunk.width_log2, elements_len = elements << chunk.width_log2;
    const u32 windows = (elements + MGC_WINDOW - 1) / MGC_WINDOW;
    const u8* controls = chunk.stored + RLE_COUNT_LEN;
    const u32 count = *(const u32*)chunk.stored;
    if (count > elements) return MGC_BAD_CHUNK_RUNS;
    if (RLE_COUNT_LEN + count > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;

    const RleCounts counts = rle_sum_all(controls, count);
    if (counts.elements != elements) return MGC_BAD_CHUNK_RUNS;
    const u32 literals = literals_at(count, chunk.width_log2), tail_len = chunk.raw_len - elements_len;
    const u32 tail = literals + (counts.literals << chunk.width_log2);
    u32 code = check_chunk_end(chunk, tail + tail_len);
    const u32 t = threadIdx.x, padding = RLE_COUNT_LEN + count + t;
    if (code == MGC_GOOD && padding < literals && chunk.stored[padding] != 0) code = MGC_BAD_CHUNK_PADDING;
    if (block_fails(code)) return code;

    rle_mark_literals(controls, count, masks, windows);
    count_kept(masks, windows, literals_before);
    __syncthreads();
    expand_elements(chunk, elements_len, masks, literals_before, chunk.stored + literals);
    if (t < tail_len) chunk.dst[elements_len + t] = chunk.stored[tail + t];
    return MGC_GOOD;
  }
};

MGC_KERNELS(rle, Rle)
