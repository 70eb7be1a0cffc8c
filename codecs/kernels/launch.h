// What the kernels and the host must agree on: launch geometry, status codes. Codecs are in codecs.h.
//
// Only lines of the form `#define MGC_NAME number`, each under the comment that explains it: the host's
// build reads this file as text and makes constants of it, so that no number is written twice.
#pragma once

// Threads in a block, for every kernel. One block works on one chunk at a time.
#define MGC_BLOCK_THREADS 256
// Unit of the chunk table, and alignment of chunks and of the frame itself, in bytes.
#define MGC_UNIT 16
// Version of the frame's layout.
#define MGC_FRAME_VERSION 1
// Length of the frame header in bytes.
#define MGC_HEADER_LEN 16
// Length of a table entry without a checksum, in bytes.
#define MGC_ENTRY_LEN 4
// Bit of the header's flags: a CRC32C follows each end in the table, which makes entries twice as long.
#define MGC_FLAG_CHECKSUMS 1
// Bit of the header's flags: a codebook stands between table and chunks, which only IBP has.
#define MGC_FLAG_CODEBOOK 2
// Base-2 logarithm of the smallest chunk size; n raw bytes keep at most n / 2^12 blocks busy, rounded up.
#define MGC_MIN_CHUNK_LOG2 12
// Base-2 logarithm of the largest chunk size.
#define MGC_MAX_CHUNK_LOG2 16

// Jobs in one launch: what fits into 4 KiB of kernel parameters beside 64 bytes for the batch.
#define MGC_MAX_JOBS 63
// Words of 64 bits at the start of the workspace. An encoder's has one more per chunk behind them; a job
// without bytes counts as one chunk.
#define MGC_WORKSPACE_WORDS 80
// Dynamic shared memory of a kernel: so many times the chunk size, and the codec's scratch (see codecs.h).
#define MGC_ENCODE_BUFFERS 2
// As above, for a decoder.
#define MGC_DECODE_BUFFERS 1
// As above; the scratch is the encoder's.
#define MGC_ESTIMATE_BUFFERS 1

// Bytes that a warp reads at a time of a row of a packed table, on a multiple of that.
#define MGC_PIECE_LEN 128
// The most slabs that rows of a table are cached in.
#define MGC_MAX_SLABS 8
// Words of 64 bits that a gather of rows leaves; see ibp/rows.cuh.
#define MGC_ROWS_REPORT_WORDS 6
// Words of 64 bits that a launch over buddy memory counts; its report has the status ahead of them. See buddy/settle.cuh.
#define MGC_BUDDY_COUNTS 5

// Raw bytes of an entry of XP in buddy memory; the last one of an allocation may have fewer.
#define MGC_BUDDY_XP_ENTRY_LEN 32768
// Raw bytes of an entry of BPC in buddy memory; zeros fill up the last bytes of an allocation to a multiple of this.
#define MGC_BUDDY_ENTRY_LEN 128
// Such entries that a warp works on at a time.
#define MGC_BUDDY_TILE 32
// Words of shared memory for the code of one of them, one more than the longest has: so neighbouring lanes use other banks.
#define MGC_BUDDY_CODE_WORDS 25

// Status word: the low bits hold the code, the bits above them the index of the chunk.
#define MGC_STATUS_CODE_BITS 8
// All is well.
#define MGC_GOOD 0
// The frame, to be read or written, does not start on a multiple of the unit in memory.
#define MGC_BAD_ALIGNMENT 1
// The frame ends before its header, its table or its chunks do.
#define MGC_BAD_TRUNCATED 2
// Bytes follow the last chunk.
#define MGC_BAD_TRAILING 3
// The first two bytes are not `MG`.
#define MGC_BAD_MAGIC 4
// A frame version that the kernel does not know.
#define MGC_BAD_VERSION 5
// An algorithm that is not the kernel's.
#define MGC_BAD_ALGORITHM 6
// An element number without a meaning.
#define MGC_BAD_ELEMENT 7
// A flag without a meaning.
#define MGC_BAD_FLAGS 8
// A chunk size outside the limits.
#define MGC_BAD_CHUNK_SIZE 9
// A reserved byte, or the padding of the table or of a raw chunk, is not zero.
#define MGC_BAD_RESERVED 10
// More raw bytes than a frame can hold.
#define MGC_BAD_RAW_LENGTH 11
// The destination has another length than the frame's raw bytes.
#define MGC_BAD_DESTINATION 12
// A table entry not behind the one before it, or one that gives the chunk more than its raw size.
#define MGC_BAD_TABLE 13
// A section ends behind the end of its chunk.
#define MGC_BAD_CHUNK_TRUNCATED 14
// A unit or more is left over in a chunk.
#define MGC_BAD_CHUNK_TRAILING 15
// Padding inside a chunk, or an unused bit of a mask, is not zero.
#define MGC_BAD_CHUNK_PADDING 16
// A tag with no meaning.
#define MGC_BAD_CHUNK_TAG 17
// An index names a dictionary word that the line has not stored yet.
#define MGC_BAD_CHUNK_INDEX 18
// The room for a frame is less than the longest frame of so many raw bytes.
#define MGC_BAD_ROOM 19
// The frame's chunks are larger than the launch has shared memory for.
#define MGC_BAD_CHUNK_LIMIT 20
// Bytes that say how a chunk is coded have no meaning.
#define MGC_BAD_CHUNK_MODE 21
// A field of a chunk's header, or a code, is out of range.
#define MGC_BAD_CHUNK_FIELD 22
// Run lengths that do not add up to the chunk.
#define MGC_BAD_CHUNK_RUNS 23
// A size that no entry has.
#define MGC_BAD_CHUNK_ENTRY 24
// A codebook that cannot be used.
#define MGC_BAD_CODEBOOK 25
// No row of the table has this index.
#define MGC_BAD_ROW 26
// Metadata of an entry has no meaning.
#define MGC_BAD_ENTRY_STATE 27
