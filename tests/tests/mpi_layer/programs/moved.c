/* Moves long blocks between two ranks, in each way once. All that one sends is for the other. BLOCK is a number of bytes;
   with ON_DEVICE, they are in the memory of a device. */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <unistd.h>

static char *on_device(size_t bytes) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context;
  if (!driver) { fprintf(stderr, "WRONG: %s\n", dlerror()); exit(3); }
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*push)(void *) = dlsym(driver, "cuCtxPushCurrent_v2");
  int (*allocate)(uint64_t *, size_t) = dlsym(driver, "cuMemAlloc_v2");
  uint64_t address = 0;
  if (init(0) || retain(&context, 0) || push(context) || allocate(&address, bytes)) fail("memory", "of a device", 0);
  return (char *)address;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, n = atoi(getenv("BLOCK"));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  size_t bytes = (size_t)2 * n;
  char *(*memory)(size_t) = getenv("ON_DEVICE") ? on_device : (char *(*)(size_t))need;
  char *from = memory(bytes), *into = memory(bytes), *expected = need(n);
  fill(from, n, rank, SMOOTH), fill(from + n, n, rank, SMOOTH), fill(expected, n, 1 - rank, SMOOTH);
  char *of_other = into + (rank ? 0 : n);
#define MOVED(what, is_here, at) do { \
    if (is_here) same(what, "a long block", at, expected, n); \
    memset(into, 3, bytes); \
  } while (0)
  MPI_Comm all = MPI_COMM_WORLD;
  MPI_Bcast(rank ? into : from, n, MPI_BYTE, 0, all);
  MOVED("bcast", rank == 1, into);
  MPI_Allgather(from, n, MPI_BYTE, into, n, MPI_BYTE, all);
  MOVED("allgather", 1, of_other);
  MPI_Alltoall(from, n, MPI_BYTE, into, n, MPI_BYTE, all);
  MOVED("alltoall", 1, of_other);
  memcpy(into, from, bytes);
  MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, into, n, MPI_BYTE, all);
  MOVED("alltoall in place", 1, of_other);
  MPI_Gather(from, n, MPI_BYTE, into, n, MPI_BYTE, 0, all);
  MOVED("gather", rank == 0, of_other);
  MPI_Scatter(from, n, MPI_BYTE, into, n, MPI_BYTE, 0, all);
  MOVED("scatter", rank == 1, into);
  MPI_Allreduce(from, into, 2 * n / 4, MPI_INT, MPI_MAX, all);
  fill(expected, n, 1, SMOOTH); /* has the larger numbers */
  MOVED("allreduce", 1, into);
  /* Whoever looks at what was counted may have to come first. */
  char taken[4096];
  const char *socket = getenv("MGCOMP_SOCKET");
  snprintf(taken, sizeof taken, "%s.taken", socket);
  while (access(taken, F_OK)) usleep(5000);
  return finish();
}
