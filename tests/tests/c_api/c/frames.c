/* Numbers, chunks and frames: known answers, and what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define DATA MGCOMP_RESULT_BAD_DATA
#define SMALL MGCOMP_RESULT_BUFFER_TOO_SMALL

enum { N = 20000, RAW = 4 * N };

static uint32_t raw[N], again[N];
static unsigned char frame[RAW + 4096];
static const mgcompWorkers alone = {0};

static void numbers(void)
{
    const char *name;
    mgcompElement element;
    mgcompAlgorithm algorithm;
    size_t bytes;
    uint32_t has;

    CHECK(mgcompAbiVersion() == MGCOMP_ABI_VERSION && mgcompAbi == MGCOMP_ABI_VERSION);
    CHECK(strcmp(mgcompVersion(), "0.1.0") == 0);
    GOOD(mgcompGetElementName(MGCOMP_ELEMENT_BF16, &name));
    CHECK(strcmp(name, "bf16") == 0);
    GOOD(mgcompFindElement("f8e5m2", &element));
    CHECK(element == MGCOMP_ELEMENT_F8E5M2 && element == 9);
    GOOD(mgcompGetElementBytes(MGCOMP_ELEMENT_F64, &bytes));
    CHECK(bytes == 8);
    GOOD(mgcompGetAlgorithmName(MGCOMP_ALGORITHM_CPACKZ, &name));
    CHECK(strcmp(name, "cpackz") == 0);
    GOOD(mgcompFindAlgorithm("int", &algorithm));
    CHECK(algorithm == MGCOMP_ALGORITHM_INT && algorithm == 10);
    GOOD(mgcompHasCodec(MGCOMP_ALGORITHM_NONE, &has));
    CHECK(has == 0);
    GOOD(mgcompHasCodec(MGCOMP_ALGORITHM_XP, &has));
    CHECK(has == 1);
    GOOD(mgcompGetResultName(MGCOMP_RESULT_BAD_DATA, &name));
    CHECK(strcmp(name, "bad data") == 0);
    GOOD(mgcompGetResultName((mgcompResult)77, &name));
    CHECK(strcmp(name, "unknown") == 0);

    REFUSED(ARGUMENT, "element 10", mgcompGetElementName((mgcompElement)10, &name));
    REFUSED(ARGUMENT, "algorithm 4294967295", mgcompHasCodec((mgcompAlgorithm)-1, &has));
    REFUSED(ARGUMENT, "\"BF16\"", mgcompFindElement("BF16", &element));
    REFUSED(ARGUMENT, "UTF-8", mgcompFindElement("\xff", &element));
    REFUSED(ARGUMENT, "name is NULL", mgcompFindElement(NULL, &element));
    REFUSED(ARGUMENT, "element is NULL", mgcompFindElement("u8", NULL));
    REFUSED(ARGUMENT, "bytes is NULL", mgcompGetElementBytes(MGCOMP_ELEMENT_U8, NULL));
}

/* FORMAT.md draws the 16 bytes of a header; and zeros take next to nothing. */
static void known_frame(void)
{
    static const unsigned char header[16] = {'M', 'G', 1, 4, 6, 1, 12, 0, 0x00, 0x20, 0, 0, 0, 0, 0, 0};
    static const char zeros[8192];
    size_t bound, bytes, room;
    mgcompFrameInfo info;

    GOOD(mgcompBoundFrame(8192, NULL, &bound));
    CHECK(bound == 16 + 2 * 8 + 8192);
    GOOD(mgcompEncodeFrame(MGCOMP_ALGORITHM_ZVC, MGCOMP_ELEMENT_F32, zeros, 8192, NULL, frame, sizeof frame, &bytes));
    CHECK(memcmp(frame, header, 16) == 0);
    CHECK(bytes < 512);
    GOOD(mgcompInspectFrame(frame, 16, &info));
    CHECK(info.rawBytes == 8192 && info.chunks == 2 && info.chunkBytes == 4096 && info.version == 1);
    CHECK(info.algorithm == MGCOMP_ALGORITHM_ZVC && info.element == MGCOMP_ELEMENT_F32);
    CHECK(info.checksum == 1 && info.codebook == 0);

    GOOD(mgcompBoundFrame(0, NULL, &room));
    CHECK(room == 16);
    GOOD(mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, NULL, 0, NULL, frame, 16, &bytes));
    CHECK(bytes == 16);
    GOOD(mgcompDecodeFrame(frame, 16, alone, NULL, 0, &bytes));
    CHECK(bytes == 0);
}

static void round_trips(void)
{
    mgcompWorkers workers;
    mgcompFrameOptions options = {65536, 0, {0}};
    uint32_t algorithm;
    size_t bytes, other, back;
    uint64_t exact, about;

    GOOD(mgcompCreateWorkers(2, &workers));
    for (algorithm = 1; algorithm <= 10; algorithm++) {
        const mgcompAlgorithm codec = (mgcompAlgorithm)algorithm;

        options.workers = alone;
        GOOD(mgcompEncodeFrame(codec, MGCOMP_ELEMENT_U32, raw, RAW, &options, frame, sizeof frame, &bytes));
        GOOD(mgcompMeasureFrame(codec, MGCOMP_ELEMENT_U32, raw, RAW, &options, &exact));
        CHECK(exact == bytes);
        GOOD(mgcompEstimateFrame(codec, MGCOMP_ELEMENT_U32, raw, RAW, &options, 4096, &about));
        CHECK(about > 0 && about < sizeof frame);
        memset(again, 1, RAW);
        GOOD(mgcompDecodeFrame(frame, bytes, workers, again, RAW, &back));
        CHECK(back == RAW && memcmp(raw, again, RAW) == 0);

        options.workers = workers;
        GOOD(mgcompEncodeFrame(codec, MGCOMP_ELEMENT_U32, raw, RAW, &options, frame, sizeof frame, &other));
        CHECK(other == bytes);
    }
    GOOD(mgcompDestroyWorkers(workers));
    REFUSED(HANDLE, "workers", mgcompDestroyWorkers(workers));
    REFUSED(HANDLE, "workers", mgcompDecodeFrame(frame, bytes, workers, again, RAW, &back));
    REFUSED(HANDLE, "empty", mgcompDestroyWorkers(alone));
    REFUSED(ARGUMENT, "0 threads", mgcompCreateWorkers(0, &workers));
    REFUSED(ARGUMENT, "1025 threads", mgcompCreateWorkers(1025, &workers));
}

static void chunks(void)
{
    size_t room, bytes, exact;
    unsigned char *coded;

    GOOD(mgcompBoundChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, 4096, &room));
    coded = malloc(room);
    CHECK(coded != NULL);
    GOOD(mgcompEncodeChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, raw, 4096, coded, room, &bytes));
    GOOD(mgcompMeasureChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, raw, 4096, &exact));
    CHECK(exact == bytes && bytes < 2048);
    memset(again, 1, 4096);
    GOOD(mgcompDecodeChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, coded, bytes, again, 4096));
    CHECK(memcmp(raw, again, 4096) == 0);

    REFUSED(DATA, "", mgcompDecodeChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, coded, bytes / 2, again, 4096));
    REFUSED(SMALL, "coded has 10 bytes",
            mgcompEncodeChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, raw, 4096, coded, 10, &bytes));
    REFUSED(ARGUMENT, "65537", mgcompBoundChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, 65537, &room));
    REFUSED(ARGUMENT, "overlap", mgcompDecodeChunk(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, again, 64, again, 4096));
    free(coded);
}

static void bad_frames(void)
{
    mgcompFrameOptions options = {0, 1, {0}};
    mgcompFrameInfo info;
    size_t bytes, back, i;

    GOOD(mgcompEncodeFrame(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, raw, RAW, NULL, frame, sizeof frame, &bytes));
    for (i = 0; i < bytes; i += 1 + i / 8)
        REFUSED(DATA, "", mgcompDecodeFrame(frame, i, alone, again, RAW, &back));
    REFUSED(DATA, "too long", mgcompDecodeFrame(frame, bytes + 1, alone, again, RAW, &back));
    REFUSED(DATA, "15 are there", mgcompInspectFrame(frame, 15, &info));
    REFUSED(SMALL, "raw has 79999 bytes, but 80000 are needed",
            mgcompDecodeFrame(frame, bytes, alone, again, RAW - 1, &back));
    frame[bytes / 2] ^= 0x10;
    REFUSED(DATA, "chunk", mgcompDecodeFrame(frame, bytes, alone, again, RAW, &back));
    frame[2] = 9;
    REFUSED(MGCOMP_RESULT_UNSUPPORTED, "version 9", mgcompInspectFrame(frame, bytes, &info));

    REFUSED(ARGUMENT, "none",
            mgcompEncodeFrame(MGCOMP_ALGORITHM_NONE, MGCOMP_ELEMENT_U32, raw, RAW, NULL, frame, sizeof frame, &bytes));
    REFUSED(ARGUMENT, "raw is NULL, but has 80000 bytes",
            mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, NULL, RAW, NULL, frame, sizeof frame, &bytes));
    REFUSED(SMALL, "frame has 100 bytes",
            mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, raw, RAW, NULL, frame, 100, &bytes));
    REFUSED(ARGUMENT, "in common",
            mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, frame + 4000, 4096, NULL, frame, sizeof frame,
                              &bytes));
    REFUSED(ARGUMENT, "frameBytes is NULL",
            mgcompEncodeFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, raw, RAW, NULL, frame, sizeof frame, NULL));
    REFUSED(ARGUMENT, "frameBytes is not at a multiple of 8",
            mgcompBoundFrame(RAW, NULL, (size_t *)(void *)(frame + 1 + 8 - (uintptr_t)frame % 8)));
    REFUSED(ARGUMENT, "more than an address space",
            mgcompMeasureFrame(MGCOMP_ALGORITHM_XP, MGCOMP_ELEMENT_F32, raw, SIZE_MAX, NULL, &info.rawBytes));
    REFUSED(ARGUMENT, "68719476721", mgcompBoundFrame((size_t)68719476721u, NULL, &bytes));
    options.chunkBytes = 5000;
    REFUSED(ARGUMENT, "5000", mgcompBoundFrame(RAW, &options, &bytes));
    options.chunkBytes = 0;
    options.checksum = 2;
    REFUSED(ARGUMENT, "checksum is 2", mgcompBoundFrame(RAW, &options, &bytes));
}

int main(void)
{
    const char *message;
    size_t i;

    CHECK(mgcompLastError(&message) == MGCOMP_RESULT_SUCCESS && message[0] == 0);
    CHECK(mgcompLastError(NULL) == MGCOMP_RESULT_SUCCESS);
    for (i = 0; i < N; i++)
        raw[i] = (uint32_t)(i + i % 7);
    numbers();
    known_frame();
    round_trips();
    chunks();
    bad_frames();
    return 0;
}
