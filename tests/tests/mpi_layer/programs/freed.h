/* What programs have in common that use communicators while they are freed. */
#include "collectives.h"

enum { COUNT = 4096 };

static int own[COUNT], all[COUNT * 16], counts[16], places[16], size;

static void gather(MPI_Comm comm, int i) {
  memset(all, 0, sizeof all);
  MPI_Gatherv(own, COUNT, MPI_INT, all, counts, places, MPI_INT, i % size, comm);
  int rank;
  MPI_Comm_rank(comm, &rank);
  for (int j = 0; rank == i % size && j < size; j++) same("gatherv", "all", all + COUNT * j, own, sizeof own);
}

/* How often an attribute has gone. */
static int freed;

/* Goes with an attribute. */
static int use(MPI_Comm comm, int key, void *value, void *extra) {
  (void)key, (void)value, (void)extra;
  gather(comm, freed++);
  return MPI_SUCCESS;
}

/* What is gathered. */
static void prepare(void) {
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int j = 0; j < size; j++) counts[j] = COUNT, places[j] = COUNT * j;
  for (int j = 0; j < COUNT; j++) own[j] = j / 100;
}
