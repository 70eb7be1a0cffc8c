/* Reductions. Of integers, every bit is MPI's; floats are reduced from the last rank to the first. */
#include "common.h"

enum { RANKS = 8 };

static MPI_Comm comm;
static int rank, size;

/* Values of a rank: small ones, so that nothing overflows that must not, and some that do not compress. */
static void values(void *buffer, size_t bytes, int of, int data) {
  fill(buffer, bytes, 7 + of, data);
  for (size_t i = 0; data == SMOOTH && i < bytes; i++)
    if (i % 4) ((char *)buffer)[i] = 0;
}

typedef struct {
  const char *name;
  MPI_Datatype type;
  int bytes;
} Kind;

#define NOTED(code, expected, what) do { \
    if ((code) != (expected)) fail("code", what, code); \
  } while (0)

/* Every way to reduce N values of a kind, by the layer into ONE and by MPI into OTHER. */
static void all_ways(Kind kind, MPI_Op op, const char *name, int n, int data, int root) {
  size_t bytes = (size_t)n * kind.bytes;
  char what[100], *send = need(bytes), *sent = need(bytes), *one = need(bytes), *other = need(bytes);
  int counts[RANKS], start = 0;
  snprintf(what, sizeof what, "%s of %d %s, data %d, rank %d of %d", name, n, kind.name, data, rank, size);
  values(send, bytes, rank, data), memcpy(sent, send, bytes);
  for (int i = 0; i < size; i++) {
    int left = n - start;
    counts[i] = i == size - 1 ? left : i % 2 ? left / 2 : left / 3;
    start += counts[i];
  }
#define BOTH(is_in_place, ...) do { \
    is_in_place ? memcpy(one, sent, bytes) : memset(one, 3, bytes); \
    memcpy(other, one, bytes); \
    __VA_ARGS__; \
    same("reduced", what, one, other, bytes); \
    same("sent", what, send, sent, bytes); \
  } while (0)
  MPI_Datatype t = kind.type;
  BOTH(0, NOTED(MPI_Allreduce(send, one, n, t, op, comm), PMPI_Allreduce(send, other, n, t, op, comm), what));
  BOTH(1, NOTED(MPI_Allreduce(MPI_IN_PLACE, one, n, t, op, comm), PMPI_Allreduce(MPI_IN_PLACE, other, n, t, op, comm), what));
  BOTH(0, NOTED(MPI_Reduce(send, rank == root ? one : NULL, n, t, op, root, comm),
                PMPI_Reduce(send, rank == root ? other : NULL, n, t, op, root, comm), what));
  /* MPICH 4.0 itself fails in place at other roots. */
  const void *first = rank == 0 ? MPI_IN_PLACE : send;
  BOTH(rank == 0, NOTED(MPI_Reduce(first, one, n, t, op, 0, comm), PMPI_Reduce(first, other, n, t, op, 0, comm), what));
  BOTH(0, NOTED(MPI_Reduce_scatter(send, one, counts, t, op, comm), PMPI_Reduce_scatter(send, other, counts, t, op, comm), what));
  BOTH(0, NOTED(MPI_Reduce_scatter_block(send, one, n / size, t, op, comm),
                PMPI_Reduce_scatter_block(send, other, n / size, t, op, comm), what));
  /* Nothing for the first rank, which has no place for it. */
  int sparse[RANKS];
  memcpy(sparse, counts, sizeof sparse);
  sparse[size - 1] += sparse[0], sparse[0] = 0;
  BOTH(0, NOTED(MPI_Reduce_scatter(send, rank ? one : NULL, sparse, t, op, comm),
                PMPI_Reduce_scatter(send, rank ? other : NULL, sparse, t, op, comm), what));
  /* What is behind the result is anything then. */
  memcpy(one, sent, bytes), memcpy(other, sent, bytes);
  NOTED(MPI_Reduce_scatter(MPI_IN_PLACE, one, counts, t, op, comm), PMPI_Reduce_scatter(MPI_IN_PLACE, other, counts, t, op, comm), what);
  same("scattered in place", what, one, other, (size_t)counts[rank] * kind.bytes);
  memcpy(one, sent, bytes), memcpy(other, sent, bytes);
  NOTED(MPI_Reduce_scatter_block(MPI_IN_PLACE, one, n / size, t, op, comm),
        PMPI_Reduce_scatter_block(MPI_IN_PLACE, other, n / size, t, op, comm), what);
  same("blocks in place", what, one, other, (size_t)(n / size) * kind.bytes);
#if MPI_VERSION >= 4
  MPI_Count large[RANKS];
  for (int i = 0; i < size; i++) large[i] = counts[i];
  BOTH(0, NOTED(MPI_Allreduce_c(send, one, n, t, op, comm), PMPI_Allreduce(send, other, n, t, op, comm), what));
  BOTH(0, NOTED(MPI_Reduce_c(send, one, n, t, op, root, comm), PMPI_Reduce_c(send, other, n, t, op, root, comm), what));
  BOTH(0, NOTED(MPI_Reduce_scatter_c(send, one, large, t, op, comm), PMPI_Reduce_scatter_c(send, other, large, t, op, comm), what));
  BOTH(0, NOTED(MPI_Reduce_scatter_block_c(send, one, n / size, t, op, comm),
                PMPI_Reduce_scatter_block_c(send, other, n / size, t, op, comm), what));
#endif
  free(send), free(sent), free(one), free(other);
}

static void of_several_pieces(int n) {
  int *one = need((size_t)4 * n), *other = need((size_t)4 * n);
  values(one, (size_t)4 * n, rank, SMOOTH), memcpy(other, one, (size_t)4 * n);
  MPI_Allreduce(MPI_IN_PLACE, one, n, MPI_INT, MPI_SUM, comm);
  PMPI_Allreduce(MPI_IN_PLACE, other, n, MPI_INT, MPI_SUM, comm);
  same("reduced", "several pieces", one, other, (size_t)4 * n);
  free(one), free(other);
}

/* From the last rank to the first, as C reckons. */
static void floats(int n, int data) {
  float *own = need(4 * n), *all = need((size_t)4 * n * size), *one = need(4 * n), *other = need(4 * n);
  for (int i = 0; i < n; i++) own[i] = (data == SMOOTH ? 1.0f : 1e-3f * (i * 7919 % 10007)) / (3 + rank + i % 11);
  PMPI_Allgather(own, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
  for (int i = 0; i < n; i++) {
    other[i] = all[(size_t)(size - 1) * n + i];
    for (int r = size - 2; r >= 0; r--) other[i] = all[(size_t)r * n + i] + other[i];
  }
  MPI_Allreduce(own, one, n, MPI_FLOAT, MPI_SUM, comm);
  same("sum of floats", "allreduce", one, other, 4 * n);
  MPI_Reduce(own, one, n, MPI_FLOAT, MPI_SUM, size - 1, comm);
  if (rank == size - 1) same("sum of floats", "reduce", one, other, 4 * n);
  free(own), free(all), free(one), free(other);
}

/* What is not known here is MPI's affair: operations of the program, and pairs. */
static void less(void *in, void *inout, int *n, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *n; i++) ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

static void left_to_mpi(int n) {
  MPI_Op op;
  MPI_Op_create(less, 0, &op);
  all_ways((Kind){"int", MPI_INT, 4}, op, "an operation of the program", n, SMOOTH, 0);
  MPI_Op_free(&op);
  all_ways((Kind){"pair", MPI_2INT, 8}, MPI_MAXLOC, "maxloc", n, SMOOTH, 0);
  all_ways((Kind){"short", MPI_SHORT, 2}, MPI_BAND, "short integers", n, SMOOTH, 0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
  Kind kinds[] = {{"int", MPI_INT, 4}, {"unsigned", MPI_UNSIGNED, 4}, {"long", MPI_LONG, 8}, {"int32_t", MPI_INT32_T, 4},
                  {"unsigned long long", MPI_UNSIGNED_LONG_LONG, 8}, {"uint64_t", MPI_UINT64_T, 8}};
  MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  const char *names[] = {"max", "min", "sum", "prod", "band", "bor", "bxor", "land", "lor", "lxor"};
  int count = sizeof kinds / sizeof *kinds;
  for (int i = 0; i < 10; i++)
    for (int j = 0; j < 2; j++) all_ways(kinds[(i + j) % count], ops[i], names[i], 6001 + i, j, (i + j) % size);
  all_ways(kinds[0], MPI_SUM, "sum, none", 0, SMOOTH, 0);
  all_ways(kinds[0], MPI_SUM, "sum, short", 17, SMOOTH, 0);
  of_several_pieces((9 << 20) / 4);
  all_ways((Kind){"float", MPI_FLOAT, 4}, MPI_MAX, "max", 8000, SMOOTH, 0);
  all_ways((Kind){"double", MPI_DOUBLE, 8}, MPI_MIN, "min", 8000, SMOOTH, 1 % size);
  floats(30000, SMOOTH);
  floats(30001, NOISE);
  left_to_mpi(6000);
  MPI_Comm_free(&comm);
  return finish();
}
