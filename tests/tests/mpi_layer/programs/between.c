/* Communicators between two groups are left alone. */
#include "common.h"

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, n = 50000;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm group, between;
  int is_first = rank == 0;
  MPI_Comm_split(MPI_COMM_WORLD, is_first, rank, &group);
  MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 5, &between);
  int *one = need(4 * n * size), *other = need(4 * n * size), *own = need(4 * n);
  fill(own, 4 * n, rank, SMOOTH);
  int root = is_first ? MPI_ROOT : 0;
  fill(one, 4 * n * size, rank, SMOOTH), memcpy(other, one, 4 * n * size);
  MPI_Bcast(one, n, MPI_INT, root, between);
  PMPI_Bcast(other, n, MPI_INT, root, between);
  same("bcast", "between groups", one, other, 4 * n * size);
  MPI_Allgather(own, n, MPI_INT, one, n, MPI_INT, between);
  PMPI_Allgather(own, n, MPI_INT, other, n, MPI_INT, between);
  same("allgather", "between groups", one, other, 4 * n * size);
  MPI_Gather(own, n, MPI_INT, one, n, MPI_INT, root, between);
  PMPI_Gather(own, n, MPI_INT, other, n, MPI_INT, root, between);
  same("gather", "between groups", one, other, 4 * n * size);
  int counts[64], places[64];
  for (int i = 0; i < size; i++) counts[i] = n, places[i] = i * n;
  MPI_Gatherv(own, n, MPI_INT, one, counts, places, MPI_INT, root, between);
  PMPI_Gatherv(own, n, MPI_INT, other, counts, places, MPI_INT, root, between);
  same("gatherv", "between groups", one, other, 4 * n * size);
  MPI_Comm_free(&between);
  MPI_Comm_free(&group);
  return finish();
}
