// XP: encoding a chunk.
//
// plan   See plan.cuh. The values that masks leave are in the raw bytes afterwards; their codes in the scratch, where they are
//        kept.
// emit   A round takes an octet of values per thread, or two: those of another thread than in the plan, so a barrier lies
//        between. Rests and codes of the first tier go to their places, the code bytes of the escapes to the front of the
//        raw bytes. That is in place: what a round writes lies below what the next one reads, and the barrier of the scan
//        is between reading and writing. The second tier is made of these bytes the same way, the third of what the second
//        leaves.
#pragma once
#include "xp/columns.cuh"
#include "xp/plan.cuh"

// Bit `bit` of each code byte of an octet, one bit each, and the whole times 2^bit.
MGC_DEV u32 xp_scaled_plane(u32 low, u32 high, u32 bit) {
  const u32 ones = 0x01010101u << bit;
  return __dp4a(high & ones, 0x80402010u, __dp4a(low & ones, 0x08040201u, 0u));
}

// Bit `bit` of each code byte of two octets, one bit each.
MGC_DEV u32 xp_pair_plane(const uint4& codes, u32 bit) {
  return (xp_scaled_plane(codes.x, codes.y, bit) | xp_scaled_plane(codes.z, codes.w, bit) << 8) >> bit;
}

// Planes 2 to 4, a byte each.
MGC_DEV u32 xp_later_planes(u32 low, u32 high) {
  return xp_scaled_plane(low, high, 2) >> 2 | xp_scaled_plane(low, high, 3) << 5 | xp_scaled_plane(low, high, 4) << 12;
}

// Writes the bytes of an octet that `mask` names, one behind the other; returns where the next one goes.
MGC_DEV u8* xp_put_chosen(u8* to, u32 mask, u32 low, u32 high) {
#pragma unroll
  for (u32 i = 0; i < 8; i++) {
    if (mask >> i & 1) *to++ = (u8)((i < 4 ? low : high) >> i % 4 * 8);
  }
  return to;
}

// How far the first tier is written.
struct XpWritten {
  u32 octets;
  u32 escapes, rare;  // among them: of this tier, and of the last
  u32 turn;           // of the sums
};

// Writes what xp_emit_first does as long as each thread has two octets beside each other: of values whose codes were kept
// and whose rests are whole bytes, in whole groups.
template <class T>
MGC_DEV void xp_emit_pairs(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, const XpSplit& split,
                           const XpColumns& at, u8* coded, XpWritten& written) {
  constexpr u32 STEP = 2 * MGC_BLOCK_THREADS;
#pragma unroll 1
  for (; written.octets + STEP <= plan.values / 8; written.octets += STEP) {
    const u32 octet = written.octets + 2 * threadIdx.x;
    const uint4 codes = ((const uint4*)chunk.scratch)[octet / 2];
    u32 words[2][xp_words<T>()];
#pragma unroll
    for (u32 i = 0; i < 2; i++) xp_load_octet((const T*)chunk.raw + 8 * (octet + i), words[i]);
    u16* const to = (u16*)(coded + at.first + octet / 8 * 16 + octet % 8);
    const u32 low_plane = xp_pair_plane(codes, 0), high_plane = xp_pair_plane(codes, 1);
    to[0] = (u16)low_plane;
    to[4] = (u16)high_plane;
    xp_put_pair_rests<T>(coded + at.rests, plan.values, octet, words);
    const u32 escapes = low_plane & high_plane;  // their code is all ones
    u32 own = (u32)__popc(escapes), rare = 0, total;
    if (((codes.x | codes.y | codes.z | codes.w) & 0x80808080u) != 0) {
      rare = xp_pair_plane(codes, 7);
      own |= (u32)__popc(rare) << 16;
    }
    const u32 offset = xp_scan(own, shared.sums[written.turn], &total);
    u8* const next =
        xp_put_chosen(chunk.raw + written.escapes + (offset & 0xffff), escapes & 0xff, codes.x, codes.y);
    xp_put_chosen(next, escapes >> 8, codes.z, codes.w);
    if (rare != 0) {
      const u32 first = written.rare + (offset >> 16);
      xp_add_symbols<T>(coded + at.symbols, plan.k3, first, split, rare & 0xff, words[0]);
      const u32 second = first + (u32)__popc(rare & 0xff);
      xp_add_symbols<T>(coded + at.symbols, plan.k3, second, split, rare >> 8, words[1]);
    }
    written.escapes += total & 0xffff;
    written.rare += total >> 16;
    written.turn ^= 1;
  }
}

// Writes first tier, rests and symbols; the code bytes of the escapes go to the front of the raw bytes.
template <class T>
MGC_DEV void xp_emit_first(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, const XpSplit& split,
                           const XpColumns& at, u8* coded) {
  const bool keeps = xp_keeps_codes<T>(plan);
  const u32 symbol_bits = xp_exponent_bits<T>(chunk.element) + 1;
  const bool is_bytes = (sizeof(T) == 2 || sizeof(T) == 4) && split.symbol_bits == 8 && !split.is_signed;
  XpWritten written = {0, 0, 0, 0};
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    if (keeps && is_bytes && plan.values % XP_GROUP == 0) {
      xp_emit_pairs<T>(shared, chunk, plan, split, at, coded, written);
    }
  }
#pragma unroll 1
  for (; 8 * written.octets < plan.values; written.octets += MGC_BLOCK_THREADS) {
    const u32 octet = written.octets + threadIdx.x;
    u32 words[xp_words<T>()] = {}, low = 0, high = 0;
    if (8 * octet < plan.values) {
      xp_load_octet((const T*)chunk.raw + 8 * octet, words);
      if (keeps) {
        const uint2 codes = ((const uint2*)chunk.scratch)[octet];
        low = codes.x, high = codes.y;
      } else {
        xp_look_up<T>(shared, words, symbol_bits, xp_live(plan.values, octet), &low, &high);
      }
    }
    const u32 planes = xp_scaled_plane(low, high, 0) | xp_scaled_plane(low, high, 1) << 7;
    if (8 * octet < plan.values) {
      xp_put_planes(coded + at.first, plan.values, 2, octet, planes, 0);
      if (is_bytes) {
        if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
          xp_put_whole_rests<T>(coded + at.rests, plan.values, octet, words);
        }
      } else {
        xp_put_rests<T>(coded + at.rests, plan.values, octet, split, words);
      }
    }
    const u32 escapes = planes & planes >> 8, rare = xp_scaled_plane(low, high, 7) >> 7;
    u32 total;
    const u32 own = (u32)__popc(escapes) | (u32)__popc(rare) << 16;
    const u32 offset = xp_scan(own, shared.sums[written.turn], &total);
    xp_put_chosen(chunk.raw + written.escapes + (offset & 0xffff), escapes, low, high);
    if (rare != 0) {
      xp_add_symbols<T>(coded + at.symbols, plan.k3, written.rare + (offset >> 16), split, rare, words);
    }
    written.escapes += total & 0xffff;
    written.rare += total >> 16;
    written.turn ^= 1;
  }
  __syncthreads();
}

// Writes the second tier from the code bytes of the first one's escapes, and leaves those of its own.
MGC_DEV void xp_emit_second(XpEncodeShared& shared, const RawChunk& chunk, const XpPlan& plan, u8* column) {
  const u32 bits = xp_second_bits(plan.mode & XP_WIDE);
  u32 before = 0;
  for (u32 first = 0; 8 * first < plan.k1; first += MGC_BLOCK_THREADS) {
    const u32 octet = first + threadIdx.x, live = xp_live(plan.k1, octet);
    u32 low = 0, high = 0;
    if (live != 0) {
      const uint2 codes = ((const uint2*)chunk.raw)[octet];
      low = codes.x & xp_byte_mask(live), high = codes.y & xp_byte_mask(live >> 4);
    }
    const u32 escapes = xp_scaled_plane(low, high, 6) >> 6;
    const u32 ones = escapes * 0x00010101u;  // the code of an escape is all ones
    const u32 codes = xp_later_planes(low, high) | ones;
    if (live != 0) xp_put_planes(column, plan.k1, bits, octet, codes, 0);
    u32 total;
    const u32 offset = xp_scan((u32)__popc(escapes), shared.sums[2 + first / MGC_BLOCK_THREADS % 2], &total);
    xp_put_chosen(chunk.raw + before + offset, escapes, low, high);
    before += total;
  }
  __syncthreads();
}

// Writes the third tier from the code bytes of the second one's escapes.
MGC_DEV void xp_emit_third(const RawChunk& chunk, const XpPlan& plan, u8* column) {
  for (u32 octet = threadIdx.x; 8 * octet < plan.k2; octet += MGC_BLOCK_THREADS) {
    const u32 live = xp_live(plan.k2, octet);
    const uint2 codes = ((const uint2*)chunk.raw)[octet];
    const u32 planes = xp_later_planes(codes.x & xp_byte_mask(live), codes.y & xp_byte_mask(live >> 4));
    xp_put_planes(column, plan.k2, 3, octet, planes, 0);
  }
}

template <class T>
MGC_DEV void xp_emit(XpEncodeShared& shared, const RawChunk& chunk, u8* coded) {
  __syncthreads();  // What thread 0 wrote is there.
  const XpPlan& plan = shared.plan;
  const XpSplit& split = shared.split;
  const XpColumns& at = shared.at;
  const u32 room = xp_mask_room<T>(chunk), tail_len = chunk.raw_len % (u32)sizeof(T), t = threadIdx.x;
  const u32 elements = chunk.raw_len / (u32)sizeof(T);
  if (t == 0) {
    coded[0] = (u8)plan.mode;
    coded[1] = (u8)(plan.zeros.depth | plan.changes.depth << 4);
  }
  if (t < tail_len) coded[plan.len - tail_len + t] = chunk.raw[chunk.raw_len - tail_len + t];
  if ((plan.mode & XP_ZERO_MASK) != 0) {
    xp_put_mask(chunk.scratch, room, elements, plan.zeros.depth, shared.sums, coded + XP_MODE_LEN);
  }
  if ((plan.mode & XP_CHANGE_MASK) != 0) {
    u8* const to = coded + XP_MODE_LEN + plan.zeros.len;
    xp_put_mask(xp_change_levels<T>(chunk), room, plan.non_zeros, plan.changes.depth, shared.sums, to);
  }
  if (plan.values == 0) return;

  const u32 symbol_len = split.symbol_bits > 8 ? 2 : 1, table_at = xp_table_at(plan);
  const u32 table = xp_table_len(plan.mode & XP_WIDE) * symbol_len;
  if (t < at.first - table_at) {
    coded[table_at + t] = t < table ? (u8)(shared.symbols[t / symbol_len] >> t % symbol_len * 8) : 0;
  }
  for (u32 i = at.symbols + t; i < at.end; i += MGC_BLOCK_THREADS) coded[i] = 0;
  __syncthreads();
  xp_emit_first<T>(shared, chunk, plan, split, at, coded);
  if (plan.k1 == 0) return;
  xp_emit_second(shared, chunk, plan, coded + at.second);
  xp_emit_third(chunk, plan, coded + at.third);
}
