/* Many of one collective after the other, as long as each other: OP says of which, TIMES how many. */
#include "common.h"

enum { COUNT = 1 << 15 };

/* Numbers of which the upper half is the same for long: a good half is left of them. */
static void give(int *values, int rank, int time) {
  fill(values, COUNT * sizeof *values, (uint32_t)(rank + 10 * time), NOISE);
  for (int i = 0; i < COUNT; i++) values[i] = (values[i] & 0xffff) | rank << 20;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *op = getenv("OP");
  size_t bytes = COUNT * sizeof(int) * (size_t)size;
  int *own = need(bytes), *one = need(bytes), *other = need(bytes);
  for (int i = 0; i < size; i++) give(own + (size_t)i * COUNT, rank, i);
  for (int time = 0, times = atoi(getenv("TIMES")); time < times; time++) {
    give(own, rank, time);
    memset(one, 0, bytes), memset(other, 0, bytes);
    if (!strcmp(op, "bcast")) {
      if (rank == 0) memcpy(one, own, bytes), memcpy(other, own, bytes);
      MPI_Bcast(one, COUNT, MPI_INT, 0, MPI_COMM_WORLD), PMPI_Bcast(other, COUNT, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (!strcmp(op, "allgather")) {
      MPI_Allgather(own, COUNT, MPI_INT, one, COUNT, MPI_INT, MPI_COMM_WORLD);
      PMPI_Allgather(own, COUNT, MPI_INT, other, COUNT, MPI_INT, MPI_COMM_WORLD);
    } else if (!strcmp(op, "alltoall")) {
      MPI_Alltoall(own, COUNT, MPI_INT, one, COUNT, MPI_INT, MPI_COMM_WORLD);
      PMPI_Alltoall(own, COUNT, MPI_INT, other, COUNT, MPI_INT, MPI_COMM_WORLD);
    } else if (!strcmp(op, "allreduce")) {
      MPI_Allreduce(own, one, COUNT * size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      PMPI_Allreduce(own, other, COUNT * size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Reduce_scatter_block(own, one, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      PMPI_Reduce_scatter_block(own, other, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    same(op, "compared", one, other, bytes);
  }
  free(own), free(one), free(other);
  return finish();
}
