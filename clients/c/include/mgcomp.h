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
 * What is here, in this order: errors; version; elements and algorithms; threads; frames; single chunks; tables of rows; buddy
 * pools, and profiles that find their targets; requests; compressed copies, also from device to device, copies that stay
 * compressed, and the queue for what leaves for a while; ranks with remote memory and messages; communicators with collectives.
 * A program of ranks that work together starts them (mgcompStartNodeTcp on several machines), waits for them
 * (mgcompWaitForPeers), makes a communicator (mgcompCreateCommunicator), calls collectives (mgcompAllReduce), and before it ends
 * a barrier.
 *
 * What holds everywhere, where a function says nothing else:
 *
 * Results    Every function returns MGCOMP_RESULT_SUCCESS or an error; mgcompLastError has its text, with numbers. What a
 *            function sets through a pointer is set on success only. No function ends the program or raises a signal, nor
 *            prints anything but a log: to standard error, errors alone or what the environment variable MGCOMP_LOG asks for
 *            (error, warn, info, debug, trace), from the first mgcompCreate... or mgcompStartNode... on.
 * Sizes      are in bytes, times in nanoseconds, as the names say.
 * Memory     belongs to whoever has allocated it: buffers are the program's, and texts the library's. A buffer must be there,
 *            and not be changed by others, until the call returns or, where there is a request, until that is finished. NULL is
 *            a buffer of 0 bytes. Pointers to numbers, structs and handles have the alignment of what they point to.
 *            Buffers that are written must not overlap others; those that do are refused.
 * Devices    Buffers of messages, collectives, remote memory and the offload queue may be in the memory of CUDA devices, in
 *            their primary context, which is the CUDA runtime's: the driver is asked whose they are. They are used after all
 *            that the device's default stream has to do by then, as by cudaMemcpy; what streams do that do not wait for that one
 *            (cudaStreamNonBlocking) must be over. That must not wait for another such call in turn. When the call or its
 *            request has finished, so is all that was done with them. Nothing is recorded in graphs; while a stream records that
 *            waits for the default one, such calls fail (MGCOMP_RESULT_SYSTEM). Memory that host and devices share
 *            (cudaMallocManaged) counts as host memory: what devices do with it must be over. A device must not be reset
 *            (cudaDeviceReset) while the library is there. All other buffers are host memory, where a function says nothing
 *            else.
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
   * The operating system or a device failed: files, threads, sockets, work on a GPU.
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
   * Another thread is waiting for this request; or memory that was lent is still used, where a call says so.
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

/* -- Which targets suit an allocation -------------------------------------------------------------------------------- */

/**
 * What snapshots of an allocation, taken at different times, need.
 */
typedef struct mgcompBuddyProfile {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompBuddyProfile;

/**
 * What a profile recommends.
 */
typedef struct mgcompBuddyChoice {
  /**
   * How entries are to be coded.
   */
  mgcompBuddyForm form;
  /**
   * The largest target under the threshold.
   */
  mgcompBuddyTarget target;
  /**
   * Entries of all snapshots together.
   */
  uint64_t entries;
  /**
   * Of these, entries of zeros.
   */
  uint64_t zeroEntries;
  /**
   * Of all, entries that overflow at this target.
   */
  uint64_t overflowingEntries;
  /**
   * Bytes of the longest snapshot. The rest is what an allocation as long takes.
   */
  uint64_t rawBytes;
  /**
   * Bytes of its places in device memory.
   */
  uint64_t deviceBytes;
  /**
   * Bytes of its metadata, in device memory too.
   */
  uint64_t metadataBytes;
  /**
   * Bytes of buddy memory that are taken for it, used or not.
   */
  uint64_t buddyBytes;
} mgcompBuddyChoice;


/**
 * Makes a profile without a snapshot. It needs no pool.
 *
 * @param element what the allocation holds; MGCOMP_BUDDY_FORM_BPC has no use for it.
 * @param profile set to the handle, to be given to mgcompDestroyBuddyProfile.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreateBuddyProfile(mgcompElement element, struct mgcompBuddyProfile *profile);

/**
 * Looks at what the allocation holds at some time. All of it is encoded for every form, which takes about as long as
 * mgcompWriteBuddy of as many bytes.
 *
 * @param snapshot bytes bytes, at least one. They are the program's again when this returns.
 *
 * Any number of threads may call this at once; of those with the same profile, one after the other has its turn.
 */
mgcompResult mgcompAddBuddySnapshot(struct mgcompBuddyProfile profile, const void *snapshot, size_t bytes);

/**
 * The form and the largest target with which few enough entries overflow: for mgcompAllocateBuddy. Of forms with the same
 * target it is the one with fewer overflowing entries, then the earlier.
 *
 * @param thresholdPercent the share of entries that must not be reached by those that overflow: 10 to 50; 0 for 30. It is that
 * of all snapshots together; for MGCOMP_BUDDY_TARGET_SIXTEEN, each snapshot has to be under it.
 * @param forms formCount forms to choose from; NULL and 0 for all that there are.
 * @param choice set to the choice. There is none without a snapshot (MGCOMP_RESULT_INVALID_ARGUMENT).
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompChooseBuddyTarget(struct mgcompBuddyProfile profile,
                                     uint32_t thresholdPercent,
                                     const mgcompBuddyForm *forms,
                                     size_t formCount,
                                     struct mgcompBuddyChoice *choice);

/**
 * The share of entries that overflow with a form and a target, over all snapshots.
 *
 * @param share set to 0 to 1.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetBuddyOverflow(struct mgcompBuddyProfile profile,
                                    mgcompBuddyForm form,
                                    mgcompBuddyTarget target,
                                    double *share);

/**
 * Destroys a profile.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyBuddyProfile(struct mgcompBuddyProfile profile);

/* -- What goes on while the program does something else -------------------------------------------------------------- */

/**
 * Something that goes on while the program does something else. Its buffers must be there, and be left alone, until
 * mgcompWaitRequest, mgcompWaitRequestFor or mgcompTestRequest says that it is finished; then its handle is used up. Every
 * request is to be finished by one of them. After MGCOMP_RESULT_TRANSFER, its buffers must be there until its node, copier or
 * queue is destroyed.
 */
typedef struct mgcompRequest {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompRequest;


/**
 * Waits until a request is finished. Its handle is used up then, whatever comes of it.
 *
 * @param bytes set to the bytes that were moved: of a receive, the length of what came; of a compressed copy, one that is
 * kept or one that comes back, what was left of it; of a collective, 0. May be NULL.
 *
 * Any number of threads may wait, each for requests of its own. Of two that wait for the same one, the second fails with
 * MGCOMP_RESULT_BUSY.
 */
mgcompResult mgcompWaitRequest(struct mgcompRequest request,
                               uint64_t *bytes);

/**
 * Waits until a request is finished, for at most so long.
 *
 * @param timeoutNs nanoseconds. If the time is up, the call fails with MGCOMP_RESULT_TIMEOUT, and the request goes on; its
 * handle is still good.
 * @param bytes as for mgcompWaitRequest.
 *
 * Threads: as for mgcompWaitRequest.
 */
mgcompResult mgcompWaitRequestFor(struct mgcompRequest request,
                                  uint64_t timeoutNs,
                                  uint64_t *bytes);

/**
 * Whether a request is finished. If it is, its handle is used up; if it has failed, this call fails as mgcompWaitRequest
 * would.
 *
 * @param finished set to 1 if it is finished, else to 0.
 * @param bytes as for mgcompWaitRequest, if it is finished.
 *
 * Threads: as for mgcompWaitRequest.
 */
mgcompResult mgcompTestRequest(struct mgcompRequest request,
                               uint32_t *finished,
                               uint64_t *bytes);

/* -- Compressed copies ----------------------------------------------------------------------------------------------- */

/**
 * Where a copy comes from and where it goes, as in cudaMemcpyKind.
 */
enum mgcompMemcpyKind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * From host memory to host memory.
   */
  MGCOMP_MEMCPY_KIND_HOST_TO_HOST = 0,
  /**
   * From host memory to a device.
   */
  MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE = 1,
  /**
   * From a device to host memory.
   */
  MGCOMP_MEMCPY_KIND_DEVICE_TO_HOST = 2,
  /**
   * From a device to a device.
   */
  MGCOMP_MEMCPY_KIND_DEVICE_TO_DEVICE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompMemcpyKind mgcompMemcpyKind;
#else
typedef uint32_t mgcompMemcpyKind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Threads that copy.
 */
typedef struct mgcompCopier {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompCopier;

/**
 * What a copy came to.
 */
typedef struct mgcompMemcpyReport {
  /**
   * Bytes that were copied.
   */
  uint64_t rawBytes;
  /**
   * What was left of them on the way.
   */
  uint64_t codedBytes;
  /**
   * How they were coded; none if nothing shrank.
   */
  mgcompAlgorithm algorithm;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * Time that codecs took to encode, all threads together, in nanoseconds.
   */
  uint64_t encodeNs;
  /**
   * Time that codecs took to decode.
   */
  uint64_t decodeNs;
  /**
   * From the call to the end.
   */
  uint64_t tookNs;
} mgcompMemcpyReport;


/**
 * Starts threads that copy.
 *
 * @param threads that run codecs: 1 to 1024; 0 for as many as the launcher leaves this rank cores, at most 2.
 * @param cudaDevice the number of the CUDA device that copies may reach, or -1 for none. Its primary context is used, as the
 * CUDA runtime does. Where there is no driver or no such device, the call fails with MGCOMP_RESULT_UNSUPPORTED.
 * @param copier set to the handle, to be given to mgcompDestroyCopier.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreateCopier(uint32_t threads,
                                int32_t cudaDevice,
                                struct mgcompCopier *copier);

/**
 * Ends a copier. Copies that are under way are ended, and their requests fail; they are to be finished all the same.
 *
 * @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
 * CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyCopier(struct mgcompCopier copier);

/**
 * Copies bytes, compressed on their way and decoded where they go; waits for the end.
 *
 * @param destination room for bytes bytes. It must not overlap source.
 * @param source bytes bytes: a whole number of values.
 * @param kind where they are.
 * @param element what they are; MGCOMP_ELEMENT_U8 for anything.
 * @param policy how a codec is chosen: "adaptive", "fixed:ALGORITHM" such as "fixed:zvc", or NULL for "adaptive".
 * @param cudaStream where one of the places is a device: the CUDA stream (CUstream or cudaStream_t) after whose work so far the
 * copy is made, NULL for the legacy default stream. Other streams need not wait: what was copied is there when the copy is
 * finished. NULL where both places are of the host.
 * @param report set to what the copy came to; may be NULL.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompMemcpyCompressed(struct mgcompCopier copier,
                                    void *destination,
                                    const void *source,
                                    size_t bytes,
                                    mgcompMemcpyKind kind,
                                    mgcompElement element,
                                    const char *policy,
                                    void *cudaStream,
                                    struct mgcompMemcpyReport *report);

/**
 * As mgcompMemcpyCompressed, without waiting for the end.
 *
 * @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that were left on the way. Both
 * buffers must be there, and the destination be left alone, until it is finished.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompMemcpyCompressedAsync(struct mgcompCopier copier,
                                         void *destination,
                                         const void *source,
                                         size_t bytes,
                                         mgcompMemcpyKind kind,
                                         mgcompElement element,
                                         const char *policy,
                                         void *cudaStream,
                                         mgcompRequest *request);

/* -- Compressed copies from one device to another -------------------------------------------------------------------- */

/**
 * Settings of a peer copier. Where NULL is given instead, and where a field is 0 or NULL: what is usual.
 */
typedef struct mgcompPeerCopierOptions {
  /**
   * How codecs are chosen: "adaptive", "paper" or "fixed:ALGORITHM", such as "fixed:zvc". adaptive chooses among bdi, zvc and xp;
   * the others have the algorithms that they are named for. MGCOMP_RESULT_UNSUPPORTED for "fixed:deflate", which does not run on
   * devices. Usual: adaptive.
   */
  const char *policy;
  /**
   * The weight of latency against size, in Gb/s, for policies that go by one. Usual: none.
   */
  double lambdaGbps;
  /**
   * The rate of the link between the devices, in Gb/s. Usual: not known; plain copies show it, unless there is a lambda.
   */
  double linkGbps;
  /**
   * What a copy over that link takes to begin, in nanoseconds. It counts with linkGbps alone.
   */
  uint64_t linkLatencyNs;
  /**
   * Copies of fewer bytes are plain, before any policy is asked; 1 for none. Usual: 256 KiB.
   */
  uint64_t gateBytes;
  /**
   * The most bytes of a segment: while one is decoded, the next is encoded. Within one device a copier takes so much device memory, or
   * mostBytes if that is less; between devices up to 64 MiB, whatever is given, or 8 MiB of page-locked memory. Usual: 128 MiB; at
   * most 1 TiB.
   */
  uint64_t segmentBytes;
  /**
   * The most bytes of a copy. Usual: 1 GiB; at most 1 TiB.
   */
  uint64_t mostBytes;
} mgcompPeerCopierOptions;

/**
 * Makes copies from one CUDA device to another.
 */
typedef struct mgcompPeerCopier {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompPeerCopier;

/**
 * What a copy from device to device came to.
 */
typedef struct mgcompPeerCopyReport {
  /**
   * Bytes that were copied.
   */
  uint64_t rawBytes;
  /**
   * Bytes that went from device to device.
   */
  uint64_t codedBytes;
  /**
   * How they were coded; none if the copy was plain.
   */
  mgcompAlgorithm algorithm;
  /**
   * 1 if they went through page-locked memory of the host, a segment at a time; else 0.
   */
  uint32_t throughHost;
} mgcompPeerCopyReport;

/**
 * What is known of the link between two devices.
 */
typedef struct mgcompPeerLink {
  /**
   * Its rate in Gb/s: what the options have said, else what plain copies have shown by now; 0 if nothing has.
   */
  double gbps;
  /**
   * What a copy takes to begin, in nanoseconds; 0 if nothing is known.
   */
  uint64_t latencyNs;
  /**
   * 1 if kernels of the first device store straight into the memory of the second; else 0.
   */
  uint32_t isDirect;
  /**
   * Zero.
   */
  uint32_t reserved;
} mgcompPeerLink;


/**
 * Prepares copies from the memory of one CUDA device to that of another: loads kernels, which the first time may mean to compile
 * them, and allocates all that copies need.
 *
 * @param fromDevice the number of the CUDA device that bytes come from. Its primary context is used, as the CUDA runtime does.
 * Where there is no driver or no such device, the call fails with MGCOMP_RESULT_UNSUPPORTED.
 * @param toDevice the number of the one that they go to; may be the same.
 * @param options or NULL.
 * @param copier set to the handle, to be given to mgcompDestroyPeerCopier.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreatePeerCopier(uint32_t fromDevice,
                                    uint32_t toDevice,
                                    const struct mgcompPeerCopierOptions *options,
                                    struct mgcompPeerCopier *copier);

/**
 * Ends a copier. Waits for the copies that are under way. Graphs that have recorded copies of it must not be launched any more.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyPeerCopier(struct mgcompPeerCopier copier);

/**
 * Enqueues a copy on a CUDA stream, as cudaMemcpyPeerAsync does, and returns: after what is on the stream, and before what comes
 * there next. Bytes are coded and decoded by the devices where that pays; nobody waits.
 *
 * @param destination room for bytes bytes in the memory of the second device, at any address. It must not overlap source.
 * Both must be there, and be left alone, until the copy has ended, as with any work on the stream.
 * @param source bytes bytes in the memory of the first device, at any address: of cudaMalloc, or a part of what another library
 * has allocated, such as a tensor.
 * @param bytes up to mostBytes of the options.
 * @param element what they are; MGCOMP_ELEMENT_U8 for anything.
 * @param cudaStream the CUDA stream (CUstream or cudaStream_t), of either device; NULL for the legacy default stream of the first.
 * While it records a graph, the copy is recorded. When such a graph is launched, no other copy of this copier may be under way.
 *
 * Any number of threads may call this at once; one after the other has its turn.
 */
mgcompResult mgcompMemcpyPeerAsync(struct mgcompPeerCopier copier,
                                   void *destination,
                                   const void *source,
                                   size_t bytes,
                                   mgcompElement element,
                                   void *cudaStream);

/**
 * What came of the last copy that was enqueued, by whatever thread, or of the last one that a graph has made. Waits for all that
 * is on the stream, and for a copy that is coded. Threads that want to know of their own copies have a copier each.
 *
 * @param cudaStream the stream of that copy, or one that follows it; as for mgcompMemcpyPeerAsync. It must not record.
 * @param report set to what it came to. MGCOMP_RESULT_BAD_DATA if a frame was damaged on its way: then the destination holds
 * anything.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetPeerCopyReport(struct mgcompPeerCopier copier,
                                     void *cudaStream,
                                     struct mgcompPeerCopyReport *report);

/**
 * What is known of the link between the devices of a copier. Does not wait for copies.
 *
 * @param link set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetPeerLink(struct mgcompPeerCopier copier, struct mgcompPeerLink *link);

/* -- Copies that stay compressed ------------------------------------------------------------------------------------- */

/**
 * Bytes that are kept compressed in host memory of the library.
 */
typedef struct mgcompKept {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompKept;

/**
 * What is kept.
 */
typedef struct mgcompKeptInfo {
  /**
   * Bytes that it expands to.
   */
  uint64_t rawBytes;
  /**
   * Bytes that it takes.
   */
  uint64_t codedBytes;
  /**
   * What the bytes are.
   */
  mgcompElement element;
  /**
   * How they are coded; none if nothing shrank.
   */
  mgcompAlgorithm algorithm;
} mgcompKeptInfo;


/**
 * Copies bytes to host memory of the library and keeps them there compressed; waits for the end.
 *
 * @param source bytes bytes: a whole number of values. They are the program's again when this returns.
 * @param kind where they are: MGCOMP_MEMCPY_KIND_DEVICE_TO_HOST or MGCOMP_MEMCPY_KIND_HOST_TO_HOST.
 * @param element what they are; MGCOMP_ELEMENT_U8 for anything.
 * @param policy how a codec is chosen, as for mgcompMemcpyCompressed.
 * @param cudaStream as for mgcompMemcpyCompressed.
 * @param kept set to the handle, to be given to mgcompDestroyKept. It outlives the copier, and any copier expands it.
 * @param report set to what the copy came to; may be NULL.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompKeepCompressed(mgcompCopier copier,
                                  const void *source,
                                  size_t bytes,
                                  mgcompMemcpyKind kind,
                                  mgcompElement element,
                                  const char *policy,
                                  void *cudaStream,
                                  struct mgcompKept *kept,
                                  mgcompMemcpyReport *report);

/**
 * As mgcompKeepCompressed, without waiting for the end.
 *
 * @param kept set to the handle. It is of use once the request is finished; until then, calls that need what is kept fail with
 * MGCOMP_RESULT_BUSY. If the request fails, the handle is used up.
 * @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that are kept. The source must be
 * there, and be left alone, until it is finished.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompKeepCompressedAsync(mgcompCopier copier,
                                       const void *source,
                                       size_t bytes,
                                       mgcompMemcpyKind kind,
                                       mgcompElement element,
                                       const char *policy,
                                       void *cudaStream,
                                       struct mgcompKept *kept,
                                       mgcompRequest *request);

/**
 * Copies what is kept to where it is needed, and decodes it there; waits for the end. It stays kept.
 *
 * @param destination room for the raw bytes, exactly.
 * @param kind where they go: MGCOMP_MEMCPY_KIND_HOST_TO_DEVICE or MGCOMP_MEMCPY_KIND_HOST_TO_HOST.
 * @param cudaStream as for mgcompMemcpyCompressed.
 * @param report set to what the copy came to; may be NULL.
 *
 * Any number of threads may call this at once, with the same handle too.
 */
mgcompResult mgcompExpandKept(mgcompCopier copier,
                              void *destination,
                              size_t bytes,
                              struct mgcompKept kept,
                              mgcompMemcpyKind kind,
                              void *cudaStream,
                              mgcompMemcpyReport *report);

/**
 * As mgcompExpandKept, without waiting for the end.
 *
 * @param request set to what is under way; the bytes that mgcompWaitRequest tells are those that are kept. The destination
 * must be there, and be left alone, until it is finished; what is kept may be destroyed meanwhile.
 *
 * Any number of threads may call this at once, with the same handle too.
 */
mgcompResult mgcompExpandKeptAsync(mgcompCopier copier,
                                   void *destination,
                                   size_t bytes,
                                   struct mgcompKept kept,
                                   mgcompMemcpyKind kind,
                                   void *cudaStream,
                                   mgcompRequest *request);

/**
 * What is kept, and how.
 *
 * @param info set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetKeptInfo(struct mgcompKept kept, struct mgcompKeptInfo *info);

/**
 * Frees what is kept. A request that is to keep or to expand it goes on.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyKept(struct mgcompKept kept);

/* -- What leaves for a while and comes back -------------------------------------------------------------------------- */

/**
 * A queue that takes buffers out of the way, keeps them compressed in host memory of its own, and brings them back.
 */
typedef struct mgcompOffloadQueue {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompOffloadQueue;

/**
 * Stands for something offloaded, until it was brought back or discarded.
 */
typedef struct mgcompOffloadTicket {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompOffloadTicket;

/**
 * What a queue did so far.
 */
typedef struct mgcompOffloadStats {
  /**
   * Buffers that were offloaded.
   */
  uint64_t offloaded;
  /**
   * Buffers that were brought back.
   */
  uint64_t prefetched;
  /**
   * Buffers that nobody wanted back.
   */
  uint64_t discarded;
  /**
   * Copies that failed, either way.
   */
  uint64_t failed;
  /**
   * Bytes that were offloaded.
   */
  uint64_t rawBytes;
  /**
   * Bytes that they took.
   */
  uint64_t codedBytes;
  /**
   * Bytes of host memory in use now.
   */
  uint64_t usedBytes;
  /**
   * The most that were.
   */
  uint64_t peakBytes;
  /**
   * Calls that had to wait for host memory.
   */
  uint64_t waits;
} mgcompOffloadStats;


/**
 * Starts a queue with threads of its own.
 *
 * @param threads that run codecs: 1 to 1024; 0 for as many as the launcher leaves this rank cores, at most 2.
 * @param inOrder 1 if copies of one direction are to begin and finish as they were asked for; 0 if short ones may overtake.
 * @param policy how codecs are chosen, as for mgcompMemcpyCompressed.
 * @param hostBytes the most memory that all that is offloaded takes at any moment. What is on its way out counts in full, until
 * it is known what is left of it.
 * @param queue set to the handle, to be given to mgcompDestroyOffloadQueue.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreateOffloadQueue(uint32_t threads,
                                      uint32_t inOrder,
                                      const char *policy,
                                      uint64_t hostBytes,
                                      struct mgcompOffloadQueue *queue);

/**
 * Ends a queue. What it keeps is gone with it; copies that are under way are ended, and their requests fail; they are to be
 * finished all the same.
 *
 * @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
 * CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyOffloadQueue(struct mgcompOffloadQueue queue);

/**
 * Begins to take a buffer out of the way. Waits while the host memory of the queue is full and something is under way that may
 * make room.
 *
 * @param buffer bytes bytes: a whole number of values, in the memory of a device at a multiple of their width. It must be there,
 * and not be changed, until mgcompWaitOffload has succeeded for the ticket, or it was brought back, or mgcompDiscardOffload has
 * returned.
 * @param element what they are; MGCOMP_ELEMENT_U8 for anything.
 * @param ticket set to the ticket, to be given to mgcompPrefetch or mgcompDiscardOffload. It is of use only with this queue.
 *
 * @return MGCOMP_RESULT_NO_MEMORY if there is no room, and nothing is under way that may make some.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompOffload(struct mgcompOffloadQueue queue,
                           const void *buffer,
                           size_t bytes,
                           mgcompElement element,
                           struct mgcompOffloadTicket *ticket);

/**
 * As mgcompOffload, but fails with MGCOMP_RESULT_NO_MEMORY instead of waiting.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompTryOffload(struct mgcompOffloadQueue queue,
                              const void *buffer,
                              size_t bytes,
                              mgcompElement element,
                              struct mgcompOffloadTicket *ticket);

/**
 * Waits until what a ticket stands for is out of the way: its buffer may be used for something else then.
 *
 * @param report set to what the copy came to; may be NULL.
 *
 * Any number of threads may call this at once, with the same ticket too.
 */
mgcompResult mgcompWaitOffload(struct mgcompOffloadQueue queue,
                               struct mgcompOffloadTicket ticket,
                               mgcompMemcpyReport *report);

/**
 * Begins to bring back what a ticket stands for; if it is not out yet, as soon as it is.
 *
 * @param buffer room for as many bytes as were offloaded, exactly, in the memory of a device at a multiple of their values' width;
 * it may be where they were. It must be there, and be left alone, until the request is finished.
 * @param request set to what is under way. When it has succeeded, the ticket is used up; if it fails, the ticket is still
 * good.
 *
 * Any number of threads may call this at once; of those with the same ticket, one succeeds.
 */
mgcompResult mgcompPrefetch(struct mgcompOffloadQueue queue,
                            struct mgcompOffloadTicket ticket,
                            void *buffer,
                            size_t bytes,
                            mgcompRequest *request);

/**
 * Drops what a ticket stands for; waits until it is out of the way. The ticket is used up then.
 *
 * Any number of threads may call this at once; of those with the same ticket, one succeeds.
 */
mgcompResult mgcompDiscardOffload(struct mgcompOffloadQueue queue, struct mgcompOffloadTicket ticket);

/**
 * Changes the rate at which a queue reads buffers that go out, also for what waits already. Where an operator has set
 * one for the process (mgcomp read-cap), that holds as long as it is set.
 *
 * @param gbps in Gb/s: more than 0.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompSetOffloadReadCap(struct mgcompOffloadQueue queue, double gbps);

/**
 * What a queue did so far.
 *
 * @param stats set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetOffloadStats(struct mgcompOffloadQueue queue, struct mgcompOffloadStats *stats);

/* -- Ranks of a job -------------------------------------------------------------------------------------------------- */

/**
 * Bytes of a job secret.
 */
#define MGCOMP_SECRET_BYTES 16

/**
 * Settings of a node. Where NULL is given instead, and where a field is 0 or NULL: what is usual.
 */
typedef struct mgcompNodeOptions {
  /**
   * How codecs are chosen: "adaptive", "paper" or "fixed:ALGORITHM", such as "fixed:none". Usual: what the environment
   * variable MGCOMP_POLICY says, else adaptive.
   */
  const char *policy;
  /**
   * How long to try to reach a peer, in nanoseconds. Usual: 20 s.
   */
  uint64_t connectTimeoutNs;
  /**
   * How long a peer that owes an answer may stay silent before its session ends, in nanoseconds. Usual: 10 s.
   */
  uint64_t silenceTimeoutNs;
  /**
   * Bytes per message: longer transfers are cut. Usual: 1 MiB.
   */
  uint32_t pieceBytes;
  /**
   * Threads that run codecs, 1 to 256. Usual: MGCOMP_THREADS, or as many as the launcher leaves this rank cores, at most 2.
   */
  uint32_t codecThreads;
  /**
   * 1 if frames are to carry no checksums from end to end. Usual: what MGCOMP_CHECKSUM says.
   */
  uint32_t noChecksum;
} mgcompNodeOptions;

/**
 * A rank of a job that exchanges data with the others.
 */
typedef struct mgcompNode {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompNode;

/**
 * What a node has sent.
 */
typedef struct mgcompNodeStats {
  /**
   * Payloads sent: answers to reads, writes and messages.
   */
  uint64_t transfers;
  /**
   * Their raw bytes.
   */
  uint64_t rawBytes;
  /**
   * Their bytes on the link.
   */
  uint64_t codedBytes;
  /**
   * Time that codecs spent sampling and encoding, in nanoseconds.
   */
  uint64_t encodeNs;
  /**
   * Time that codecs spent decoding, in nanoseconds.
   */
  uint64_t decodeNs;
} mgcompNodeStats;


/**
 * Starts all ranks of a job in this process, joined by memory.
 *
 * @param ranks 1 to 1024.
 * @param options for all of them, or NULL.
 * @param nodes room for as many handles, by rank; each is to be given to mgcompDestroyNode.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompStartNodesLoopback(uint32_t ranks,
                                      const struct mgcompNodeOptions *options,
                                      struct mgcompNode *nodes);

/**
 * Starts one rank of a job over TCP.
 *
 * @param rankFile name of a file that says who takes part, the same on all ranks:
 *     { "secret": "000102030405060708090a0b0c0d0e0f", "ranks": ["10.0.0.1:7400", "10.0.0.2:7400"] }
 * @param rank which of them this is, from 0.
 * @param options or NULL.
 * @param node set to the handle, to be given to mgcompDestroyNode.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompStartNodeTcp(const char *rankFile,
                                uint32_t rank,
                                const struct mgcompNodeOptions *options,
                                struct mgcompNode *node);

/**
 * Starts one rank of a job whose ranks are processes (or threads) of one machine and one user, joined by shared memory.
 *
 * @param secret MGCOMP_SECRET_BYTES bytes, the same on all ranks and of no other job: chance.
 * @param ranks how many there are, 1 to 65536.
 * @param rank which of them this is, from 0.
 * @param options or NULL.
 * @param node set to the handle, to be given to mgcompDestroyNode.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompStartNodeShm(const uint8_t *secret,
                                uint32_t ranks,
                                uint32_t rank,
                                const struct mgcompNodeOptions *options,
                                struct mgcompNode *node);

/**
 * Ends a node: its sessions with all peers, and all that is under way. When this returns, memory that it was lent is the
 * program's again. Its communicators can do nothing any more, but are to be destroyed all the same; its requests fail, and are
 * to be finished all the same. Peers that are not done with this rank see its sessions end, so a barrier is a good thing to
 * do before.
 *
 * @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
 * CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyNode(struct mgcompNode node);

/**
 * Waits until the sessions with all peers are open.
 *
 * @param timeoutNs nanoseconds. If the time is up, the call fails with MGCOMP_RESULT_TIMEOUT, and with
 * MGCOMP_RESULT_TRANSFER if a session is over; the text names a peer.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompWaitForPeers(struct mgcompNode node, uint64_t timeoutNs);

/**
 * Which rank a node is, and how many there are.
 *
 * @param rank set to the rank, from 0; may be NULL.
 * @param ranks set to how many there are; may be NULL.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetNodeRank(struct mgcompNode node, uint32_t *rank, uint32_t *ranks);

/**
 * What a node has sent since its start.
 *
 * @param stats set to that.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetNodeStats(struct mgcompNode node, struct mgcompNodeStats *stats);

/* -- Remote memory, and messages between ranks ----------------------------------------------------------------------- */

/**
 * Peers may read the memory.
 */
#define MGCOMP_ACCESS_READ 1

/**
 * Peers may write the memory.
 */
#define MGCOMP_ACCESS_WRITE 2


/**
 * Opens memory to all peers. Ranks that register in the same order get the same addresses. What streams do later with memory of a
 * device must be over before a peer is told that it may reach it.
 *
 * @param memory bytes bytes, at least 1. Peers may reach them at any moment, so until mgcompUnregisterMemory or
 * mgcompDestroyNode returns, the program does not free them, and agrees with its peers on who touches them when.
 * @param element what they are.
 * @param access MGCOMP_ACCESS_READ, MGCOMP_ACCESS_WRITE or both, added.
 * @param address set to the address of the first byte, which peers are to be told. The others follow.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompRegisterMemory(mgcompNode node,
                                  void *memory,
                                  size_t bytes,
                                  mgcompElement element,
                                  uint32_t access,
                                  uint64_t *address);

/**
 * Closes memory to peers. Returns when what peers had begun with it is over; the memory is the program's again then.
 *
 * @param address what mgcompRegisterMemory has set.
 *
 * Any number of threads may call this at once; all but the first one for an address fail.
 */
mgcompResult mgcompUnregisterMemory(mgcompNode node, uint64_t address);

/**
 * Fills a buffer from the memory of a peer.
 *
 * @param peer its rank.
 * @param address where to read, as the peer's mgcompRegisterMemory has set it; more for bytes further on.
 * @param into room for bytes bytes. After an error some may have been written.
 * @param request set to what is under way.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompReadRemote(mgcompNode node,
                              uint32_t peer,
                              uint64_t address,
                              void *into,
                              size_t bytes,
                              mgcompRequest *request);

/**
 * Puts a buffer into the memory of a peer.
 *
 * @param peer its rank.
 * @param from bytes bytes.
 * @param element what they are.
 * @param address where to write, as the peer's mgcompRegisterMemory has set it; more for bytes further on.
 * @param request set to what is under way. It is finished when the peer has the bytes.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompWriteRemote(mgcompNode node,
                               uint32_t peer,
                               const void *from,
                               size_t bytes,
                               mgcompElement element,
                               uint64_t address,
                               mgcompRequest *request);

/**
 * Sends a buffer to a peer, whoever receives there with this tag. Messages with one tag arrive in order.
 *
 * @param peer its rank.
 * @param tag less than 2 to the power of 63.
 * @param from bytes bytes.
 * @param element what they are.
 * @param request set to what is under way. It is finished when the message was received.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompSendMessage(mgcompNode node,
                               uint32_t peer,
                               uint64_t tag,
                               const void *from,
                               size_t bytes,
                               mgcompElement element,
                               mgcompRequest *request);

/**
 * Receives the next message of a peer with this tag.
 *
 * @param peer its rank.
 * @param tag less than 2 to the power of 63.
 * @param into room for bytes bytes. A message may be shorter; mgcompWaitRequest tells its length. A longer one is an error, and
 * lost. After an error some bytes may have been written.
 * @param request set to what is under way.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompReceiveMessage(mgcompNode node,
                                  uint32_t peer,
                                  uint64_t tag,
                                  void *into,
                                  size_t bytes,
                                  mgcompRequest *request);

/* -- Ranks that work together ---------------------------------------------------------------------------------------- */

/**
 * Members that are to be in no communicator say this for mgcompSplitCommunicator.
 */
#define MGCOMP_NO_COLOR 4294967295

/**
 * Ranks that work together. All members call the same collectives in the same order with lengths that agree, as in MPI;
 * those with a request count like those without, and are carried out one after the other. Messages by tag are independent of
 * them. When a collective has failed with MGCOMP_RESULT_TRANSFER, MGCOMP_RESULT_SYSTEM or MGCOMP_RESULT_INTERNAL on a
 * member, its communicator can do no more of them.
 *
 * Each collective takes a request: where that is NULL, the call waits for the end; else it is set to what is under way. After
 * one of these results, buffers must be there until the node is destroyed.
 */
typedef struct mgcompCommunicator {
  /**
   * What tells it from others; not to be changed.
   */
  uint64_t id;
} mgcompCommunicator;


/**
 * Makes the communicator of all ranks of a job. A node has one.
 *
 * @param communicator set to the handle, to be given to mgcompDestroyCommunicator.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompCreateCommunicator(mgcompNode node, struct mgcompCommunicator *communicator);

/**
 * Makes communicators of the members that name the same color, ordered by key and then by rank. A collective.
 *
 * @param color or MGCOMP_NO_COLOR for a member that is to be in none.
 * @param split set to the handle, to be given to mgcompDestroyCommunicator; {0} for a member that is in none.
 *
 * Any number of threads may call this at once, with different communicators.
 */
mgcompResult mgcompSplitCommunicator(struct mgcompCommunicator communicator,
                                     uint32_t color,
                                     int32_t key,
                                     struct mgcompCommunicator *split);

/**
 * Destroys a communicator. What is under way goes on. Others who then wait for this member in a later collective are told: it
 * fails with MGCOMP_RESULT_TRANSFER.
 *
 * Any number of threads may call this at once; all but the first one for a handle fail.
 */
mgcompResult mgcompDestroyCommunicator(struct mgcompCommunicator communicator);

/**
 * Which member this is, and how many there are.
 *
 * @param rank set to the member's number, from 0; may be NULL.
 * @param ranks set to how many there are; may be NULL.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompGetCommunicatorRank(struct mgcompCommunicator communicator, uint32_t *rank, uint32_t *ranks);

/* -- Messages by tag in a communicator ------------------------------------------------------------------------------- */

/**
 * Sends a buffer to the receive of a member with this tag. Messages to one member with one tag arrive in order.
 *
 * @param to a member, not this one.
 * @param from bytes bytes.
 * @param element what they are.
 * @param request NULL to wait until the message was received (two members that send to each other first both wait for ever),
 * else set to what is under way.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompSend(mgcompCommunicator communicator,
                        uint32_t to,
                        uint32_t tag,
                        const void *from,
                        size_t bytes,
                        mgcompElement element,
                        mgcompRequest *request);

/**
 * Receives the next message of a member with this tag.
 *
 * @param from a member, not this one.
 * @param into room for bytes bytes. A message may be shorter; a longer one is an error, and lost. After an error some bytes may
 * have been written.
 * @param received set to the length of the message, if the call waits for it; may be NULL.
 * @param request NULL to wait, else set to what is under way, for which mgcompWaitRequest tells the length. Receives from one
 * member with one tag get its messages in the order in which they were started, however they are waited for.
 *
 * Any number of threads may call this at once.
 */
mgcompResult mgcompReceive(mgcompCommunicator communicator,
                           uint32_t from,
                           uint32_t tag,
                           void *into,
                           size_t bytes,
                           uint64_t *received,
                           mgcompRequest *request);

/* -- Collectives that move bytes ------------------------------------------------------------------------------------- */

/**
 * A part of a buffer.
 */
typedef struct mgcompBlock {
  /**
   * Where it starts, in bytes.
   */
  size_t offset;
  /**
   * Its length in bytes.
   */
  size_t bytes;
} mgcompBlock;


/**
 * Waits until all members have called it.
 *
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompBarrier(mgcompCommunicator communicator, mgcompRequest *request);

/**
 * Brings the bytes of a buffer at one member to all.
 *
 * @param root the member that has them.
 * @param buffer bytes bytes, as many on all members; written on all but root.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompBroadcast(mgcompCommunicator communicator,
                             uint32_t root,
                             void *buffer,
                             size_t bytes,
                             mgcompElement element,
                             mgcompRequest *request);

/**
 * Brings a buffer of each member to one, one after the other.
 *
 * @param root the member that gets them.
 * @param send sendBytes bytes, as many on all members. At root it may be its own block of receive.
 * @param receive at root: room for exactly receiveBytes = sendBytes * ranks. Elsewhere not looked at.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompGather(mgcompCommunicator communicator,
                          uint32_t root,
                          const void *send,
                          size_t sendBytes,
                          void *receive,
                          size_t receiveBytes,
                          mgcompElement element,
                          mgcompRequest *request);

/**
 * As mgcompGather, with a block of its own length and place in receive for each member.
 *
 * @param root the member that gets them.
 * @param send sendBytes bytes, as many as this member's block has.
 * @param receive at root: room for receiveBytes bytes. Elsewhere not looked at.
 * @param blocks at root: one for each member, where in receive its bytes go. They must not overlap. Elsewhere not looked at.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompGatherV(mgcompCommunicator communicator,
                           uint32_t root,
                           const void *send,
                           size_t sendBytes,
                           void *receive,
                           size_t receiveBytes,
                           const struct mgcompBlock *blocks,
                           mgcompElement element,
                           mgcompRequest *request);

/**
 * Cuts a buffer at one member into equal blocks and brings each member one.
 *
 * @param root the member that has it.
 * @param send at root: exactly sendBytes = receiveBytes * ranks. Elsewhere not looked at.
 * @param receive room for receiveBytes bytes, as many on all members. At root it may be its own block of send.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompScatter(mgcompCommunicator communicator,
                           uint32_t root,
                           const void *send,
                           size_t sendBytes,
                           void *receive,
                           size_t receiveBytes,
                           mgcompElement element,
                           mgcompRequest *request);

/**
 * As mgcompScatter, with a block of its own length and place in send for each member.
 *
 * @param root the member that has it.
 * @param send at root: sendBytes bytes. Elsewhere not looked at.
 * @param blocks at root: one for each member, where in send its bytes are. Elsewhere not looked at.
 * @param receive room for receiveBytes bytes, as many as this member's block has.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompScatterV(mgcompCommunicator communicator,
                            uint32_t root,
                            const void *send,
                            size_t sendBytes,
                            const struct mgcompBlock *blocks,
                            void *receive,
                            size_t receiveBytes,
                            mgcompElement element,
                            mgcompRequest *request);

/**
 * Brings a buffer of each member to all, one after the other.
 *
 * @param send sendBytes bytes, as many on all members. It may be this member's block of receive.
 * @param receive room for exactly receiveBytes = sendBytes * ranks.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompAllGather(mgcompCommunicator communicator,
                             const void *send,
                             size_t sendBytes,
                             void *receive,
                             size_t receiveBytes,
                             mgcompElement element,
                             mgcompRequest *request);

/**
 * As mgcompAllGather, with a block of its own length and place in receive for each member.
 *
 * @param send sendBytes bytes, as many as this member's block has.
 * @param receive room for receiveBytes bytes.
 * @param blocks one for each member: where in receive its bytes go. Lengths are the same on all members.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompAllGatherV(mgcompCommunicator communicator,
                              const void *send,
                              size_t sendBytes,
                              void *receive,
                              size_t receiveBytes,
                              const struct mgcompBlock *blocks,
                              mgcompElement element,
                              mgcompRequest *request);

/**
 * Cuts a buffer into equal blocks, one for each member, and brings each there: block i of member j becomes block j of
 * member i.
 *
 * @param send sendBytes bytes, a multiple of ranks. It may be receive itself; else it must not overlap it.
 * @param receive room for exactly receiveBytes = sendBytes.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompAllToAll(mgcompCommunicator communicator,
                            const void *send,
                            size_t sendBytes,
                            void *receive,
                            size_t receiveBytes,
                            mgcompElement element,
                            mgcompRequest *request);

/**
 * As mgcompAllToAll, with blocks of their own lengths and places.
 *
 * @param send sendBytes bytes. It may be receive itself where the blocks of each member are the same too; else it must not
 * overlap it.
 * @param sendBlocks one for each member: where in send its bytes are.
 * @param receive room for receiveBytes bytes.
 * @param receiveBlocks one for each member: where in receive its bytes go. They must not overlap.
 * @param element what they are.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompAllToAllV(mgcompCommunicator communicator,
                             const void *send,
                             size_t sendBytes,
                             const struct mgcompBlock *sendBlocks,
                             void *receive,
                             size_t receiveBytes,
                             const struct mgcompBlock *receiveBlocks,
                             mgcompElement element,
                             mgcompRequest *request);

/* -- Collectives that compute ---------------------------------------------------------------------------------------- */

/**
 * The type of the numbers that a reduction computes with, little-endian.
 */
enum mgcompDatatype
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Signed, 8 bits.
   */
  MGCOMP_DATATYPE_I8 = 0,
  /**
   * Signed, 16 bits.
   */
  MGCOMP_DATATYPE_I16 = 1,
  /**
   * Signed, 32 bits.
   */
  MGCOMP_DATATYPE_I32 = 2,
  /**
   * Signed, 64 bits.
   */
  MGCOMP_DATATYPE_I64 = 3,
  /**
   * Unsigned, 8 bits.
   */
  MGCOMP_DATATYPE_U8 = 4,
  /**
   * Unsigned, 16 bits.
   */
  MGCOMP_DATATYPE_U16 = 5,
  /**
   * Unsigned, 32 bits.
   */
  MGCOMP_DATATYPE_U32 = 6,
  /**
   * Unsigned, 64 bits.
   */
  MGCOMP_DATATYPE_U64 = 7,
  /**
   * IEEE half precision.
   */
  MGCOMP_DATATYPE_F16 = 8,
  /**
   * bfloat16.
   */
  MGCOMP_DATATYPE_BF16 = 9,
  /**
   * IEEE single precision.
   */
  MGCOMP_DATATYPE_F32 = 10,
  /**
   * IEEE double precision.
   */
  MGCOMP_DATATYPE_F64 = 11,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompDatatype mgcompDatatype;
#else
typedef uint32_t mgcompDatatype;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How numbers are combined: from the left, in the order of the ranks, each step rounded to the datatype, to nearest, ties to
 * even. The result is the same bits on every rank and link.
 */
enum mgcompOperation
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Added up. Integers wrap around.
   */
  MGCOMP_OPERATION_SUM = 0,
  /**
   * The smallest.
   */
  MGCOMP_OPERATION_MIN = 1,
  /**
   * The largest.
   */
  MGCOMP_OPERATION_MAX = 2,
  /**
   * Added up, and divided by the number of ranks.
   */
  MGCOMP_OPERATION_AVG = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum mgcompOperation mgcompOperation;
#else
typedef uint32_t mgcompOperation;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus


/**
 * Combines buffers of all members number by number, at one member.
 *
 * @param root the member that gets the result.
 * @param send sendBytes bytes, whole numbers, as many on all members.
 * @param receive at root: room for exactly receiveBytes = sendBytes; it may be send. Elsewhere not looked at.
 * @param datatype what numbers they are.
 * @param operation how they are combined.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompReduce(mgcompCommunicator communicator,
                          uint32_t root,
                          const void *send,
                          size_t sendBytes,
                          void *receive,
                          size_t receiveBytes,
                          mgcompDatatype datatype,
                          mgcompOperation operation,
                          mgcompRequest *request);

/**
 * Combines buffers of all members number by number, and leaves each with one of as many equal blocks of the result.
 *
 * @param send exactly sendBytes = receiveBytes * ranks.
 * @param receive room for receiveBytes bytes, whole numbers. It may be this member's block of send.
 * @param datatype what numbers they are.
 * @param operation how they are combined.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompReduceScatter(mgcompCommunicator communicator,
                                 const void *send,
                                 size_t sendBytes,
                                 void *receive,
                                 size_t receiveBytes,
                                 mgcompDatatype datatype,
                                 mgcompOperation operation,
                                 mgcompRequest *request);

/**
 * As mgcompReduceScatter, with a block of its own length and place in send for each member.
 *
 * @param send sendBytes bytes.
 * @param blocks one for each member: where in send its bytes are. They are the same on all members, and do not overlap.
 * @param receive room for receiveBytes bytes, as many as this member's block has. It may be that block.
 * @param datatype what numbers they are.
 * @param operation how they are combined.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompReduceScatterV(mgcompCommunicator communicator,
                                  const void *send,
                                  size_t sendBytes,
                                  const mgcompBlock *blocks,
                                  void *receive,
                                  size_t receiveBytes,
                                  mgcompDatatype datatype,
                                  mgcompOperation operation,
                                  mgcompRequest *request);

/**
 * Combines buffers of all members number by number, on all members.
 *
 * @param send sendBytes bytes, whole numbers, as many on all members.
 * @param receive room for exactly receiveBytes = sendBytes. It may be send.
 * @param datatype what numbers they are.
 * @param operation how they are combined.
 * @param request NULL to wait, else set to what is under way.
 *
 * Any number of threads may call this at once; what each member calls must be in the same order on all.
 */
mgcompResult mgcompAllReduce(mgcompCommunicator communicator,
                             const void *send,
                             size_t sendBytes,
                             void *receive,
                             size_t receiveBytes,
                             mgcompDatatype datatype,
                             mgcompOperation operation,
                             mgcompRequest *request);

#ifdef __cplusplus
}
#endif

#endif
