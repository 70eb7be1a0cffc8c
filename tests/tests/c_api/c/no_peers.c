/* Copies from device to device where there are none: what is refused. */
#include "check.h"

#define ARGUMENT MGCOMP_RESULT_INVALID_ARGUMENT
#define HANDLE MGCOMP_RESULT_INVALID_HANDLE
#define UNSUPPORTED MGCOMP_RESULT_UNSUPPORTED
#define U8 MGCOMP_ELEMENT_U8

int main(void)
{
    mgcompPeerCopierOptions options = {0};
    mgcompPeerCopyReport report;
    mgcompPeerLink link;
    mgcompPeerCopier copier, none = {0}, made_up = {1};
    char from[8], to[8];

    /* No such device, or none at all. */
    REFUSED(UNSUPPORTED, "", mgcompCreatePeerCopier(99, 99, NULL, &copier));
    REFUSED(UNSUPPORTED, "", mgcompCreatePeerCopier(UINT32_MAX, 0, &options, &copier));

    REFUSED(ARGUMENT, "copier is NULL", mgcompCreatePeerCopier(0, 0, NULL, NULL));
    options.policy = "fixed:lzma";
    REFUSED(ARGUMENT, "lzma", mgcompCreatePeerCopier(0, 0, &options, &copier));
    options.policy = "\xff";
    REFUSED(ARGUMENT, "options.policy is no UTF-8", mgcompCreatePeerCopier(0, 0, &options, &copier));
    options.policy = NULL;
    options.lambdaGbps = -1;
    REFUSED(ARGUMENT, "options.lambdaGbps", mgcompCreatePeerCopier(0, 0, &options, &copier));
    options.lambdaGbps = 0;
    options.linkGbps = -1;
    REFUSED(ARGUMENT, "options.linkGbps", mgcompCreatePeerCopier(0, 0, &options, &copier));
    options.linkGbps = 0;
    options.segmentBytes = ((uint64_t)1 << 40) + 1;
    REFUSED(ARGUMENT, "options.segmentBytes: 1099511627777 bytes", mgcompCreatePeerCopier(0, 0, &options, &copier));
    options.segmentBytes = 0;
    options.mostBytes = UINT64_MAX;
    REFUSED(ARGUMENT, "options.mostBytes", mgcompCreatePeerCopier(0, 0, &options, &copier));

    REFUSED(HANDLE, "the handle of a peer copier is empty", mgcompMemcpyPeerAsync(none, to, from, 8, U8, NULL));
    REFUSED(HANDLE, "a peer copier", mgcompMemcpyPeerAsync(made_up, to, from, 8, U8, NULL));
    REFUSED(HANDLE, "a peer copier", mgcompGetPeerCopyReport(none, NULL, &report));
    REFUSED(HANDLE, "a peer copier", mgcompGetPeerLink(none, &link));
    REFUSED(HANDLE, "a peer copier", mgcompDestroyPeerCopier(none));
    REFUSED(ARGUMENT, "source is NULL", mgcompMemcpyPeerAsync(none, to, NULL, 8, U8, NULL));
    REFUSED(ARGUMENT, "report is NULL", mgcompGetPeerCopyReport(none, NULL, NULL));
    REFUSED(ARGUMENT, "link is NULL", mgcompGetPeerLink(none, NULL));
    return 0;
}
