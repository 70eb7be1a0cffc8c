/* Compressed copies between two CUDA devices, of memory and on streams that the program has by the driver's own calls: what
 * arrives, what it was on its way, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define U8 MGCOMP_ELEMENT_U8
#define U32 MGCOMP_ELEMENT_U32

/* Blocks are longer than what is copied, which begins at a multiple of 4 in them. */
enum { N = 100000, RAW = 4 * N, OFFSET = 12, BLOCK = RAW + 1000, MOST = 1 << 18 };

static uint32_t from[N], back[BLOCK / 4];

/* A block and a stream of a device, and the default stream. */
struct place {
    void *context;
    uint64_t block;
    void *streams[2];
};

static void open_place(int device, struct place *place)
{
    CHECK(cu.retain(&place->context, device) == 0);
    enter(place->context);
    CHECK(cu.allocate(&place->block, BLOCK) == 0);
    CHECK(cu.create_stream(&place->streams[0], 1) == 0);
    place->streams[1] = NULL;
    leave();
}

static void close_place(const struct place *place)
{
    enter(place->context);
    CHECK(cu.free(place->block) == 0);
    CHECK(cu.destroy_stream(place->streams[0]) == 0);
    leave();
}

static void *at(const struct place *place, size_t offset)
{
    return (void *)(uintptr_t)(place->block + offset);
}

/* Copies between work of the program on the same stream, which is of the device of `on`; nobody waits before the end. */
static mgcompPeerCopyReport copy(mgcompPeerCopier copier, const struct place places[2], const struct place *on, void *stream,
                                 size_t bytes)
{
    mgcompPeerCopyReport report;
    size_t i;

    enter(on->context);
    CHECK(cu.fill(places[0].block, 7, BLOCK, stream) == 0);
    CHECK(cu.fill(places[1].block, 9, BLOCK, stream) == 0);
    CHECK(cu.upload(places[0].block + OFFSET, from, bytes, stream) == 0);
    GOOD(mgcompMemcpyPeerAsync(copier, at(&places[1], OFFSET), at(&places[0], OFFSET), bytes, U32, stream));
    CHECK(cu.fill(places[0].block, 7, BLOCK, stream) == 0);
    CHECK(cu.download(back, places[1].block, BLOCK, stream) == 0);
    leave();
    CHECK(memcmp((char *)back + OFFSET, from, bytes) == 0);
    for (i = 0; i < BLOCK; i++)
        CHECK((i >= OFFSET && i < OFFSET + bytes) || ((unsigned char *)back)[i] == 9);
    GOOD(mgcompGetPeerCopyReport(copier, stream, &report));
    CHECK(report.rawBytes == bytes);
    return report;
}

/* The same on every stream, of the first device and of the second. */
static void copies(const struct place places[2])
{
    mgcompPeerCopierOptions options = {0};
    mgcompPeerCopyReport report;
    mgcompPeerCopier copier;
    mgcompPeerLink link;
    int i;

    options.policy = "fixed:zvc";
    options.segmentBytes = 150000;
    options.gateBytes = 100;
    options.linkGbps = 400;
    options.linkLatencyNs = 5000;
    GOOD(mgcompCreatePeerCopier(0, 1, &options, &copier));
    GOOD(mgcompGetPeerLink(copier, &link));
    CHECK(link.gbps == 400 && link.latencyNs == 5000 && link.isDirect == 1 && link.reserved == 0);
    for (i = 0; i < 3; i++) {
        const struct place *on = &places[i == 1];

        report = copy(copier, places, on, on->streams[i == 2], RAW);
        /* A third of the values, a bit for each, and the frames' own bytes. */
        CHECK(report.codedBytes > RAW / 3 + N / 8 && report.codedBytes < RAW / 2);
        CHECK(report.algorithm == MGCOMP_ALGORITHM_ZVC && report.throughHost == 0);
        report = copy(copier, places, on, on->streams[i == 2], 96);
        CHECK(report.codedBytes == 96 && report.algorithm == MGCOMP_ALGORITHM_NONE && report.throughHost == 0);
    }
    GOOD(mgcompMemcpyPeerAsync(copier, NULL, NULL, 0, U8, NULL));
    GOOD(mgcompDestroyPeerCopier(copier));
    /* None of those that adaptive chooses among. */
    options.policy = "fixed:int";
    GOOD(mgcompCreatePeerCopier(0, 1, &options, &copier));
    CHECK(copy(copier, places, &places[0], NULL, RAW).algorithm == MGCOMP_ALGORITHM_INT);
    GOOD(mgcompDestroyPeerCopier(copier));
}

/* What is usual: nothing is known of the link, so that the first copy is plain. */
static void as_it_comes(const struct place places[2])
{
    mgcompPeerCopyReport report;
    mgcompPeerCopier copier;
    mgcompPeerLink link;

    GOOD(mgcompCreatePeerCopier(0, 1, NULL, &copier));
    GOOD(mgcompGetPeerLink(copier, &link));
    CHECK(link.gbps == 0 && link.latencyNs == 0);
    REFUSED(ARGUMENT, "has made no copy yet", mgcompGetPeerCopyReport(copier, NULL, &report));
    report = copy(copier, places, &places[0], NULL, RAW);
    CHECK(report.codedBytes == RAW && report.algorithm == MGCOMP_ALGORITHM_NONE);
    GOOD(mgcompDestroyPeerCopier(copier));
}

/* From a device to itself. */
static void on_one_device(const struct place *place)
{
    mgcompPeerCopierOptions options = {0};
    mgcompPeerCopyReport report;
    mgcompPeerCopier copier;
    uint64_t other;

    options.policy = "fixed:zvc";
    options.gateBytes = 1;
    options.lambdaGbps = 0.5;
    GOOD(mgcompCreatePeerCopier(1, 1, &options, &copier));
    enter(place->context);
    CHECK(cu.allocate(&other, RAW) == 0);
    CHECK(cu.upload(place->block, from, RAW, place->streams[0]) == 0);
    GOOD(mgcompMemcpyPeerAsync(copier, (void *)(uintptr_t)other, at(place, 0), RAW, U32, place->streams[0]));
    CHECK(cu.download(back, other, RAW, place->streams[0]) == 0);
    CHECK(memcmp(back, from, RAW) == 0);
    GOOD(mgcompGetPeerCopyReport(copier, place->streams[0], &report));
    CHECK(report.codedBytes < RAW / 2 && report.algorithm == MGCOMP_ALGORITHM_ZVC);
    CHECK(cu.free(other) == 0);
    leave();
    GOOD(mgcompDestroyPeerCopier(copier));
}

struct question {
    mgcompPeerCopier copier;
    void *stream;
};

static void *ask(void *argument)
{
    const struct question *question = argument;
    mgcompPeerCopyReport report;

    GOOD(mgcompGetPeerCopyReport(question->copier, question->stream, &report));
    CHECK(report.rawBytes == RAW);
    return NULL;
}

/* Whoever waits for what a stream has to do keeps no other thread from asking what is known. */
static void while_another_waits(const struct place places[2])
{
    const struct timespec a_while = {0, 20000000};
    struct question question;
    mgcompPeerLink link;
    pthread_t thread;
    uint64_t word;
    void *other;

    question.stream = places[0].streams[0];
    GOOD(mgcompCreatePeerCopier(0, 1, NULL, &question.copier));
    enter(places[0].context);
    CHECK(cu.allocate(&word, 4) == 0);
    CHECK(cu.create_stream(&other, 1) == 0);
    CHECK(cu.fill(word, 0, 4, question.stream) == 0);
    GOOD(mgcompMemcpyPeerAsync(question.copier, at(&places[1], 0), at(&places[0], 0), RAW, U32, question.stream));
    ask(&question);
    CHECK(cu.await_value(question.stream, word, 1, 0) == 0);
    CHECK(pthread_create(&thread, NULL, ask, &question) == 0);
    nanosleep(&a_while, NULL);
    alarm(60); /* it would hang */
    GOOD(mgcompGetPeerLink(question.copier, &link));
    alarm(0);
    CHECK(cu.write_value(other, word, 1, 0) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    GOOD(mgcompDestroyPeerCopier(question.copier));
    CHECK(cu.free(word) == 0);
    CHECK(cu.destroy_stream(other) == 0);
    leave();
}

static void refusals(const struct place places[2])
{
    mgcompPeerCopierOptions options = {0};
    mgcompPeerCopyReport report;
    mgcompPeerLink link;
    mgcompPeerCopier copier;
    struct place apart = {0};
    void *to = at(&places[1], 0), *source = at(&places[0], 0);

    REFUSED(MGCOMP_RESULT_UNSUPPORTED, "there is no CUDA device 2; 2 are there", mgcompCreatePeerCopier(2, 0, NULL, &copier));
    REFUSED(MGCOMP_RESULT_UNSUPPORTED, "no CUDA device 7", mgcompCreatePeerCopier(0, 7, NULL, &copier));
    options.linkGbps = -2;
    REFUSED(ARGUMENT, "options.linkGbps", mgcompCreatePeerCopier(0, 1, &options, &copier));
    options.linkGbps = 0;
    options.policy = "fixed:deflate";
    REFUSED(MGCOMP_RESULT_UNSUPPORTED, "deflate does not run on devices", mgcompCreatePeerCopier(0, 1, &options, &copier));
    options.policy = NULL;
    options.mostBytes = options.segmentBytes = (uint64_t)1 << 40;
    REFUSED(MGCOMP_RESULT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", mgcompCreatePeerCopier(1, 1, &options, &copier));
    /* Between devices segments have a bound of their own. */
    GOOD(mgcompCreatePeerCopier(0, 1, &options, &copier));
    GOOD(mgcompDestroyPeerCopier(copier));
    options.segmentBytes = 1;
    REFUSED(MGCOMP_RESULT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", mgcompCreatePeerCopier(0, 1, &options, &copier));
    options.segmentBytes = 0;
    options.mostBytes = MOST;
    GOOD(mgcompCreatePeerCopier(0, 1, &options, &copier));
    REFUSED(ARGUMENT, "of 262145 bytes is longer than 262144",
            mgcompMemcpyPeerAsync(copier, to, source, MOST + 1, U8, NULL));
    REFUSED(ARGUMENT, "destination is NULL", mgcompMemcpyPeerAsync(copier, NULL, source, 8, U8, NULL));
    REFUSED(ARGUMENT, "source is NULL", mgcompMemcpyPeerAsync(copier, to, NULL, 8, U8, NULL));
    REFUSED(ARGUMENT, "4 bytes in common", mgcompMemcpyPeerAsync(copier, at(&places[1], 4), to, 8, U8, NULL));
    REFUSED(ARGUMENT, "more than an address space", mgcompMemcpyPeerAsync(copier, to, source, SIZE_MAX, U8, NULL));
    REFUSED(ARGUMENT, "element 99", mgcompMemcpyPeerAsync(copier, to, source, 8, (mgcompElement)99, NULL));
    REFUSED(ARGUMENT, "report is NULL", mgcompGetPeerCopyReport(copier, NULL, NULL));
    REFUSED(ARGUMENT, "link is NULL", mgcompGetPeerLink(copier, NULL));
    /* Of a context that neither device's memory is in. */
    CHECK(cu.create(&apart.context, 0, 0) == 0);
    CHECK(cu.create_stream(&apart.streams[0], 1) == 0);
    REFUSED(ARGUMENT, "a stream of neither", mgcompMemcpyPeerAsync(copier, to, source, 8, U8, apart.streams[0]));
    REFUSED(ARGUMENT, "a stream of neither", mgcompGetPeerCopyReport(copier, apart.streams[0], &report));
    CHECK(cu.destroy_stream(apart.streams[0]) == 0);
    leave();
    /* Nothing of that was a copy. */
    REFUSED(ARGUMENT, "no copy yet", mgcompGetPeerCopyReport(copier, NULL, &report));
    GOOD(mgcompDestroyPeerCopier(copier));
    REFUSED(HANDLE, "a peer copier", mgcompDestroyPeerCopier(copier));
    REFUSED(HANDLE, "a peer copier", mgcompMemcpyPeerAsync(copier, to, source, 8, U8, NULL));
    REFUSED(HANDLE, "a peer copier", mgcompGetPeerCopyReport(copier, NULL, &report));
    REFUSED(HANDLE, "a peer copier", mgcompGetPeerLink(copier, &link));
}

/* A child made by fork can do nothing, and says so; its parent goes on. */
static void forks(const struct place places[2])
{
    mgcompPeerCopyReport report;
    mgcompPeerLink link;
    mgcompPeerCopier copier;
    pid_t child;
    int status;

    GOOD(mgcompCreatePeerCopier(0, 1, NULL, &copier));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const mgcompResult transfer = MGCOMP_RESULT_TRANSFER;

        REFUSED(transfer, "forked", mgcompMemcpyPeerAsync(copier, at(&places[1], 0), at(&places[0], 0), 8, U8, NULL));
        REFUSED(transfer, "forked", mgcompGetPeerCopyReport(copier, NULL, &report));
        REFUSED(transfer, "forked", mgcompGetPeerLink(copier, &link));
        GOOD(mgcompDestroyPeerCopier(copier));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    copy(copier, places, &places[0], places[0].streams[0], RAW);
    GOOD(mgcompDestroyPeerCopier(copier));
}

int main(void)
{
    struct place places[2];
    uint32_t i;

    for (i = 0; i < N; i++)
        from[i] = i % 3 == 0 ? i + 1 : 0; /* two thirds are zeros */
    open_driver();
    open_place(0, &places[0]);
    open_place(1, &places[1]);
    copies(places);
    as_it_comes(places);
    on_one_device(&places[1]);
    while_another_waits(places);
    refusals(places);
    forks(places);
    /* What the program has allocated and made is there until it gives it back itself. */
    close_place(&places[0]);
    close_place(&places[1]);
    return 0;
}
