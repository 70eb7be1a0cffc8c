/* A program that loads the library while it runs, uses it, closes it, and does so again: of its threads none is left. */
#define _GNU_SOURCE
#include <mgcomp.h>

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* This program is not linked with the library: it may not call what it has not looked up. */
#define LIBRARY "libmgcomp.so.1"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#define GOOD(call) CHECK((call) == MGCOMP_RESULT_SUCCESS)

/* The function of this name, with its type. */
#define LOOK_UP(library, name) \
    __typeof__(&name) name##_ = NULL; \
    do { \
        void *found_ = dlsym(library, #name); \
        CHECK(found_ != NULL); \
        memcpy(&name##_, &found_, sizeof found_); \
    } while (0)

enum { RANKS = 2 };

/* Threads of this process. */
static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int found = 0;

    CHECK(tasks != NULL);
    while ((task = readdir(tasks)) != NULL)
        found += task->d_name[0] != '.';
    closedir(tasks);
    return found;
}

/* A thread that was joined may be seen for a moment longer. */
static void expect_no_threads(void)
{
    const struct timespec pause = {0, 1000000};
    int tries;

    for (tries = 0; tries < 5000 && threads() > 1; tries++)
        nanosleep(&pause, NULL);
    CHECK(threads() == 1);
}

static void use(void *library)
{
    LOOK_UP(library, mgcompCreateWorkers);
    LOOK_UP(library, mgcompDestroyWorkers);
    LOOK_UP(library, mgcompStartNodesLoopback);
    LOOK_UP(library, mgcompDestroyNode);
    LOOK_UP(library, mgcompCreateCommunicator);
    LOOK_UP(library, mgcompDestroyCommunicator);
    LOOK_UP(library, mgcompAllReduce);
    LOOK_UP(library, mgcompWaitRequest);
    mgcompWorkers workers;
    mgcompNode nodes[RANKS];
    mgcompCommunicator worlds[RANKS];
    mgcompRequest requests[RANKS];
    uint32_t numbers[RANKS] = {30, 12}, sums[RANKS] = {0, 0}, rank;

    GOOD(mgcompCreateWorkers_(3, &workers));
    GOOD(mgcompStartNodesLoopback_(RANKS, NULL, nodes));
    for (rank = 0; rank < RANKS; rank++) {
        GOOD(mgcompCreateCommunicator_(nodes[rank], &worlds[rank]));
        GOOD(mgcompAllReduce_(worlds[rank], &numbers[rank], 4, &sums[rank], 4, MGCOMP_DATATYPE_U32,
                              MGCOMP_OPERATION_SUM, &requests[rank]));
    }
    CHECK(threads() >= 1 + 2 + RANKS); /* this one, two workers, and those of the nodes */
    for (rank = 0; rank < RANKS; rank++) {
        GOOD(mgcompWaitRequest_(requests[rank], NULL));
        CHECK(sums[rank] == 42);
    }
    for (rank = 0; rank < RANKS; rank++) {
        GOOD(mgcompDestroyCommunicator_(worlds[rank]));
        GOOD(mgcompDestroyNode_(nodes[rank]));
    }
    GOOD(mgcompDestroyWorkers_(workers));
}

int main(void)
{
    int round;

    CHECK(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD) == NULL);
    expect_no_threads();
    for (round = 0; round < 3; round++) {
        void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

        CHECK(library != NULL);
        use(library);
        expect_no_threads();
        CHECK(dlclose(library) == 0);
        expect_no_threads();
    }
    return 0;
}
