// What the kernels and the host must agree on: launch geometry, algorithm numbers, status codes.
//
// Only lines of the form `#define MGC_NAME number`, each under the comment that explains it: the host's
// build reads this file as text and makes constants of it, so that no number is written twice.
#pragma once

// Threads in a block, for every kernel. One block works on one chunk at a time.
#define MGC_BLOCK_THREADS 256
// Unit of the chunk table, and alignment of chunks and of the frame itself, in bytes.
#define MGC_UNIT 16
// Length of the frame header in bytes.
#define MGC_HEADER_LEN 16
// Base-2 logarithm of the smallest chunk size; n raw bytes keep at most n / 2^12 blocks busy, rounded up.
#define MGC_MIN_CHUNK_LOG2 12
// Base-2 logarithm of the largest chunk size.
#define MGC_MAX_CHUNK_LOG2 16

// Frame algorithm of the C-Pack+Z kernel.
#define MGC_ALGORITHM_CPACKZ 3
// Frame algorithm of the ZVC kernel.
#define MGC_ALGORITHM_ZVC 4

// Status word: the low bits hold the code, the bits above them the index of the chunk.
#define MGC_STATUS_CODE_BITS 8
// All chunks are decoded.
#define MGC_GOOD 0
// The frame does not start on a multiple of the unit in memory.
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
