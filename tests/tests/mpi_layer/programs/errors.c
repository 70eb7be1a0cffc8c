/* What MPI refuses is refused with the same class of error, and the handler of errors hears of it as often. */
#include "collectives.h"

static int heard;

static void hear(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  heard++;
}

static int class_of(int code) {
  int class = 0;
  MPI_Error_class(code, &class);
  return class;
}

#define REFUSED(what, call, ...) do { \
    heard = 0; \
    int one = class_of(MPI_##call(__VA_ARGS__)), heard_once = heard; \
    heard = 0; \
    int other = class_of(PMPI_##call(__VA_ARGS__)); \
    if (one == MPI_SUCCESS || one != other) fail("class", what, one * 1000 + other); \
    if (heard_once != heard) fail("times heard", what, heard_once * 1000 + heard); \
  } while (0)

static void refused(MPI_Comm comm) {
  int size, n = 100000;
  MPI_Comm_size(comm, &size);
  int *a = need(4 * n * (size + 1)), *b = need(4 * n * (size + 1));
  int counts[16], places[16], negative[16];
  for (int i = 0; i < size; i++) counts[i] = n, places[i] = n * i, negative[i] = i == size - 1 ? -5 : n;
  MPI_Datatype loose, row;
  MPI_Type_vector(3, 2, 5, MPI_INT, &loose);
  MPI_Type_contiguous(4, MPI_INT, &row);
  REFUSED("bcast, count", Bcast, a, -1, MPI_INT, 0, comm);
  REFUSED("bcast, root", Bcast, a, n, MPI_INT, size, comm);
  REFUSED("bcast, root below", Bcast, a, n, MPI_INT, -5, comm);
  REFUSED("bcast, no datatype", Bcast, a, n, MPI_DATATYPE_NULL, 0, comm);
  REFUSED("bcast, datatype not committed", Bcast, a, n / 20, loose, 0, comm);
  REFUSED("bcast, datatype in one piece not committed", Bcast, a, n / 4, row, 0, comm);
  REFUSED("allgather, datatype in one piece not committed", Allgather, a, n / 4, row, b, n / 4, row, comm);
  REFUSED("bcast, no datatype at all", Bcast, a, n, (MPI_Datatype)0, 0, comm);
  REFUSED("allgather, count", Allgather, a, n, MPI_INT, b, -1, MPI_INT, comm);
  REFUSED("allgather, no datatype", Allgather, a, n, MPI_INT, b, n, MPI_DATATYPE_NULL, comm);
  REFUSED("allgather, nothing to send", Allgather, a, n, MPI_DATATYPE_NULL, b, n, MPI_INT, comm);
#ifndef OPEN_MPI /* which does not look */
  REFUSED("allgatherv, count", Allgatherv, a, n, MPI_INT, b, negative, places, MPI_INT, comm);
#endif
  REFUSED("alltoall, count", Alltoall, a, -1, MPI_INT, b, n, MPI_INT, comm);
  REFUSED("alltoallv, count", Alltoallv, a, counts, places, MPI_INT, b, negative, places, MPI_INT, comm);
  REFUSED("gather, root", Gather, a, n, MPI_INT, b, n, MPI_INT, size, comm);
  REFUSED("gather, no datatype", Gather, a, n, MPI_DATATYPE_NULL, b, n, MPI_DATATYPE_NULL, 0, comm);
  REFUSED("gatherv, root", Gatherv, a, n, MPI_INT, b, counts, places, MPI_INT, -1, comm);
  REFUSED("scatter, root", Scatter, a, n, MPI_INT, b, n, MPI_INT, size, comm);
  REFUSED("scatterv, root", Scatterv, a, counts, places, MPI_INT, b, n, MPI_INT, size, comm);
#ifdef OPEN_MPI /* MPICH 4.0 fails there. */
  REFUSED("allreduce, count", Allreduce, a, b, -1, MPI_INT, MPI_SUM, comm);
#endif
  REFUSED("allreduce, no datatype", Allreduce, a, b, n, MPI_DATATYPE_NULL, MPI_SUM, comm);
  REFUSED("allreduce, no operation", Allreduce, a, b, n, MPI_INT, MPI_OP_NULL, comm);
  REFUSED("allreduce, another's operation", Allreduce, a, b, n, MPI_FLOAT, MPI_BAND, comm);
  REFUSED("reduce, root", Reduce, a, b, n, MPI_INT, MPI_SUM, size, comm);
  REFUSED("no communicator to reduce on", Allreduce, a, b, n, MPI_INT, MPI_SUM, MPI_COMM_NULL);
  REFUSED("no communicator", Bcast, a, n, MPI_INT, 0, MPI_COMM_NULL);
  MPI_Type_free(&loose), MPI_Type_free(&row);
  free(a), free(b);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler handler;
  MPI_Comm copy;
  MPI_Comm_create_errhandler(hear, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
  refused(MPI_COMM_WORLD);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  refused(copy);
  /* Whatever is asked on its behalf, no other communicator's handler hears of it, which may end the program. */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  int value = 0;
  REFUSED("a word that is no datatype", Bcast, &value, 1, (MPI_Datatype)0, 0, copy);
  /* And it still works. */
  run_case(copy, (Kind){"int", MPI_INT, 4}, 20000, SMOOTH, 0);
  MPI_Comm_free(&copy);
  MPI_Errhandler_free(&handler);
  return finish();
}
