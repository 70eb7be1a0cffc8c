/* A call that MPI does not allow: before it is initialized, or after it is finalized. */
#include "common.h"

int main(int argc, char **argv) {
  static int data[100000];
  if (argc > 1 && !strcmp(argv[1], "early")) {
    MPI_Bcast(data, 100000, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
  }
  MPI_Init(&argc, &argv);
  MPI_Bcast(data, 100000, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  MPI_Bcast(data, 100000, MPI_INT, 0, MPI_COMM_WORLD);
  return 0;
}
