// Frequent pattern compression. FORMAT.md draws the chunk: kinds of lines, prefixes, data by width.
//
// Block:   one chunk at a time (64 to 1,024 lines of 64 bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. In shared memory encoding reads the raw bytes
//          twice, 16 at a time, and writes each field once; decoding reads each field once. What a line needs
//          to be coded alone is a record of 16 bytes there.
// Bound:   some 100 instructions for a word of 4 bytes to encode (27 to find its prefix, 11 to count, the rest to
//          write it), 90 to decode.
// Threads: one has four words of a line, but one has a whole line where lines are counted.
// Tail:    the last line is filled up with zeros; what of it lies behind the raw length is not written.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "fpc/line.cuh"
#include "kernels.cuh"

// Bits 0 of the 16 prefixes of a line in the low half, bits 1 in the high half; and bits 2.
struct FpcPlanes {
  u32 low, high;
};

// Of lines that store none: all words of a line of zeros are zero, all of a raw line unmatched. No encoder
// codes such lines.
#define FPC_ZERO_PLANES 0x0000ffffu
#define FPC_RAW_PLANES 0u

// Length of the planes of a line in bytes.
#define FPC_PLANES_LEN 6

// The words that have a field in each section, bit i for word i of a line.
struct FpcMasks {
  u32 words, halves, bytes, nibbles;
};

MGC_DEV FpcMasks fpc_masks(const FpcPlanes& planes) {
  const u32 low = planes.low & 0xffff, middle = planes.low >> 16, high = planes.high;
  return {~(low | middle | high) & 0xffff, high & (low | middle), ~low & (middle ^ high), low & middle & ~high};
}

MGC_DEV LineFields fpc_count(const FpcMasks& masks) {
  return {(u32)__popc(masks.words) | (u32)__popc(masks.halves) << 16,
          (u32)__popc(masks.bytes) | (u32)__popc(masks.nibbles) << 16, 0};
}

// A line's record: its planes, coded lines before it, and fields before it.
MGC_DEV uint4 fpc_record(const FpcPlanes& planes, const LineFields& before) {
  return make_uint4(planes.low, before.coded << 16 | planes.high, before.words_halves, before.bytes_nibbles);
}

MGC_DEV FpcPlanes fpc_planes(const uint4& record) { return {record.x, record.y & 0xffff}; }
MGC_DEV u32 fpc_coded_before(const uint4& record) { return record.y >> 16; }

// Four words of a line: their prefixes, and where the next field of each section is.
struct FpcCursor {
  u32 low, high;             // planes that begin with the first of the words
  u32 words, halves, bytes;  // in bytes from the start of the chunk
  u32 nibbles;               // number of the field

  __device__ bool bit0(u32 e) const { return low >> e & 1; }
  __device__ bool bit1(u32 e) const { return low >> (16 + e) & 1; }
  __device__ bool bit2(u32 e) const { return high >> e & 1; }
  __device__ bool has_word(u32 e) const { return !(bit0(e) | bit1(e) | bit2(e)); }
  __device__ bool has_half(u32 e) const { return bit2(e) & (bit0(e) | bit1(e)); }
  __device__ bool has_byte(u32 e) const { return (!bit0(e)) & (bit1(e) ^ bit2(e)); }
  __device__ bool has_nibble(u32 e) const { return bit0(e) & bit1(e) & !bit2(e); }
};

MGC_DEV FpcCursor fpc_cursor(const LineData& at, const uint4& record, u32 first) {
  const FpcPlanes planes = fpc_planes(record);
  const FpcMasks masks = fpc_masks(planes);
  const u32 below = (1u << first) - 1;
  FpcCursor cursor;
  cursor.low = planes.low >> first;
  cursor.high = planes.high >> first;
  cursor.words = at.words + 4 * ((record.z & 0xffff) + __popc(masks.words & below));
  cursor.halves = at.halves + 2 * ((record.z >> 16) + __popc(masks.halves & below));
  cursor.bytes = at.bytes + (record.w & 0xffff) + __popc(masks.bytes & below);
  cursor.nibbles = (record.w >> 16) + __popc(masks.nibbles & below);
  return cursor;
}

// The prefix of a word: its bits are bits 0, 8 and 16.
MGC_DEV u32 fpc_prefix(u32 word) {
  u32 prefix = 0;
  if (permute_bytes(word, 0, 0xa280) == word) prefix = 0x10101;    // 7: both halfwords signed bytes
  if (word << 16 == 0) prefix = 0x10100;                           // 6: low halfword zero
  if (word + 0x8000 < 0x10000) prefix = 0x10001;                   // 5: signed halfword
  if (word + 0x80 < 0x100) prefix = 0x10000;                       // 4: signed byte
  if (permute_bytes(word, 0, 0x0000) == word) prefix = 0x00100;    // 2: equal bytes
  if (word + 8 < 16) prefix = 0x00101;                             // 3: signed 4 bits
  if (word == 0) prefix = 0x00001;                                 // 1
  return prefix;
}

// Finds the prefixes. Of the record of each line it writes two words: of four times two words of the line,
// bits 0, 1 and 2 of the prefixes in bytes 0, 1 and 2.
MGC_DEV void fpc_classify(const RawChunk& chunk, u32 lines) {
  const u32 units = lines * (MGC_LINE_LEN / MGC_UNIT);
  for (u32 i = threadIdx.x; i - threadIdx.x % 32 < units; i += MGC_BLOCK_THREADS) {
    u32 prefixes = 0;
    if (i < units) {
      const uint4 words = ((const uint4*)chunk.raw)[i];
      prefixes = fpc_prefix(words.x) | fpc_prefix(words.y) << 1 | fpc_prefix(words.z) << 2 | fpc_prefix(words.w) << 3;
    }
    prefixes |= __shfl_down_sync(0xffffffffu, prefixes, 1) << 4;
    if (i % 2 == 0 && i < units) ((u32*)chunk.scratch)[i + i % 4 / 2 - i % 4] = prefixes;
  }
}

// The planes of a line that fpc_classify left in its record.
MGC_DEV FpcPlanes fpc_gather_planes(const uint4& record) {
  return {__byte_perm(record.x, record.y, 0x5140), __byte_perm(record.x, record.y, 0x3362)};
}

// Whether a line with so many fields takes no fewer bits than a raw one.
MGC_DEV bool fpc_is_raw(const LineFields& fields) {
  const u32 words = fields.words_halves & 0xffff, halves = fields.words_halves >> 16;
  const u32 bytes = fields.bytes_nibbles & 0xffff, nibbles = fields.bytes_nibbles >> 16;
  const u32 bits = 3 * 16 + 32 * words + 16 * halves + 8 * bytes + 4 * nibbles;
  return bits >= 8 * MGC_LINE_LEN;
}

// Completes the records, a line per thread, and sums up their fields.
MGC_DEV LineFields fpc_sum(const RawChunk& chunk, u32 lines, RawLines& raw) {
  MGC_SHARED(ScanShared<u64>, shared);
  uint4* const records = (uint4*)chunk.scratch;
  LineFields sum = {0, 0, 0};
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    FpcPlanes planes = {FPC_ZERO_PLANES, 0};
    if (line < lines) planes = fpc_gather_planes(records[line]);
    LineFields fields = fpc_count(fpc_masks(planes));
    const bool is_zero = planes.low == FPC_ZERO_PLANES && planes.high == 0;
    const bool is_raw = fpc_is_raw(fields);
    fields.coded = !is_zero && !is_raw;
    if (is_raw) {
      planes = {FPC_RAW_PLANES, 0};
      fields = {MGC_LINE_LEN / 4, 0, 0};
    }
    u64 total;
    LineFields before = sum;
    add_fields(&before, block_scan(pack_fields(fields), shared, &total));
    add_fields(&sum, total);
    if (line < lines) records[line] = fpc_record(planes, before);
    if (is_raw) add_raw_line(raw, line - before.coded);
  }
  return sum;
}

// Writes coded bits and planes.
MGC_DEV void fpc_write_lines(const RawChunk& chunk, const LineKinds& kinds, u32 lines, u8* coded) {
  const uint4* const records = (const uint4*)chunk.scratch;
  for (u32 line = threadIdx.x; line - threadIdx.x % 32 < lines; line += MGC_BLOCK_THREADS) {
    uint4 record = make_uint4(FPC_ZERO_PLANES, 0, 0, 0);
    if (line < lines) record = records[line];
    const FpcPlanes planes = fpc_planes(record);
    const bool is_coded = planes.high != 0 || (planes.low != FPC_ZERO_PLANES && planes.low != FPC_RAW_PLANES);
    write_coded_bits(is_coded, line, lines, coded);
    if (!is_coded) continue;
    u16* const to = (u16*)(coded + kinds.end + FPC_PLANES_LEN * fpc_coded_before(record));
    to[0] = (u16)planes.low;
    to[1] = (u16)(planes.low >> 16);
    to[2] = (u16)planes.high;
  }
}

// The halfword of prefix 5, 6 or 7, of which bits 0 and 1 are given.
MGC_DEV u16 fpc_half(u32 word, bool bit0, bool bit1) {
  return (u16)__byte_perm(word, 0, !bit1 ? 0x4410 : !bit0 ? 0x4432 : 0x4420);
}

// The word of such a halfword.
MGC_DEV u32 fpc_word_of_half(u32 half, bool bit0, bool bit1) {
  return permute_bytes(half, 0, !bit1 ? 0x9910 : !bit0 ? 0x1044 : 0x9180);
}

// Writes the data of all lines, four words per thread.
MGC_DEV void fpc_write_data(const RawChunk& chunk, const LineData& at, u32 lines, u8* coded) {
  const u32 units = lines * (MGC_LINE_LEN / MGC_UNIT);
  for (u32 i = threadIdx.x; i < units; i += MGC_BLOCK_THREADS) {
    const uint4 record = ((const uint4*)chunk.scratch)[i / 4];
    const uint4 unit = ((const uint4*)chunk.raw)[i];
    const u32 words[4] = {unit.x, unit.y, unit.z, unit.w};
    FpcCursor next = fpc_cursor(at, record, i % 4 * 4);
    u32 nibbles = 0, nibbles_len = 0;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
      if (next.has_word(e)) {
        *(u32*)(coded + next.words) = words[e];
        next.words += 4;
      } else if (next.has_half(e)) {
        put_field(at, coded, next.halves, fpc_half(words[e], next.bit0(e), next.bit1(e)));
        next.halves += 2;
      } else if (next.has_byte(e)) {
        put_field(at, coded, next.bytes, (u8)words[e]);
        next.bytes += 1;
      } else if (next.has_nibble(e)) {
        nibbles |= (words[e] & 15) << nibbles_len;
        nibbles_len += 4;
      }
    }
    or_bits(coded, 8 * at.nibbles + 4 * next.nibbles, nibbles);
  }
}

// Makes the records of a chunk to decode, a line per thread, and sums up their fields. Each thread finds in the
// record of its line how many coded lines are before it. The planes are known to be there.
MGC_DEV LineFields fpc_read_lines(const CodedChunk& chunk, const LineKinds& kinds, u32 lines) {
  MGC_SHARED(ScanShared<u64>, shared);
  uint4* const records = (uint4*)chunk.scratch;
  LineFields sum = {0, 0, 0};
  for (u32 first = 0; first < lines; first += MGC_BLOCK_THREADS) {
    const u32 line = first + threadIdx.x;
    FpcPlanes planes = {FPC_ZERO_PLANES, 0};
    if (line < lines) {
      const u32 coded_before = records[line].x;
      if (chunk_bits(chunk, line) & 1) {
        const u16* from = (const u16*)(chunk.stored + kinds.end + FPC_PLANES_LEN * coded_before);
        planes = {(u32)from[1] << 16 | from[0], from[2]};
      } else if (is_raw_line(chunk, kinds, line, coded_before)) {
        planes = {FPC_RAW_PLANES, 0};
      }
    }
    u64 total;
    LineFields before = sum;
    add_fields(&before, block_scan(pack_fields(fpc_count(fpc_masks(planes))), shared, &total));
    add_fields(&sum, total);
    if (line < lines) records[line] = fpc_record(planes, before);
  }
  return sum;
}

// Word `e` of four.
MGC_DEV u32 fpc_read_word(const CodedChunk& chunk, const LineData& at, FpcCursor* next, u32 e) {
  if (next->has_word(e)) {
    next->words += 4;
    return *(const u32*)(chunk.stored + next->words - 4);
  }
  if (next->has_half(e)) {
    const u32 half = *(const u16*)(chunk.stored + next->halves);
    next->halves += 2;
    return fpc_word_of_half(half, next->bit0(e), next->bit1(e));
  }
  if (next->has_byte(e)) {
    const u32 byte = chunk.stored[next->bytes++];
    // Four equal bytes, or one with its sign.
    return permute_bytes(byte, 0, next->bit1(e) ? 0x0000 : 0x8880);
  }
  if (next->has_nibble(e)) {
    return (u32)((int)(nibble_at(chunk, at, next->nibbles++) << 28) >> 28);
  }
  return 0;
}

// Writes the chunk, four words per thread.
MGC_DEV void fpc_expand(const CodedChunk& chunk, const LineData& at) {
  for (u32 i = threadIdx.x; i * MGC_UNIT < chunk.raw_len; i += MGC_BLOCK_THREADS) {
    const uint4 record = ((const uint4*)chunk.scratch)[i / 4];
    FpcCursor next = fpc_cursor(at, record, i % 4 * 4);
    Unit unit = {{0, 0}};
#pragma unroll
    for (u32 e = 0; e < 4; e++) put(unit, e, fpc_read_word(chunk, at, &next, e));
    store_unit(chunk, i, unit, chunk.raw_len);
  }
}

struct Fpc {
  static constexpr u32 ENCODE_BLOCKS = 5, DECODE_BLOCKS = 5;

  struct Plan {
    u32 len;
    LineKinds kinds;
    LineData at;
    u32 planes_end;
  };

  MGC_DEV RawLines& raw_lines() {
    MGC_SHARED(RawLines, raw);
    return raw;
  }

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    const u32 lines = line_count(chunk.raw_len);
    clear_raw_lines(raw_lines());
    fpc_classify(chunk, lines);
    __syncthreads();
    const LineFields sum = fpc_sum(chunk, lines, raw_lines());
    __syncthreads();
    Plan plan;
    plan.kinds = line_kinds(lines, sum.coded);
    plan.planes_end = plan.kinds.end + FPC_PLANES_LEN * sum.coded;
    plan.at = line_data(plan.planes_end, sum);
    plan.len = plan.at.end;
    return plan;
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const u32 lines = line_count(chunk.raw_len);
    zero_words(coded, plan.at.nibbles, plan.at.end);
    __syncthreads();
    write_raw_lines(raw_lines(), plan.kinds, coded);
    fpc_write_lines(chunk, plan.kinds, lines, coded);
    if (threadIdx.x == 0 && plan.planes_end < plan.at.words) *(u16*)(coded + plan.planes_end) = 0;
    fpc_write_data(chunk, plan.at, lines, coded);
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    uint4* const records = (uint4*)chunk.scratch;
    const u32 lines = line_count(chunk.raw_len);
    const u32 coded = rank_coded_lines(chunk, lines, [&](u32 line, u32 before) { records[line].x = before; });
    const LineKinds kinds = line_kinds(lines, coded);
    const u32 planes_end = kinds.end + FPC_PLANES_LEN * coded;
    u32 code = check_kinds(chunk, lines, coded, kinds, planes_end);
    if (block_fails(code)) return code;

    const LineFields sum = fpc_read_lines(chunk, kinds, lines);
    const LineData at = line_data(planes_end, sum);
    code = check_line_data(chunk, at, 8 * planes_end, sum);
    if (block_fails(code)) return code;
    fpc_expand(chunk, at);
    return MGC_GOOD;
  }
};

MGC_KERNELS(fpc, Fpc)
