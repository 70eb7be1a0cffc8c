// One entry of bit-plane compression: words, planes, codes. FORMAT.md draws them.
//
// A thread has an entry, whose 32 words or planes are registers. Planes of a warp's lanes (by ballots or shuffles) would
// need no fewer instructions for the planes and far more for the codes, which hang together; the entries do not.
#pragma once
#include "common/bytes.cuh"
#include "frame/frame.cuh"

#define BPC_ENTRY_LEN 128
#define BPC_WORDS 32
// The DBX of a plane of ones.
#define BPC_ALL_ONES 0x7fffffffu

// Words, differences or planes 0 to 31 of an entry. Indices must be known when this is compiled.
typedef u32 BpcRows[BPC_WORDS];

MGC_DEV u32 bpc_entries(u32 raw_len) { return (raw_len + BPC_ENTRY_LEN - 1) / BPC_ENTRY_LEN; }

// Swaps units so that unit i goes to i ^ turn.
MGC_DEV void bpc_turn(BpcRows& rows, u32 turn) {
#pragma unroll
  for (u32 distance = 4; distance < BPC_WORDS; distance *= 2) {
    const bool swaps = turn & distance / 4;
#pragma unroll
    for (u32 i = 0; i < BPC_WORDS; i++) {
      if (i & distance) continue;
      const u32 low = rows[i], high = rows[i + distance];
      rows[i] = swaps ? high : low;
      rows[i + distance] = swaps ? low : high;
    }
  }
}

// Reads an entry from shared memory. Neighbouring threads read neighbouring entries, so each has another order:
// else they would all ask the same banks.
MGC_DEV void bpc_load(const u8* entry, BpcRows& rows) {
  const u32 turn = threadIdx.x % 8;
#pragma unroll
  for (u32 i = 0; i < BPC_WORDS / 4; i++) {
    const uint4 unit = ((const uint4*)entry)[i ^ turn];
    rows[4 * i] = unit.x;
    rows[4 * i + 1] = unit.y;
    rows[4 * i + 2] = unit.z;
    rows[4 * i + 3] = unit.w;
  }
  bpc_turn(rows, turn);
}

MGC_DEV void bpc_store(u8* entry, BpcRows& rows) {
  const u32 turn = threadIdx.x % 8;
  bpc_turn(rows, turn);
#pragma unroll
  for (u32 i = 0; i < BPC_WORDS / 4; i++) {
    ((uint4*)entry)[i ^ turn] = make_uint4(rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]);
  }
}

// Swaps bit i of row k with bit k of row i, for all of them: halves first, then halves of those.
MGC_DEV void bpc_transpose(BpcRows& rows) {
#pragma unroll
  for (u32 width = 16; width > 0; width /= 2) {
    const u32 low_bits = width == 4 ? 0x0f0f0f0fu : width == 2 ? 0x33333333u : 0x55555555u;
#pragma unroll
    for (u32 k = 0; k < BPC_WORDS; k++) {
      if (k & width) continue;
      const u32 a = rows[k], b = rows[k + width];
      if (width == 16) {
        rows[k] = __byte_perm(a, b, 0x5410);
        rows[k + width] = __byte_perm(a, b, 0x7632);
      } else if (width == 8) {
        rows[k] = __byte_perm(a, b, 0x6240);
        rows[k + width] = __byte_perm(a, b, 0x7351);
      } else {
        rows[k] = (a & low_bits) | (b << width & ~low_bits);
        rows[k + width] = (a >> width & low_bits) | (b & ~low_bits);
      }
    }
  }
}

// Turns words into DBP 0 to 31; returns DBP 32, the signs of the differences.
MGC_DEV u32 bpc_planes(BpcRows& rows) {
  u32 signs = 0;
#pragma unroll
  for (u32 i = 0; i + 1 < BPC_WORDS; i++) {
    if (rows[i + 1] < rows[i]) signs |= 1u << i;
    rows[i] = rows[i + 1] - rows[i];
  }
  rows[BPC_WORDS - 1] = 0;
  bpc_transpose(rows);
  return signs;
}

// A few bits, the first one lowest.
struct BpcCode {
  u32 bits, len;
};

// Of the first word, whose 33rd bit may not fit: without the word if it is spelled out.
MGC_DEV BpcCode bpc_first_code(u32 word) {
  if (word == 0) return {0, 3};
  if (word + 8 < 16) return {4 | (word & 0xf) << 3, 3 + 4};
  if (word + 0x80 < 0x100) return {2 | (word & 0xff) << 3, 3 + 8};
  if (word + 0x8000 < 0x10000) return {6 | (word & 0xffff) << 3, 3 + 16};
  return {1, 1};
}

// Of the plane with this DBX, which is not zero, and DBP. A plane that stands behind the codes has one bit.
MGC_DEV BpcCode bpc_plane_code(u32 dbx, u32 dbp) {
  const u32 without_lowest = dbx & (dbx - 1), lowest = dbx - without_lowest;
  const u32 index = 31 - (u32)__clz((int)lowest);
  BpcCode code = {1, 1};
  if (without_lowest == 0) code = {0x18 | index << 5, 10};
  if (without_lowest == 2 * lowest) code = {0x08 | index << 5, 10};
  if (dbp == 0) code = {0x10, 5};
  if (dbx == BPC_ALL_ONES) code = {0, 5};
  return code;
}

// Of so many planes of zeros.
MGC_DEV BpcCode bpc_run_code(u32 run) {
  if (run == 1) return {4, 3};
  return {2 | (run - 2) << 2, 7};
}

// The DBX of plane `p`, p below 32, from all DBP.
MGC_DEV u32 bpc_dbx(const BpcRows& rows, u32 signs, u32 p) { return rows[p] ^ (p + 1 < 32 ? rows[p + 1] : signs); }

// The size of an entry in bytes, and which of planes 0 to 31 have a DBX of zero.
MGC_DEV u32 bpc_size(const u8* entry, u32* zeros) {
  BpcRows rows;
  bpc_load(entry, rows);
  const u32 first = rows[0];
  const u32 signs = bpc_planes(rows);
  const BpcCode first_code = bpc_first_code(first);
  u32 bits = first_code.len == 1 ? 33 : first_code.len;
  u32 mask = 0;
#pragma unroll
  for (u32 p = 0; p <= 32; p++) {
    const u32 dbp = p < 32 ? rows[p % 32] : signs;
    const u32 dbx = p < 32 ? bpc_dbx(rows, signs, p) : signs;
    const u32 len = bpc_plane_code(dbx, dbp).len;
    if (dbx == 0 && p < 32) mask |= 1u << p;
    if (dbx != 0) bits += len == 1 ? 32 : len;
  }
  *zeros = mask;
  if (mask == 0xffffffffu && signs == 0 && first == 0) return 0;
  // Runs of zeros, each counted at its lowest plane.
  const u64 all = (u64)(signs == 0) << 32 | mask;
  const u64 starts = all & ~(all << 1);
  bits += 7 * __popcll(starts) - 4 * __popcll(starts & ~(all >> 1));
  const u32 size = (bits + 7) / 8;
  return size < BPC_ENTRY_LEN ? size : BPC_ENTRY_LEN;
}

// Writes the codes of planes 32 to 0. Of the rows, which are DBP before, the DBX of those planes that stand behind
// the codes are left, and zero for all others; likewise the signs.
template <class Out>
MGC_DEV void bpc_write_codes(BpcRows& rows, u32* signs, u32 zeros, Out& out) {
  u32 above = *signs;
  const BpcCode signs_code = bpc_plane_code(above, above);
  // Codes wait until there are three of them.
  BpcCode codes = above == 0 ? bpc_run_code(1 + (u32)__clz((int)~zeros)) : signs_code;
  if (signs_code.len != 1) *signs = 0;
  bool is_zero_above = above == 0;
#pragma unroll
  for (u32 i = 0; i < 32; i++) {
    const u32 p = 31 - i, dbp = rows[p], dbx = dbp ^ above;
    const bool is_zero = dbx == 0;
    const BpcCode code = is_zero ? bpc_run_code((u32)__clz((int)~(zeros << i))) : bpc_plane_code(dbx, dbp);
    if (!is_zero || !is_zero_above) {
      codes.bits |= code.bits << codes.len;
      codes.len += code.len;
    }
    if (i % 3 == 1) {
      out.push(codes.bits, codes.len);
      codes = {0, 0};
    }
    rows[p] = code.len == 1 ? dbx : 0;
    above = dbp;
    is_zero_above = is_zero;
  }
}

// Writes what bpc_write_codes left.
template <class Out>
MGC_DEV void bpc_write_planes(const BpcRows& rows, u32 signs, Out& out) {
  if (signs != 0) out.push(signs, 31);
#pragma unroll
  for (u32 i = 0; i < 32; i++) {
    if (rows[31 - i] != 0) out.push(rows[31 - i], 31);
  }
}

template <class Out>
MGC_DEV void bpc_write_entry(const u8* entry, u32 zeros, Out& out) {
  BpcRows rows;
  bpc_load(entry, rows);
  const u32 first = rows[0];
  u32 signs = bpc_planes(rows);
  const BpcCode code = bpc_first_code(first);
  out.push(code.bits, code.len);
  if (code.len == 1) out.push(first, 32);
  bpc_write_codes(rows, &signs, zeros, out);
  bpc_write_planes(rows, signs, out);
}

// 32 bits of the chunk from bit `at` on; behind its end there are any.
MGC_DEV u32 bpc_bits(const CodedChunk& chunk, u32 at) {
  const u32* words = (const u32*)chunk.stored;
  const u32 last = chunk.stored_len / 4 - 1;
  const u32 low = at / 32, high = low + 1;
  return __funnelshift_r(words[low < last ? low : last], words[high < last ? high : last], at % 32);
}

// What the codes of an entry say.
struct BpcCodes {
  u32 first;           // the first word
  u32 plain;           // planes 0 to 31 that stand behind the codes
  u32 zero_dbp;        // planes 0 to 31 whose DBP is zero
  u32 signs;           // DBX 32, unless it stands behind the codes
  bool is_signs_plain;
  bool is_bad;
  u32 end;  // of the codes, in bits
};

// Reads the code of the first word, which starts at bit `codes->end`.
MGC_DEV void bpc_read_first(const CodedChunk& chunk, BpcCodes* codes) {
  const u32 bits = bpc_bits(chunk, codes->end);
  if (bits & 1) {
    codes->first = bpc_bits(chunk, codes->end + 1);
    codes->end += 33;
    return;
  }
  const u32 len = bits & 2 ? (bits & 4 ? 16 : 8) : 4;
  codes->first = bits & 6 ? (u32)((int)(bits >> 3 << (32 - len)) >> (32 - len)) : 0;
  codes->end += bits & 6 ? 3 + len : 3;
}

// Reads the codes of an entry, one after the other; the DBX that they spell out go to `dbx`, which is zero
// before, that of plane p to word p ^ turn.
MGC_DEV BpcCodes bpc_read_codes(const CodedChunk& chunk, u32 at, u32* dbx, u32 turn) {
  BpcCodes codes = {0, 0, 0, 0, false, false, at};
  bpc_read_first(chunk, &codes);
  u32 left = 33;  // planes whose code is to come; the next is number left - 1
  while (left > 0) {
    const u32 bits = bpc_bits(chunk, codes.end), p = left - 1;
    if (bits & 1) {
      // As many such codes as there are.
      const u32 ones = (u32)__ffs((int)~bits) - 1;
      const u32 run = bits == 0xffffffffu ? 32 : ones;
      const u32 count = run < left ? run : left;
      // Planes left - count to left - 1.
      const u64 planes = ((1ull << count) - 1) << (left - count);
      codes.plain |= (u32)planes;
      if (planes >> 32 != 0) codes.is_signs_plain = true;
      codes.end += count;
      left -= count;
    } else if (bits & 2) {
      const u32 run = (bits >> 2 & 31) + 2;
      codes.end += 7;
      if (run > left) {
        codes.is_bad = true;
        break;
      }
      left -= run;
    } else if (bits & 4) {
      codes.end += 3;
      left -= 1;
    } else {
      // Ones, zero DBP, a pair of ones, a single one.
      const bool has_index = bits & 8, upper = bits & 16;
      const u64 value = (upper ? 1ull : 3ull) << (bits >> 5 & 31);
      const u32 spelled = has_index ? (u32)value : upper ? 0 : BPC_ALL_ONES;
      if (has_index && value > BPC_ALL_ONES) codes.is_bad = true;
      if (p == 32) {
        codes.signs = spelled;
      } else {
        dbx[p ^ turn] = spelled;
        if (!has_index && upper) codes.zero_dbp |= 1u << p;
      }
      codes.end += has_index ? 10 : 5;
      left -= 1;
    }
  }
  return codes;
}

// Turns DBX, and the planes behind the codes, into words.
MGC_DEV void bpc_read_planes(const CodedChunk& chunk, const BpcCodes& codes, const u32* dbx, u32 turn, BpcRows& rows) {
  u32 at = codes.end, dbp = codes.signs;
  if (codes.is_signs_plain) {
    dbp = bpc_bits(chunk, at) & BPC_ALL_ONES;
    at += 31;
  }
#pragma unroll
  for (u32 i = 0; i < 32; i++) {
    const u32 p = 31 - i;
    u32 own = dbx[p ^ turn];
    if (codes.plain >> p & 1) {
      own = bpc_bits(chunk, at) & BPC_ALL_ONES;
      at += 31;
    }
    dbp = codes.zero_dbp >> p & 1 ? 0 : dbp ^ own;
    rows[p] = dbp;
  }
  bpc_transpose(rows);
  u32 word = codes.first;
#pragma unroll
  for (u32 i = 0; i < BPC_WORDS; i++) {
    const u32 difference = rows[i];
    rows[i] = word;
    word += difference;
  }
}

// Whether codes that started at bit `start`, and their planes, take exactly `size` bytes, unused bits zero.
MGC_DEV u32 bpc_check_size(const CodedChunk& chunk, const BpcCodes& codes, u32 start, u32 size) {
  if (codes.is_bad) return MGC_BAD_CHUNK_FIELD;
  const u32 planes = (u32)__popc(codes.plain) + (codes.is_signs_plain ? 1 : 0);
  const u32 bits = codes.end - start + 31 * planes;
  if ((bits + 7) / 8 != size) return MGC_BAD_CHUNK_ENTRY;
  const u32 unused = 8 * size - bits;
  return (bpc_bits(chunk, start + bits) & ((1u << unused) - 1)) == 0 ? MGC_GOOD : MGC_BAD_CHUNK_PADDING;
}

// Decodes the `size` bytes of a string that starts at byte `start` into `entry`, in shared memory.
MGC_DEV u32 bpc_read_entry(const CodedChunk& chunk, u32 start, u32 size, u8* entry) {
  const u32 turn = threadIdx.x % 32;
  BpcRows rows;
#pragma unroll
  for (u32 i = 0; i < BPC_WORDS; i++) rows[i] = 0;
  if (size == BPC_ENTRY_LEN) {
#pragma unroll
    for (u32 i = 0; i < BPC_WORDS; i++) rows[i] = bpc_bits(chunk, 8 * start + 32 * i);
  } else if (size != 0) {
    bpc_store(entry, rows);
    const BpcCodes codes = bpc_read_codes(chunk, 8 * start, (u32*)entry, turn);
    const u32 code = bpc_check_size(chunk, codes, 8 * start, size);
    if (code != MGC_GOOD) return code;
    bpc_read_planes(chunk, codes, (const u32*)entry, turn, rows);
  }
  bpc_store(entry, rows);
  return MGC_GOOD;
}
