/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <mgcomp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless `condition` holds. */
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fail(__FILE__, __LINE__, #condition); \
        } \
    } while (0)

/* Ends the program unless `call` succeeds. */
#define GOOD(call) CHECK((call) == MGCOMP_RESULT_SUCCESS)

/* Ends the program unless `call` fails with `code` and a text that has `words` in it. */
#define REFUSED(code, words, call) \
    do { \
        CHECK((call) == (code)); \
        CHECK(said(code, words)); \
    } while (0)

static inline void fail(const char *file, int line, const char *what)
{
    const char *message;

    mgcompLastError(&message);
    fprintf(stderr, "%s:%d: %s\nlast error: %s\n", file, line, what, message);
    exit(1);
}

/* Whether the last error has this code, and `words` in its text. */
static inline int said(mgcompResult code, const char *words)
{
    const char *message;

    return mgcompLastError(&message) == code && strstr(message, words) != NULL;
}

#endif
