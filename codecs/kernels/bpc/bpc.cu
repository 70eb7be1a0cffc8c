// Bit-plane compression. FORMAT.md draws the chunk: sizes of entries, then strings of codes and planes.
//
// Block:   one chunk at a time (32 to 512 entries of 128 bytes); see frame/write.cuh and read.cuh.
// Traffic: each byte is read from memory once and written once. In shared memory encoding reads the raw bytes
//          twice and writes each word of the code once; decoding writes codes that say what a plane is, reads
//          them back with the planes, and writes the raw bytes there before they go to memory, 16 at a time.
// Bound:   some 140 instructions for a word of 4 bytes to encode (40 to plan), and to decode 55 and 50 to 150 for
//          each code, of which an entry of 32 words has up to 34.
// Threads: one has an entry; see entry.cuh. The strings' places are a running sum of sizes.
// Tail:    the last entry is filled up with zeros; what of it lies behind the raw length is not written.
// Scope:   threads of one block meet at barriers.
// Input:   anything; see frame/read.cuh.
#include "bpc/entry.cuh"
#include "kernels.cuh"

// What encoding an entry needs to know: which of planes 0 to 31 have a DBX of zero, where its string starts,
// and its size.
MGC_DEV uint2 bpc_record(u32 zeros, u32 start, u32 size) { return make_uint2(zeros, start << 8 | size); }

// Finds out where the string of each entry starts, counted in bytes from the first, and where the last one ends.
MGC_DEV u32 bpc_place_entries(const CodedChunk& chunk, u32 entries, u16* starts, u32* end) {
  MGC_SHARED(ScanShared<u32>, shared);
  u32 code = MGC_GOOD;
  *end = 0;
  for (u32 first = 0; first < entries; first += MGC_BLOCK_THREADS) {
    const u32 i = first + threadIdx.x;
    const u32 size = i < entries ? chunk.stored[i] : 0;
    if (size > BPC_ENTRY_LEN) code = MGC_BAD_CHUNK_ENTRY;
    u32 total;
    const u32 before = block_scan(size, shared, &total);
    if (i < entries) starts[i] = (u16)(*end + before);
    *end += total;
  }
  return code;
}

struct Bpc {
  static constexpr u32 ENCODE_BLOCKS = 4, DECODE_BLOCKS = 4;

  struct Plan {
    u32 len;
  };

  MGC_DEV Plan plan_chunk(const RawChunk& chunk) {
    MGC_SHARED(ScanShared<u32>, shared);
    uint2* const records = (uint2*)chunk.scratch;
    const u32 entries = bpc_entries(chunk.raw_len);
    u32 strings_len = 0;
    for (u32 first = 0; first < entries; first += MGC_BLOCK_THREADS) {
      const u32 i = first + threadIdx.x;
      u32 zeros = 0, total;
      const u32 size = i < entries ? bpc_size(chunk.raw + i * BPC_ENTRY_LEN, &zeros) : 0;
      const u32 before = block_scan(size, shared, &total);
      if (i < entries) records[i] = bpc_record(zeros, strings_len + before, size);
      strings_len += total;
    }
    __syncthreads();
    return {entries + strings_len};
  }

  MGC_DEV void emit_chunk(const RawChunk& chunk, const Plan& plan, u8* coded) {
    const uint2* const records = (const uint2*)chunk.scratch;
    const u32 entries = bpc_entries(chunk.raw_len);
    zero_words(coded, 0, plan.len);
    __syncthreads();
    for (u32 i = threadIdx.x; i < entries; i += MGC_BLOCK_THREADS) {
      const uint2 record = records[i];
      const u32 size = record.y & 0xff;
      if (size == 0) continue;
      or_bits(coded, 8 * i, size);
      const u8* const entry = chunk.raw + i * BPC_ENTRY_LEN;
      BitAppender out = append_at(coded, 8 * (entries + (record.y >> 8)));
      if (size < BPC_ENTRY_LEN) {
        bpc_write_entry(entry, record.x, out);
      } else {
        for (u32 w = 0; w < BPC_WORDS; w++) out.push(((const u32*)entry)[w], 32);
      }
      out.finish();
    }
  }

  MGC_DEV u32 decode_chunk(const CodedChunk& chunk) {
    const u32 entries = bpc_entries(chunk.raw_len);
    if (entries > chunk.stored_len) return MGC_BAD_CHUNK_TRUNCATED;
    u8* const raw = chunk.scratch;
    u16* const starts = (u16*)(chunk.scratch + chunk.capacity);
    u32 end;
    u32 code = bpc_place_entries(chunk, entries, starts, &end);
    if (code == MGC_GOOD) code = check_chunk_end(chunk, entries + end);
    if (block_fails(code)) return code;

    for (u32 i = threadIdx.x; i < entries; i += MGC_BLOCK_THREADS) {
      const u32 entry_code = bpc_read_entry(chunk, entries + starts[i], chunk.stored[i], raw + i * BPC_ENTRY_LEN);
      if (code == MGC_GOOD) code = entry_code;
    }
    if (block_fails(code)) return code;
    for (u32 i = threadIdx.x; i * MGC_UNIT < chunk.raw_len; i += MGC_BLOCK_THREADS) {
      const uint4 from = ((const uint4*)raw)[i];
      const Unit unit = {{(u64)from.y << 32 | from.x, (u64)from.w << 32 | from.z}};
      store_unit(chunk, i, unit, chunk.raw_len);
    }
    return MGC_GOOD;
  }
};

MGC_KERNELS(bpc, Bpc)
