// The frame as a kernel sees it: header, chunk table, chunks. Nothing in it is trusted before it was checked.
//
// Offsets and lengths of the whole frame are 64 bits wide; inside a chunk (at most 64 KiB) 32 bits cannot
// overflow.
#pragma once
#include "common/block.cuh"
#include "frame/codebook.cuh"

// The most raw bytes that one frame holds.
#define MGC_MAX_RAW_LEN (0xffffffffull * MGC_UNIT)

struct FrameView {
  const u8* bytes;
  u8* dst;
  u64 raw_len;
  u64 chunks_offset;  // of the first chunk, in bytes
  u64 payload_units;  // whole units from the first chunk to the end of the frame
  u32 payload_rest;   // bytes behind them: a good frame has none
  u32 chunks;
  u32 chunk_log2;
  u32 entry_len;   // of the table, in bytes
  u32 element;
  u32 width_log2;  // of an element, in bytes
};

// A chunk to decode.
struct CodedChunk {
  const u8* stored;  // on a multiple of the unit, in shared memory
  u8* scratch;       // shared memory on a multiple of 16: bytes per KiB of `capacity` as codecs.h says
  u8* dst;           // `raw_len` bytes, at any address
  u32 stored_len;    // a multiple of the unit, less than `raw_len` unless the chunk is stored raw
  u32 raw_len;
  u32 capacity;  // at least the chunk size
  u32 element;
  u32 width_log2;      // of an element, in bytes
  u64 raw_start;       // from the start of the raw bytes, in bytes
  // Of algorithms that have any: the codebook that the chunk is coded with, or why there is none.
  Codebook codebook;
  u32 codebook_code;
};

MGC_DEV u32 round_up(u32 value, u32 multiple) { return (value + multiple - 1) / multiple * multiple; }

// Base-2 logarithm of an element's width in bytes, or -1 for a number without a meaning.
MGC_DEV int element_width_log2(u32 element) {
  // u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2
  return element < 10 ? (int)(0x0032113210ull >> 4 * element & 15) : -1;
}

// Checks the 16 bytes of the header, read at once, field by field from the front.
MGC_DEV u32 read_header(uint4 header, u32 algorithm, u64 dst_len, FrameView* frame) {
  const u32 element = header.y & 0xff, flags = header.y >> 8 & 0xff, chunk_log2 = header.y >> 16 & 0xff;
  const int width_log2 = element_width_log2(element);
  if ((header.x & 0xffff) != ('M' | 'G' << 8)) return MGC_BAD_MAGIC;
  if ((header.x >> 16 & 0xff) != MGC_FRAME_VERSION) return MGC_BAD_VERSION;
  if (header.x >> 24 != algorithm) return MGC_BAD_ALGORITHM;
  if (width_log2 < 0) return MGC_BAD_ELEMENT;
  const u32 known_flags = MGC_FLAG_CHECKSUMS | (has_codebooks(algorithm) ? MGC_FLAG_CODEBOOK : 0);
  if ((flags & ~known_flags) != 0) return MGC_BAD_FLAGS;
  if (chunk_log2 < MGC_MIN_CHUNK_LOG2 || chunk_log2 > MGC_MAX_CHUNK_LOG2) return MGC_BAD_CHUNK_SIZE;
  if (header.y >> 24 != 0) return MGC_BAD_RESERVED;
  frame->element = element;
  frame->width_log2 = (u32)width_log2;
  frame->entry_len = flags & MGC_FLAG_CHECKSUMS ? 2 * MGC_ENTRY_LEN : MGC_ENTRY_LEN;
  frame->chunk_log2 = chunk_log2;
  frame->raw_len = (u64)header.w << 32 | header.z;
  if (frame->raw_len > MGC_MAX_RAW_LEN) return MGC_BAD_RAW_LENGTH;
  if (frame->raw_len != dst_len) return MGC_BAD_DESTINATION;
  return MGC_GOOD;
}

// Where the table ends, and its padding: in bytes.
MGC_DEV u32 table_end(const FrameView& frame) {
  return round_up(MGC_HEADER_LEN + frame.chunks * frame.entry_len, MGC_UNIT);
}

// The codebook's section of a frame, or null.
MGC_DEV const u8* codebook_section(const FrameView& frame) {
  return frame.chunks_offset != table_end(frame) ? frame.bytes + table_end(frame) : nullptr;
}

// The length of that section in bytes, as it was when the frame was opened.
MGC_DEV u64 codebook_room(const FrameView& frame) { return frame.chunks_offset - table_end(frame); }

// Checks what concerns the frame as a whole: header, length of the table, padding behind it, and of a codebook what
// open_codebook does. `dst` is for its raw bytes.
MGC_DEV u32 open_frame(const u8* bytes, u64 len, u32 algorithm, u8* dst, u64 dst_len, FrameView* frame) {
  if ((u64)bytes % MGC_UNIT != 0) return MGC_BAD_ALIGNMENT;
  if (len < MGC_HEADER_LEN) return MGC_BAD_TRUNCATED;
  // Once: who has sent the frame may be able to change it yet.
  const uint4 header = *(const uint4*)bytes;
  const u32 code = read_header(header, algorithm, dst_len, frame);
  if (code != MGC_GOOD) return code;

  // Fits: raw_len is below 2^36 and a chunk has at least 2^12 bytes.
  frame->chunks = (u32)((frame->raw_len + (1ull << frame->chunk_log2) - 1) >> frame->chunk_log2);
  frame->bytes = bytes;
  frame->dst = dst;
  frame->chunks_offset = table_end(*frame);
  if (len < frame->chunks_offset) return MGC_BAD_TRUNCATED;
  for (u32 at = MGC_HEADER_LEN + frame->chunks * frame->entry_len; at < frame->chunks_offset; at++) {
    if (bytes[at] != 0) return MGC_BAD_RESERVED;
  }
  if (has_codebooks(algorithm) && (header.y >> 8 & MGC_FLAG_CODEBOOK) != 0) {
    Codebook codebook;
    const u32 bad = open_codebook(bytes + frame->chunks_offset, len - frame->chunks_offset, &codebook);
    if (bad != MGC_GOOD) return bad;
    frame->chunks_offset += codebook.section_len;
  }
  frame->payload_units = (len - frame->chunks_offset) / MGC_UNIT;
  frame->payload_rest = (u32)((len - frame->chunks_offset) % MGC_UNIT);
  const bool trailing = frame->chunks == 0 && len > frame->chunks_offset;
  return trailing ? MGC_BAD_TRAILING : MGC_GOOD;
}

MGC_DEV u64 chunk_end_units(const FrameView& frame, u32 index) {
  return *(const u32*)(frame.bytes + MGC_HEADER_LEN + (u64)index * frame.entry_len);
}

// Finds chunk `index` from two table entries, but for its codebook. Each block checks the step between its own two; together
// they check the whole table, and the last one that the frame ends where its last chunk does.
MGC_DEV u32 open_chunk(const FrameView& frame, u32 index, CodedChunk* chunk) {
  const u64 start = index == 0 ? 0 : chunk_end_units(frame, index - 1);
  const u64 end = chunk_end_units(frame, index);
  const u64 raw_start = (u64)index << frame.chunk_log2;
  const u64 raw_left = frame.raw_len - raw_start;
  const u64 raw_len = raw_left < 1ull << frame.chunk_log2 ? raw_left : 1ull << frame.chunk_log2;
  if (end <= start || end - start > (raw_len + MGC_UNIT - 1) / MGC_UNIT) return MGC_BAD_TABLE;
  if (end > frame.payload_units) return MGC_BAD_TRUNCATED;
  const bool rest = end < frame.payload_units || frame.payload_rest != 0;
  if (index + 1 == frame.chunks && rest) return MGC_BAD_TRAILING;
  chunk->stored = frame.bytes + frame.chunks_offset + start * MGC_UNIT;
  chunk->stored_len = (u32)(end - start) * MGC_UNIT;
  chunk->raw_len = (u32)raw_len;
  chunk->dst = frame.dst + raw_start;
  chunk->raw_start = raw_start;
  chunk->element = frame.element;
  chunk->width_log2 = frame.width_log2;
  return MGC_GOOD;
}

// Checks that the last section of a chunk, which ends at byte `end`, is followed by nothing but the padding
// to the next chunk. Each thread looks at one byte.
MGC_DEV u32 check_chunk_end(const CodedChunk& chunk, u32 end) {
  if (end > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
  if (chunk.stored_len - end >= MGC_UNIT) return MGC_BAD_CHUNK_TRAILING;
  const u32 at = end + threadIdx.x;
  return at < chunk.stored_len && chunk.stored[at] != 0 ? MGC_BAD_CHUNK_PADDING : MGC_GOOD;
}

// 32 bits of the chunk from bit `at` on; bits behind its end read as zero.
MGC_DEV u32 chunk_bits(const CodedChunk& chunk, u32 at) {
  const u32* words = (const u32*)chunk.stored;
  const u32 count = chunk.stored_len / 4, index = at / 32;
  const u32 low = index < count ? words[index] : 0;
  const u32 high = index + 1 < count ? words[index + 1] : 0;
  return __funnelshift_r(low, high, at % 32);
}

// Whether the padding from bit `from` up to byte `to` is zero; it is less than 32 bits long.
MGC_DEV bool padding_is_zero(const CodedChunk& chunk, u32 from, u32 to) {
  return (chunk_bits(chunk, from) & ((1u << (8 * to - from)) - 1)) == 0;
}

// Sixteen bytes of output on their way to memory.
struct Unit {
  u64 halves[2];
};

// Sets field `index` of a unit that is zero there.
template <class T>
MGC_DEV void put(Unit& unit, u32 index, T value) {
  const u32 at = index * (u32)sizeof(T);
  unit.halves[at / 8] |= (u64)value << at % 8 * 8;
}

// Writes unit `index` of a chunk, or what of it lies before byte `end`. Neighbouring threads write
// neighbouring units; at an address that is no multiple of 16 it goes byte by byte, which is right but slow.
MGC_DEV void store_unit(const CodedChunk& chunk, u32 index, const Unit& unit, u32 end) {
  u8* to = chunk.dst + index * MGC_UNIT;
  const u32 left = end - index * MGC_UNIT;
  if (left >= MGC_UNIT && (u64)to % MGC_UNIT == 0) {
    const u64 low = unit.halves[0], high = unit.halves[1];
    *(uint4*)to = make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
    return;
  }
#pragma unroll  // so that `halves` stays in registers
  for (u32 i = 0; i < MGC_UNIT; i++) {
    if (i < left) to[i] = (u8)(unit.halves[i / 8] >> i % 8 * 8);
  }
}

// A chunk that is stored as it is.
MGC_DEV u32 copy_chunk(const CodedChunk& chunk) {
  for (u32 i = threadIdx.x; i * MGC_UNIT < chunk.raw_len; i += MGC_BLOCK_THREADS) {
    const uint4 from = *(const uint4*)(chunk.stored + i * MGC_UNIT);
    const Unit unit = {{(u64)from.y << 32 | from.x, (u64)from.w << 32 | from.z}};
    store_unit(chunk, i, unit, chunk.raw_len);
  }
  const u32 at = chunk.raw_len + threadIdx.x;
  return at < chunk.stored_len && chunk.stored[at] != 0 ? MGC_BAD_RESERVED : MGC_GOOD;
}
