// Codebooks, which frames of IBP name or carry: which bits of a tensor hardly ever change, and what they are.
// FORMAT.md draws the section.
//
// open_codebook checks all that has to do with where masks and values are, so that nobody reads outside of them;
// check_codebook, once for each frame, the rest.
#pragma once
#include "common/block.cuh"

#define MGC_ALGORITHM_IBP 8

// Length in bytes of what precedes the body, and of what precedes the masks in it.
#define MGC_CODEBOOK_HEADER_LEN 16
#define MGC_CODEBOOK_BODY_HEADER_LEN 8
// The most bytes of tensors that the masks of a codebook cover, and the most clusters.
#define MGC_MAX_INVARIANT_LEN 131072
#define MGC_MAX_CLUSTERS 256

// Whether frames of an algorithm may have one.
MGC_DEV constexpr bool has_codebooks(u32 algorithm) { return algorithm == MGC_ALGORITHM_IBP; }

struct Codebook {
  const u8* masks;  // of the first cluster; null if the section only names the codebook
  u64 id;
  u32 section_len;  // in bytes, a multiple of the unit
  u32 body_len;
  u32 granule, clusters;
  u32 tensor_len;  // a multiple of the granule
};

// The masks of a cluster; as long as a tensor. So are the values behind them.
MGC_DEV const u8* cluster_masks(const Codebook& codebook, u32 cluster) {
  return codebook.masks + 2 * codebook.tensor_len * cluster;
}

// Opens the section at `section`, which is on a multiple of 16 and may be followed by up to `room` bytes.
MGC_DEV u32 open_codebook(const u8* section, u64 room, Codebook* codebook) {
  if (room < MGC_CODEBOOK_HEADER_LEN) return MGC_BAD_TRUNCATED;
  const uint4 header = *(const uint4*)section;
  const u32 most = MGC_CODEBOOK_BODY_HEADER_LEN + 2 * MGC_MAX_INVARIANT_LEN;
  if ((header.x | header.y) == 0 || header.w != 0 || header.z > most) return MGC_BAD_CODEBOOK;
  codebook->masks = nullptr;
  codebook->id = (u64)header.y << 32 | header.x;
  codebook->body_len = header.z;
  codebook->section_len = MGC_CODEBOOK_HEADER_LEN + (header.z + MGC_UNIT - 1) / MGC_UNIT * MGC_UNIT;
  if (room < codebook->section_len) return MGC_BAD_TRUNCATED;
  if (codebook->body_len == 0) return MGC_GOOD;
  if (codebook->body_len < MGC_CODEBOOK_BODY_HEADER_LEN) return MGC_BAD_CODEBOOK;

  const uint2 body = *(const uint2*)(section + MGC_CODEBOOK_HEADER_LEN);
  const u32 granule = body.x >> 8 & 0xff, clusters = body.x >> 16, tensor_len = body.y;
  if ((body.x & 0xff) != 0 || (granule != 4 && granule != 8)) return MGC_BAD_CODEBOOK;
  if (clusters == 0 || clusters > MGC_MAX_CLUSTERS) return MGC_BAD_CODEBOOK;
  if (tensor_len == 0 || (tensor_len & (granule - 1)) != 0) return MGC_BAD_CODEBOOK;
  if ((u64)tensor_len * clusters > MGC_MAX_INVARIANT_LEN) return MGC_BAD_CODEBOOK;
  if (codebook->body_len != MGC_CODEBOOK_BODY_HEADER_LEN + 2 * tensor_len * clusters) return MGC_BAD_CODEBOOK;
  codebook->granule = granule;
  codebook->clusters = clusters;
  codebook->tensor_len = tensor_len;
  codebook->masks = section + MGC_CODEBOOK_HEADER_LEN + MGC_CODEBOOK_BODY_HEADER_LEN;
  return MGC_GOOD;
}

// Opens the codebook of a frame whose section of `room` bytes, which was opened before, is at `section`, or null; `known` is the
// section of one that it may name, or null. That is the host's; the frame may have changed since.
MGC_DEV u32 open_frame_codebook(const u8* section, u64 room, const u8* known, Codebook* codebook) {
  if (section == nullptr) return MGC_BAD_CHUNK_TRUNCATED;  // nothing is left out, so no chunk can be shorter
  const u64 any = ~0ull;
  const u32 code = open_codebook(section, room, codebook);
  if (code != MGC_GOOD || codebook->masks != nullptr) return code;
  const u64 id = codebook->id;
  if (known == nullptr || open_codebook(known, any, codebook) != MGC_GOOD) return MGC_BAD_CODEBOOK;
  return codebook->masks == nullptr || codebook->id != id ? MGC_BAD_CODEBOOK : MGC_GOOD;
}

// The codebook of a section with a body that open_codebook has taken before.
MGC_DEV Codebook known_codebook(const u8* section) {
  const uint4 header = *(const uint4*)section;
  const uint2 body = *(const uint2*)(section + MGC_CODEBOOK_HEADER_LEN);
  Codebook codebook;
  codebook.masks = section + MGC_CODEBOOK_HEADER_LEN + MGC_CODEBOOK_BODY_HEADER_LEN;
  codebook.id = (u64)header.y << 32 | header.x;
  codebook.section_len = MGC_CODEBOOK_HEADER_LEN + (header.z + MGC_UNIT - 1) / MGC_UNIT * MGC_UNIT;
  codebook.body_len = header.z;
  codebook.granule = body.x >> 8 & 0xff;
  codebook.clusters = body.x >> 16;
  codebook.tensor_len = body.y;
  return codebook;
}

// The identity of a body: one byte after the other, for which there is no shorter way.
MGC_DEV u64 identify_body(const u8* body, u32 len) {
  u64 hash = 0xcbf29ce484222325ull;
  u32 word = 0;
  for (u32 i = 0; i < len; i++) {
    word = i % 4 == 0 ? ((const u32*)body)[i / 4] : word >> 8;
    hash = (hash ^ (word & 0xff)) * 0x100000001b3ull;
  }
  return hash == 0 ? 1 : hash;
}

// Checks identity, values and padding of a section that was opened. The whole block calls it; each thread
// returns what it found.
MGC_DEV u32 check_codebook(const u8* section, const Codebook& codebook) {
  const u32 end = MGC_CODEBOOK_HEADER_LEN + codebook.body_len;
  u32 code = MGC_GOOD;
  if (codebook.masks != nullptr) {
    const u32 words = codebook.tensor_len / 4;
    for (u32 i = threadIdx.x; i < words * codebook.clusters; i += MGC_BLOCK_THREADS) {
      const u32* mask = (const u32*)cluster_masks(codebook, i / words) + i % words;
      if ((mask[words] & ~mask[0]) != 0) code = MGC_BAD_CODEBOOK;
    }
    const u8* body = section + MGC_CODEBOOK_HEADER_LEN;
    if (threadIdx.x == 0 && identify_body(body, codebook.body_len) != codebook.id) code = MGC_BAD_CODEBOOK;
  }
  const u32 at = end + threadIdx.x;
  return at < codebook.section_len && section[at] != 0 ? MGC_BAD_CODEBOOK : code;
}
