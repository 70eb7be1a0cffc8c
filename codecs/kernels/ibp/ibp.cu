// Invariant bit packing. FORMAT.md draws the chunk: clusters, participation bits, kept bits, tail.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once, but chunks whose savings decide whether a
//          frame has its codebook at all are read twice. Masks come from memory, where the codebook is, that is
//          from a cache; where tensors are as short as codebooks fitted to buffers have them, once a chunk.
// Bound:   some 70 instructions for a word of 4 bytes to encode, 56 to decode, half of which are for the chunk as a
//          whole, where masks are short and have one run of other bits. Each run more takes some 5.
// Threads: one has 16 bytes, four words of 32 bits; granules of eight bytes are two of them. A warp works on
//          neighbouring units, and where the bits of each start is a running sum over its lanes.
// Tail:    bytes short of a granule are kept as they are.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "common/bytes.cuh"
#include "frame/codebook.cuh"
#include "ibp/rows.cuh"
#include "ibp/word.cuh"
#include "kernels.cuh"

// Bytes that a warp works on at a time.
#define IBP_STEP_LEN (32 * MGC_UNIT)

// A chunk and its codebook.
struct IbpChunk {
  Codebook codebook;
  u32 phase;      // of its first byte: where in a tensor it is
  u32 words;      // whole granules, in words
  u32 tail_len;
  u32 tensors;    // whose clusters are told: none if there is only one cluster
  bool is_fixed;  // units so far apart as a warp's steps have the same masks
};

MGC_DEV u32 ibp_granules(const IbpChunk& at) { return at.codebook.granule == 8 ? at.words / 2 : at.words; }
// Where participation bits and kept bits start, in bytes.
MGC_DEV u32 ibp_participation(const IbpChunk& at) { return at.tensors; }
MGC_DEV u32 ibp_kept(const IbpChunk& at) { return at.tensors + (ibp_granules(at) + 7) / 8; }

MGC_DEV IbpChunk ibp_chunk(const Codebook& codebook, u64 raw_start, u32 raw_len) {
  const u32 tensor_len = codebook.tensor_len;
  const bool is_power = (tensor_len & (tensor_len - 1)) == 0;
  IbpChunk at;
  at.codebook = codebook;
  // In two steps of 32 bits: chunks start on multiples of the smallest one's size.
  const u32 smallest = (u32)(raw_start >> MGC_MIN_CHUNK_LOG2) % tensor_len;
  at.phase = is_power ? (u32)raw_start & (tensor_len - 1) : (smallest << MGC_MIN_CHUNK_LOG2) % tensor_len;
  at.tail_len = raw_len & (codebook.granule - 1);
  at.words = (raw_len - at.tail_len) / 4;
  at.tensors = 0;
  if (codebook.clusters > 1 && at.words != 0) at.tensors = (at.phase + 4 * at.words + tensor_len - 1) / tensor_len;
  at.is_fixed = codebook.clusters == 1 && is_power && tensor_len <= IBP_STEP_LEN;
  return at;
}

// Four words, and how many runs they have at most; see ibp_find_runs.
struct IbpUnit {
  IbpWord words[4];
  u32 runs;
};

// The invariant bits of unit `index`, no runs; those of words that are in no granule are of no use. `clusters` names
// that of each tensor, if there are several.
MGC_DEV IbpUnit ibp_unit(const IbpChunk& at, const u8* clusters, u32 index) {
  const u32 tensor_len = at.codebook.tensor_len, place = at.phase + index * MGC_UNIT;
  u32 tensor = place / tensor_len, phase = place % tensor_len;
  IbpUnit unit;
#pragma unroll
  for (u32 e = 0; e < 4; e++) {
    u32 mask = 0, value = 0;
    if (4 * index + e < at.words) {
      const u8* masks = cluster_masks(at.codebook, at.tensors != 0 ? clusters[tensor] : 0) + phase;
      mask = *(const u32*)masks;
      value = *(const u32*)(masks + tensor_len);
    }
    unit.words[e] = ibp_word(mask, value);
    phase += 4;
    if (phase == tensor_len) {
      phase = 0;
      tensor++;
    }
  }
  return unit;
}

// The same for chunks with fixed masks, of any unit. Masks and values are on multiples of 8, but of tensors of 4 bytes.
MGC_DEV IbpUnit ibp_fixed_unit(const IbpChunk& at, u32 index) {
  const u32 tensor_len = at.codebook.tensor_len, place = at.phase + index * MGC_UNIT;
  const u8* const masks = at.codebook.masks;
  IbpUnit unit;
  if (tensor_len == 4) {
    const IbpWord word = ibp_word(*(const u32*)masks, *(const u32*)(masks + 4));
#pragma unroll
    for (u32 e = 0; e < 4; e++) unit.words[e] = word;
    return unit;
  }
#pragma unroll
  for (u32 e = 0; e < 4; e += 2) {
    const u8* const from = masks + ((place + 4 * e) & (tensor_len - 1));
    const uint2 mask = *(const uint2*)from, value = *(const uint2*)(from + tensor_len);
    unit.words[e] = ibp_word(mask.x, value.x);
    unit.words[e + 1] = ibp_word(mask.y, value.y);
  }
  return unit;
}

// Which words of a unit participate, and the bits that are kept of each.
struct IbpKept {
  bool participates[4];
  u32 lens[4];
  u32 sum;
};

// Finishes what is known of a unit's words from `participates` on. Words that are in no granule, which are none if the
// step `is_whole`, do not participate and keep nothing.
MGC_DEV void ibp_count(const IbpChunk& at, const IbpUnit& unit, u32 index, bool is_whole, IbpKept& kept) {
#pragma unroll
  for (u32 e = 0; e < 4; e++) kept.lens[e] = kept.participates[e] ? unit.words[e].kept : 32;
  if (!is_whole) {
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      if (4 * index + e < at.words) continue;
      kept.participates[e] = false;
      kept.lens[e] = 0;
    }
  }
  kept.sum = kept.lens[0] + kept.lens[1] + kept.lens[2] + kept.lens[3];
}

// What is kept of raw words. Of a granule of two, both participate or none does.
MGC_DEV IbpKept ibp_kept_of(const IbpChunk& at, const IbpUnit& unit, const u32 (&words)[4], u32 index, bool is_whole) {
  const u32 other = at.codebook.granule == 8 ? 0xffffffffu : 0;
  IbpKept kept;
#pragma unroll
  for (u32 e = 0; e < 4; e += 2) {
    const IbpWord &low = unit.words[e], &high = unit.words[e + 1];
    const u32 of_low = (words[e] & low.mask) ^ low.value, of_high = (words[e + 1] & high.mask) ^ high.value;
    kept.participates[e] = (of_low | (of_high & other)) == 0;
    kept.participates[e + 1] = (of_high | (of_low & other)) == 0;
  }
  ibp_count(at, unit, index, is_whole, kept);
  return kept;
}

// What a chunk keeps of unit `index`.
MGC_DEV IbpKept ibp_read_kept(const IbpChunk& at, const IbpUnit& unit, const CodedChunk& chunk, u32 index,
                              bool is_whole) {
  const bool pairs = at.codebook.granule == 8;
  const u32 first = index * (pairs ? 2 : 4);  // a bit for each granule
  u32 bits = 0;
  if (is_whole || 4 * index < at.words) bits = chunk.stored[ibp_participation(at) + first / 8] >> first % 8;
  IbpKept kept;
  kept.participates[0] = bits & 1;
  kept.participates[1] = bits & (pairs ? 1 : 2);
  kept.participates[2] = bits & (pairs ? 2 : 4);
  kept.participates[3] = bits & (pairs ? 2 : 8);
  ibp_count(at, unit, index, is_whole, kept);
  return kept;
}

// A warp works on neighbouring units, 32 at a time.
struct IbpRange {
  u32 first, end;
};

MGC_DEV IbpRange ibp_range(const IbpChunk& at) {
  const u32 units = (at.words + 3) / 4;
  const u32 per_warp = round_up((units + MGC_BLOCK_WARPS - 1) / MGC_BLOCK_WARPS, 32);
  const u32 first = threadIdx.x / 32 * per_warp;
  return {first, first + per_warp < units ? first + per_warp : units};
}

// Calls `visit(unit, index, is_whole)` for the units of the warp, in all lanes together; units behind the last have no
// words, which may be so only if not `is_whole`. Runs are known if they are wanted.
template <bool WANTS_RUNS, class Visit>
MGC_DEV void ibp_for_units(const IbpChunk& at, const u8* clusters, Visit visit) {
  const IbpRange range = ibp_range(at);
  const u32 lane = threadIdx.x % 32;
  IbpUnit unit;
  unit.runs = 0;
  if (at.is_fixed) {
    // The masks of a lane are always the same.
    unit = ibp_fixed_unit(at, range.first + lane);
    if (WANTS_RUNS) unit.runs = ibp_find_runs(unit.words);
#pragma unroll
    for (u32 e = 0; e < 4; e++) ibp_hold(unit.words[e]);
    // All steps but the last one of the chunk are whole.
    const u32 whole = at.words / (IBP_STEP_LEN / 4) * 32, whole_end = in_register(range.end < whole ? range.end : whole);
    u32 first = range.first;
    for (; first < whole_end; first += 32) visit(unit, first + lane, true);
    if (first < range.end) visit(unit, first + lane, false);
    return;
  }
  for (u32 first = range.first; first < range.end; first += 32) {
    const u32 index = first + lane;
    unit = ibp_unit(at, clusters, 4 * index < at.words ? index : 0);
    if (WANTS_RUNS) unit.runs = ibp_find_runs(unit.words);
    visit(unit, index, 4 * first + 128 <= at.words);
  }
}

// Sums up over the block what each thread found; returns the sum over the warps before, `*total` that over all.
MGC_DEV u32 ibp_sum(u32 bits, u32* total) {
  MGC_SHARED(ScanShared<u32>, shared);
  const u32 all = 0xffffffffu, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 of_warp = __reduce_add_sync(all, bits);
  if (lane == 0) shared.warp_sums[warp] = of_warp;
  __syncthreads();
  const u32 other = lane < MGC_BLOCK_WARPS ? shared.warp_sums[lane] : 0;
  *total = __reduce_add_sync(all, other);
  const u32 before = __reduce_add_sync(all, lane < warp ? other : 0);
  __syncthreads();  // The next sum writes warp_sums again.
  return before;
}

// Reads unit `index` of the raw bytes; zeros where no granule is, which is nowhere if the step `is_whole`.
MGC_DEV void ibp_load(const IbpChunk& at, const RawChunk& chunk, u32 index, bool is_whole, u32 (&words)[4]) {
  uint4 unit = make_uint4(0, 0, 0, 0);
  if (is_whole || 4 * index < at.words) unit = ((const uint4*)chunk.raw)[index];
  words[0] = unit.x;
  words[1] = unit.y;
  words[2] = unit.z;
  words[3] = unit.w;
  if (is_whole) return;
#pragma unroll
  for (u32 e = 0; e < 4; e++) {
    if (4 * index + e >= at.words) words[e] = 0;
  }
}

// Bits that a cluster saves in bytes `from` to `end` - 1 of the chunk, which are of one tensor. The whole warp
// calls it.
MGC_DEV u32 ibp_saved(const IbpChunk& at, const RawChunk& chunk, u32 cluster, u32 tensor, u32 from, u32 end) {
  const u32 granule = at.codebook.granule;
  const u8* masks = cluster_masks(at.codebook, cluster) + at.phase - tensor * at.codebook.tensor_len;
  u32 saved = 0;
  for (u32 i = from + threadIdx.x % 32 * granule; i < end; i += 32 * granule) {
    u32 differing = 0, bits = 0;
    for (u32 half = 0; half < granule; half += 4) {
      const u32 mask = *(const u32*)(masks + i + half);
      const u32 value = *(const u32*)(masks + at.codebook.tensor_len + i + half);
      differing |= (*(const u32*)(chunk.raw + i + half) & mask) ^ value;
      bits += (u32)__popc(mask);
    }
    if (differing == 0) saved += bits;
  }
  return __reduce_add_sync(0xffffffffu, saved);
}

// Names the cluster of each tensor: the one that saves most, of several the first. A tensor per warp.
MGC_DEV void ibp_choose_clusters(const IbpChunk& at, const RawChunk& chunk) {
  const u32 tensor_len = at.codebook.tensor_len;
  for (u32 tensor = threadIdx.x / 32; tensor < at.tensors; tensor += MGC_BLOCK_WARPS) {
    const u32 start = tensor * tensor_len, from = start > at.phase ? start - at.phase : 0;
    const u32 tensor_end = start + tensor_len - at.phase;
    const u32 end = tensor_end < 4 * at.words ? tensor_end : 4 * at.words;
    u32 best = 0, most = 0;
    for (u32 cluster = 0; cluster < at.codebook.clusters; cluster++) {
      const u32 saved = ibp_saved(at, chunk, cluster, tensor, from, end);
      if (saved > most) {
        most = saved;
        best = cluster;
      }
    }
    if (threadIdx.x % 32 == 0) chunk.scratch[tensor] = (u8)best;
  }
}

// Whether participation bits are added, since something else may be added to words that they are in: other sections
// start or end in one, or there is no kept bit, so that zeros are added behind the end (see ibp_put_pair).
MGC_DEV bool ibp_adds_participation(const IbpChunk& at, u32 len) {
  return (ibp_participation(at) | ibp_kept(at)) % 4 != 0 || len == ibp_kept(at) + at.tail_len;
}

// Writes the participation bits of a warp's units, neighbouring lanes together where they share a byte; `adds` is what
// ibp_adds_participation says.
MGC_DEV void ibp_put_participation(const IbpChunk& at, const IbpKept& kept, u32 index, bool is_whole, bool adds,
                                   u8* coded) {
  const u32 all = 0xffffffffu;
  u32 bits, byte;
  bool is_first;  // of the lanes that share a byte
  if (at.codebook.granule == 8) {
    bits = (kept.participates[0] ? 1 : 0) | (kept.participates[2] ? 2 : 0);
    bits |= __shfl_down_sync(all, bits, 1) << 2;
    bits |= __shfl_down_sync(all, bits, 2) << 4;
    byte = ibp_participation(at) + index / 4;
    is_first = index % 4 == 0;
  } else {
    bits = (kept.participates[0] ? 1 : 0) | (kept.participates[1] ? 2 : 0) | (kept.participates[2] ? 4 : 0) |
           (kept.participates[3] ? 8 : 0);
    bits |= __shfl_down_sync(all, bits, 1) << 4;
    byte = ibp_participation(at) + index / 2;
    is_first = index % 2 == 0;
  }
  if (!is_first) return;
  if (adds) {
    or_bits(coded, 8 * byte, bits);
  } else if (is_whole || 4 * index < at.words) {
    coded[byte] = (u8)bits;
  }
}

// Adds `a` and, behind it, `b` from bit `at` on; neither has ones from its length on. The words up to `last` are there,
// and zeros may be added to any of them: that takes less than to ask whether there are ones, since compilers put branches
// around atomics.
MGC_DEV void ibp_put_pair(u8* coded, u32 last, u32 at, u32 a, u32 a_len, u32 b) {
  u32* const words = (u32*)coded;
  const u32 index = at / 32 < last ? at / 32 : last;
  const u64 pair = a | (u64)b << a_len;
  const u32 low = (u32)pair, high = (u32)(pair >> 32);
  atomicOr(words + index, __funnelshift_l(0, low, at));
  // What is not zero has its word.
  atomicOr(words + (index + 1 < last ? index + 1 : last), __funnelshift_l(low, high, at));
  atomicOr(words + (index + 2 < last ? index + 2 : last), __funnelshift_l(high, 0, at));
}

// Reads `a` of `a_len` bits from bit `at` on and `b` behind it; bits behind their ends are any. No word is read that is
// not in the chunk.
MGC_DEV void ibp_read_pair(const CodedChunk& chunk, u32 at, u32 a_len, u32* a, u32* b) {
  const u32* const words = (const u32*)chunk.stored;
  const u32 last = chunk.stored_len / 4 - 1, index = at / 32 < last ? at / 32 : last;
  const u32 first = words[index];
  const u32 second = words[index + 1 < last ? index + 1 : last], third = words[index + 2 < last ? index + 2 : last];
  const u32 low = __funnelshift_r(first, second, at), high = __funnelshift_r(second, third, at);
  *a = low;
  *b = (u32)(((u64)high << 32 | low) >> a_len);
}

struct Ibp {
  static constexpr u32 ENCODE_BLOCKS = 3, DECODE_BLOCKS = 3;

  struct Plan {
    u32 len;
    u32 bits_before;  // kept by the warps before this one
    IbpChunk at;
  };

  MGC_DEV IbpChunk open(const RawChunk& chunk) {
    return ibp_chunk(known_codebook(chunk.codebook), chunk.raw_start, chunk.raw_len);
  }

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const IbpChunk at = open(chunk);
    if (at.tensors != 0) {
      ibp_choose_clusters(at, chunk);
      __syncthreads();
    }
    u32 bits = 0;
    ibp_for_units<false>(at, chunk.scratch, [&](const IbpUnit& unit, u32 index, bool is_whole) {
      u32 words[4];
      ibp_load(at, chunk, index, is_whole, words);
      bits += ibp_kept_of(at, unit, words, index, is_whole).sum;
    });
    Plan plan;
    plan.at = at;
    u32 total;
    plan.bits_before = ibp_sum(bits, &total);
    plan.len = ibp_kept(at) + (total + 7) / 8 + at.tail_len;
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const IbpChunk& at = plan.at;
    zero_units(coded, plan.len);
    __syncthreads();
    for (u32 i = threadIdx.x; i < at.tensors; i += MGC_BLOCK_THREADS) or_bits(coded, 8 * i, chunk.scratch[i]);
    const u32 t = threadIdx.x;
    if (t < at.tail_len) or_bits(coded, 8 * (plan.len - at.tail_len + t), chunk.raw[4 * at.words + t]);
    u32 start = 8 * ibp_kept(at) + plan.bits_before;
    const u32 last = in_register(units_of(plan.len) * (MGC_UNIT / 4) - 1);
    const u32 adds = in_register(ibp_adds_participation(at, plan.len) ? 1 : 0);
    ibp_for_units<true>(at, chunk.scratch, [&](const IbpUnit& unit, u32 index, bool is_whole) {
      u32 words[4];
      ibp_load(at, chunk, index, is_whole, words);
      const IbpKept kept = ibp_kept_of(at, unit, words, index, is_whole);
      ibp_put_participation(at, kept, index, is_whole, adds != 0, coded);
      const u32 inclusive = warp_scan(kept.sum), own = start + inclusive - kept.sum;
      start += __shfl_sync(0xffffffffu, inclusive, 31);
      u32 bits[4];
      ibp_gather(unit.words, unit.runs, words, bits);
#pragma unroll
      for (u32 e = 0; e < 4; e++) {
        if (!kept.participates[e]) bits[e] = words[e];
      }
      ibp_put_pair(coded, last, own, bits[0], kept.lens[0], bits[1]);
      ibp_put_pair(coded, last, own + kept.lens[0] + kept.lens[1], bits[2], kept.lens[2], bits[3]);
    });
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    u32 code = chunk.codebook_code;
    if (code != MGC_GOOD) return code;
    const IbpChunk at = ibp_chunk(chunk.codebook, chunk.raw_start, chunk.raw_len);
    const u32 kept_start = ibp_kept(at);
    if (kept_start > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    for (u32 i = threadIdx.x; i < at.tensors; i += MGC_BLOCK_THREADS) {
      if (chunk.stored[i] >= at.codebook.clusters) code = MGC_BAD_CHUNK_FIELD;
    }
    const u32 participation_end = 8 * ibp_participation(at) + ibp_granules(at);
    if (code == MGC_GOOD && !padding_is_zero(chunk, participation_end, kept_start)) code = MGC_BAD_CHUNK_PADDING;
    if (block_fails(code)) return code;

    u32 bits = 0, total;
    ibp_for_units<false>(at, chunk.stored, [&](const IbpUnit& unit, u32 index, bool is_whole) {
      bits += ibp_read_kept(at, unit, chunk, index, is_whole).sum;
    });
    u32 start = 8 * kept_start + ibp_sum(bits, &total);
    const u32 tail = kept_start + (total + 7) / 8;
    code = check_chunk_end(chunk, tail + at.tail_len);
    if (code == MGC_GOOD && !padding_is_zero(chunk, 8 * kept_start + total, tail)) code = MGC_BAD_CHUNK_PADDING;
    if (block_fails(code)) return code;

    ibp_for_units<true>(at, chunk.stored, [&](const IbpUnit& unit, u32 index, bool is_whole) {
      const IbpKept kept = ibp_read_kept(at, unit, chunk, index, is_whole);
      const u32 inclusive = warp_scan(kept.sum), own = start + inclusive - kept.sum;
      start += __shfl_sync(0xffffffffu, inclusive, 31);
      if (!is_whole && 4 * index >= at.words) return;
      u32 words[4];
      ibp_read_pair(chunk, own, kept.lens[0], &words[0], &words[1]);
      ibp_read_pair(chunk, own + kept.lens[0] + kept.lens[1], kept.lens[2], &words[2], &words[3]);
      u32 scattered[4];
      ibp_scatter(unit.words, unit.runs, words, scattered);
      Unit out = {{0, 0}};
#pragma unroll
      for (u32 e = 0; e < 4; e++) put(out, e, kept.participates[e] ? scattered[e] : words[e]);
      store_unit(chunk, index, out, 4 * at.words);
    });
    const u32 t = threadIdx.x;
    if (t < at.tail_len) chunk.dst[4 * at.words + t] = chunk.stored[tail + t];
    return MGC_GOOD;
  }
};

MGC_KERNELS(ibp, Ibp)
