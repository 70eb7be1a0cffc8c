/* A call that MPI does not allow: before it is initialized, or after it is finalized. */
#include "common.h"

static int data[100000], more[100000];

static void call(const char *name) {
  int all = 100000, none = 0;
  if (!strcmp(name, "bcast")) MPI_Bcast(data, all, MPI_INT, 0, MPI_COMM_WORLD);
  if (!strcmp(name, "gatherv")) MPI_Gatherv(data, all, MPI_INT, more, &all, &none, MPI_INT, 0, MPI_COMM_WORLD);
  if (!strcmp(name, "allreduce")) MPI_Allreduce(data, more, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
  if (argc != 3) return 3;
  if (!strcmp(argv[1], "early")) call(argv[2]);
  MPI_Init(&argc, &argv);
  call(argv[2]);
  MPI_Finalize();
  if (!strcmp(argv[1], "late")) call(argv[2]);
  return 0;
}
