/* Every collective over every kind of datatype, count and communicator. */
#include "collectives.h"

static Kind made(const char *name, MPI_Datatype type) {
  MPI_Aint lower;
  Kind kind = {.name = name, .type = type};
  MPI_Type_commit(&kind.type);
  MPI_Type_get_extent(kind.type, &lower, &kind.extent);
  return kind;
}

static int kinds(Kind *all) {
  MPI_Datatype t, u;
  int n = 0;
  all[n++] = (Kind){"int", MPI_INT, 4};
  all[n++] = (Kind){"byte", MPI_BYTE, 1};
#ifdef OPEN_MPI /* MPICH 4.0 itself fails to gather these. */
  all[n++] = (Kind){"double and int", MPI_DOUBLE_INT, 16};
#endif
  MPI_Type_contiguous(3, MPI_FLOAT, &t);
  MPI_Type_dup(t, &u);
  all[n++] = made("three floats", u);
  MPI_Type_vector(3, 2, 5, MPI_INT, &t);
  all[n++] = made("vector", t);
  int lengths[3] = {1, 1, 2};
  MPI_Aint offsets[3] = {0, 8, 16};
#ifdef OPEN_MPI
  MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
#else /* As above. */
  MPI_Datatype types[3] = {MPI_INT, MPI_FLOAT, MPI_INT};
#endif
  MPI_Type_create_struct(3, lengths, offsets, types, &t);
  MPI_Type_create_resized(t, 0, 28, &u);
  all[n++] = made("struct", u);
  /* As dense as can be, but sent from back to front. */
  int ones[2] = {1, 1};
  MPI_Aint back[2] = {4, 0};
  MPI_Type_create_hindexed(2, ones, back, MPI_INT, &t);
  all[n++] = made("reversed", t);
  return n;
}

/* Ranks may describe the same values in different ways. */
static void described_differently(MPI_Comm comm) {
  int rank, n = 6000;
  MPI_Datatype vector;
  MPI_Comm_rank(comm, &rank);
  MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  for (int data = SMOOTH; data <= NOISE; data++) {
    size_t bytes = (size_t)n * 48 + 64;
    char *one = need(bytes), *other = need(bytes);
    fill(one, bytes, rank, data), memcpy(other, one, bytes);
    if (rank % 2) MPI_Bcast(one, n, vector, 1, comm), PMPI_Bcast(other, n, vector, 1, comm);
    else MPI_Bcast(one, n * 6, MPI_INT, 1, comm), PMPI_Bcast(other, n * 6, MPI_INT, 1, comm);
    same("bcast", "described differently", one, other, bytes);
    free(one), free(other);
  }
  MPI_Type_free(&vector);
}

/* Values by their addresses, from MPI_BOTTOM on: those of rank 1, those of the others, or all. */
static void by_address(MPI_Comm comm) {
  enum { VALUES = 60000, PARTS = 3 };
  int rank, size, values = VALUES, all = VALUES * PARTS;
  size_t bytes = (size_t)all * sizeof(int);
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
  for (int data = SMOOTH; data <= NOISE; data++) {
    for (int who = 1; who < 4; who++) {
      char *one = need(bytes), *other = need(bytes), *many = need(bytes * size), *others = need(bytes * size);
      fill(one, bytes, rank, data), memcpy(other, one, bytes);
      MPI_Aint at;
      MPI_Datatype there, type = MPI_INT;
      MPI_Get_address(one, &at);
      MPI_Type_create_hindexed(1, &values, &at, MPI_INT, &there);
      MPI_Type_commit(&there);
      void *from = one;
      int count = all;
      if (who & (rank == 1 ? 1 : 2)) from = MPI_BOTTOM, count = PARTS, type = there;
      MPI_Bcast(from, count, type, 1, comm), PMPI_Bcast(other, all, MPI_INT, 1, comm);
      same("bcast", "by address", one, other, bytes);
      fill(one, bytes, rank + 7, data), memcpy(other, one, bytes);
      MPI_Allgather(from, count, type, many, all, MPI_INT, comm);
      PMPI_Allgather(other, all, MPI_INT, others, all, MPI_INT, comm);
      same("allgather", "by address", many, others, bytes * size);
      fill(many, bytes * size, rank, data), memcpy(others, many, bytes * size);
      MPI_Gather(from, count, type, many, all, MPI_INT, 1, comm);
      PMPI_Gather(other, all, MPI_INT, others, all, MPI_INT, 1, comm);
      same("gather", "by address", many, others, bytes * size);
      MPI_Scatter(many, all, MPI_INT, from, count, type, 1, comm);
      PMPI_Scatter(others, all, MPI_INT, other, all, MPI_INT, 1, comm);
      same("scatter", "by address", one, other, bytes);
      MPI_Type_free(&there);
      free(one), free(other), free(many), free(others);
    }
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Kind all[16];
  int count = kinds(all), lengths[] = {0, 1, 300, 20000};
  for (int i = 0; i < count; i++)
    for (int j = i ? 2 : 0; j < 4; j++) run_case(MPI_COMM_WORLD, all[i], lengths[j], SMOOTH, i + j);
  for (int i = 0; i < count; i++) run_case(MPI_COMM_WORLD, all[i], 5000, NOISE, i);
  described_differently(MPI_COMM_WORLD);
  by_address(MPI_COMM_WORLD);

  MPI_Comm half, copy;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  run_case(half, all[0], 30000, SMOOTH, 1);
  MPI_Comm_dup(half, &copy);
  MPI_Comm_free(&half);
  run_case(copy, all[count - 2], 5000, SMOOTH, 0);
  MPI_Comm_free(&copy);
  run_case(MPI_COMM_SELF, all[0], 30000, SMOOTH, 0);
  return finish();
}
