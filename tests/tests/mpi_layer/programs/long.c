/* Blocks of several pieces, whose beginnings may say nothing of what follows. */
#include "collectives.h"

static void mixed(void) {
  size_t bytes = 10 << 20;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *one = need(bytes), *other = need(bytes);
  fill(one, bytes, rank, SMOOTH);
  fill(one + bytes / 2, bytes / 2, rank, NOISE);
  memcpy(other, one, bytes);
  MPI_Bcast(one, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  PMPI_Bcast(other, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  same("bcast", "half of it noise", one, other, bytes);
  free(one), free(other);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  Kind numbers = {"int", MPI_INT, 4};
  run_case(MPI_COMM_WORLD, numbers, (9 << 20) / 4 + 3, SMOOTH, 1);
  run_case(MPI_COMM_WORLD, numbers, (5 << 20) / 4, NOISE, 0);
  mixed();
  return finish();
}
