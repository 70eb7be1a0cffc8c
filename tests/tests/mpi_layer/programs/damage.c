/* A tool that damages messages on their way to this process, while the program has DAMAGE set: where the layer asks the loader for
   functions of MPI, it gets some that change what has come. */
#include "loader.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static MPI_Request receiving;
static char *into;

/* Words in which ranks tell each other something are shorter. */
static void damage(char *at, int bytes) {
  if (bytes > 64 && getenv("DAMAGE")) at[bytes / 2] ^= 0x55;
}

static int irecv(void *at, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
  int code = PMPI_Irecv(at, count, type, from, tag, comm, request);
  into = at, receiving = *request;
  return code;
}

static int wait_for(MPI_Request *request, MPI_Status *status) {
  int is_it = into && *request == receiving, bytes = 0, code = PMPI_Wait(request, status);
  if (!is_it) return code;
  PMPI_Get_count(status, MPI_BYTE, &bytes);
  damage(into, bytes);
  into = NULL;
  return code;
}

static int bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  int rank, code = PMPI_Bcast(at, count, type, root, comm);
  PMPI_Comm_rank(comm, &rank);
  if (rank != root && type == MPI_BYTE) damage(at, count);
  return code;
}

void *dlsym(void *library, const char *name) {
  if (!strcmp(name, "PMPI_Irecv")) return (void *)irecv;
  if (!strcmp(name, "PMPI_Wait")) return (void *)wait_for;
  if (!strcmp(name, "PMPI_Bcast")) return (void *)bcast;
  return find(library, name);
}
