// Invariant bit packing. FORMAT.md draws the chunk: clusters, participation bits, kept bits, tail.
//
// Block:   one chunk at a time (4 to 64 KiB of raw bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once, but chunks whose savings decide whether a
//          frame has its codebook at all are read twice. Masks come from memory, where the codebook is, that is
//          from a cache; where tensors are as short as codebooks fitted to buffers have them, once a chunk.
// Bound:   some 145 instructions for a word of 4 bytes to encode (30 to plan), 110 to decode, where masks are
//          short and have no more than IBP_RUNS runs of other bits.
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

MGC_DEV u32 ibp_granules(const IbpChunk& at) { return at.words * 4 / at.codebook.granule; }
// Where participation bits and kept bits start, in bytes.
MGC_DEV u32 ibp_participation(const IbpChunk& at) { return at.tensors; }
MGC_DEV u32 ibp_kept(const IbpChunk& at) { return at.tensors + (ibp_granules(at) + 7) / 8; }

MGC_DEV IbpChunk ibp_chunk(const Codebook& codebook, u64 raw_start, u32 raw_len) {
  const u32 tensor_len = codebook.tensor_len;
  const bool is_power = (tensor_len & (tensor_len - 1)) == 0;
  IbpChunk at;
  at.codebook = codebook;
  at.phase = is_power ? (u32)raw_start & (tensor_len - 1) : (u32)(raw_start % tensor_len);
  at.tail_len = raw_len % codebook.granule;
  at.words = (raw_len - at.tail_len) / 4;
  at.tensors = 0;
  if (codebook.clusters > 1 && at.words != 0) at.tensors = (at.phase + 4 * at.words + tensor_len - 1) / tensor_len;
  at.is_fixed = codebook.clusters == 1 && is_power && tensor_len <= IBP_STEP_LEN;
  return at;
}

// Four words.
struct IbpUnit {
  IbpWord words[4];
};

// The invariant bits of unit `index`; those of words that are in no granule are of no use. `clusters` names that of
// each tensor, if there are several.
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

// The participation bits of four words, one for each: those of a granule of two are equal. Words that are in no
// granule do not participate.
MGC_DEV u32 ibp_participating(const IbpChunk& at, const IbpUnit& unit, const u32 (&words)[4], u32 index) {
  u32 bits = 0;
#pragma unroll
  for (u32 e = 0; e < 4; e++) {
    if ((words[e] & unit.words[e].mask) == unit.words[e].value) bits |= 1u << e;
  }
  if (at.codebook.granule == 8) {
    bits &= bits >> 1;
    bits = (bits & 5) * 3;
  }
  const u32 left = at.words - 4 * index;
  return left < 4 ? bits & ((1u << left) - 1) : bits;
}

// Bits that are kept of word `e` of unit `index`.
MGC_DEV u32 ibp_kept_bits(const IbpChunk& at, const IbpUnit& unit, u32 participating, u32 index, u32 e) {
  if (4 * index + e >= at.words) return 0;
  return participating >> e & 1 ? 32 - __popc(unit.words[e].mask) : 32;
}

MGC_DEV u32 ibp_kept_bits(const IbpChunk& at, const IbpUnit& unit, u32 participating, u32 index) {
  u32 bits = 0;
#pragma unroll
  for (u32 e = 0; e < 4; e++) bits += ibp_kept_bits(at, unit, participating, index, e);
  return bits;
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

// Calls `visit(unit, index)` for the units of the warp, in all lanes together; units behind the last have no words.
template <class Visit>
MGC_DEV void ibp_for_units(const IbpChunk& at, const u8* clusters, Visit visit) {
  const IbpRange range = ibp_range(at);
  const u32 lane = threadIdx.x % 32;
  if (range.first >= range.end) return;
  if (at.is_fixed) {
    // The masks of a lane are always the same; only the last unit may lack words.
    IbpChunk whole = at;
    whole.words = 0xffffffffu;
    const IbpUnit unit = ibp_unit(whole, clusters, range.first + lane);
    for (u32 first = range.first; first < range.end; first += 32) visit(unit, first + lane);
  } else {
    for (u32 first = range.first; first < range.end; first += 32) {
      const u32 index = first + lane;
      visit(ibp_unit(at, clusters, 4 * index < at.words ? index : 0), index);
    }
  }
}

// Sums up over the block what each thread found; returns the sum over the warps before, `*total` that over all.
MGC_DEV u32 ibp_sum(u32 bits, u32* total) {
  MGC_SHARED(ScanShared<u32>, shared);
  const u32 of_warp = __reduce_add_sync(0xffffffffu, bits);
  const u32 before = block_scan(threadIdx.x % 32 == 0 ? of_warp : 0, shared, total);
  return __shfl_sync(0xffffffffu, before, 0);
}

// Reads unit `index` of the raw bytes; zeros where no unit is.
MGC_DEV void ibp_load(const IbpChunk& at, const RawChunk& chunk, u32 index, u32 (&words)[4]) {
  uint4 unit = make_uint4(0, 0, 0, 0);
  if (4 * index < at.words) unit = ((const uint4*)chunk.raw)[index];
  words[0] = unit.x;
  words[1] = unit.y;
  words[2] = unit.z;
  words[3] = unit.w;
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

// Writes the participation bits of a warp's units, given those of the lane's words.
MGC_DEV void ibp_put_participation(const IbpChunk& at, u32 participating, u32 index, u8* coded) {
  const u32 all = 0xffffffffu, granules = MGC_UNIT / at.codebook.granule;
  // Granules of a lane, then of two, four, eight lanes, and of 16 if each has but two.
  u32 bits = granules == 4 ? participating : (participating & 1) | (participating >> 1 & 2);
  bits |= __shfl_down_sync(all, bits, 1) << granules;
  bits |= __shfl_down_sync(all, bits, 2) << 2 * granules;
  bits |= __shfl_down_sync(all, bits, 4) << 4 * granules;
  if (granules == 2) bits |= __shfl_down_sync(all, bits, 8) << 16;
  if (index % (32 / granules) == 0) or_bits(coded, 8 * ibp_participation(at) + index * granules, bits);
}

// What of the code a thread wants to know that is not in the chunk.
MGC_DEV u32 ibp_open(const CodedChunk& chunk, Codebook* codebook) {
  if (chunk.codebook == nullptr) return MGC_BAD_CHUNK_TRUNCATED;  // nothing is left out, so it cannot be shorter
  const u64 any = ~0ull;
  const u32 code = open_codebook(chunk.codebook, any, codebook);
  if (code != MGC_GOOD || codebook->masks != nullptr) return code;
  const u64 id = codebook->id;
  if (chunk.known_codebook == nullptr || open_codebook(chunk.known_codebook, any, codebook) != MGC_GOOD) {
    return MGC_BAD_CODEBOOK;
  }
  return codebook->masks == nullptr || codebook->id != id ? MGC_BAD_CODEBOOK : MGC_GOOD;
}

// The participation bits of the words of unit `index`.
MGC_DEV u32 ibp_read_participation(const IbpChunk& at, const CodedChunk& chunk, u32 index) {
  const u32 granules = MGC_UNIT / at.codebook.granule;
  if (4 * index >= at.words) return 0;
  const u32 bits = chunk_bits(chunk, 8 * ibp_participation(at) + index * granules);
  return granules == 4 ? bits & 15 : (bits & 1) * 3 | (bits >> 1 & 1) * 12;
}

struct Ibp {
  static constexpr u32 ENCODE_BLOCKS = 3, DECODE_BLOCKS = 3;

  struct Plan {
    u32 len;
    u32 bits_before;  // kept by the warps before this one
  };

  MGC_DEV IbpChunk open(const RawChunk& chunk) {
    Codebook codebook;
    open_codebook(chunk.codebook, ~0ull, &codebook);
    return ibp_chunk(codebook, chunk.raw_start, chunk.raw_len);
  }

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const IbpChunk at = open(chunk);
    if (at.tensors != 0) {
      ibp_choose_clusters(at, chunk);
      __syncthreads();
    }
    u32 bits = 0;
    ibp_for_units(at, chunk.scratch, [&](const IbpUnit& unit, u32 index) {
      u32 words[4];
      ibp_load(at, chunk, index, words);
      if (4 * index < at.words) bits += ibp_kept_bits(at, unit, ibp_participating(at, unit, words, index), index);
    });
    Plan plan;
    u32 total;
    plan.bits_before = ibp_sum(bits, &total);
    plan.len = ibp_kept(at) + (total + 7) / 8 + at.tail_len;
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const IbpChunk at = open(chunk);
    zero_words(coded, 0, plan.len);
    __syncthreads();
    for (u32 i = threadIdx.x; i < at.tensors; i += MGC_BLOCK_THREADS) or_bits(coded, 8 * i, chunk.scratch[i]);
    const u32 t = threadIdx.x;
    if (t < at.tail_len) or_bits(coded, 8 * (plan.len - at.tail_len + t), chunk.raw[4 * at.words + t]);
    u32 start = 8 * ibp_kept(at) + plan.bits_before;
    ibp_for_units(at, chunk.scratch, [&](const IbpUnit& unit, u32 index) {
      u32 words[4];
      ibp_load(at, chunk, index, words);
      const bool is_unit = 4 * index < at.words;
      const u32 participating = is_unit ? ibp_participating(at, unit, words, index) : 0;
      ibp_put_participation(at, participating, index, coded);
      const u32 own = is_unit ? ibp_kept_bits(at, unit, participating, index) : 0;
      const u32 inclusive = warp_scan(own);
      BitAppender out = append_at(coded, start + inclusive - own);
      start += __shfl_sync(0xffffffffu, inclusive, 31);
#pragma unroll
      for (u32 e = 0; e < 4; e++) {
        const u32 bits = participating >> e & 1 ? ibp_gather(unit.words[e], words[e]) : words[e];
        const u32 len = is_unit ? ibp_kept_bits(at, unit, participating, index, e) : 0;
        if (len != 0) out.push(bits, len);
      }
      if (own != 0) out.finish();
    });
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    Codebook codebook;
    u32 code = ibp_open(chunk, &codebook);
    if (code != MGC_GOOD) return code;
    const IbpChunk at = ibp_chunk(codebook, chunk.raw_start, chunk.raw_len);
    const u32 kept = ibp_kept(at);
    if (kept > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    for (u32 i = threadIdx.x; i < at.tensors; i += MGC_BLOCK_THREADS) {
      if (chunk.stored[i] >= codebook.clusters) code = MGC_BAD_CHUNK_FIELD;
    }
    const u32 participation_end = 8 * ibp_participation(at) + ibp_granules(at);
    if (code == MGC_GOOD && !padding_is_zero(chunk, participation_end, kept)) code = MGC_BAD_CHUNK_PADDING;
    if (block_fails(code)) return code;

    u32 bits = 0, total;
    ibp_for_units(at, chunk.stored, [&](const IbpUnit& unit, u32 index) {
      if (4 * index < at.words) bits += ibp_kept_bits(at, unit, ibp_read_participation(at, chunk, index), index);
    });
    u32 start = 8 * kept + ibp_sum(bits, &total);
    const u32 tail = kept + (total + 7) / 8;
    code = check_chunk_end(chunk, tail + at.tail_len);
    if (code == MGC_GOOD && !padding_is_zero(chunk, 8 * kept + total, tail)) code = MGC_BAD_CHUNK_PADDING;
    if (block_fails(code)) return code;

    ibp_for_units(at, chunk.stored, [&](const IbpUnit& unit, u32 index) {
      const u32 participating = ibp_read_participation(at, chunk, index);
      const bool is_unit = 4 * index < at.words;
      const u32 own = is_unit ? ibp_kept_bits(at, unit, participating, index) : 0;
      const u32 inclusive = warp_scan(own);
      u32 next = start + inclusive - own;
      start += __shfl_sync(0xffffffffu, inclusive, 31);
      if (!is_unit) return;
      Unit out = {{0, 0}};
#pragma unroll
      for (u32 e = 0; e < 4; e++) {
        u32 word = chunk_bits(chunk, next);
        next += ibp_kept_bits(at, unit, participating, index, e);
        if (participating >> e & 1) word = ibp_scatter(unit.words[e], word) | unit.words[e].value;
        put(out, e, word);
      }
      store_unit(chunk, index, out, 4 * at.words);
    });
    const u32 t = threadIdx.x;
    if (t < at.tail_len) chunk.dst[4 * at.words + t] = chunk.stored[tail + t];
    return MGC_GOOD;
  }
};

MGC_KERNELS(ibp, Ibp)
