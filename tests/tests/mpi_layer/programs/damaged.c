/* What comes to rank 1 is damaged: it is told so, as is who was to get something from it, and nobody waits. */
#include "collectives.h"
#include <unistd.h>

enum { HIT = 1 };

/* Calls MPI_X once with damage and once without, and PMPI_X. With damage, ranks for which `told` holds are to get an error. */
#define DAMAGED(what, told, call, ...) do { \
    for (int i = 1; i >= 0; i--) { \
      begin(c, 11 * i + __LINE__, 0); \
      if (i && c->rank == HIT) setenv("DAMAGE", "1", 1); \
      char *into = c->one; \
      int code = MPI_##call(__VA_ARGS__); \
      unsetenv("DAMAGE"); \
      into = c->other; \
      int expected = PMPI_##call(__VA_ARGS__), is_due = i && (told); \
      if (is_due && code == MPI_SUCCESS) fail("not told", what, c->rank); \
      if (is_due) memcpy(c->one, c->other, c->all); \
      end(c, what, is_due ? expected : code, expected); \
    } \
  } while (0)

int main(int argc, char **argv) {
  alarm(100);
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Case opened = open_case(comm, (Kind){"int", MPI_INT, 4}, 60000, SMOOTH, 0), *c = &opened;
  MPI_Datatype t = c->kind.type;
  int n = c->count, is_hit = c->rank == HIT, is_told = is_hit || c->rank == 0, is_behind = c->rank == HIT + 1;
  lay_out(c);
  int own = c->counts[c->rank], *counts = c->counts, *others = c->others, *places = c->places, *elsewhere = c->elsewhere;
  /* Where messages go from rank to rank, they are handed on before anybody looks at them. */
  DAMAGED("bcast", is_hit || is_behind, Bcast, c->rank == 0 ? c->send : into, n, t, 0, comm);
  DAMAGED("bcast of few pieces", is_hit, Bcast, c->rank == 0 ? c->send : into, n / 3, t, 0, comm);
  DAMAGED("allgather", is_hit || is_behind, Allgather, c->send, n, t, into, n, t, comm);
  DAMAGED("alltoall", is_hit, Alltoall, c->send, n, t, into, n, t, comm);
  DAMAGED("alltoallv", is_hit, Alltoallv, c->send, others, places, t, into, others, elsewhere, t, comm);
  DAMAGED("gather", is_hit, Gather, c->send, n, t, into, n, t, HIT, comm);
  DAMAGED("gatherv", is_hit, Gatherv, c->send, own, t, into, counts, places, t, HIT, comm);
  DAMAGED("scatter", is_hit, Scatter, c->send, n, t, into, n, t, 0, comm);
  DAMAGED("allreduce", 1, Allreduce, c->send, into, n, t, MPI_SUM, comm);
  DAMAGED("reduce", is_told, Reduce, c->send, into, n, t, MPI_SUM, 0, comm);
  DAMAGED("reduce to rank 1", is_hit, Reduce, c->send, into, n, t, MPI_SUM, HIT, comm);
  DAMAGED("reduce_scatter_block", is_hit, Reduce_scatter_block, c->send, into, n / c->size, t, MPI_SUM, comm);
  close_case(c);
  MPI_Comm_free(&comm);
  return finish();
}
