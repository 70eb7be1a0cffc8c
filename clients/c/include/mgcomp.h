/* mgcomp: lossless compression for data that moves between GPUs, for C, C++ and Fortran.
 *
 * Compresses an array and brings it back:
 *
 *     #include <mgcomp.h>
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *
 *     int main(void)
 *     {
 *         static float tensor[100000], again[100000];
 *         size_t room, coded, raw;
 *         mgcompWorkers alone = {0};
 *         const char *why;
 *
 *         mgcompBoundFrame(sizeof tensor, NULL, &room);
 *         void *frame = malloc(room);
 *         if (mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, tensor, sizeof tensor, NULL,
 *                               frame, room, &coded) != MGCOMP_RESULT_SUCCESS ||
 *             mgcompDecodeFrame(frame, coded, alone, again, sizeof again, &raw) != MGCOMP_RESULT_SUCCESS) {
 *             mgcompLastError(&why);
 *             fprintf(stderr, "%s\n", why);
 *             return 1;
 *         }
 *         printf("%zu bytes as %zu\n", raw, coded);
 *         free(frame);
 *         return 0;
 *     }
 *
 *     cc program.c -lmgcomp          (or: cc program.c $(pkg-config --cflags --libs mgcomp))
 *
 * What holds everywhere, where a function says nothing else:
 *
 * Results    Every function returns MGCOMP_RESULT_SUCCESS or an error; mgcompLastError has its text, with numbers. What a
 *            function sets through a pointer is set on success only. No function prints, ends the program or raises a signal.
 * Sizes      are in bytes, times in nanoseconds, as the names say.
 * Memory     belongs to whoever has allocated it: buffers are the program's, and texts the library's. A buffer must be there,
 *            and not be changed by others, until the call returns or, where there is a request, until that is finished. NULL is
 *            a buffer of 0 bytes. Pointers to numbers, structs and handles have the alignment of what they point to.
 *            Buffers that are written must not overlap others; those that do are refused.
 * Handles    are numbers, passed by value. Copies are the same handle. One that is empty ({0}), destroyed, finished, made up
 *            or of another kind is refused (MGCOMP_RESULT_INVALID_HANDLE), and nothing is touched.
 * Threads    Each function says what threads may do. An object that is destroyed while other threads use it goes when the
 *            last of these calls is over.
 * fork       Only the process that made an object may use it.
 */

#ifndef MGCOMP_H
#define MGCOMP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- Errors ---------------------------------------------------------------------------------------------------------- */

/**
 * What a call came to. All but MGCOMP_RESULT_SUCCESS are errors; mgcompLastError has the text.
 */
enum mgcompResult
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * All is well.
   */
  MGCOMP_RESULT_SUCCESS = 0,
  /**
   * An argument cannot be used: NULL, a number without a meaning, buffers that overlap, a size that is out of range.
   * Nothing was done.
   */
  MGCOMP_RESULT_INVALID_ARGUMENT = 1,
  /**
   * A handle is none of this library, of another kind, or destroyed or finished already. Nothing was done.
   */
  MGCOMP_RESULT_INVALID_HANDLE = 2,
  /**
   * A buffer is too small; the text says what is needed. Nothing was done, except where the call says otherwise.
   */
  MGCOMP_RESULT_BUFFER_TOO_SMALL = 3,
  /**
   * Bytes are not what they should be: a damaged frame, a file that is no table. What was to be filled holds anything.
   */
  MGCOMP_RESULT_BAD_DATA = 4,
  /**
   * This library or this machine cannot do that.
   */
  MGCOMP_RESULT_UNSUPPORTED = 5,
  /**
   * There is not as much memory, or no place left in a pool.
   */
  MGCOMP_RESULT_NO_MEMORY = 6,
  /**
   * The operating system failed: files, threads, sockets.
   */
  MGCOMP_RESULT_SYSTEM = 7,
  /**
   * A transfer with another rank failed, or its session is over.
   */
  MGCOMP_RESULT_TRANSFER = 8,
  /**
   * The time is up. What was waited for goes on.
   */
  MGCOMP_RESULT_TIMEOUT = 9,
  /**
   * Another thread is waiting for this request.
   */
  MGCOMP_RESULT_BUSY = 10,
  /**
   * A mistake in the library. Please report it with the text.
   */
  MGCOMP_RESULT_INTERNAL = 11,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompResult mgcompResult;
#else
typedef uint32_t mgcompResult;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus


/**
 * The last error of a call on this thread: returns its code, MGCOMP_RESULT_SUCCESS if there was none yet. Calls that
 * succeed leave it as it is.
 *
 * @param message if not NULL, set to the text, in UTF-8 and ended by a zero: "" if there was no error. It belongs to the
 * library and stays as it is until another call fails on this thread, or the thread ends.
 *
 * Any number of threads may call this at once; each has its own last error.
 */
mgcompResult mgcompLastError(const char **message);

/**
 * The name of a result code, such as "invalid argument".
 *
 * @param name set to the name, which lives as long as the program. "unknown" for a number that is no result code.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetResultName(mgcompResult result, const char **name);

/* -- Version --------------------------------------------------------------------------------------------------------- */

/**
 * The ABI that this header describes. It changes when programs have to be compiled anew.
 */
#define MGCOMP_ABI_VERSION 1


/**
 * The same as a symbol: what the library was built with, to be compared with MGCOMP_ABI_VERSION.
 */
extern const uint32_t mgcompAbi;

/**
 * The ABI of the library that the program runs with. Where it is not MGCOMP_ABI_VERSION, nothing else is to be called.
 *
 * Any number of threads may call this at once.
 */
uint32_t mgcompAbiVersion(void);

/**
 * The version of the library, such as "0.1.0". It lives as long as the program.
 *
 * Any number of threads may call this at once.
 */
const char *mgcompVersion(void);

/* -- Elements and algorithms ----------------------------------------------------------------------------------------- */

/**
 * How the bytes of a buffer are grouped into values: a hint that makes codecs better, and never changes which bytes come
 * back. Values are little-endian. The numbers are those in frames.
 */
enum mgcompElement
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * 8-bit integers, or bytes of unknown meaning.
   */
  MGCOMP_ELEMENT_U8 = 0,
  /**
   * 16-bit integers.
   */
  MGCOMP_ELEMENT_U16 = 1,
  /**
   * 32-bit integers.
   */
  MGCOMP_ELEMENT_U32 = 2,
  /**
   * 64-bit integers.
   */
  MGCOMP_ELEMENT_U64 = 3,
  /**
   * IEEE half precision.
   */
  MGCOMP_ELEMENT_F16 = 4,
  /**
   * bfloat16: 8 bits of exponent, 7 of fraction.
   */
  MGCOMP_ELEMENT_BF16 = 5,
  /**
   * IEEE single precision.
   */
  MGCOMP_ELEMENT_F32 = 6,
  /**
   * IEEE double precision.
   */
  MGCOMP_ELEMENT_F64 = 7,
  /**
   * 8-bit float, 4 bits of exponent, 3 of fraction.
   */
  MGCOMP_ELEMENT_F8E4M3 = 8,
  /**
   * 8-bit float, 5 bits of exponent, 2 of fraction.
   */
  MGCOMP_ELEMENT_F8E5M2 = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompElement mgcompElement;
#else
typedef uint32_t mgcompElement;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How bytes are coded. The numbers are those in frames and messages; they are never used again for something else.
 */
enum mgcompAlgorithm
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Not compressed. There are no frames of it.
   */
  MGCOMP_ALGORITHM_NONE = 0,
  /**
   * Base-delta-immediate: pointers, small integers.
   */
  MGCOMP_ALGORITHM_BDI = 1,
  /**
   * Frequent patterns: small integers, zeros.
   */
  MGCOMP_ALGORITHM_FPC = 2,
  /**
   * C-Pack with zero lines.
   */
  MGCOMP_ALGORITHM_CPACKZ = 3,
  /**
   * Zero values in a mask: activations after ReLU.
   */
  MGCOMP_ALGORITHM_ZVC = 4,
  /**
   * Run lengths of zeros.
   */
  MGCOMP_ALGORITHM_RLE = 5,
  /**
   * zlib format, for reference.
   */
  MGCOMP_ALGORITHM_DEFLATE = 6,
  /**
   * Bit-planes of differences: integers, fields.
   */
  MGCOMP_ALGORITHM_BPC = 7,
  /**
   * Invariant bits left out: rows of tables.
   */
  MGCOMP_ALGORITHM_IBP = 8,
  /**
   * Float exponents in few bits: weights, gradients, activations, caches.
   */
  MGCOMP_ALGORITHM_XP = 9,
  /**
   * Integers, indices, keys and fields.
   */
  MGCOMP_ALGORITHM_INT = 10,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompAlgorithm mgcompAlgorithm;
#else
typedef uint32_t mgcompAlgorithm;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus


/**
 * The name of an element, such as "bf16".
 *
 * @param name set to the name, which lives as long as the program.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetElementName(mgcompElement element, const char **name);

/**
 * The element of a name, such as "bf16".
 *
 * @param name a text that is ended by a zero: u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2.
 * @param element set to the element.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompFindElement(const char *name, mgcompElement *element);

/**
 * The bytes of a value.
 *
 * @param bytes set to 1, 2, 4 or 8.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetElementBytes(mgcompElement element, size_t *bytes);

/**
 * The name of an algorithm, such as "xp".
 *
 * @param name set to the name, which lives as long as the program.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetAlgorithmName(mgcompAlgorithm algorithm, const char **name);

/**
 * The algorithm of a name, such as "xp".
 *
 * @param name a text that is ended by a zero: none bdi fpc cpackz zvc rle deflate bpc ibp xp int.
 * @param algorithm set to the algorithm.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompFindAlgorithm(const char *name, mgcompAlgorithm *algorithm);

/**
 * Whether this library has a codec for an algorithm.
 *
 * @param has set to 1 if it has, else to 0.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompHasCodec(mgcompAlgorithm algorithm, uint32_t *has);

/* -- Threads --------------------------------------------------------------------------------------------------------- */

/**
 * Threads that work on one frame together. All zero: none.
 */
typedef struct mgcompWorkers {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompWorkers;


/**
 * Starts threads that encode and decode frames together with the one that asks. Frames are the same bytes whatever the
 * number of threads.
 *
 * @param threads 1 to 1024, the caller's counted.
 * @param workers set to the handle, to be given to mgcompDestroyWorkers.
 *
 * Any number of threads may call this at once. They may also use the same workers at once; all but one of them work
 * alone then.
 */
mgcompResult mgcompCreateWorkers(uint32_t threads, struct mgcompWorkers *workers);

/**
 * Ends the threads, once no call uses them any more.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyWorkers(struct mgcompWorkers workers);

/* -- Frames ---------------------------------------------------------------------------------------------------------- */

/**
 * Bytes of a frame that mgcompInspectFrame needs.
 */
#define MGCOMP_FRAME_HEADER_BYTES 16

/**
 * How a frame is laid out and made. Where NULL is given instead: chunks of the usual size, with checksums, on the thread of
 * the caller.
 */
typedef struct mgcompFrameOptions {
  /**
   * Raw bytes of a chunk: 4096, 8192, 16384, 32768 or 65536; 0 for what is usual for the length.
   */
  uint32_t chunkBytes;
  /**
   * 1 if each chunk is to have a checksum of its raw bytes, else 0.
   */
  uint32_t checksum;
  /**
   * Threads that work together; all zero for none but the caller's.
   */
  mgcompWorkers workers;
} mgcompFrameOptions;

/**
 * What the header of a frame says.
 */
typedef struct mgcompFrameInfo {
  /**
   * Bytes that the frame decodes to.
   */
  uint64_t rawBytes;
  /**
   * How many chunks it has.
   */
  uint64_t chunks;
  /**
   * How they are coded.
   */
  mgcompAlgorithm algorithm;
  /**
   * What the bytes are.
   */
  mgcompElement element;
  /**
   * Raw bytes of each chunk but the last.
   */
  uint32_t chunkBytes;
  /**
   * 1 if chunks have checksums, else 0.
   */
  uint32_t checksum;
  /**
   * 1 if the frame names or carries a codebook, else 0.
   */
  uint32_t codebook;
  /**
   * Version of the layout.
   */
  uint32_t version;
} mgcompFrameInfo;


/**
 * The most bytes that a frame of rawBytes raw bytes takes, whatever they are: the room that mgcompEncodeFrame needs. It is
 * little more than rawBytes.
 *
 * @param rawBytes at most 68719476720.
 * @param options as mgcompEncodeFrame will get them, or NULL.
 * @param frameBytes set to the room.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompBoundFrame(size_t rawBytes,
                              const struct mgcompFrameOptions *options,
                              size_t *frameBytes);

/**
 * The bytes that mgcompEncodeFrame would write, without writing any. All of raw is looked at.
 *
 * @param raw rawBytes bytes.
 * @param options as for mgcompEncodeFrame, or NULL.
 * @param frameBytes set to the length of the frame.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompMeasureFrame(mgcompAlgorithm algorithm,
                                mgcompElement element,
                                const void *raw,
                                size_t rawBytes,
                                const struct mgcompFrameOptions *options,
                                uint64_t *frameBytes);

/**
 * About the bytes that mgcompEncodeFrame would write, from a sample of raw: fast, and the same each time. Data that changes
 * along the buffer may make it far off.
 *
 * @param raw rawBytes bytes.
 * @param options as for mgcompEncodeFrame, or NULL.
 * @param sampleBytes about how much of raw is looked at; 0 for what costs at most a hundredth of encoding.
 * @param frameBytes set to the estimate.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompEstimateFrame(mgcompAlgorithm algorithm,
                                 mgcompElement element,
                                 const void *raw,
                                 size_t rawBytes,
                                 const struct mgcompFrameOptions *options,
                                 size_t sampleBytes,
                                 uint64_t *frameBytes);

/**
 * Writes the frame of raw. What does not shrink is stored as it is, so a frame is never longer than mgcompBoundFrame says.
 * The same bytes always give the same frame.
 *
 * @param algorithm any that mgcompHasCodec says there is a codec for.
 * @param raw rawBytes bytes, at most 68719476720; they need not be whole values.
 * @param options or NULL.
 * @param frame room for frameCapacity bytes, as many as mgcompBoundFrame says or more. It may be written anywhere. It must not
 * overlap raw.
 * @param frameBytes set to the length of the frame, which starts at frame.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompEncodeFrame(mgcompAlgorithm algorithm,
                               mgcompElement element,
                               const void *raw,
                               size_t rawBytes,
                               const struct mgcompFrameOptions *options,
                               void *frame,
                               size_t frameCapacity,
                               size_t *frameBytes);

/**
 * Decodes a frame of any origin. All that it says is checked before it is used.
 *
 * @param frame the frame: exactly its frameBytes bytes.
 * @param workers threads that work together; all zero for none but the caller's.
 * @param raw room for rawCapacity bytes, as many as mgcompInspectFrame says (rawBytes) or more. It must not overlap frame. After
 * MGCOMP_RESULT_BAD_DATA it holds anything.
 * @param rawBytes set to the bytes decoded, which start at raw. Bytes behind them are not touched.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompDecodeFrame(const void *frame,
                               size_t frameBytes,
                               mgcompWorkers workers,
                               void *raw,
                               size_t rawCapacity,
                               size_t *rawBytes);

/**
 * What the header of a frame says. The rest of the frame is neither needed nor looked at: whether it can be decoded is not
 * known before mgcompDecodeFrame has done it.
 *
 * @param frame the frame, or its first bytes: MGCOMP_FRAME_HEADER_BYTES or more.
 * @param info set to what it says.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompInspectFrame(const void *frame,
                                size_t frameBytes,
                                struct mgcompFrameInfo *info);

/* -- Single chunks, for programs that have a container of their own -------------------------------------------------- */

/**
 * The most raw bytes of a chunk.
 */
#define MGCOMP_MAX_CHUNK_BYTES 65536


/**
 * The room that mgcompEncodeChunk needs for the code of a chunk.
 *
 * @param rawBytes bytes of the chunk, at most MGCOMP_MAX_CHUNK_BYTES.
 * @param codedBytes set to the room, in bytes. It may be more than rawBytes.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompBoundChunk(mgcompAlgorithm algorithm, mgcompElement element, size_t rawBytes, size_t *codedBytes);

/**
 * The bytes that mgcompEncodeChunk would write, without writing any.
 *
 * @param raw the chunk: rawBytes bytes, at most MGCOMP_MAX_CHUNK_BYTES.
 * @param codedBytes set to the length of the code.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompMeasureChunk(mgcompAlgorithm algorithm,
                                mgcompElement element,
                                const void *raw,
                                size_t rawBytes,
                                size_t *codedBytes);

/**
 * Encodes a chunk by itself, without header or checksum. What decodes it has to know algorithm, element and length; a frame
 * (mgcompEncodeFrame) says all that itself. A code may be longer than the chunk.
 *
 * @param raw the chunk: rawBytes bytes, at most MGCOMP_MAX_CHUNK_BYTES.
 * @param coded room for codedCapacity bytes, as many as mgcompBoundChunk says or more. It may be written anywhere. It must not
 * overlap raw.
 * @param codedBytes set to the length of the code, which starts at coded.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompEncodeChunk(mgcompAlgorithm algorithm,
                               mgcompElement element,
                               const void *raw,
                               size_t rawBytes,
                               void *coded,
                               size_t codedCapacity,
                               size_t *codedBytes);

/**
 * Decodes what mgcompEncodeChunk has written.
 *
 * @param coded the code: codedBytes bytes, of any origin.
 * @param raw room for the chunk: exactly its rawBytes bytes. It must not overlap coded. After MGCOMP_RESULT_BAD_DATA it holds
 * anything.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompDecodeChunk(mgcompAlgorithm algorithm,
                               mgcompElement element,
                               const void *coded,
                               size_t codedBytes,
                               void *raw,
                               size_t rawBytes);

/* -- Tables of rows that share bits ---------------------------------------------------------------------------------- */

/**
 * How a table is built. Where NULL is given instead: { 0, 1, 0, 1 }.
 */
typedef struct mgcompTableOptions {
  /**
   * Rows are cut into pieces of so many bytes: 4 or 8; 0 for whichever packs better.
   */
  uint32_t granuleBytes;
  /**
   * How many groups of rows may have invariant bits of their own: 1 to 256.
   */
  uint32_t clusters;
  /**
   * Rows that invariant bits are found from; 0 for a tenth of them.
   */
  uint64_t sampleRows;
  /**
   * Threads that pack and gather, the caller's counted: 1 to 1024.
   */
  uint32_t threads;
} mgcompTableOptions;

/**
 * Rows of one length, packed in place.
 */
typedef struct mgcompTable {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompTable;

/**
 * What a gather read.
 */
typedef struct mgcompGathered {
  /**
   * How many rows.
   */
  uint64_t rows;
  /**
   * How many of them were packed.
   */
  uint64_t packedRows;
  /**
   * Their stored bytes.
   */
  uint64_t storedBytes;
  /**
   * Bytes that a device would move over its link that reads host memory in aligned pieces of 128 bytes.
   */
  uint64_t linkBytes;
} mgcompGathered;

/**
 * What a table holds.
 */
typedef struct mgcompTableInfo {
  /**
   * How many rows there are.
   */
  uint64_t rows;
  /**
   * Bytes of a row.
   */
  uint64_t rowBytes;
  /**
   * Bytes of all rows.
   */
  uint64_t rawBytes;
  /**
   * Bytes of all rows as they are stored.
   */
  uint64_t storedBytes;
} mgcompTableInfo;


/**
 * Finds the bits that rows have in common, and packs each row where it is. Row i still starts at i * rowBytes, with only the
 * front of its place in use.
 *
 * @param rows whole rows: bytes bytes. They are the table's until it is destroyed: the program neither changes nor frees them,
 * and gets rows by mgcompGatherRows. Afterwards they hold packed rows. If the call fails, they are as they were.
 * @param rowBytes bytes of a row: 1 to 131072 / clusters.
 * @param options or NULL.
 * @param table set to the handle, to be given to mgcompDestroyTable.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompBuildTable(void *rows,
                              size_t bytes,
                              size_t rowBytes,
                              const struct mgcompTableOptions *options,
                              struct mgcompTable *table);

/**
 * Reads a table from a file that mgcompSaveTable has written. Every byte is checked. The rows lie in memory of the library.
 *
 * @param path the file's name, ended by a zero.
 * @param maxBytes the most memory for rows; a file of a few bytes can ask for 64 times as many.
 * @param threads threads that gather, the caller's counted: 1 to 1024.
 * @param table set to the handle, to be given to mgcompDestroyTable.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompLoadTable(const char *path,
                             uint64_t maxBytes,
                             uint32_t threads,
                             struct mgcompTable *table);

/**
 * Writes a table to a file. Whoever loads it meanwhile, or after a crash in the middle, has what was there before.
 *
 * @param path the file's name, ended by a zero; its folder must exist.
 *
 * Any number of threads may call this at once, and gather meanwhile.
 */
mgcompResult mgcompSaveTable(struct mgcompTable table, const char *path);

/**
 * Gives rows by their indices, decoded, one behind the other.
 *
 * @param indices count indices, each less than the number of rows; the same one may be there more than once.
 * @param out room for the rows: exactly outBytes = count * rowBytes bytes. Nothing is written if an index is wrong.
 * @param gathered set to what was read; may be NULL.
 *
 * Any number of threads may gather from a table at once. A thread that updates it waits for them, and they for it.
 */
mgcompResult mgcompGatherRows(struct mgcompTable table,
                              const uint64_t *indices,
                              size_t count,
                              void *out,
                              size_t outBytes,
                              struct mgcompGathered *gathered);

/**
 * Gives rows other bytes. Invariant bits stay what they are: where most rows change, a new table packs better.
 *
 * @param indices count indices, each less than the number of rows. Of a row that is named twice, the last bytes count.
 * @param rows the new bytes: exactly bytes = count * rowBytes, one row behind the other.
 *
 * Any number of threads may call this at once; one after the other has its turn, and waits for those that gather.
 */
mgcompResult mgcompUpdateRows(struct mgcompTable table,
                              const uint64_t *indices,
                              size_t count,
                              const void *rows,
                              size_t bytes);

/**
 * What a table holds.
 *
 * @param info set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetTableInfo(struct mgcompTable table, struct mgcompTableInfo *info);

/**
 * Destroys a table, when the calls that use it are over. Memory that was given to mgcompBuildTable is the program's again
 * when this returns, and holds packed rows.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyTable(struct mgcompTable table);

/* -- Memory that holds more than it has ------------------------------------------------------------------------------ */

/**
 * How the entries of an allocation are coded.
 */
enum mgcompBuddyForm
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Bit-planes, in entries of 128 bytes: for what has neighbours that are alike.
   */
  MGCOMP_BUDDY_FORM_BPC = 0,
  /**
   * Exponents in few bits, in entries of 32 KiB: for floats.
   */
  MGCOMP_BUDDY_FORM_XP = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompBuddyForm mgcompBuddyForm;
#else
typedef uint32_t mgcompBuddyForm;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * The target ratio of an allocation: of each entry, this part has a place in device memory.
 */
enum mgcompBuddyTarget
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Ratio 1: all of it.
   */
  MGCOMP_BUDDY_TARGET_ONE = 0,
  /**
   * Ratio 4/3: three quarters.
   */
  MGCOMP_BUDDY_TARGET_FOUR_THIRDS = 1,
  /**
   * Ratio 8/5: five eighths; not for MGCOMP_BUDDY_FORM_BPC.
   */
  MGCOMP_BUDDY_TARGET_EIGHT_FIFTHS = 2,
  /**
   * Ratio 2: a half.
   */
  MGCOMP_BUDDY_TARGET_TWO = 3,
  /**
   * Ratio 8/3: three eighths; not for MGCOMP_BUDDY_FORM_BPC.
   */
  MGCOMP_BUDDY_TARGET_EIGHT_THIRDS = 4,
  /**
   * Ratio 4: a quarter.
   */
  MGCOMP_BUDDY_TARGET_FOUR = 5,
  /**
   * Ratio 16: a sixteenth.
   */
  MGCOMP_BUDDY_TARGET_SIXTEEN = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompBuddyTarget mgcompBuddyTarget;
#else
typedef uint32_t mgcompBuddyTarget;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * A pool of device memory and buddy memory.
 */
typedef struct mgcompBuddyPool {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompBuddyPool;

/**
 * An allocation in a pool.
 */
typedef struct mgcompBuddyAllocation {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompBuddyAllocation;

/**
 * What an allocation or a pool holds, and what has been done to it. An access is an entry that a call reads or writes.
 */
typedef struct mgcompBuddyStats {
  /**
   * Bytes of the allocations, as asked for.
   */
  uint64_t rawBytes;
  /**
   * Bytes of their places in device memory.
   */
  uint64_t deviceBytes;
  /**
   * Bytes of their metadata, in device memory too.
   */
  uint64_t metadataBytes;
  /**
   * Bytes of buddy memory that are theirs, used or not.
   */
  uint64_t buddyBytes;
  /**
   * Entries that there are.
   */
  uint64_t entries;
  /**
   * Of these, entries that do not fit their places in device memory now.
   */
  uint64_t overflowingEntries;
  /**
   * Entries read so far.
   */
  uint64_t reads;
  /**
   * Of these, entries of which a part was in buddy memory.
   */
  uint64_t buddyReads;
  /**
   * Entries written so far.
   */
  uint64_t writes;
  /**
   * Of these, entries of which a part went to buddy memory.
   */
  uint64_t buddyWrites;
} mgcompBuddyStats;


/**
 * Makes a pool of host memory: as much for what stands for device memory, and as much for buddy memory, all of it zero.
 *
 * @param pool set to the handle, to be given to mgcompDestroyBuddyPool.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreateBuddyPool(uint64_t deviceBytes, uint64_t buddyBytes, struct mgcompBuddyPool *pool);

/**
 * Destroys a pool with all its allocations.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyBuddyPool(struct mgcompBuddyPool pool);

/**
 * Allocates zero bytes. What they will hold need not reach the target: what does not fit goes to buddy memory, for which all
 * room is taken now.
 *
 * @param bytes at least 1.
 * @param element what the bytes are; MGCOMP_BUDDY_FORM_BPC has no use for it.
 * @param allocation set to the handle, to be given to mgcompFreeBuddy. It is of use only with this pool.
 *
 * Any number of threads may call this at once; one after the other has its turn.
 */
mgcompResult mgcompAllocateBuddy(struct mgcompBuddyPool pool,
                                 uint64_t bytes,
                                 mgcompBuddyForm form,
                                 mgcompElement element,
                                 mgcompBuddyTarget target,
                                 struct mgcompBuddyAllocation *allocation);

/**
 * Frees an allocation.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompFreeBuddy(struct mgcompBuddyPool pool, struct mgcompBuddyAllocation allocation);

/**
 * Writes bytes of an allocation.
 *
 * @param offset where they start, in bytes.
 * @param data bytes bytes, which must lie inside the allocation.
 *
 * Any number of threads may call this at once; one after the other has its turn.
 */
mgcompResult mgcompWriteBuddy(struct mgcompBuddyPool pool,
                              struct mgcompBuddyAllocation allocation,
                              uint64_t offset,
                              const void *data,
                              size_t bytes);

/**
 * Reads bytes of an allocation.
 *
 * @param offset where they start, in bytes.
 * @param out room for bytes bytes, which must lie inside the allocation.
 *
 * Any number of threads may read from a pool at once.
 */
mgcompResult mgcompReadBuddy(struct mgcompBuddyPool pool,
                             struct mgcompBuddyAllocation allocation,
                             uint64_t offset,
                             void *out,
                             size_t bytes);

/**
 * What the allocations of a pool hold, and what has been done to them and to those that are freed.
 *
 * @param stats set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetBuddyPoolStats(struct mgcompBuddyPool pool, struct mgcompBuddyStats *stats);

/**
 * What an allocation holds, and what has been done to it.
 *
 * @param stats set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetBuddyStats(struct mgcompBuddyPool pool,
                                 struct mgcompBuddyAllocation allocation,
                                 struct mgcompBuddyStats *stats);

#ifdef __cplusplus
}
#endif

#endif
