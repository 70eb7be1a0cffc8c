/* The collectives with large counts, where MPI has them. */
#include <mpi.h>

#if MPI_VERSION < 4
#include "common.h"

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("SKIPPED: this MPI has no large counts\n");
  return finish();
}
#else
#define LARGE
#include "kinds.c"
#endif
