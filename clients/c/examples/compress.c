/* Compresses a ramp of numbers into a frame, and back.
 *
 *     cc compress.c -lmgcomp -o compress && ./compress
 */
#include <mgcomp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the text of the last error if a call failed. */
static void check(mgcompResult result)
{
    const char *message;

    if (result == MGCOMP_RESULT_SUCCESS)
        return;
    mgcompLastError(&message);
    fprintf(stderr, "mgcomp: %s\n", message);
    exit(1);
}

int main(void)
{
    enum { NUMBERS = 100000 };
    const size_t raw_bytes = NUMBERS * sizeof(uint32_t);
    uint32_t *raw = malloc(raw_bytes), *again = malloc(raw_bytes);
    size_t capacity, frame_bytes, again_bytes;
    void *frame;
    mgcompFrameInfo info;
    const mgcompWorkers alone = {0};
    uint32_t i;

    if (mgcompAbiVersion() != MGCOMP_ABI_VERSION) {
        fprintf(stderr, "built for ABI %u, but the library has %u\n", (unsigned)MGCOMP_ABI_VERSION,
                (unsigned)mgcompAbiVersion());
        return 1;
    }
    check(mgcompBoundFrame(raw_bytes, NULL, &capacity));
    frame = malloc(capacity);
    if (raw == NULL || again == NULL || frame == NULL)
        return 1;
    for (i = 0; i < NUMBERS; i++)
        raw[i] = 3 * i;

    check(mgcompEncodeFrame(MGCOMP_ALGORITHM_INT, MGCOMP_ELEMENT_U32, raw, raw_bytes, NULL, frame, capacity,
                            &frame_bytes));
    check(mgcompInspectFrame(frame, frame_bytes, &info));
    check(mgcompDecodeFrame(frame, frame_bytes, alone, again, raw_bytes, &again_bytes));
    if (again_bytes != raw_bytes || memcmp(raw, again, raw_bytes) != 0) {
        fprintf(stderr, "the bytes differ\n");
        return 1;
    }
    printf("%lu bytes as %lu in %lu chunks, and back\n", (unsigned long)info.rawBytes, (unsigned long)frame_bytes,
           (unsigned long)info.chunks);
    free(raw);
    free(again);
    free(frame);
    return 0;
}
